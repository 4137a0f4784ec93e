#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# follow.sh PROGRAM - a mount shows each new snapshot, whole, and old handles stay with the old one.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python

du_of()
{
	du -s -B1 "$@" | cut -f 1
}

# numbers_are PATH...: of these directories, .usage/bytes and st_size are what du says of the source
numbers_are()
{
	local path
	for path in "$@"; do
		equal "$path $(number "$mnt$path" bytes)" "$path $(du_of "$path")" || return
		equal "$path $(stat -c %s "$mnt$path")" "$path $(du_of "$path")" || return
		equal "$path $(number "$mnt$path" files)" "$path $(find "$path" -type f -printf . | wc -c)" || return
	done
}

# scan_and COMMAND...: after a scan the command comes to succeed
scan_and()
{
	scan_ok "$src" && wait_for "$@"
}

levels=("$src" "$src/a" "$src/a/b" "$src/a/b/c")

grown()
{
	head -c 500000 /dev/zero >"$src/a/b/c/new"
	scan_and numbers_are "${levels[@]}"
}

# What was looked at before and is cached by now must not stay
nothing_is_stale()
{
	local name
	for name in bytes apparent files entries newest asof stat children largest top; do
		number "$view/a/b" $name
	done >"$work/before"
	ls -lR "$view" >/dev/null
	head -c 700000 /dev/zero >"$src/a/b/c/another"
	scan_ok "$src" && wait_for numbers_are "${levels[@]}" || return
	grep -q another "$view/a/b/.usage/largest" && grep -q another "$view/a/b/.usage/largest.0" || return
	head -1 "$view/.usage/largest" | grep -q another || return
	equal "$(ls -A "$view/a/b/c" | tr '\n' ' ')" 'another f new ' || return
	equal "$(sed -n 's/^bytes //p' "$view/a/b/.usage/stat")" "$(du_of "$src/a/b")" || return
	equal "$(sed -n 's/^snapshot //p' "$view/a/b/.usage/stat")" "$(sed -n 's/^snapshot //p' "$mnt/.telemetry/scan")" || return
	equal "$(stat -c %s "$view/a/b/c/another")" 700000
}

shrunk()
{
	rm "$src/a/b/c/new" "$src/a/b/c/another"
	scan_and numbers_are "${levels[@]}" && equal "$(ls -A "$view/a/b/c")" f
}

file_attributes_change()
{
	stat "$view/x/f" >/dev/null
	head -c 9000 /dev/zero >"$src/x/f"
	chmod 0600 "$src/x/f"
	touch -d @1000000000 "$src/x/f"
	scan_and equal_stat x/f
}

# The directory is not touched, only what is in it
equal_stat()
{
	equal "$(stat -c '%s %b %a %Y' "$view/$1")" "$(stat -c '%s %b %a %Y' "$src/$1")"
}

dir_attributes_change()
{
	stat "$view/x" >/dev/null
	chmod 0750 "$src/x"
	touch -d @1100000000 "$src/x"
	scan_and dir_is_as_source x
}

dir_is_as_source()
{
	[ "$(stat -c '%a %Y' "$view/$1")" = "$(stat -c '%a %Y' "$src/$1")" ]
}

gone()
{
	! [ -e "$1" ] && ! ls "$(dirname "$1")" | grep -qxF "$(basename "$1")"
}

shown()
{
	[ -e "$1" ] && ls "$(dirname "$1")" | grep -qxF "$(basename "$1")"
}

deleted()
{
	cat "$view/x/y/.usage/bytes" >/dev/null
	rm -r "$src/x/y"
	scan_and gone "$view/x/y" && fails_with 'No such file' cat "$view/x/y/.usage/bytes" && numbers_are "$src" "$src/x"
}

created()
{
	fails_with 'No such file' stat "$view/x/z/w" || return
	mkdir -p "$src/x/z/w"
	head -c 12345 /dev/zero >"$src/x/z/w/f"
	scan_and shown "$view/x/z" && numbers_are "$src" "$src/x" "$src/x/z" "$src/x/z/w"
}

