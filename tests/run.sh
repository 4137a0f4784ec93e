#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run.sh [--quick] - installs what the tests need, builds with warnings as errors and runs everything:
# all suites with gcc, a clang build, unit and mount suites under ASan+UBSan, unit tests and the mount
# suites with most threads under TSan.
# --quick: the unit suite with gcc only. At the end it repeats what failed and why. The last line is always
# "N passed, N failed, N skipped", over all stages; the exit status is 0 only if something passed and nothing failed.
set -u

top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"
passed=0 failed=0 skipped=0
why=$(mktemp) || exit 1

finish()
{
	trap - EXIT
	if [ -s "$why" ]; then
		printf '\n==== what failed, and what it said ====\n'
		cat -- "$why"
	fi
	rm -f -- "$why"
	printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit $?
}

interrupted()
{
	failed=$((failed + 1))
	exit
}

# stage CONFIG FOLDER HEADLINE [SUITE...]: runs tests/ci.sh and adds what its tests said.
# A stage that fails although no test did (it would not build, say) is one failure.
stage()
{
	local config=$1 log=$top/$2/meson-logs/testlog.json said status=0 ok=0 bad=0 left=0

	printf '\n==== %s ====\n' "$3"
	shift 3
	rm -f -- "$log"
	"$top/tests/ci.sh" "$config" "$@" || status=$?
	if [ -e "$log" ]; then
		# The counts are the last line; what comes before is for people.
		said=$(python3 "$top/tests/count.py" "$log" "$why")
		printf '%s\n' "${said%=*}"
		read -r ok bad left <<<"${said##*=}" || true
		bad=${bad:-1} # it could not be read
	fi
	if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then
		echo "---- tests/ci.sh $config: status $status, although no test failed" | tee -a "$why"
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
	stage gcc build-test 'gcc, warnings are errors: unit tests' unit
	exit
fi
stage gcc build-test 'gcc, warnings are errors: all tests'
stage clang build-clang 'clang, warnings are errors: build'
stage asan build-asan 'AddressSanitizer and UBSan: unit and mount tests'
stage tsan build-tsan 'ThreadSanitizer: unit tests and mounts with many threads'
