#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# calls.sh PROGRAM - strace counts the very system calls that .telemetry/scan reports, and no more than a scan needs.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need strace
export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 # cannot be done under strace

strace -f -o /dev/null true 2>/dev/null || skip_all 'strace may not trace here'

# trace FILE PATH [OPTION...]: a scan into a new index; its calls, one a line, and what it said of itself
trace()
{
	local file=$1 path=$2
	shift 2
	rm -rf -- "$work/state"
	strace -f -qq -e trace=openat,openat2,statx,newfstatat,getdents64,close -e signal=none -o "$file" \
		"$DT" scan --index "$index" --json "$@" "$path" >"$file.json"
}

count()
{
	grep -cE "^[0-9]+ +$2(2)?\(" "$1"
}

said()
{
	$python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1.json" "$2"
}

# The program opens files of its own, as many for any tree: what a scan of an empty directory adds is known.
calls_are_reported()
{
	local call counted reported
	for call in openat statx getdents64 close; do
		counted=$(($(count "$work/full" $call) - $(count "$work/none" $call)))
		reported=$(($(said "$work/full" $call) - $(said "$work/none" $call)))
		[ $call = openat ] && counted=$(($(count "$work/full" 'openat') - $(count "$work/none" 'openat')))
		equal "$call $reported" "$call $counted" || return
	done
}

no_more_than_needed()
{
	local dirs entries
	dirs=$(($(said "$work/full" dirs) + 1))
	entries=$(said "$work/full" entries)
	echo "directories $dirs, entries $entries: openat $(said "$work/full" openat), statx $(said "$work/full" statx)," \
		"getdents64 $(said "$work/full" getdents64)"
	[ "$(said "$work/full" openat)" -le "$dirs" ] && [ "$(said "$work/full" statx)" -le $((entries + 1)) ] &&
		[ "$(said "$work/full" getdents64)" -le $((2 * dirs)) ]
}

telemetry_says_the_same()
{
	local call
	mount_start || return
	for call in openat statx getdents64 close entries dirs; do
		equal "$call $(said "$work/full" $call)" "$(grep "^$call " "$mnt/.telemetry/scan")" || return
	done
	mount_stop
}

# No open of a file, no readlink, no write into the tree
only_directories_are_opened()
{
	! grep -E 'openat2?\(.*"file-' "$work/full" && ! grep -E 'openat2?\(.*O_(WRONLY|RDWR|CREAT)' "$work/full" | grep -F "$src"
}

mkdir -p "$src"/d{0..19}/e{0..9} "$work/none-dir"
for d in "$src"/d*/e*; do touch "$d"/file-{0..7}; done
ln "$src/d0/e0/file-0" "$src/d1/linked"
for threads in 1 2 8; do
	check "with $threads readers: traced" trace "$work/full" "$src" --threads $threads
	full_index=$work/full-index
	rm -rf "$full_index" && cp -r "$work/state" "$full_index"
	check 'and an empty directory, to compare' trace "$work/none" "$work/none-dir" --threads $threads
	check "with $threads readers: strace counts what the scan reports" calls_are_reported
	check "with $threads readers: openat <= directories, statx <= entries + 1, getdents64 <= 2 x directories" no_more_than_needed
done
check 'only directories are opened' only_directories_are_opened
rm -rf "$work/state" && mv "$full_index" "$work/state"
check '.telemetry/scan says the same' telemetry_says_the_same

# A second scan beside the first
warm()
{
	strace -f -qq -e trace=openat,openat2,statx,getdents64,close -e signal=none -o "$work/full" \
		"$DT" scan --index "$index" --json "$src" >"$work/full.json" && no_more_than_needed &&
		equal "$(said "$work/full" nodes_written)" 0
}
check 'a scan of an unchanged tree makes no more calls, and writes no directory' warm
finish
