#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run.sh [--quick] - installs what the tests need, builds with warnings as errors and runs everything:
# all suites with gcc, a clang build, unit and mount suites under ASan+UBSan, what has threads under TSan.
# Configurations are built and tested beside each other, since a mount test mostly waits; what one says is
# shown when it has ended.
# --quick: the unit suite with gcc only. At the end it repeats what failed and why. The last line is always
# "N passed, N failed, N skipped", over all stages; the exit status is 0 only if something passed and nothing failed.
set -u

top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 1
why=$work/why
: >"$why"
declare -A running=() # process of each stage that has not been shown yet

finish()
{
	trap - EXIT
	if [ -s "$why" ]; then
		printf '\n==== what failed, and what it said ====\n'
		cat -- "$why"
	fi
	rm -rf -- "$work"
	printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit $?
}

# Each stage has a process group of its own, so that what it started ends with it.
interrupted()
{
	local pid

	trap - INT TERM HUP
	for pid in "${running[@]}"; do
		kill -TERM -- "-$pid" 2>/dev/null && wait "$pid"
	done
	failed=$((failed + 1))
	exit
}

# start CONFIG [SUITE...]: runs tests/ci.sh in the background
start()
{
	local config=$1

	rm -f -- "$top/$(folder_of "$config")/meson-logs/testlog.json"
	set -m
	"$top/tests/ci.sh" "$@" >"$work/$config" 2>&1 </dev/null &
	set +m
	running[$config]=$!
}

folder_of()
{
	case $1 in
	gcc) echo build-test ;;
	*) echo "build-$1" ;;
	esac
}

# show CONFIG HEADLINE: waits for it, shows what it said, and adds what its tests said.
# A stage that fails although no test did (it would not build, say) is one failure.
show()
{
	local config=$1 log status=0 said ok=0 bad=0 left=0

	log=$top/$(folder_of "$config")/meson-logs/testlog.json
	wait "${running[$config]}" || status=$?
	unset "running[$config]"
	printf '\n==== %s ====\n' "$2"
	cat -- "$work/$config"
	if [ -e "$log" ]; then
		# The counts are the last line; what comes before is for people.
		said=$(python3 "$top/tests/count.py" "$log" "$why")
		printf '%s\n' "${said%=*}"
		read -r ok bad left <<<"${said##*=}" || true
		bad=${bad:-1} # it could not be read
	fi
	if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then
		echo "---- tests/ci.sh $config: status $status, although no test failed" | tee -a "$why"
		tail -n 20 -- "$work/$config" >>"$why"
		bad=1
	fi
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))
}

quick=
case $#,${1-} in
0,) ;;
1,--quick) quick=1 ;;
*)
	echo "usage: tests/run.sh [--quick]" >&2
	exit 2
	;;
esac

trap finish EXIT
trap interrupted INT TERM HUP
packages_need "${PACKAGES_BUILD[@]}" "${PACKAGES_TEST[@]}" || interrupted
if [ "$quick" ]; then
	start gcc unit
	show gcc 'gcc, warnings are errors: unit tests'
	exit
fi
echo "Building and testing with gcc, clang, AddressSanitizer and ThreadSanitizer, which takes some minutes."
start gcc
start asan
start tsan
show gcc 'gcc, warnings are errors: all tests'
start clang
show tsan 'ThreadSanitizer: what has threads'
show asan 'AddressSanitizer and UBSan: unit and mount tests'
show clang 'clang, warnings are errors: build'
