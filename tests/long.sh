#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# long.sh PROGRAM DIRPROBE - what takes too long for every day: 64 readers while 1,000 snapshots land, a directory of
# a million files, 200 killed scans, 300 killed conversions, 1,000 rounds of warm = cold, 200 trees with 10 snapshots
# each. Not part of tests/run.sh.
set -u
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
[ $# -eq 2 ] || {
	echo "usage: tests/long.sh PROGRAM DIRPROBE (as meson built them)" >&2
	exit 2
}
status=0
bash "$here/mount/readers.sh" "$1" 64 1000 || status=1
TEST_BIG=1 bash "$here/mount/readdir.sh" "$1" "$2" || status=1
TEST_KILLS=100 bash "$here/mount/kill.sh" "$1" || status=1
for t in time hostile; do
	LONG=1 ORACLE=$here/oracle.py LC_ALL=C.UTF-8 "$(dirname -- "$2")/../test_snapshot_$t" || status=1
done
LONG=1 bash "$here/mount/time.sh" "$1" || status=1
exit $status
