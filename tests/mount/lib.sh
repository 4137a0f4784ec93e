# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2015,SC2086
# What the mount tests share: a private folder, mounts that always end, one TAP line per sentence.
#
#     . lib.sh "$@"           $1 is the program under test
#     need_fuse; need_root    or the whole script is skipped
#     check "sentence" COMMAND...
#     finish                  last line of every script
#
# Everything is below $work: the tree to scan $src, the index $index, the mount point $mnt. The trap ends the
# processes that were started here, and unmounts whatever is mounted below $work, dead or alive.

set -u
export LC_ALL=C.UTF-8
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
DT=${1:?"usage: $0 PROGRAM"}
DT=$(realpath -- "$DT")

work=$(realpath -- "$(mktemp -d "${TMPDIR:-/tmp}/disktracker-test.XXXXXXXX")") || exit 1
chmod 0755 "$work"
src=$work/src
index=$work/state/index.db
mnt=$work/mnt
mkdir "$src" "$mnt"
export HOME=$work/home XDG_STATE_HOME=$work/home/state
unset DISKTRACKER_INDEX
umask 022

n_checks=0
n_failed=0
pids=()
loops=()

# The system's own, since a version manager's wrapper takes longer than most checks.
python=/usr/bin/python3
[ -x $python ] || python=python3

# Before a command: as nobody, who cannot read a checkout below /root, nor what a sanitizer is to leave out there
nobody=(env TSAN_OPTIONS= setpriv --reuid=65534 --regid=65534 --clear-groups)

say()
{
	printf '# %s\n' "$*"
}

indented()
{
	head -n 30 | LC_ALL=C cut -c 1-400 | LC_ALL=C sed 's/^/#     /'
}

# result STATUS SENTENCE
result()
{
	n_checks=$((n_checks + 1))
	if [ "$1" -eq 0 ]; then
		printf 'ok %d - %s\n' "$n_checks" "$2"
	else
		n_failed=$((n_failed + 1))
		printf 'not ok %d - %s\n' "$n_checks" "$2"
	fi
}

# check SENTENCE COMMAND...: what the command says is shown only when it fails
check()
{
	local sentence=$1 status=0
	shift
	"$@" >"$work/said" 2>&1 || status=$?
	result $status "$sentence"
	[ $status -eq 0 ] || { cat "$work/said"; echo "(status $status)"; } | indented
}

# skip SENTENCE REASON
skip()
{
	n_checks=$((n_checks + 1))
	printf 'ok %d - %s # SKIP %s\n' "$n_checks" "$1" "$2"
}

skip_all()
{
	printf '1..0 # SKIP %s\n' "$1"
	exit 0
}

need_fuse()
{
	[ -r /dev/fuse ] && [ -w /dev/fuse ] || skip_all 'there is no /dev/fuse'
	[ "$(id -u)" = 0 ] || command -v fusermount3 >/dev/null || skip_all 'fusermount3 is not installed'
}

need_root()
{
	[ "$(id -u)" = 0 ] || skip_all 'this needs root'
}

need()
{
	local tool
	for tool in "$@"; do
		command -v "$tool" >/dev/null || skip_all "$tool is not installed"
	done
}

# Memory and time mean little under a sanitizer.
is_sanitized()
{
	ldd "$DT" 2>/dev/null | grep -qE 'lib(asan|tsan|ubsan)'
}

now_ms()
{
	local t=$EPOCHREALTIME
	echo $((${t/[.,]/} / 1000))
}

# How long a test waits for what has to come before it calls that a hang: no machine is loaded that much.
patience=120

# wait_for COMMAND...: until it succeeds; when it comes to that does not decide anything
wait_for()
{
	local end=$(($(now_ms) + patience * 1000))
	until "$@" >/dev/null 2>&1; do
		[ "$(now_ms)" -lt $end ] || {
			echo "not within $patience s: $*"
			return 1
		}
		sleep 0.02
	done
}

# The mount points at or below a path, deepest first
mounts_below()
{
	$python - "$1" <<'PY'
import os, re, sys
below = os.fsencode(sys.argv[1])
found = []
for line in open("/proc/self/mountinfo", "rb"):
    point = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), line.split(b" ")[4])
    if point == below or point.startswith(below + b"/"):
        found.append(point)
for point in reversed(found):
    sys.stdout.buffer.write(point + b"\0")
PY
}

is_mounted()
{
	mountpoint -q "$1"
}

unmount_lazily()
{
	if [ "$(id -u)" = 0 ]; then
		umount -l -- "$1"
	else
		fusermount3 -uz -- "$1"
	fi
}

# The program's processes that name our folder: those that went to the background
our_daemons()
{
	local dir
	for dir in /proc/[0-9]*; do
		[ "$dir/exe" -ef "$DT" ] || continue
		tr '\0' '\n' <"$dir/cmdline" 2>/dev/null | grep -qF -- "$work/" && echo "${dir#/proc/}"
	done
	return 0
}

