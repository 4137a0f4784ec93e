#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# boundary.sh PROGRAM - where a scan ends: mounts of all kinds below its root, dead ones included; read-only indexes.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need_root
need $python

du_of()
{
	du -x -s -B1 "$1" | cut -f 1
}

# knows FILE_SYSTEM: after loading its module, if it is one
knows()
{
	grep -qw "$1" /proc/filesystems || modprobe -q "$1" 2>/dev/null
	grep -qw "$1" /proc/filesystems
}

totals_hold()
{
	$python "$here/equal.py" totals "$1" "$mnt$1"
}

scan_mount_check()
{
	scan_ok "$1" && mount_start && totals_hold "$1" && mount_stop
}

# listed REASON PATH: a row of errors.list at the root of the scan
listed()
{
	grep -qxF -- "$1"$'\t'"$2" "$mnt$src/.usage/errors.list" || {
		cat "$mnt$src/.usage/errors.list"
		return 1
	}
}

mounts_are_skipped()
{
	mkdir -p "$src"/{tmpfs,bound,real/below} "$work/elsewhere"
	head -c 100000 /dev/zero >"$src/real/below/f"
	head -c 300000 /dev/zero >"$work/elsewhere/f"
	mount -t tmpfs -o size=4m tmpfs "$src/tmpfs" && head -c 200000 /dev/zero >"$src/tmpfs/f" &&
		mount --bind "$work/elsewhere" "$src/bound" || return
	scan_ok "$src" && mount_start || return
	listed mount tmpfs && listed mount bound && equal "$(number "$mnt$src" skipped)" 2 || return
	equal "$(number "$mnt$src" complete)" 1 && equal "$(number "$mnt$src" files)" 1 || return
	equal "$(number "$mnt$src" bytes)" "$(($(du -s -B1 "$src/real" | cut -f 1) + $(stat -c %b "$src") * 512))" || return
	fails_with 'No such file' stat "$mnt$src/tmpfs" && mount_stop
}

crossed_on_request()
{
	scan_ok --cross-mounts "$src" && mount_start || return
	equal "$(number "$mnt$src" files)" 3 && equal "$(number "$mnt$src" bytes)" "$(du -s -B1 "$src" | cut -f 1)" && mount_stop
}

# A tmpfs inside of a root, scanned as a root of its own: both are shown
nested_tmpfs()
{
	local -x index=$work/state/nested.db
	scan_ok "$src" "$src/tmpfs" && mount_start || return
	equal "$(number "$mnt$src/tmpfs" bytes)" "$(du_of "$src/tmpfs")" && equal "$(number "$mnt$src/tmpfs" files)" 1 || return
	equal "$(number "$mnt$src/real" files)" 1 || return
	head -c 400000 /dev/zero >"$src/tmpfs/g"
	scan_ok "$src/tmpfs" && wait_for equal_du "$src/tmpfs" && mount_stop
}

equal_du()
{
	equal "$(number "$mnt$1" bytes)" "$(du_of "$1")"
}

# Our own mount inside the scanned tree, alive, stopped, dead
stopped_mount()
{
	local first status=0
	mkdir -p "$src/ours"
	mount_at "$src/ours" || return
	first=$daemon
	kill -STOP "$first"
	scan_ok "$src" && scan_ok --cross-mounts "$src" || status=1
	kill -CONT "$first"
	[ $status -eq 0 ] || return
	mount_start && listed mount ours && mount_stop || return
	kill -KILL "$first"
	wait "$first" 2>/dev/null
	scan_ok "$src" && mount_start && listed mount ours && mount_stop || return
	status_is 0 "$DT" umount "$src/ours"
}

loop_image()
{
	local file=$1 size=$2 point=$3 loop
	shift 3
	truncate -s "$size" "$file" && "$@" "$file" >/dev/null && loop=$(losetup -f --show "$file") || return
	loops+=("$loop")
	mkdir -p "$point" && mount "$loop" "$point"
}

btrfs_subvolumes()
{
	loop_image "$work/btrfs.img" 256M "$work/btrfs" mkfs.btrfs -q || return
	btrfs -q subvolume create "$work/btrfs/sub" && mkdir -p "$work/btrfs/dir" "$work/btrfs/sub/in" || return
	head -c 500000 /dev/urandom >"$work/btrfs/sub/in/f"
	head -c 300000 /dev/urandom >"$work/btrfs/dir/f"
	ln "$work/btrfs/dir/f" "$work/btrfs/dir/g"
	btrfs -q subvolume snapshot "$work/btrfs/sub" "$work/btrfs/dir/snap" && sync -f "$work/btrfs" || return
	scan_ok "$work/btrfs" && mount_start && equal "$(number "$mnt$work/btrfs" files)" 4 &&
		equal "$(number "$mnt$work/btrfs" skipped)" 0 || return
	equal "$(number "$mnt$work/btrfs" bytes)" "$(du -s -B1 "$work/btrfs" | cut -f 1)" && mount_stop && umount "$work/btrfs"
}

xfs_agrees()
{
	loop_image "$work/xfs.img" 320M "$work/xfs" mkfs.xfs -q || return
	$python "$here/hostile.py" "$work/xfs" && scan_mount_check "$work/xfs" && umount "$work/xfs"
}

