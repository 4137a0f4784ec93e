#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# readdir.sh PROGRAM DIRPROBE - a directory of 200,000 files (TEST_BIG=1: a million): each name once, from any place.
[ -w /dev/shm ] && export TMPDIR=/dev/shm # so many files are made and removed there in a moment
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
probe=${2:?}
n=200000
is_sanitized && n=30000
[ -z "${TEST_BIG-}" ] || n=1000000

on_view()
{
	timeout $patience "$probe" "$1" "$view/large" $n
}

# Readers go on while snapshots land: names that were there all the time come exactly once.
while_snapshots_land()
{
	local i status=0
	for i in 1 2 3; do
		timeout $patience "$probe" small "$view/middle" 20000 >"$work/probe.$i" 2>&1 &
		started $!
		local reader$i=$!
	done
	for i in {1..6}; do
		# Something else changes beside it, so that the directory is the same but the generation is not.
		head -c $((i * 5000)) /dev/zero >"$src/grows"
		scan_ok "$src" || return
		"$probe" list "$view/middle" 20000 || return
		sleep 0.3
	done
	# shellcheck disable=SC2154
	wait "$reader1" && wait "$reader2" && wait "$reader3" || status=$?
	cat "$work"/probe.*
	return $status
}

# A reader stops in the middle, files come and go before and behind it; those that stay come once.
changes_under_a_reader()
{
	VIEW=$view/changing SRC=$src DT=$DT INDEX=$index $python - <<'PY'
import ctypes, json, os, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def getdents(fd, size=4096):
    buf = ctypes.create_string_buffer(size)
    n = libc.syscall(217 if os.uname().machine == "x86_64" else 61, fd, buf, size)
    if n < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    names, at = [], 0
    while at < n:
        length = int.from_bytes(buf.raw[at + 16:at + 18], "little")
        names.append(buf.raw[at + 19:at + length].split(b"\0")[0])
        at += length
    return names
src, view = os.path.join(os.environ["SRC"], "changing"), os.environ["VIEW"]
before = set(os.listdir(src))
fd = os.open(view, os.O_RDONLY | os.O_DIRECTORY)
seen = []
for step in range(4):
    for _ in range(3):
        seen += getdents(fd)
    for i in range(step * 200, step * 200 + 100):
        os.unlink(os.path.join(src, f"file-{i * 4:05}"))
        open(os.path.join(src, f"file-{i * 4 + 1:05}-new"), "w").close()
    said = subprocess.run([os.environ["DT"], "scan", "--index", os.environ["INDEX"], "--json", os.environ["SRC"]], check=True,
                          stdout=subprocess.PIPE)
    newest = json.loads(said.stdout)["snapshot"]
    while f"snapshot {newest}\n" not in open(view + "/.usage/stat").read():
        time.sleep(0.02)
while names := getdents(fd):
    seen += names
seen = [name.decode() for name in seen if name not in (b".", b"..")]
stayed = before & set(os.listdir(src))
missing = stayed - set(seen)
twice = [name for name in stayed if seen.count(name) != 1]
if missing or twice:
    sys.exit(f"{len(missing)} missing such as {sorted(missing)[:3]}, {len(twice)} not once such as {twice[:3]}")
if sorted(os.listdir(view)) != sorted(os.listdir(src)):
    sys.exit("afterwards the listing differs")
PY
}

stat_of_many()
{
	equal "$(find "$view/large" -type f -size 0 -printf . | wc -c)" $n
}

mkdir "$src/large" "$src/middle" "$src/changing"
"$probe" make "$src/large" $n && "$probe" make "$src/middle" 20000 || exit 1
(cd "$src/changing" && seq -f 'file-%05.0f' 0 4 12000 | xargs touch) # 3001 files
view=$mnt$src
check "a directory of $n files is scanned" scan_ok "$src"
check 'and mounted' mount_start
check 'each name comes once, also after rewinddir, and seekdir finds every place' on_view list
check 'with a small buffer each name comes once' on_view small
check 'the same when the kernel has it in its cache' on_view list
check 'and when each was looked at' stat_of_many
check 'each name comes once while snapshots land' while_snapshots_land
check 'names that stay come once while others come and go' changes_under_a_reader
check 'its number of entries is right' equal "$(number "$view/large" entries)" $n
check 'it ends without a complaint' mount_stop
finish
