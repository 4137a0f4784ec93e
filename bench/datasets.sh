#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# datasets.sh BENCH_TOOL [OPTION...] - runs bench_tool --dataset on real trees that this machine has: what package
# managers, version control and distributions leave on disks. Trees are only read. What is not there is left out.
#
#     bench/datasets.sh build/bench/bench_tool --runs 5 --format markdown
#
# $DATASETS_ROOTS (default: /home /root /srv /var/lib /opt /usr) is where node_modules and git stores are looked for.
set -eu

[ $# -ge 1 ] || {
	echo "usage: bench/datasets.sh BENCH_TOOL [OPTION...]" >&2
	exit 2
}
bench=$1
shift
status=0
read -ra roots <<<"${DATASETS_ROOTS:-/home /root /srv /var/lib /opt /usr}"

# largest: of the folders on standard input (ended by NUL), the one with the most entries
largest()
{
	local folder count best=0 path=

	while IFS= read -r -d '' folder; do
		count=$(find "$folder" -xdev -printf . 2>/dev/null | wc -c)
		if [ "$count" -gt "$best" ]; then
			best=$count path=$folder
		fi
	done
	printf '%s' "$path"
}

# folders NAME [DEPTH]: folders of that name, but none inside another one
folders()
{
	find "${roots[@]}" -xdev -maxdepth "${2:-8}" -type d -name "$1" -prune -print0 2>/dev/null || true
}

# measure DESCRIPTION FOLDER [OPTION...]
measure()
{
	local what=$1 folder=$2
	shift 2
	if [ -z "$folder" ] || [ ! -d "$folder" ]; then
		printf '\n==== %s: not on this machine\n' "$what"
		return
	fi
	printf '\n==== %s: %s\n\n' "$what" "$folder"
	"$bench" --dataset "$folder" "$@" || status=1
}

measure "node_modules: many small files, deep" "$(folders node_modules | largest)" "$@"
measure "a git object store: 256 folders of compressed objects" "$(folders objects | largest)" "$@"
measure "a Python environment: packages with their caches" "$(folders site-packages | largest)" "$@"
measure "a distribution: programs, libraries, documents, hard links" /usr "$@"
measure "documents: many folders with one to three files" /usr/share/doc "$@"
measure "headers: wide folders" /usr/include "$@"
measure "kernel sources" "$(folders 'linux-*' 4 | largest)" "$@"
measure "package states: few folders, thousands of files each" /var/lib/dpkg/info "$@"
measure "a home: all of the above" "${HOME-}" "$@"
exit $status
