#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# quickstart.sh [PATH] - from a fresh checkout to an answer: installs what is missing, builds, scans PATH
# (default /usr), mounts the result, shows the top of it and says what to type next. Run it as often as
# you like. Exits 0 unless something failed; without /dev/fuse it scans and says that the mount is left out.
set -eu

top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"

die()
{
	echo "quickstart: $2" >&2
	exit "$1"
}

headline()
{
	printf '\n== %s\n' "$*"
}

# As a word to paste into a shell
q()
{
	printf '%q' "$1"
}

build()
{
	[ -e "$top/build/build.ninja" ] ||
		meson setup --buildtype=release -Dtests=disabled -Dbench=disabled "$top/build" "$top" >"$log" ||
		{
			cat "$log" >&2
			die 3 "could not set up $top/build"
		}
	ninja -C "$top/build" >"$log" || {
		cat "$log" >&2
		die 3 "could not build in $top/build"
	}
}

# 0 done, 1 done but something could not be read, else over
scan()
{
	local status=0

	"$disktracker" scan "$path" || status=$?
	case $status in
	0) ;;
	1) echo "Parts could not be read: the totals above them are lower bounds (see .usage/errors.list)." ;;
	*) die 3 "the scan of $(q "$path") failed" ;;
	esac
}

# Opening is the test: inside containers the device may be there and yet be refused.
have_fuse()
{
	(: </dev/fuse) 2>/dev/null
}

choose_mount_point()
{
	if [ "$(id -u)" = 0 ]; then
		mnt=/mnt/disktracker
	else
		mnt=${XDG_RUNTIME_DIR:-/tmp}/disktracker-$(id -u)
	fi
}

# mounts(5) is the one place to ask without touching the mount, which may be dead.
is_mounted()
{
	grep -q " $mnt fuse\.disktracker " /proc/self/mounts
}

mount_view()
{
	if is_mounted && ! "$disktracker" umount "$mnt"; then
		echo "$mnt is in use: it stays mounted and shows the new scan by itself."
		return
	fi
	# Anyone may create names in /tmp: take a directory there only if it is ours and no link.
	mkdir -p -- "$mnt" || die 3 "cannot create $mnt"
	if [ -L "$mnt" ] || [ ! -O "$mnt" ]; then
		die 3 "$mnt belongs to somebody else"
	fi
	"$disktracker" mount "$mnt" || die 3 "cannot mount on $mnt"
}

# A mount that stayed learns of the new scan within moments.
wait_for()
{
	local tries=50

	until [ -e "$1" ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || die 3 "$1 does not appear on the mount"
		sleep 0.1
	done
}

show()
{
	headline "cat $(q "$at/.usage/summary")"
	cat -- "$at/.usage/summary"
	headline "ls -lhS $(q "$at") | head"
	# shellcheck disable=SC2012 # ls is what is being shown
	ls -lhSq -- "$at" | sed -n 1,11p
}

show_stored()
{
	headline "disktracker cat $(q "$path/.usage/summary")"
	"$disktracker" cat "$path/.usage/summary"
	headline "What to type next"
	try "every directory with its total, largest first" "$(q "$disktracker") ls -lSh $(q "$path")"
	try "the largest directories below" "$(q "$disktracker") cat $(q "$path")/.usage/top"
	try "scan again, then see what grew" "$(q "$disktracker") scan $(q "$path"); $(q "$disktracker") diff prev"
	try "what there is to cat" "$(q "$disktracker") help files"
}

try()
{
	printf '  # %s\n  %s\n' "$1" "$2"
}

what_next()
{
	headline "What to type next"
	try "what is where" "cat $(q "$mnt")/.usage/README"
	try "one number, that of du -s -B1" "cat $(q "$at")/.usage/bytes"
	try "the largest directories, the largest files below" "head $(q "$at")/.usage/top $(q "$at")/.usage/largest"
	try "plain du, answered from the index" "du -h --max-depth=2 $(q "$at")"
	try "look again; the mount follows by itself" "$(q "$disktracker") scan $(q "$path")"
	try "when you are done" "$(q "$disktracker") umount $(q "$mnt")"
}

main()
{
	[ $# -le 1 ] || die 2 "usage: tools/quickstart.sh [PATH]"
	case ${1-} in
	-*) die 2 "usage: tools/quickstart.sh [PATH]" ;;
	esac
	path=$(realpath -e -- "${1:-/usr}" 2>/dev/null) || die 2 "no such directory: ${1:-/usr}"
	[ -d "$path" ] || die 2 "not a directory: $path"
	log=$(mktemp)
	trap 'rm -f -- "$log"' EXIT
	disktracker=$top/build/tools/disktracker

	# Only the manual needs scdoc, which is asked for in the same breath.
	packages_need "${PACKAGES_BUILD[@]}" cmd:scdoc=scdoc || packages_need "${PACKAGES_BUILD[@]}" || exit 3
	headline "Building in $top/build"
	build
	headline "Scanning $(q "$path")"
	scan
	if ! have_fuse; then
		headline "Not mounted"
		echo "/dev/fuse is missing or not ours to open, so the mount is left out. The same answers come from the index."
		show_stored
		exit 0
	fi
	choose_mount_point
	headline "Mounting on $mnt"
	mount_view
	at=$mnt${path%/}
	wait_for "$at/.usage/summary"
	show
	what_next
}

main "$@"
