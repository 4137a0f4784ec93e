#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ci.sh gcc|clang|asan|tsan|valgrind|coverage|lint [SUITE...] - one configuration of the project, as CI runs it.
#
#   gcc       warnings are errors; all suites
#   clang     warnings are errors; compiled only, unless a SUITE is named
#   asan      gcc, AddressSanitizer with leak check and UBSan; suites unit, mount and bench
#   tsan      gcc, ThreadSanitizer; suite threads: what has threads, of unit and mount tests
#   valgrind  memcheck; suite unit
#   coverage  gcovr's summary, and build-coverage/coverage.html; all suites
#   lint      no build: layers, lone headers, formatting, shell scripts
#
# Each has a build folder of its own, build-NAME (gcc: build-test). Needs what tests/run.sh installs.
set -eu

top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
# shellcheck source=tools/packages.sh
. tools/packages.sh
export LC_ALL=C.UTF-8

# configure FOLDER OPTION...: set up, or bring an existing folder up to date; one that can't be is made anew
configure()
{
	local dir=$1
	shift
	# The default build is a release; here assertions are on.
	set -- --buildtype=debugoptimized -Db_ndebug=false -Dtests=enabled "$@"
	if [ -e "$dir/build.ninja" ] && meson setup --reconfigure "$dir" "$@"; then
		return
	fi
	rm -rf -- "$dir"
	meson setup "$dir" "$@"
}

# run_tests FOLDER TIME_FACTOR SUITE...: no SUITE means all
run_tests()
{
	local dir=$1 factor=$2 suite
	local -a args=()
	shift 2
	for suite in "$@"; do
		args+=(--suite "$suite")
	done
	"${run_with[@]}" meson test -C "$dir" --no-rebuild --print-errorlogs -t "$factor" "${args[@]}" "${extra[@]}"
}

with_gcc()
{
	CC=gcc configure build-test -Dwerror=true
	ninja -C build-test
	run_tests build-test 1 "$@"
}

with_clang()
{
	CC=clang configure build-clang -Dwerror=true
	ninja -C build-clang
	[ $# -eq 0 ] || run_tests build-clang 1 "$@"
}

with_asan()
{
	export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:strict_string_checks=1
	export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
	[ $# -gt 0 ] || set -- unit mount bench
	CC=gcc configure build-asan -Db_sanitize=address,undefined -Dman=disabled
	ninja -C build-asan
	run_tests build-asan 4 "$@"
}

with_tsan()
{
	export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$top/tests/tsan.supp
	[ $# -gt 0 ] || set -- threads
	# gcc 12's ThreadSanitizer cannot place its shadow where a kernel randomizes addresses widely.
	setarch -R true 2>/dev/null && run_with=(setarch -R)
	CC=gcc configure build-tsan -Db_sanitize=thread -Dman=disabled -Dbench=disabled
	ninja -C build-tsan
	run_tests build-tsan 6 "$@"
}

with_valgrind()
{
	packages_need cmd:valgrind=valgrind
	[ $# -gt 0 ] || set -- unit
	extra=(--wrap 'valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite')
	CC=gcc configure build-valgrind -Dman=disabled
	ninja -C build-valgrind
	run_tests build-valgrind 20 "$@"
}

with_coverage()
{
	local status=0

	packages_need cmd:gcovr=gcovr
	CC=gcc configure build-coverage -Db_coverage=true --buildtype=debug
	ninja -C build-coverage
	run_tests build-coverage 2 "$@" || status=$?
	gcovr -r . --exclude tests/ --exclude bench/ --print-summary --html-details build-coverage/coverage.html \
		build-coverage
	return $status
}

# The files that .clang-format-include names
c_files()
{
	find base scanner snapshot fs tools bench tests -name '*.[ch]' 2>/dev/null | LC_ALL=C sort
}

# step NAME COMMAND...: one line when fine; what it says when not
step()
{
	local name=$1 said
	shift
	if said=$("$@" 2>&1); then
		echo "fine: $name"
	else
		printf '%s\nwrong: %s\n' "$said" "$name"
		wrong=1
	fi
}

# step_if TOOL NAME COMMAND...
step_if()
{
	local tool=$1
	shift
	if command -v "$tool" >/dev/null; then
		step "$@"
	else
		echo "left out: $1 ($tool is not installed)"
	fi
}

with_lint()
{
	local -a sources scripts

	wrong=0
	mapfile -t sources < <(c_files)
	mapfile -t scripts < <(find tests tools bench .ci -type f \( -name '*.sh' -o -path .ci/run \) 2>/dev/null)
	step layers tests/check_layers.sh
	step 'lone headers' tests/check_headers.sh
	step_if clang-format formatting clang-format --dry-run -Werror --ferror-limit=3 "${sources[@]}"
	step_if shellcheck 'shell scripts' shellcheck -x "${scripts[@]}"
	return $wrong
}

usage()
{
	echo "usage: tests/ci.sh gcc|clang|asan|tsan|valgrind|coverage|lint [SUITE...]" >&2
	exit 2
}

run_with=()
extra=()
[ $# -gt 0 ] || usage
config=$1
shift
case $config in
gcc | clang | asan | tsan | valgrind | coverage | lint) "with_$config" "$@" ;;
*) usage ;;
esac
