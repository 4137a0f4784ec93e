#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# errors.sh PROGRAM - what cannot be mounted is refused with a sentence; what a mount does not do fails as it should;
# it ends by itself, whatever is going on.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python prlimit
fail_start=${2:-}

mount_refused()
{
	local status=$1 pattern=$2
	shift 2
	refused "$status" "$pattern" "$DT" mount "$@" && equal "$(our_daemons | wc -l)" "${daemons:-0}"
}

# sql FILE STATEMENTS
sql()
{
	$python -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.executescript(sys.argv[2])
db.close()' "$@"
}

# A copy of the index, spoilt by SQL
spoilt()
{
	rm -f "$work"/spoilt.db*
	cp "$index" "$work/spoilt.db"
	[ -z "${1-}" ] || sql "$work/spoilt.db" "$1"
}

another_database()
{
	rm -f "$work"/other.db*
	sql "$work/other.db" 'CREATE TABLE t(a); INSERT INTO t VALUES (1);'
	chmod 600 "$work/other.db"
	mount_refused 3 'not a DiskTracker index' --index "$work/other.db" "$mnt" &&
		refused 3 'not a DiskTracker index' "$DT" scan --index "$work/other.db" "$src" &&
		refused 3 'not a DiskTracker index' "$DT" list --index "$work/other.db" || return
	equal "$(sqlite_rows "$work/other.db" t)" 1
}

sqlite_rows()
{
	$python -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("select count(*) from " + sys.argv[2]).fetchone()[0])' "$@"
}

no_database()
{
	head -c 100000 /dev/urandom >"$work/garbage.db"
	chmod 600 "$work/garbage.db"
	cp "$work/garbage.db" "$work/garbage.copy"
	mount_refused 3 'not a DiskTracker index' --index "$work/garbage.db" "$mnt" &&
		refused 3 'not a DiskTracker index' "$DT" scan --index "$work/garbage.db" "$src" &&
		refused 3 'not a DiskTracker index' "$DT" list --index "$work/garbage.db" && cmp "$work"/garbage.{db,copy}
}

empty_file()
{
	: >"$work/empty.db"
	chmod 600 "$work/empty.db"
	mount_refused 3 'not a DiskTracker index' --index "$work/empty.db" "$mnt"
}

newer_version()
{
	spoilt 'PRAGMA user_version=999;'
	mount_refused 3 'newer version of DiskTracker' --index "$work/spoilt.db" "$mnt" &&
		refused 3 'newer version' "$DT" scan --index "$work/spoilt.db" "$src" &&
		refused 3 'newer version' "$DT" list --index "$work/spoilt.db" &&
		equal "$(sqlite_rows "$work/spoilt.db" snapshot)" 1
}

