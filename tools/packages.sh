# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Installs what is missing, and only that. Sourced by tools/quickstart.sh and tests/run.sh.
#
# A row is PROBE=PACKAGE. Probes: cmd:NAME is a program on $PATH, lib:NAME is known to pkg-config,
# file:PATH exists. So a machine that has a thing from elsewhere needs no package for it.

# shellcheck disable=SC2034 # read by whoever sources this
PACKAGES_BUILD=(
	cmd:gcc=gcc
	file:/usr/include/stdio.h=libc6-dev
	cmd:meson=meson
	cmd:ninja=ninja-build
	cmd:pkg-config=pkg-config
	cmd:fusermount3=fuse3
	lib:fuse3=libfuse3-dev
	lib:sqlite3=libsqlite3-dev
	lib:libxxhash=libxxhash-dev
	lib:libzstd=libzstd-dev
)

# shellcheck disable=SC2034
PACKAGES_TEST=(
	lib:cmocka=libcmocka-dev
	cmd:scdoc=scdoc
	cmd:clang=clang
	cmd:python3=python3
	cmd:strace=strace
	cmd:getfattr=attr
	cmd:rsync=rsync
	cmd:ncdu=ncdu
	cmd:busybox=busybox
	cmd:jq=jq
	cmd:chromium=chromium
	cmd:curl=curl
	cmd:mkfs.ext4=e2fsprogs
	cmd:mkfs.xfs=xfsprogs
	cmd:mkfs.btrfs=btrfs-progs
	cmd:findmnt=util-linux
)

# package_present PROBE
package_present()
{
	case $1 in
	cmd:*) command -v "${1#cmd:}" ;;
	lib:*) command -v pkg-config && pkg-config --exists "${1#lib:}" ;;
	file:*) [ -e "${1#file:}" ] ;;
	esac >/dev/null 2>&1
}

# packages_missing ROW...: one package per line
packages_missing()
{
	local row

	for row in "$@"; do
		package_present "${row%%=*}" || printf '%s\n' "${row#*=}"
	done
}

# packages_need ROW...: 0 when all is there, by now; else 1 and a sentence
packages_need()
{
	local missing
	local -a root=()

	missing=$(packages_missing "$@" | tr '\n' ' ')
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "Please install these first, under the names your system gives them: $missing" >&2
		return 1
	fi
	if [ "$(id -u)" != 0 ]; then
		if ! command -v sudo >/dev/null; then
			echo "Please run as root first: apt-get install $missing" >&2
			return 1
		fi
		root=(sudo)
	fi
	echo "Installing with apt-get, which may take a minute or two: $missing"
	root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
	# Without a network the lists at hand may still do.
	"${root[@]}" update || true
	# shellcheck disable=SC2086 # words
	"${root[@]}" install -y --no-install-recommends $missing </dev/null >/dev/null || {
		echo "Please run as root first: apt-get install $missing" >&2
		return 1
	}
	hash -r
	missing=$(packages_missing "$@" | tr '\n' ' ')
	[ -z "$missing" ] || {
		echo "Installed, but still not found: $missing" >&2
		return 1
	}
}
