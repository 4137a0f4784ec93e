# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of disktracker(1) for bash

# One of a comma-separated list of mount options; what is there already stays in front.
_disktracker_mount_options()
{
	local cur=$1 before=''
	local words='show_usage xattr every= ro cache= default_permissions auto_unmount noexec max_read= context= debug'

	case $cur in
	*,*)
		before=${cur%,*},
		cur=${cur##*,}
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$cur")
	case ${COMPREPLY[0]-} in
	*=) compopt -o nospace ;;
	esac
}

_disktracker()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
	local commands='scan mount umount list diff prune check version help' options=''

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
	--order)
		mapfile -t COMPREPLY < <(compgen -W 'auto inode directory' -- "$cur")
		return
		;;
	--threads | --exclude | --progress-fd | --top | --keep-last | --keep-daily | --keep-weekly | --keep-monthly | --older-than)
		return
		;;
	-o)
		[ "$command" != mount ] || _disktracker_mount_options "$cur"
		return
		;;
	esac
	case $command in
	scan) options='--index --threads --order --cold --quick --exclude --exclude-caches --cross-mounts --idle --progress-fd --json --no-store' ;;
	mount) options='--index --root -f -o' ;;
	list) options='--index --json' ;;
	diff) options='--index --json --top' ;;
	prune) options='--index --keep-last --keep-daily --keep-weekly --keep-monthly --older-than --dry-run' ;;
	check) options='--index' ;;
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
	diff,[!./]* | diff,)
		# Ids are only in the index, which may be large or somebody else's.
		mapfile -t COMPREPLY < <(compgen -W 'prev latest' -- "$cur")
		;;
	scan,* | mount,* | diff,*)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		;;
	esac
}

complete -F _disktracker disktracker
