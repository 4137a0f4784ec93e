#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# tree.sh PROGRAM - the mount of a hostile tree says of every directory what the tree itself says.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python find du ncdu rsync tar

equal_py()
{
	$python "$here/equal.py" "$@"
}

# The number du prints for a path
du_of()
{
	du -s -B1 "$@" | cut -f 1
}

# du_equal DIRECTORY OPTION...: which of several names du counts depends on its order, so with links it needs -l
du_equal()
{
	local dir=$1
	shift
	diff <(cd "$src/$dir" && du -B1 "$@" . | shown_names | LC_ALL=C sort) <(cd "$view/$dir" && du -B1 "$@" . | LC_ALL=C sort)
}

# .usage becomes .usage~; paths may follow each other closely, hence the loop
shown_names()
{
	LC_ALL=C sed -E ':a; s#/(\.usage~*)(/|$)#/\x01\1~\2#; ta; s#/\x01#/#g'
}

# What ncdu exports: every name with its apparent size and disk usage, in any order
ncdu_names()
{
	ncdu -0 -x -o - "$1" 2>/dev/null | $python -c '
import json, re, sys
def walk(item, path):
    head = item[0] if isinstance(item, list) else item
    name = head["name"] if path else "."
    if path.startswith(sys.argv[1]) and re.fullmatch(r"\.usage~*", name):
        name += "~"
    size = None if isinstance(item, list) else head.get("asize", 0)
    print(ascii(path + "/" + name), head.get("dsize", 0), size, head.get("notreg"), head.get("read_error"))
    for below in item[1:] if isinstance(item, list) else []:
        walk(below, path + "/" + name)
text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
walk(json.loads(text, strict=False)[3], "")
' "$2" | LC_ALL=C sort
}

ncdu_equal()
{
	ncdu_names "$src" / >"$work/ncdu.src"
	ncdu_names "$view" never >"$work/ncdu.view"
	diff "$work/ncdu.src" "$work/ncdu.view" && [ "$(wc -l <"$work/ncdu.src")" -gt 200 ]
}

sorted_by_size()
{
	local listed
	listed=$(LC_ALL=C ls -lSb "$view" | awk 'NR > 1 { print $5 }')
	[ "$(wc -l <<<"$listed")" -gt 5 ] && equal "$listed" "$(sort -rn <<<"$listed")"
}

find_sees_the_tree()
{
	equal_py names "$src" "$view" | LC_ALL=C sort -z >"$work/names"
	(cd "$view" && find . -print0) | LC_ALL=C sort -z | cmp - "$work/names"
}

# Files have no contents: tar complains, and pads them.
tar_sees_the_tree()
{
	(cd "$view" && tar -cf - . 2>"$work/err") | LC_ALL=C tar -tf - >"$work/out"
	equal "$(wc -l <"$work/out")" "$(find "$src" ! -type s -printf . | wc -c)"
}

no_virtual_file()
{
	local found
	found=$(find "$1" -name errors.list -o -name asof -o -path '*/.telemetry/scan')
	equal "$found" ''
}

# Copies have no contents to copy, so they fail; but they must not have found the virtual files.
cp_copies_no_virtual_file()
{
	mkdir "$work/copy"
	LC_ALL=C timeout $patience cp -r "$view" "$work/copy" 2>"$work/err"
	no_virtual_file "$work/copy" && equal "$(find "$work/copy" -mindepth 1 -type d -printf . | wc -c)" "$n_dirs"
}

rsync_copies_no_virtual_file()
{
	timeout $patience rsync -a "$view/" "$work/rsync/" >/dev/null 2>"$work/err"
	no_virtual_file "$work/rsync" && equal "$(find "$work/rsync" -type d -printf . | wc -c)" "$n_dirs"
}

grep_meets_no_virtual_file()
{
	! LC_ALL=C timeout $patience grep -rl -D skip -e '^snapshot ' -e '^[0-9][0-9]*$' "$view" 2>/dev/null
}

ls_is_content()
{
	LC_ALL=C ls -lR "$view" >"$work/out" 2>"$work/err" || {
		cat "$work/err"
		return 1
	}
	[ ! -s "$work/err" ]
}

