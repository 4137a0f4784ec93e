#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2015
#
# same.sh PROGRAM - "disktracker cat" and the mount say the same, byte for byte, whatever is asked.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python

# A sanitizer needs to see each file, not each of each directory.
is_sanitized && export SAMPLE=40

# same TOPIC: see same.py
same()
{
	$python "$here/same.py" "$1" "$DT" "$index" "$mnt" "$src"
}

build()
{
	$python "$here/same.py" grow "$src" "$1"
}

three_snapshots()
{
	build 1 && scan_ok "$src" && build 2 && scan_ok "$src/inner" && scan_ok "$src" && build 3 && scan_ok "$src" "$src/inner"
}

top_is_answered()
{
	local i

	# Both job threads and the queue behind them have history to make.
	for i in 1 2 3 4 5 6 7 8; do
		cat "$mnt/.usage/at/$i/.usage/history" "$mnt/.usage/at/$i/.usage/growth/1d" >/dev/null 2>&1 &
		started $!
	done
	cmp "$mnt$src/.usage/top" <("$DT" cat --index "$index" "$src/.usage/top")
}

check 'three snapshots of 500 directories, one tree inside another' three_snapshots
check 'they are mounted' mount_start
check 'each file of each directory is the same from both' same files
check 'so is the past of each, entered from here and from above' same past
check 'so is growth' same growth
check 'ls lists what the mount lists, with its sizes' same listing
check 'names that are not there are there in neither' same missing
check 'top is answered while history is made' top_is_answered
check 'the mount ends' mount_stop
finish
