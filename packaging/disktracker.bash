# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of disktracker(1) for bash

_disktracker()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
	local commands='scan mount umount list version help' options=''

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
		return
	fi
	case $prev in
	--index)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--root)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--threads | --exclude)
		return
		;;
	-o)
		[ "$command" != mount ] || mapfile -t COMPREPLY < <(compgen -W show_usage -- "$cur")
		return
		;;
	esac
	case $command in
	scan) options='--index --threads --exclude --cross-mounts --json --no-store' ;;
	mount) options='--index --root -f -o' ;;
	list) options='--index --json' ;;
	esac
	case $command,$cur in
	help,*)
		mapfile -t COMPREPLY < <(compgen -W "$commands files" -- "$cur")
		;;
	*,-*)
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		;;
	umount,*)
		# Not compgen -d, which would touch mounts that may be dead.
		mapfile -t COMPREPLY < <(compgen -W "$(sed -nE 's/^[^ ]+ ([^ ]+) fuse\.disktracker .*/\1/p' /proc/self/mounts)" -- "$cur")
		;;
	scan,* | mount,*)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		;;
	esac
}

complete -F _disktracker disktracker
