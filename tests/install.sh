#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2016,SC2015
#
# install.sh PROGRAM BUILD - what is built where cmocka and scdoc are missing, what BUILD installs, and whether mount(8) and
# /etc/fstab find it. The staged files are laid over /usr/local and /sbin in a mount namespace of this script's own.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/mount/lib.sh" "$1"
build=$2
top=$(realpath -- "$here/../..")
need meson ninja pkg-config
stage=$work/stage

# Links to the few programs that are needed, and files that stand in for others, in folders apart: a file must never
# be written where a link to the system's own may be.
builds_without_extras()
{
	local tool
	mkdir -p "$work/few/links" "$work/few/files" || return
	for tool in cc ar as ld nm ninja bash sh python3 uname env; do
		ln -s "$(command -v "$tool")" "$work/few/links/$tool" || return
	done
	printf '%s\n' '#!/bin/sh' 'case " $* " in *" cmocka "*) exit 1 ;; esac' "exec $(command -v pkg-config) \"\$@\"" >"$work/few/files/pkg-config"
	chmod +x "$work/few/files/pkg-config"
	PATH=$work/few/files:$work/few/links "$(command -v meson)" setup -Dbench=disabled "$work/build" "$top" >"$work/out" 2>&1 || { tail "$work/out"; return 1; }
	grep -qE 'tests .*: NO' "$work/out" && grep -qE 'manual pages .*: NO' "$work/out" || { tail -20 "$work/out"; return 1; }
	ninja -C "$work/build" -t query tools/disktracker >/dev/null && ! ninja -C "$work/build" -t targets all | grep -E '^tests/|\.1:'
}

installs()
{
	local file
	DESTDIR=$stage meson install -C "$build" --no-rebuild >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
	prefix=$(meson introspect "$build" --buildoptions | $python -c 'import json, sys; print([o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"][0])')
	for file in bin/disktracker share/bash-completion/completions/disktracker; do
		[ -e "$stage$prefix/$file" ] || { echo "$file is missing"; return 1; }
	done
	[ ! -e "$build/docs/disktracker.1" ] || [ -s "$stage$prefix/share/man/man1/disktracker.1" ]
}

# overlaid DIR: the staged files, and below them what is there
overlaid()
{
	[ -d "$stage$1" ] || return 0
	mount -t overlay -o "ro,lowerdir=$stage$1:$(realpath "$1")" overlay "$1"
}

# in_namespace COMMAND...: as after an installation, with $work/fstab as /etc/fstab
in_namespace()
{
	export stage work mnt index DISKTRACKER_INDEX=$index
	export -f overlaid
	timeout 60 unshare -m bash -c 'mount --make-rprivate / && overlaid /usr/local && overlaid /usr/sbin && overlaid /sbin &&
		{ "$@"; status=$?; umount "$mnt" 2>/dev/null; exit $status; }' '' "$@"
}

# mounts SCRIPT: it mounts on $mnt, whose bytes are those of the root
mounts()
{
	in_namespace sh -c "$1"' && [ "$(cat "$mnt$SRC/.usage/bytes" 2>/dev/null || cat "$mnt/.usage/bytes")" = "$BYTES" ] &&
		[ "$(findmnt -no FSTYPE "$mnt")" = fuse.disktracker ]'
}

fstab()
{
	printf '%s %s %s nofail,user,noauto,x-systemd.automount,comment=usage%s 0 0\n' "$1" "$mnt" "$2" "${3-}" >"$work/fstab"
	export work
	mounts 'mount -T "$work/fstab" "$mnt"'
}

check 'without cmocka and scdoc the program is built, and the rest is named' builds_without_extras
check 'meson install puts the program, the manual and the completion in place' installs
if [ "$(id -u)" != 0 ] || ! [ -w /dev/fuse ] || is_sanitized || [ "$prefix" != /usr/local ]; then
	skip 'mount(8) and /etc/fstab find it' 'this needs root, /dev/fuse and the usual prefix'
	finish
fi
mkdir -p "$src/in" && head -c 100000 /dev/zero >"$src/in/f" && scan_ok "$src"
cp "$index" "$work/other.db"
export SRC=$src BYTES
BYTES=$(du -s -B1 "$src" | cut -f 1)
check 'mount -t disktracker none DIR' mounts 'mount -t disktracker none "$mnt"'
check 'mount -t fuse.disktracker none DIR -o WORDS' mounts 'mount -t fuse.disktracker -o nosuid,xattr,cache=4M none "$mnt"'
check 'mount -t disktracker INDEX DIR' mounts 'DISKTRACKER_INDEX=/nowhere mount -t disktracker "$work/other.db" "$mnt"'
check 'a line in /etc/fstab' fstab none fuse.disktracker
check 'one with an index and a root' fstab "$work/other.db" disktracker ",root=$src"
check 'disktracker none DIR, as mount.fuse3(8) calls it' mounts 'disktracker none "$mnt" -o rw,dev,suid'
check 'disktracker INDEX DIR' mounts 'DISKTRACKER_INDEX= disktracker "$work/other.db" "$mnt" -o ro'
if command -v mount.fuse3 >/dev/null; then
	check 'mount.fuse3 disktracker#none DIR' mounts 'mount.fuse3 none "$mnt" -t fuse.disktracker -o rw,user'
fi
check 'an option that nobody knows has the status of mount(8)' in_namespace sh -c 'mount -t disktracker -o xatr none "$mnt"; [ $? -eq 1 ]'
check 'a mount that fails too' in_namespace sh -c 'mount -t disktracker /nowhere "$mnt"; [ $? -eq 32 ]'
finish