# started PID: end it at the latest when the script ends
started()
{
	pids+=("$1")
}

# is_ours PID: it is still the child that we started; the number of one that has ended may be somebody else's by now
is_ours()
{
	grep -qx "PPid:[[:space:]]*$$" "/proc/$1/status" 2>/dev/null
}

clean_up()
{
	local status=$? pid point loop

	trap - EXIT INT TERM HUP
	cd /
	for pid in "${pids[@]}"; do
		is_ours "$pid" && kill -CONT "$pid" && kill -TERM "$pid"
	done 2>/dev/null
	while IFS= read -r -d '' point; do
		unmount_lazily "$point"
	done < <(mounts_below "$work") 2>/dev/null
	for pid in "${pids[@]}"; do
		is_ours "$pid" || continue
		timeout $patience tail --pid="$pid" -f /dev/null || kill -KILL "$pid"
	done 2>/dev/null
	for pid in $(our_daemons); do
		kill -KILL "$pid"
	done 2>/dev/null
	for loop in "${loops[@]}"; do
		losetup -d "$loop"
	done 2>/dev/null
	chmod -R u+rwX "$work" 2>/dev/null
	rm -rf --one-file-system -- "$work"
	exit $status
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# finish: the plan, and whether all was well
finish()
{
	printf '1..%d\n' "$n_checks"
	[ "$n_failed" -eq 0 ]
	exit $?
}

# scan PATH...: into $index; what it says goes to $work/scan.out
scan()
{
	timeout $patience "$DT" scan --index "$index" "$@" >"$work/scan.out" 2>&1
}

scan_ok()
{
	scan "$@" && return
	echo "scan $* failed:"
	cat "$work/scan.out"
	return 1
}

# mount_at POINT [OPTION...]: in the foreground of a process of ours, whose id is $daemon
mount_at()
{
	local point=$1
	shift
	"$DT" mount -f --index "$index" "$@" "$point" >"$work/mount.log" 2>&1 &
	daemon=$!
	started "$daemon"
	wait_for is_mounted "$point" && wait_for test -e "$point/.usage" && return
	cat "$work/mount.log"
	return 1
}

mount_start()
{
	mount_at "$mnt" "$@"
}

# mount_stop [MOUNTPOINT]: and see that its process ends well (a sanitizer speaks up now)
mount_stop()
{
	local point=${1:-$mnt} status=0

	# The tools of the script may hold a directory for another moment.
	wait_for "$DT" umount "$point" || return
	wait "$daemon" || status=$?
	[ $status -eq 0 ] || {
		cat "$work/mount.log"
		echo "the mount ended with status $status"
	}
	return $status
}

# newest_of ROOT: id of its newest snapshot in the index
newest_of()
{
	"$DT" list --index "$index" | awk -F '\t' -v root="$1" '$6 == root { id = $1 } END { print id }'
}

# shows_newest ROOT [MOUNTPOINT]: the mount has come to the root's newest snapshot, and so has what the kernel keeps
shows_newest()
{
	equal "$(sed -n 's/^snapshot //p' "${2:-$mnt}$1/.usage/stat")" "$(newest_of "$1")"
}

# scan_seen ROOT [MOUNTPOINT]: scan it, and wait until the mount shows that
scan_seen()
{
	scan_ok "$1" && wait_for shows_newest "$@"
}

# number PATH NAME: cat PATH/.usage/NAME
number()
{
	cat -- "$1/.usage/$2"
}

equal()
{
	[ "$1" = "$2" ] || {
		printf 'got:      %q\nexpected: %q\n' "$1" "$2"
		return 1
	}
}

# status_is N COMMAND...; its stderr goes to $work/err
status_is()
{
	local want=$1 got=0
	shift
	timeout $patience "$@" >"$work/out" 2>"$work/err" || got=$?
	[ "$got" -eq "$want" ] || {
		echo "status $got instead of $want: $*"
		cat "$work/out" "$work/err"
		return 1
	}
}

# refused STATUS PATTERN COMMAND...: with this status, and one sentence on stderr that says why
refused()
{
	local want=$1 pattern=$2
	shift 2
	status_is "$want" "$@" || return
	grep -qE -- "$pattern" "$work/err" || {
		echo "no sentence with '$pattern' from: $*"
		cat "$work/err"
		return 1
	}
}

# fails_with PATTERN COMMAND...: it fails, and this is in what it says
fails_with()
{
	local pattern=$1 said
	shift
	if said=$(LC_ALL=C timeout $patience "$@" 2>&1 >/dev/null); then
		echo "this should have failed: $*"
		return 1
	fi
	grep -qE -- "$pattern" <<<"$said" || {
		printf 'no "%s" in: %s\n' "$pattern" "$said"
		return 1
	}
}
