#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# readers.sh PROGRAM [READERS SNAPSHOTS] - many readers while snapshots land: each read is of one moment.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
readers=${2:-16}
snapshots=${3:-60}
is_sanitized && export SANITIZED=1

hammer()
{
	$python "$here/hammer.py" "$DT" "$index" "$src" "$mnt" "$readers" "$snapshots" "$@"
}

tell()
{
	sed 's/^/# /' "$work/said"
}

check 'a tree is scanned' hammer first
check 'and mounted' mount_start
flat=
[ "$snapshots" -lt 400 ] || flat='; memory stays flat'
check "$readers readers, $snapshots snapshots: every read is whole, of one moment, and returns$flat" hammer
tell
check 'it ends without a complaint' mount_stop
finish