renamed()
{
	ls -lR "$view/x" >/dev/null
	mv "$src/x/z" "$src/x/moved"
	scan_and shown "$view/x/moved" && gone "$view/x/z" && numbers_are "$src/x" "$src/x/moved" "$src/x/moved/w"
}

exchanged()
{
	ls -lR "$view/x" >/dev/null
	cat "$view"/x/{one,two}/.usage/bytes >/dev/null
	mv "$src/x/one" "$src/x/tmp" && mv "$src/x/two" "$src/x/one" && mv "$src/x/tmp" "$src/x/two"
	scan_and numbers_are "$src/x/one" "$src/x/two" "$src/x"
}

is_of_type()
{
	[ "$(stat -c %F "$1")" = "$2" ]
}

file_becomes_directory()
{
	cat "$view/swap/dir/.usage/bytes" >/dev/null
	ls -l "$view/swap" >/dev/null
	mv "$src/swap/file" "$src/swap/tmp" && mv "$src/swap/dir" "$src/swap/file" && mv "$src/swap/tmp" "$src/swap/dir"
	scan_and is_of_type "$view/swap/file" directory || return
	is_of_type "$view/swap/dir" 'regular file' && numbers_are "$src/swap" "$src/swap/file" &&
		fails_with 'Not a directory' cat "$view/swap/dir/.usage/bytes"
}

directory_becomes_symlink()
{
	ls -l "$view/swap/file" >/dev/null
	rm -r "$src/swap/file"
	ln -s elsewhere "$src/swap/file"
	scan_and is_of_type "$view/swap/file" 'symbolic link' && numbers_are "$src/swap"
}

asof_is_not()
{
	[ "$(number "$1" asof)" != "$2" ]
}

asof_changes_everywhere()
{
	local old
	old=$(number "$view/still/quiet" asof)
	cat "$view/still/quiet/.usage/stat" >/dev/null
	sleep 1.1
	touch "$src/a/touched"
	scan_and asof_is_not "$view/still/quiet" "$old" || return
	equal "$(number "$view/still/quiet" asof)" "$(number "$view" asof)" &&
		equal "$(sed -n 's/^asof //p' "$view/still/quiet/.usage/stat")" "$(number "$view" asof)"
}

unchanged_scan_keeps_numbers()
{
	local before=$(number "$view" bytes)
	scan_seen "$src" && equal "$(number "$view" bytes)" "$before"
}

# A shell that stands in a directory, and handles that were opened, across a change.
cwd_keeps_working()
{
	(
		cd "$view/a/b" || exit
		equal "$(cat .usage/bytes)" "$(du_of "$src/a/b")" || exit
		head -c 300000 /dev/zero >"$src/a/b/c/cwd"
		scan_seen "$src" || exit
		equal "$(cat .usage/bytes)" "$(du_of "$src/a/b")" || exit
		equal "$(ls -A | tr '\n' ' ')" 'c ' || exit
		equal "$(cat c/.usage/files)" "$(find "$src/a/b/c" -type f | wc -l)" || exit
		ls .. >/dev/null && equal "$(cat ../.usage/bytes)" "$(du_of "$src/a")" || exit
		equal "$(pwd -P)" "$view/a/b" || exit
	)
}

cwd_of_a_deleted_directory()
{
	mkdir -p "$src/a/doomed/below"
	scan_and shown "$view/a/doomed" || return
	(
		cd "$view/a/doomed/below" || exit
		rm -r "$src/a/doomed"
		scan_ok "$src" && wait_for gone "$view/a/doomed" || exit
		timeout $patience ls >/dev/null 2>&1
		[ $? -lt 124 ] || exit
		fails_with 'No such file|Stale' cat .usage/bytes || exit
		mkdir -p "$src/a/doomed/below"
		scan_ok "$src" && wait_for shown "$view/a/doomed" || exit
		wait_for numbers_are "$src/a/doomed/below"
	)
}