damaged_pack()
{
	spoilt 'UPDATE pack SET head=randomblob(length(head));'
	mount_refused 3 'damaged' --index "$work/spoilt.db" "$mnt" || return
	spoilt 'UPDATE pack SET list=randomblob(length(list));'
	mount_refused 3 'damaged' --index "$work/spoilt.db" "$mnt" || return
	# one bit only
	spoilt
	$python - "$work/spoilt.db" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for rowid, data in db.execute("SELECT id, list FROM pack").fetchall():
    data = bytearray(data)
    data[len(data) // 2] ^= 4
    db.execute("UPDATE pack SET list=? WHERE id=?", (bytes(data), rowid))
db.commit()
PY
	mount_refused 3 'damaged' --index "$work/spoilt.db" "$mnt"
}

missing_pack()
{
	spoilt 'DELETE FROM pack;'
	mount_refused 3 'damaged' --index "$work/spoilt.db" "$mnt"
}

cut_file()
{
	spoilt
	truncate -s 9000 "$work/spoilt.db"
	mount_refused 3 'damaged|not a DiskTracker index' --index "$work/spoilt.db" "$mnt"
}

missing_table()
{
	spoilt 'DROP TABLE snapshot;'
	mount_refused 3 'damaged' --index "$work/spoilt.db" "$mnt"
}

# Names do not depend on what they name. Looking at each makes the kernel ask for attributes with the names.
looked_at_while_listed()
{
	timeout $patience $python - "$1" <<'PY'
import os, sys
n = 0
for entry in os.scandir(sys.argv[1]):
    n += entry.name.isdigit()
    try:
        os.lstat(entry.path + "/.usage")
    except OSError:
        pass
print(n)
PY
}

# An index that gets damaged below a directory while it is mounted: errors there, nothing worse
damage_is_eio()
{
	mkdir -p "$work/big"
	(cd "$work/big" && for i in {1..400}; do mkdir -p "$i/sub" && touch "$i/sub/$i-"{1..30}; done)
	local -x index=$work/state/big.db
	local n=0 path
	scan_ok "$work/big" || return
	$python - "$index" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
packs = db.execute("SELECT id FROM pack ORDER BY id").fetchall()
if len(packs) < 2:
    print("only one pack: nothing to damage but the top")
else:
    db.execute("UPDATE pack SET list=randomblob(length(list)) WHERE id=?", (packs[0][0],))
db.commit()
PY
	mount_at "$work/other" --root "$work/big" >/dev/null 2>&1 || {
		grep -q damaged "$work/mount.log" # the top was in it
		return
	}
	equal "$(looked_at_while_listed "$work/other")" 400 || return
	for path in "$work/other"/*; do
		timeout $patience cat "$path/sub/.usage/bytes" >/dev/null 2>"$work/err" && continue
		n=$((n + 1))
		grep -q 'Input/output error' "$work/err" || break
	done
	echo "$n directories cannot be read"
	[ $n -gt 0 ] && mount_stop "$work/other" && [ "$(grep -c damaged "$work/mount.log")" -le 3 ]
}

not_empty()
{
	mkdir -p "$work/full"
	touch "$work/full/file"
	mount_refused 3 'not empty' --index "$index" "$work/full"
}

over_another_file_system()
{
	mkdir -p "$work/tmpfs"
	mount -t tmpfs -o size=1m tmpfs "$work/tmpfs" || return
	touch "$work/tmpfs/file"
	mount_refused 3 'not empty' --index "$index" "$work/tmpfs" || return
	umount "$work/tmpfs"
}

index_of_another_owner()
{
	spoilt
	chmod 0666 "$work/spoilt.db"
	mount_refused 3 'refused' --index "$work/spoilt.db" "$mnt" || return
	chmod 0600 "$work/spoilt.db" && chown 65534 "$work/spoilt.db"
	mount_refused 3 'refused' --index "$work/spoilt.db" "$mnt"
}

unreadable_index()
{
	refused 3 'Permission denied' "${nobody[@]}" "$DT" list --index "$index"
}

# started_or_told COMMAND...: it mounts in the background, or ends with 3, one sentence of ours and no mount
started_or_told()
{
	local got=0
	timeout 60 "$@" >"$work/out" 2>"$work/err" || got=$?
	if [ $got -eq 0 ]; then
		is_mounted "$mnt" && [ -e "$mnt/.usage/bytes" ] && "$DT" umount "$mnt" && wait_for no_daemon && return
	else
		equal "$got" 3 && equal "$(grep -c '^disktracker: ' "$work/err")" 1 && ! is_mounted "$mnt" && wait_for no_daemon && return
	fi
	echo "status $got: $*"
	cat "$work/err"
	return 1
}

# Before a command, with variables for fail_start.c
preloaded()
{
	echo env LD_PRELOAD="$fail_start" ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "INDEX=$index" "$@"
}

# The last ones are of libfuse's loop, which can do with one
threads_fail()
{
	local n failed=0
	for n in 1 2 3 4 5 6 7 8 9; do
		started_or_told $(preloaded FAIL_THREAD=$n) "$DT" mount --index "$index" "$mnt" || return
		! grep -q 'cannot start a thread' "$work/err" || failed=$((failed + 1))
	done
	equal $failed 7
}

few_processes()
{
	local n
	mkdir -p "$work/nobody/mnt"
	cp "$index" "$work/nobody/index.db"
	chown -R 65534:65534 "$work/nobody"
	chmod 700 "$work/nobody"
	for n in 1 2 3 4 5 6 7 8 9; do
		mnt=$work/nobody/mnt started_or_told "${nobody[@]}" env ASAN_OPTIONS=detect_leaks=0 prlimit --nproc=$n "$DT" mount --index "$work/nobody/index.db" "$work/nobody/mnt" || return
	done
}

little_memory()
{
	local kb least=$1
	for ((kb = least; kb < 120000; kb += 3000)); do
		started_or_told prlimit --as=$((kb << 10)) "$DT" mount --index "$index" "$mnt" || return
	done
	! [ -s "$work/err" ]
}

# The least address space in which the program itself starts
least_memory()
{
	local kb
	for ((kb = 4000; kb < 100000; kb += 500)); do
		prlimit --as=$((kb << 10)) "$DT" version >"$work/out" 2>&1 && echo $kb && return
	done
}

# When mount(2) is called, everything that can fail has been done: threads run, the index is open
mounts_last()
{
	local threads open
	rm -f "$work/log"
	$(preloaded MOUNT_LOG="$work/log") "$DT" mount --index "$index" "$mnt" || return
	read -r threads open <"$work/log" && [ "$threads" -ge 6 ] && [ "$open" -ge 1 ] || {
		cat "$work/log"
		return 1
	}
	"$DT" umount "$mnt" && wait_for no_daemon || return
	# and with an index that cannot be opened it is never called
	cp "$work/garbage.db" "$work/log.db"
	rm -f "$work/log"
	refused 3 'not a DiskTracker index' $(preloaded MOUNT_LOG="$work/log") "$DT" mount --index "$work/log.db" "$mnt" &&
		[ ! -e "$work/log" ]
}

# Whoever sees it in the list of mounts is answered
answers_when_seen()
{
	local i pid
	for i in 1 2 3 4 5; do
		"$DT" mount -f --index "$index" "$mnt" >"$work/mount.log" 2>&1 &
		daemon=$!
		started "$daemon"
		timeout 60 $python - "$mnt" "$daemon" <<'PY' || return
import os, sys
mnt = os.fsencode(sys.argv[1])
while mnt not in open("/proc/self/mounts", "rb").read():
    os.kill(int(sys.argv[2]), 0)
os.stat(mnt + b"/.usage/bytes")
PY
		mount_stop || return
	done
}

in_the_background()
{
	status_is 0 "$DT" mount --index "$index" "$mnt" && is_mounted "$mnt" && equal "$(our_daemons | wc -l)" 1 || return
	equal "$(cat "$view/.usage/bytes")" "$(du -s -B1 "$src" | cut -f 1)" || return
	daemons=1 mount_refused 3 'mounted there already' --index "$index" "$mnt" || return
	status_is 0 "$DT" umount "$mnt" && ! is_mounted "$mnt" && wait_for no_daemon
}

no_daemon()
{
	[ "$(our_daemons | wc -l)" = 0 ]
}

default_index()
{
	DISKTRACKER_INDEX=$index status_is 0 "$DT" mount "$mnt" && [ -e "$view/.usage" ] && "$DT" umount "$mnt" &&
		wait_for no_daemon
}

odd_mount_points()
{
	local odd=$work/$'odd \t\n\\ ,name'
	mkdir -p "$odd"
	cp "$index" "$work/"$'i,n\\d x.db'
	status_is 0 "$DT" mount --index "$work/"$'i,n\\d x.db' "$odd" && [ -e "$odd$src/.usage/bytes" ] || return
	daemons=1 mount_refused 3 'mounted there already' --index "$index" "$odd" || return
	equal "$(findmnt -n -o SOURCE -M "$odd")" "$(printf '%s' "$work/"$'i,n\\d x.db')" || return
	status_is 0 "$DT" umount "$odd" && ! is_mounted "$odd" && wait_for no_daemon
}

umount_of_what_is_no_mount()
{
	refused 3 'no disktracker is mounted' "$DT" umount "$work" && refused 3 'No such file' "$DT" umount "$work/nowhere"
}

umount_of_a_busy_mount()
{
	"$DT" mount --index "$index" "$mnt" || return
	(cd "$view" && refused 3 'in use' "$DT" umount "$mnt") || return
	status_is 0 "$DT" umount "$mnt" && wait_for no_daemon
}

killed()
{
	mount_start && cat "$view/.usage/bytes" >/dev/null || return
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null
	fails_with 'not connected' ls "$mnt"
}

dead_mount_is_mounted_again()
{
	killed && status_is 0 "$DT" mount --index "$index" "$mnt" && [ -e "$view/.usage/bytes" ] || return
	equal "$(mounts_below "$mnt" | tr -cd '\0' | wc -c)" 1 && status_is 0 "$DT" umount "$mnt" && wait_for no_daemon
}

dead_mount_is_unmounted()
{
	killed && status_is 0 "$DT" umount "$mnt" && ! is_mounted "$mnt" && ls "$mnt"
}

writes_fail()
{
	local path
	for path in "$view/new" "$view/.usage/new" "$mnt/.telemetry/new" "$mnt/new"; do
		fails_with 'Read-only file system' touch "$path" && fails_with 'Read-only file system' mkdir "$path" &&
			fails_with 'Read-only file system' ln -s x "$path" || return
	done
	for path in "$view/file" "$view/.usage/bytes" "$mnt/.telemetry/scan" "$view/dir" "$view/.usage"; do
		fails_with 'Read-only file system' chmod 700 "$path" && fails_with 'Read-only file system' touch "$path" &&
			fails_with 'Read-only file system' rm -rf "$path" && fails_with 'Read-only file system' mv "$path" "$path.new" || return
	done
	for path in "$view/file" "$view/.usage/bytes" "$mnt/.telemetry/scan"; do
		fails_with 'Read-only file system' bash -c 'echo 1 >"$1"' '' "$path" &&
			fails_with 'Read-only file system' truncate -s 0 "$path" &&
			fails_with 'Read-only file system' bash -c 'echo 1 >>"$1"' '' "$path" || return
	done
	fails_with 'Read-only file system' ln "$view/file" "$view/file2"
	fails_with 'Read-only file system' setfattr -n user.x -v 1 "$view/file"
}

unknown_names()
{
	local path
	for path in "$view/nothing" "$view/.usage/nothing" "$view/.usage/bytes.0" "$view/.usage/top.0.0" "$view/dir/.telemetry" \
		"$mnt/.telemetry/nothing" "$mnt/.growth/nothing" "$view/.usage/.usage" "$view/.usage~" "$mnt/nothing" \
		"$view/$(printf 'x%.0s' {1..255})"; do
		fails_with 'No such file or directory' stat "$path" || return
	done
	fails_with 'Not a directory' stat "$view/file/.usage" && fails_with 'Not a directory' stat "$view/.usage/bytes/x" &&
		fails_with 'File name too long' stat "$view/$(printf 'x%.0s' {1..257})"
}

no_contents()
{
	fails_with 'not supported' cat "$view/file" && fails_with 'not supported' head -c 1 "$view/file" &&
		fails_with 'not supported' dd if="$view/file" count=1 status=none &&
		fails_with 'Is a directory' cat "$view/dir" && fails_with 'Is a directory' cat "$view/.usage"
}

statfs_answers()
{
	equal "$(stat -f -c '%S %b' "$view")" "$(stat -f -c '%S %b' "$src")" &&
		equal "$(stat -f -c '%S %b' "$view/.usage/bytes")" "$(stat -f -c '%S %b' "$src")" && df "$mnt" "$view" >/dev/null
}

findmnt_says()
{
	equal "$(findmnt -n -o FSTYPE,SOURCE -M "$mnt" | tr -s ' ')" "fuse.disktracker $index" || return
	local options
	options=",$(findmnt -n -o OPTIONS -M "$mnt"),"
	[[ $options == *,nosuid,* && $options == *,nodev,* ]]
}

# By name, never listed; and without the option not at all
xattrs()
{
	fails_with 'not supported|No such attribute' getfattr -n user.disktracker.bytes "$view" || return
	mount_at "$work/other" -o xattr || return
	local at=$work/other$src
	equal "$(getfattr --absolute-names --only-values -n user.disktracker.bytes "$at")" "$(cat "$at/.usage/bytes")" &&
		equal "$(getfattr --absolute-names --only-values -n ceph.dir.rfiles "$at")" "$(cat "$at/.usage/files")" &&
		[[ $(getfattr --absolute-names --only-values -n ceph.dir.rctime "$at") == "$(cat "$at/.usage/newest")".0* ]] &&
		equal "$(getfattr --absolute-names -d -m - "$at")" '' &&
		fails_with 'No such attribute' getfattr -n user.other "$at" &&
		fails_with 'No such attribute' getfattr -n user.disktracker.bytes "$at/file" && mount_stop "$work/other"
}

options_refused()
{
	mount_refused 2 'cannot accept.*names that they may not list' --index "$index" -o allow_other "$mnt" &&
		mount_refused 2 'cannot accept' --index "$index" -o ro,allow_root "$mnt" &&
		mount_refused 2 'unknown option .nonsense' --index "$index" -o nonsense "$mnt" &&
		mount_refused 2 'unknown option .--nonsense' --index "$index" --nonsense "$mnt" &&
		mount_refused 2 'MOUNTPOINT is missing' --index "$index" &&
		mount_refused 2 'unexpected argument' --index "$index" "$mnt" "$work" &&
		mount_refused 2 'cache takes a size' --index "$index" -o cache=much "$mnt" && ! is_mounted "$mnt"
}

fstab_options()
{
	mount_at "$work/other" -o 'rw,noauto,nofail,x-systemd.automount,_netdev,user,cache=1M,defaults' &&
		cat "$work/other$src/.usage/bytes" && mount_stop "$work/other"
}

mount_helper()
{
	sed "s|@bindir@|$(dirname "$DT")|g" "$here/../../packaging/mount.disktracker" >"$work/helper" && chmod +x "$work/helper"
	"$work/helper" "$index" "$mnt" -o rw,nofail,root="$src" && equal "$(cat "$mnt/.usage/bytes")" "$(du -s -B1 "$src" | cut -f 1)" &&
		"$DT" umount "$mnt" && wait_for no_daemon
}

# With a shell inside and open files, and a reader that never stops
ends_on()
{
	local signal=$1 fd reader status=0
	mount_start || return
	exec {fd}<"$view/.usage/stat"
	(cd "$view/dir" && exec sleep 300) &
	local inside=$!
	started $inside
	(while cat "$view/.usage/top" "$view/dir/.usage/summary"; do :; done) >/dev/null 2>&1 &
	reader=$!
	started $reader
	sleep 0.3
	kill "-$signal" "$daemon"
	wait_for eval '! is_mounted "$mnt"' || status=1
	wait_for eval '! kill -0 "$daemon"' || status=1
	[ $status -eq 0 ] || kill -KILL "$daemon"
	wait "$daemon" || status=1
	wait_for eval '! kill -0 $reader' || status=1
	kill -TERM $inside
	exec {fd}<&-
	cat "$work/mount.log"
	return $status
}

# Scans are asked for through descriptors that were open before, while the mount ends.
ends_while_asked()
{
	local i n writers status
	for i in 1 2 3; do
		writers=()
		mount_start || return
		for n in 1 2 3 4; do
			rm -f "$work/asking$n"
			$python - "$mnt/.telemetry" "$work/asking$n" <<'PY' &
import os, sys
ask = os.open(sys.argv[1] + "/rescan", os.O_WRONLY)
os.write(ask, b"\n")
open(sys.argv[2], "w").close()
try:
    while True:
        os.write(ask, b"\n")
        open(sys.argv[1] + "/progress").read()
except OSError:
    pass
PY
			writers+=($!)
			started $!
		done
		for n in 1 2 3 4; do
			wait_for test -e "$work/asking$n" || return
		done
		sleep "0.$i"
		kill -TERM "$daemon"
		wait_for eval '! kill -0 "$daemon"' || return
		status=0
		wait "$daemon" || status=$?
		for n in "${writers[@]}"; do
			wait "$n" || return
		done
		cat "$work/mount.log"
		equal $status 0 && ! is_mounted "$mnt" || return
	done
}

# A scan that the mount started can be told to stop like any other.
its_scan_minds_signals()
{
	local status=0
	mount_start || return
	$python - "$mnt/.telemetry/rescan" "$daemon" <<'PY' || status=1
import glob, re, sys, time
blocked = None
end = time.monotonic() + 120
while time.monotonic() < end: # it may block them for a moment while it starts threads
    with open(sys.argv[1], "w") as ask:
        ask.write("now")
    for _ in range(100):
        try:
            for task in glob.glob(f"/proc/{sys.argv[2]}/task/*/children"):
                for child in open(task).read().split():
                    if b"scan" in open(f"/proc/{child}/cmdline", "rb").read().split(b"\0"):
                        blocked = re.search(r"SigBlk:\s*(\w+)", open(f"/proc/{child}/status").read())[1]
                        if not int(blocked, 16) & 0x4003:
                            sys.exit(0)
        except FileNotFoundError:
            pass # it has ended meanwhile
sys.exit(f"it always blocks {blocked}" if blocked else "no scan was seen")
PY
	mount_stop && return $status
}

index_is_replaced()
{
	# Its own index is removed under a mount: what is shown stays, nothing hangs.
	mount_start && rm -f "$index" "$index-wal" "$index-shm" || return
	sleep 0.6
	equal "$(timeout $patience cat "$view/.usage/bytes")" "$(du -s -B1 "$src" | cut -f 1)" && mount_stop
}

mkdir -p "$src/dir/below" "$work/other"
head -c 20000 /dev/urandom >"$src/file"
view=$mnt$src
is_root() { [ "$(id -u)" = 0 ]; }

check 'a tree is scanned' scan_ok "$src"
check 'a mount point that is missing' mount_refused 3 'No such file' --index "$index" "$work/nowhere"
check 'a mount point that is a file' mount_refused 3 'Not a directory' --index "$index" "$src/file"
check 'a mount point that is not empty' not_empty
check 'an index that is missing' mount_refused 3 "does not exist.*'disktracker scan" --index "$work/nowhere.db" "$mnt"
check 'an index that is a directory' mount_refused 3 'Is a directory' --index "$src" "$mnt"
check 'an index that is no database is refused and left alone' no_database
check 'an index that is an empty file' empty_file
check 'an index that is another database is refused and left alone' another_database
check 'an index of a newer version' newer_version
check 'an index whose data are damaged' damaged_pack
check 'an index whose data are missing' missing_pack
check 'an index that was cut off' cut_file
check 'an index without a table' missing_table
check 'damage in a part is an error there, and said once' damage_is_eio
if is_root; then
	check 'a mount point with another file system' over_another_file_system
	check 'as root, an index of another owner, or writable by others' index_of_another_owner
	check 'an index that may not be read' unreadable_index
fi
check 'whoever sees the mount is answered' answers_when_seen
if is_root && [ -n "$fail_start" ] && ! ldd "$DT" | grep -q libtsan; then
	check 'the mount comes last' mounts_last
	check 'a thread that cannot be started is a sentence and leaves no mount' threads_fail
	check 'as nobody, with few processes allowed' few_processes
fi
is_sanitized || check 'with too little memory, a sentence and no mount' little_memory "$(least_memory)"
check 'options that are wrong or refused' options_refused
check 'options of fstab are taken' fstab_options
check 'the helper for mount(8) mounts' mount_helper
check 'mounts in the background, ready when the command returns; a second mount there is refused' in_the_background
check 'the index is found by $DISKTRACKER_INDEX' default_index
check 'odd names of mount points and indexes' odd_mount_points
check 'umount of what is no mount' umount_of_what_is_no_mount
check 'umount of a mount in use' umount_of_a_busy_mount
check 'after its process was killed, mount mounts again' dead_mount_is_mounted_again
check 'after its process was killed, umount cleans up' dead_mount_is_unmounted
check 'mounted again' mount_start
first=$daemon
check 'writes fail: read-only file system' writes_fail
check 'unknown names do not exist' unknown_names
check 'files have no contents: operation not supported' no_contents
check 'statfs answers as the source did' statfs_answers
check 'findmnt shows type and index' findmnt_says
check 'extended attributes only with -o xattr' xattrs
daemon=$first
check 'it ends without a complaint' mount_stop
for signal in TERM HUP; do # a shell's background processes ignore INT
	check "SIG$signal ends it, whatever is open" ends_on $signal
done
check 'SIGTERM ends it while scans are asked for' ends_while_asked
check 'a scan that it started can be ended by a signal' its_scan_minds_signals
check 'a mount whose index is removed stays as it is' index_is_replaced
check 'nothing is left behind' no_daemon
finish
