# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of disktracker(1) for bash. What there is comes from 'disktracker help words': COMMAND, OPTION, VALUE.

_disktracker()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
	local row name option value takes='' before='' commands='' options='' words=''

	COMPREPLY=()
	while IFS= read -r row; do # read with IFS=<tab> would take two tabs for one
		name=${row%%$'\t'*} value=${row##*$'\t'}
		option=${row#*$'\t'} option=${option%$'\t'*}
		[ -n "$option" ] || commands+=" $name"
		[ "$name" = "$command" ] || continue
		case $option in
		'') takes=${takes:-$value} ;;
		'-o '*) words+=" ${option#-o }" ;;
		*) options+=" $option" ;;
		esac
		[ "$option" != "$prev" ] || [ -z "$value" ] || takes=$value before=$prev
	done < <("${COMP_WORDS[0]}" help words 2>/dev/null)
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
		return
	fi
	if [[ -z $before && $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$cur")
		return
	fi
	case $command/$takes in
	umount/*)
		# Not compgen -d, which would touch mounts that may be dead.
		words=$(sed -nE 's/^[^ ]+ ([^ ]+) fuse\.disktracker .*/\1/p' /proc/self/mounts)
		;;
	*/OPTIONS)
		# One of a comma-separated list; what is there already stays in front.
		before=''
		[[ $cur != *,* ]] || before=${cur%,*},
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "${cur##*,}")
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
		return
		;;
	*/*\|*) words=${takes//|/ } ;;
	*/FILE)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	diff/A*)
		# Ids are only in the index, which may be large or somebody else's.
		words='prev latest'
		[[ $cur != [./]* ]] || takes=PATH
		;;&
	cat/PATH*)
		# Virtual files are on no disk.
		if [[ $cur == */.usage/* || $cur == .usage/* ]]; then
			mapfile -t COMPREPLY < <(compgen -P "${cur%.usage/*}.usage/" -W "$("${COMP_WORDS[0]}" help files | cut -f 1 | grep -v ^.telemetry)" -- "${cur##*.usage/}")
			return
		fi
		;;&
	*/*PATH* | */MOUNTPOINT)
		if [[ $takes != A* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -d -- "$cur")
			return
		fi
		;;
	help/*) words="$commands files words" ;;
	*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _disktracker disktracker