handles_stay_with_their_snapshot()
{
	SRC=$src VIEW=$view INDEX=$index DT=$DT $python - <<'PY'
import json, os, subprocess, sys, time
src, view = os.environ["SRC"], os.environ["VIEW"]
names = ["stat", "bytes", "children", "largest.0", "summary", "top"]
paths = [os.path.join(view, d, ".usage", n) for d in ("a", "a/b", "a/b/c") for n in names]
old, read, half, unread = {}, {}, {}, {}
for p in paths:
    with open(p, "rb") as f:
        old[p] = f.read()
    read[p], half[p], unread[p] = (os.open(p, os.O_RDONLY) for _ in range(3))
    os.read(read[p], 100000)
    os.read(half[p], 3)
wrong = []
for round_ in range(3):
    with open(os.path.join(src, "a/b/c", f"handle{round_}"), "wb") as f:
        f.write(b"x" * 200000)
    said = subprocess.run([os.environ["DT"], "scan", "--index", os.environ["INDEX"], "--json", src], check=True,
                          stdout=subprocess.PIPE)
    newest = json.loads(said.stdout)["snapshot"]
    while f"snapshot {newest}\n" not in open(os.path.join(view, "a/b/c/.usage/stat")).read():
        time.sleep(0.02)
    # The last thing that the kernel is told about a snapshot is what changed although nothing else did.
    while open(os.path.join(view, "still/quiet/.usage/stat")).read().find(f"snapshot {newest}\n") < 0:
        time.sleep(0.02)
    # Drop what the kernel cached, so that the text has to be made anew
    if round_ == 1 and os.getuid() == 0:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3\n")
    for p in paths:
        if os.pread(read[p], 100000, 0) != old[p]:
            wrong.append(("read before", p, os.pread(read[p], 100000, 0), old[p]))
        if os.pread(half[p], 100000, 3) != old[p][3:]:
            wrong.append(("half read", p))
        if os.pread(unread[p], 100000, 0) != old[p] or os.fstat(unread[p]).st_size != len(old[p]):
            wrong.append(("only opened", p))
        with open(p, "rb") as f:
            new = f.read()
            if (new == old[p] and new) or os.fstat(f.fileno()).st_size != len(new):
                wrong.append(("still the old text", p))
sys.exit(repr(wrong[:3]) if wrong else 0)
PY
}

# Two mounts of one index, one of them for a directory inside of a root
root_option()
{
	mount_at "$work/other" --root "$src/a/b" || return
	equal "$(number "$work/other" bytes)" "$(du_of "$src/a/b")" || return
	equal "$(ls -A "$work/other" | tr '\n' ' ')" '.telemetry .usage c ' || return
	head -1 "$work/other/.usage/summary" | grep -qxF "$src/a/b" || return
	head -c 250000 /dev/zero >"$src/a/b/c/for-root"
	scan_ok "$src" && wait_for other_is "$src/a/b" || return
	mount_stop "$work/other" || return
	mount_at "$work/other" --root "$src/" || return
	other_is "$src" && equal "$(number "$work/other/a" bytes)" "$(du_of "$src/a")" && mount_stop "$work/other" || return
	refused 3 'not in the index' "$DT" mount --index "$index" --root "$work/state" "$work/other" || return
	refused 3 'not in the index' "$DT" mount --index "$index" --root "$src/a/nothing" "$work/other"
}

other_is()
{
	equal "$(number "$work/other" bytes)" "$(du_of "$1")" && equal "$(stat -c %s "$work/other")" "$(du_of "$1")"
}

# The directory that --root shows goes away and comes back
root_option_of_a_deleted_directory()
{
	local status=0
	mkdir -p "$src/x/top/in"
	scan_ok "$src" && mount_at "$work/other" --root "$src/x/top" || return
	equal "$(ls "$work/other")" in || return
	rm -r "$src/x/top"
	scan_ok "$src" && sleep 0.7 # it has time to notice; what it says then does not matter, if it says anything
	timeout $patience ls "$work/other" >/dev/null 2>&1 || status=$?
	[ $status -ne 124 ] || return
	mkdir -p "$src/x/top/in2"
	scan_ok "$src" && wait_for test -d "$work/other/in2" && mount_stop "$work/other"
}