only_real_names_at_the_top()
{
	local top
	top=$(ls -A "$mnt" | tr '\n' ' ')
	equal "$top" ".telemetry .usage ${src%"${src#/*/}"}" || equal "$top" ".telemetry .usage $(cut -d/ -f2 <<<"$src") "
}

reserved_names()
{
	[ -d "$view/odd/.usage~" ] && [ -d "$view/odd/.usage~~" ] && [ -f "$view/odd/.usage~~~" ] || return
	equal "$(stat -c %s "$view/odd/.usage~~~")" 77 || return
	equal "$(cat "$view/odd/.usage~/.usage/bytes")" "$(du_of "$src/odd/.usage")" || return
	equal "$(cat "$view/odd/.usage~~/.usage/files")" 1 || return
	equal "$(stat -c %s "$view/odd-files/.usage~")" 30000 || return
	[ -f "$view/odd-files/.telemetry" ] && [ -f "$view/odd-files/.growth" ] && [ -d "$view/odd/.telemetry" ]
}

# A top with such names itself
reserved_names_at_the_top()
{
	local top=$work/top
	mount_at "$top" --root "$src/odd" || return
	equal "$(ls -A "$top" | grep -cE '^\.(usage|telemetry|growth)')" 7 || return
	[ -d "$top/.telemetry~" ] && [ -d "$top/.growth~" ] && [ -e "$top/.telemetry~/f-.telemetry" ] &&
		[ -d "$top/.usage~" ] && [ -d "$top/.usage~~" ] && [ -f "$top/.usage/bytes" ] &&
		[ -f "$top/.telemetry/scan" ] || return
	equal "$(stat -c %F "$top/.growth")" directory && ! ls -A "$top" | grep -qx .growth || return
	mount_stop "$top"
}

opened_everywhere()
{
	local top=$work/top
	mount_at "$top" -o show_usage --root "$src/wide" || return
	equal "$(find "$top" -type d -name .usage | wc -l)" 41 || return
	equal "$(find "$top" -type f -name bytes | wc -l)" 41 || return
	equal "$(du_of "$top")" "$(du_of "$src/wide")" || return
	mount_stop "$top"
}

same_inodes_after()
{
	equal_py save "$src" "$view" >"$work/inodes.after" && cmp "$work/inodes.before" "$work/inodes.after"
}

remount()
{
	local before=$daemon
	mount_stop && mount_start && [ "$daemon" != "$before" ]
}

mkdir "$work/top"
$python "$here/hostile.py" "$src" || exit 1
# Two names with one XXH3 hash, if the number of their directory were its seed: the two halves of 16 bytes are mixed
# by multiplication, and by sum where one of them is nought
forged_numbers()
{
	$python - "$src" "$view" "$1" <<'PY'
import os, sys
src, view, step = (os.fsencode(a) for a in sys.argv[1:])
M = (1 << 64) - 1
secret = bytes.fromhex("7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e")
word = [int.from_bytes(secret[i:i + 8], "little") for i in range(0, 32, 8)]
swap = lambda v: int.from_bytes(v.to_bytes(8, "little"), "big")

def pair(seed):
    low, high = ((word[0] ^ word[1]) + seed) & M, ((word[2] ^ word[3]) - seed) & M
    fine = lambda b: not set(b) & {0, 47}
    for x in range(1, 1 << 16):
        x = x * 0x9E3779B97F4A7C15 & M
        a = (low ^ x).to_bytes(8, "little") + high.to_bytes(8, "little")
        b = low.to_bytes(8, "little") + (high ^ swap(x)).to_bytes(8, "little")
        if fine(a) and fine(b):
            return a, b

if step == b"make":
    for i in range(64):
        os.makedirs(src + b"/forged/%d" % i)
else:
    seeds = {i: os.stat(view + b"/forged/%d" % i).st_ino for i in range(64)} if step == b"names" else {}
    for i, seed in seeds.items():
        for name in pair(seed) or ():
            os.makedirs(src + b"/forged/%d/" % i + name + b"/" + name[:1].hex().encode())
    if step == b"look":
        pairs = 0
        for i in range(64):
            at = view + b"/forged/%d" % i
            names = os.listdir(at)
            assert sorted(names) == sorted(os.listdir(src + b"/forged/%d" % i))
            numbers = {os.lstat(at + b"/" + n).st_ino for n in names}
            assert len(numbers) == len(names), (i, names)
            pairs += len(names) == 2
            for n in names:
                assert os.listdir(at + b"/" + n) == os.listdir(src + b"/forged/%d/" % i + n), (i, n)
        assert pairs > 8, pairs
PY
}

made()
{
	sed -n 's/^made_nodes //p' "$mnt/.telemetry/mount"
}

# Any number of names above the roots mean few snapshots: each is made once
many_moments()
{
	local before
	mkdir -p "$work/roots/a/in" "$work/roots/b"
	index=$work/roots.db
	scan_ok "$work/roots/a" && scan_ok "$work/roots/b" && touch "$work/roots/a/new" && scan_ok "$work/roots/a" || return
	mount_start || return
	wait_for test "$(made)" -gt 0 || return
	before=$(made)
	$python - "$mnt" <<'PY' || return
import os, sys, time
now = int(time.time())
for i in range(3000):
    name = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + 1 + i))
    assert os.listdir(f"{sys.argv[1]}/.usage/at/{name}"), name
    assert not os.path.exists(f"{sys.argv[1]}/.usage/at/no-such-{i}")
