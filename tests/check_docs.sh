#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_docs.sh DISKTRACKER - fails when a command or a virtual file that the program knows has no entry in the
# manual. An entry is the name in bold: *scan* in disktracker(1), *bytes* in disktracker-files(5).
set -eu

[ $# -eq 1 ] || {
	echo "usage: tests/check_docs.sh DISKTRACKER" >&2
	exit 2
}
disktracker=$(realpath -- "$1")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
bad=0

# check_names PAGE WHAT: reads names, one a line
check_names()
{
	local name escaped count=0

	while IFS= read -r name; do
		[ -n "$name" ] || continue
		count=$((count + 1))
		escaped=${name//_/\\_}
		grep -qF -e "*$name*" -e "*$escaped*" "$1" || {
			echo "$1 lacks the $2 '$name'"
			bad=1
		}
	done
	[ $count -gt 0 ] || {
		echo "the program names no $2"
		bad=1
	}
}

# "  scan  [--index FILE] ..." in the list of commands, NAME<TAB>description in the list of files
check_names docs/disktracker.1.scd command < <("$disktracker" help | sed -nE 's/^  ([a-z][a-z-]*)( .*)?$/\1/p')
check_names docs/disktracker-files.5.scd file < <("$disktracker" help files | cut -f 1)
exit $bad