nested_roots()
{
	local r=$work/roots
	mkdir -p "$r/a/b/c/d" "$r/a/other" "$r/z/y" "$r/z.y"
	head -c 40000 /dev/zero >"$r/a/b/c/d/f"
	head -c 80000 /dev/zero >"$r/a/other/f"
	head -c 20000 /dev/zero >"$r/z/y/f"
	local -x index=$work/state/roots.db
	scan_ok "$r/a" "$r/a/b/c" "$r/z/y" "$r/z.y" && mount_at "$work/other" || return
	local path
	for path in "$r/a" "$r/a/b" "$r/a/b/c" "$r/a/b/c/d" "$r/z/y" "$r/z.y"; do
		equal "$(number "$work/other$path" bytes) $path" "$(du_of "$path") $path" || return
	done
	equal "$(number "$work/other$r/z" bytes)" "$(du_of "$r/z/y")" || return
	equal "$(number "$work/other" bytes)" "$(($(du_of "$r/a") + $(du_of "$r/z/y") + $(du_of "$r/z.y")))" || return
	equal "$(du_of "$work/other")" "$(number "$work/other" bytes)" || return
	equal "$(ls -A "$work/other$r" | tr '\n' ' ')" 'a z z.y ' || return
	# an outer root's next scan keeps the whole right
	head -c 60000 /dev/zero >"$r/a/b/c/d/g"
	scan_ok "$r/a" && wait_for other_path_is "$r/a/b/c/d" && other_path_is "$r/a" || return
	# one more root, below nothing that was known
	mkdir -p "$r/new/deep"
	scan_ok "$r/new/deep" && wait_for test -d "$work/other$r/new/deep" && other_path_is "$r/new/deep" || return
	mount_stop "$work/other"
}

other_path_is()
{
	equal "$(number "$work/other$1" bytes)" "$(du_of "$1")"
}

mkdir -p "$src"/a/b/c "$src"/x/{y,one,two} "$src"/swap/dir "$src/still/quiet" "$work/other"
head -c 100000 /dev/zero >"$src/a/b/c/f"
head -c 5000 /dev/zero >"$src/x/f"
head -c 30000 /dev/zero >"$src/x/one/f"
head -c 60000 /dev/zero >"$src/x/two/f"
head -c 7000 /dev/zero >"$src/swap/file"
head -c 17000 /dev/zero >"$src/swap/dir/in"
head -c 1000 /dev/zero >"$src/still/quiet/f"
view=$mnt$src

# The last test used $daemon for its own.
stop_first()
{
	daemon=$first
	mount_stop
}

check 'a tree is scanned' scan_ok "$src"
check 'and mounted' mount_start
first=$daemon
check 'it shows the first snapshot' numbers_are "${levels[@]}"
check 'what grew is shown, at all levels' grown
check 'what was cached before is not stale' nothing_is_stale
check 'what shrank is shown' shrunk
check 'a changed file has its new size, mode and time' file_attributes_change
check 'a changed directory has its new mode and time' dir_attributes_change
check 'a deleted directory is gone' deleted
check 'a created one appears' created
check 'a renamed one has its new name only' renamed
check 'two that were exchanged have the numbers of the other' exchanged
check 'a file becomes a directory, and a directory a file' file_becomes_directory
check 'a directory becomes a symbolic link' directory_becomes_symlink
check 'asof changes also where nothing changed' asof_changes_everywhere
check 'a scan of an unchanged tree changes no number' unchanged_scan_keeps_numbers
check 'a shell that stands in a directory sees the new numbers' cwd_keeps_working
check 'one that stands in a deleted directory gets errors, and no hang' cwd_of_a_deleted_directory
check 'an open file stays with its snapshot, whole' handles_stay_with_their_snapshot
check '--root shows a directory inside a root, and follows it' root_option
check '--root of a directory that goes away and comes back' root_option_of_a_deleted_directory
check 'several roots, one in another, each with its numbers' nested_roots
check 'nothing is wrong with the first mount after all that' numbers_are "${levels[@]}"
check 'and it ends without a complaint' stop_first
finish