PY
	# three snapshots, and the directories that lead to the roots
	[ $(($(made) - before)) -le $((3 * 8)) ] || {
		echo "$before nodes before, $(made) after"
		return 1
	}
	mount_stop
}

numbers_cannot_be_forged()
{
	forged_numbers make && scan_seen "$src" && forged_numbers names && scan_seen "$src" && forged_numbers look
}

view=$mnt$src
check 'a hostile tree is scanned' scan_ok "$src"
check 'and mounted' mount_start
check 'every directory has the totals of du and find of it alone, hard links and shared included' equal_py totals "$src" "$view"
check 'every entry has its name, type, mode, owner, time, size and blocks' equal_py attrs "$src" "$view"
check 'numbers of inodes: in readdir as in lstat, shared by hard links, never by directories' equal_py inodes "$src" "$view"
check 'every file of every .usage has its format, its length, and agrees with the others' equal_py files "$src" "$view"
check 'du -s agrees with the tree' equal "$(du_of "$view")" "$(du_of "$src")"
check 'du --max-depth=2 agrees' du_equal . -l --max-depth=2
check 'du of every directory agrees' du_equal . -l
check 'du of a part without links agrees' du_equal wide
check 'du -s of the whole mount is that of the root' equal "$(du_of "$mnt")" "$(du_of "$src")"
check 'ncdu exports the same' ncdu_equal
check 'ls -lS sorts by total' sorted_by_size
n_dirs=$(find "$src" -type d -printf . | wc -c)
check 'find counts the same directories' equal "$(find "$view" -type d -printf . | wc -c)" "$n_dirs"
check 'find sees the names of the tree, and nothing else' find_sees_the_tree
check 'at the top, .usage, .telemetry and the way to the root are listed' only_real_names_at_the_top
check 'tar finds no virtual file below the top' tar_sees_the_tree
check 'cp -r finds no virtual file' cp_copies_no_virtual_file
check 'rsync finds no virtual file' rsync_copies_no_virtual_file
check 'grep -r finds no virtual file' grep_meets_no_virtual_file
check 'ls -lR of it all says nothing wrong' ls_is_content
check 'real entries called .usage, .usage~ and so on are shown with one more ~' reserved_names
check 'at the top the same holds for .telemetry and .growth' reserved_names_at_the_top
check 'with show_usage, .usage is listed everywhere, and du says the same' opened_everywhere
mount_daemon_lives()
{
	is_mounted "$mnt"
}
check 'meanwhile the first mount was left alone' mount_daemon_lives
mount_stop >/dev/null
mount_start >/dev/null
equal_py save "$src" "$view" >"$work/inodes.before"
check 'it is mounted anew' remount
check 'after a remount every inode number is the same' same_inodes_after
check 'the same tree is scanned again, and shown' scan_seen "$src"
check 'in the next snapshot every inode number is the same' same_inodes_after
check 'totals hold in the next snapshot' equal_py totals "$src" "$view"
check 'no two names are made that show one number, or each other' numbers_cannot_be_forged
check 'it ends without a complaint' mount_stop
check 'any number of times above the roots take no more memory than there are snapshots' many_moments
finish