overlay_agrees()
{
	local o=$work/overlay
	mkdir -p "$o"/{lower,upper,work,merged}
	mount -t tmpfs -o size=64m tmpfs "$o/lower" && $python "$here/hostile.py" "$o/lower" || return
	mount -t tmpfs -o size=64m tmpfs "$o/upper" && mkdir "$o/upper/u" "$o/upper/w" || return
	mount -t overlay overlay -o "lowerdir=$o/lower,upperdir=$o/upper/u,workdir=$o/upper/w" "$o/merged" || return
	head -c 100000 /dev/zero >"$o/merged/new" && rm "$o/merged/a-file" && chmod 700 "$o/merged/wide"
	scan_ok "$o/merged" && mount_start || return
	equal "$(number "$mnt$o/merged" bytes)" "$(du -s -B1 "$o/merged" | cut -f 1)" &&
		equal "$(number "$mnt$o/merged" entries)" "$(find "$o/merged" -mindepth 1 -printf . | wc -c)" &&
		equal "$(number "$mnt$o/merged" skipped)" 0 && mount_stop || return
	umount "$o/merged" "$o/lower" "$o/upper"
}

automount_is_left_alone()
{
	mkdir -p "$src/auto"
	AUTO=$src/auto $python - <<'PY' &
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
r, w = os.pipe()
options = f"fd={w},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct".encode()
if libc.mount(b"disktracker-test", os.environ["AUTO"].encode(), b"autofs", 0, options) == 0:
    time.sleep(600)
PY
	local holder=$!
	started $holder
	wait_for eval '! kill -0 $holder || is_mounted "$src/auto"'
	kill -0 $holder 2>/dev/null || return 0 # no autofs here
	timeout $patience "$DT" scan --index "$index" "$src" >"$work/scan.out" 2>&1 || return
	timeout $patience "$DT" scan --index "$index" --cross-mounts "$src" >"$work/scan.out" 2>&1 || return
	umount -l "$src/auto"
	kill -TERM $holder
}

# -- an index that cannot be written -------------------------------------------------------------

on_read_only()
{
	local ro=$work/ro
	mkdir -p "$ro"
	mount -t tmpfs -o size=8m,mode=700 tmpfs "$ro" && cp "$@" "$ro/" && mount -o remount,ro "$ro" || return
	"$DT" list --index "$ro/index.db" >"$work/out" && equal "$(wc -l <"$work/out")" "$("$DT" list --index "$index" | wc -l)" || return
	mount_at "$mnt" --index "$ro/index.db" && equal "$(number "$mnt$src" bytes)" "$(tail -1 "$work/out" | cut -f 3)" && mount_stop || return
	refused 3 'cannot be written|Read-only' "$DT" scan --index "$ro/index.db" "$src" && umount "$ro"
}

read_only_index()
{
	rm -rf "$work/state"
	scan_ok "$src" && head -c 50000 /dev/zero >"$src/more" && scan_ok "$src" && on_read_only "$index"
}

# A process that held the index open was killed: the newest snapshot is only in the log.
leftover_log()
{
	rm -rf "$work/state" "$work/left"
	mkdir -p "$work/left"
	scan_ok "$src" || return
	coproc HOLDER { $python -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN")
db.execute("SELECT count(*) FROM snapshot").fetchall()
print("held", flush=True)
sys.stdin.readline()' "$index"; }
	started "$HOLDER_PID"
	read -r -u "${HOLDER[0]}" _ || return
	head -c 90000 /dev/zero >"$src/even-more"
	scan_ok "$src" && cp "$index"* "$work/left/" || return
	echo >&"${HOLDER[1]}"
	[ -s "$work/left/index.db-wal" ] || return
	on_read_only "$work/left/"*
}

leftover_log_alone()
{
	local ro=$work/ro
	mount -t tmpfs -o size=8m,mode=700 tmpfs "$ro" && cp "$work/left/index.db" "$work/left/index.db-wal" "$ro/" &&
		mount -o remount,ro "$ro" || return
	refused 3 'the log beside it' "$DT" mount --index "$ro/index.db" "$mnt" && umount "$ro"
}

check 'bind mounts and other file systems are skipped, listed, and not counted' mounts_are_skipped
check '--cross-mounts counts them' crossed_on_request
check 'a tmpfs in a root, as a root of its own, is shown in its place' nested_tmpfs
check 'a mount of ours, stopped or dead, inside the tree costs no time' stopped_mount
check 'an automount point is not triggered' automount_is_left_alone
if knows btrfs && command -v mkfs.btrfs >/dev/null && [ -e /dev/loop-control ]; then
	check 'btrfs subvolumes and snapshots are inside' btrfs_subvolumes
else
	skip 'btrfs subvolumes and snapshots are inside' 'no btrfs here'
fi
if knows xfs && command -v mkfs.xfs >/dev/null && [ -e /dev/loop-control ]; then
	check 'a hostile tree on xfs has the totals of du' xfs_agrees
else
	skip 'a hostile tree on xfs has the totals of du' 'no xfs here'
fi
if knows overlay; then
	check 'an overlay has the totals of du, layers and all' overlay_agrees
else
	skip 'an overlay has the totals of du, layers and all' 'no overlay here'
fi
umount "$src/tmpfs" "$src/bound"
check 'an index on a read-only file system is mounted' read_only_index
check 'also with a log that was left behind' leftover_log
check 'a log whose shared memory is missing is not ignored: a sentence instead of old numbers' leftover_log_alone
finish
