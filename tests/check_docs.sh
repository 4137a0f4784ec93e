#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_docs.sh DISKTRACKER - fails when a command, an option or a virtual file that the program knows has no entry in
# the manual. An entry is the name in bold: *scan* in disktracker(1), *bytes* in disktracker-files(5).
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

# entry NAME: what disktracker(1) says of a command or of a mount option
entry()
{
	awk -v name="$1" '/^[*#]/ { on = index($0, "*" name "*") == 1 } on' docs/disktracker.1.scd
}

# Each option, in the synopsis and in the entry of its command; of mount -o, an entry of its own
check_options()
{
	local row command option count=0

	while IFS= read -r row; do
		command=${row%%$'\t'*} option=${row#*$'\t'} option=${option%$'\t'*}
		count=$((count + 1))
		case $option in
		'') continue ;;
		'-o '*)
			grep '^\*' docs/disktracker.1.scd | grep -qF -e "*${option#-o }*" && continue
			;;
		*)
			entry "$command" | grep -qF -e "*$option*" &&
				grep -E "^\*disktracker $command\*" docs/disktracker.1.scd | grep -qF -e "*$option*" && continue
			;;
		esac
		echo "docs/disktracker.1.scd lacks the option '$option' of '$command'"
		bad=1
	done
	[ $count -gt 20 ] || {
		echo "the program names only $count options"
		bad=1
	}
}

check_names docs/disktracker.1.scd command < <("$disktracker" help words | cut -f 1 | sort -u)
check_names docs/disktracker-files.5.scd file < <("$disktracker" help files | cut -f 1)
check_options < <("$disktracker" help words)
exit $bad
