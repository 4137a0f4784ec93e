#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_layers.sh - fails when an include points upward, reaches behind a public header or skips a module.
#
#     tools/  bench/     Each folder knows those below it, by <module>/<module>.h only; all of base/ is for
#        fs/             everybody. bench/ does without fs/. Tests may know everything.
#        fs/             and the form of a listing, scanner/entry_codec.h.
#        fs/view/        Includes are written from the root: "snapshot/snapshot.h".
#     snapshot/           A library stays in the module that it belongs to.
#     scanner/
#     base/
set -eu

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

declare -A below=(
	[base]=''
	[scanner]='base'
	[snapshot]='base scanner'
	[fs/view]='base scanner snapshot'
	[fs]='base scanner snapshot fs/view'
	[tools]='base scanner snapshot fs fs/view'
	[bench]='base scanner snapshot'
)
declare -A home=(
	[sqlite3.h]=snapshot
	[xxhash.h]=snapshot
	[zstd.h]=snapshot
	# bench/ has minimal FUSE programs to compare with
	[fuse_lowlevel.h]='fs bench'
	[fuse.h]='fs bench'
)
bad=0

complain()
{
	echo "$1: $2"
	bad=1
}

# check_quoted FILE FOLDER INCLUDED
check_quoted()
{
	local to=${3%/*}

	case $3 in
	config.h | version.h) return ;; # made by the build
	*..*) complain "$1" "write \"$3\" from the root" && return ;;
	*/*) ;;
	*) complain "$1" "write \"$3\" from the root: \"$2/$3\"" && return ;;
	esac
	[ "$to" != "$2" ] || return 0
	case " ${below[$2]} " in
	*" $to "*) ;;
	*) complain "$1" "$2/ must not know $to/ (\"$3\")" && return ;;
	esac
	case $3 in
	"$to/${to##*/}.h" | base/* | scanner/entry_codec.h) ;;
	*) complain "$1" "\"$3\" is private to $to/: include \"$to/${to##*/}.h\"" ;;
	esac
}

# check_angled FILE FOLDER INCLUDED
check_angled()
{
	local owners=${home[${3##*/}]-}

	case " $owners " in
	'  ' | *" $2 "*) ;;
	*) complain "$1" "<$3> is for $owners only" ;;
	esac
}

files=0
for folder in "${!below[@]}"; do
	[ -d "$folder" ] || continue
	for sub in "$folder"/*/; do
		[ ! -d "$sub" ] || [ -n "${below[${sub%/}]+room}" ] || complain "$sub" 'not a room'
	done
	while IFS= read -r file; do
		files=$((files + 1))
		while read -r mark name; do
			case $mark in
			q) check_quoted "$file" "$folder" "$name" ;;
			a) check_angled "$file" "$folder" "$name" ;;
			esac
		done < <(sed -nE 's/^[ \t]*#[ \t]*include[ \t]*"([^"]+)".*/q \1/p; s/^[ \t]*#[ \t]*include[ \t]*<([^>]+)>.*/a \1/p' "$file")
	done < <(find "$folder" -maxdepth 1 -name '*.[ch]')
done
[ $files -gt 0 ] || complain . 'no source file found'
exit $bad
