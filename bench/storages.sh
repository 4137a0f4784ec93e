#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# storages.sh [--entries N] [--rounds N] [--only NAMES] BUILD_FOLDER - does a scan choose the best number of readers?
# On each kind of file system it scans the data set of gendata without storing it, with the number of readers that
# the scan chooses (auto) and with 1, 2, 4, 8 and 16, in interleaved rounds, with caches warm and cold.
#
#     sudo bench/storages.sh build                               # tmpfs,ext4,xfs,btrfs,overlay,disk: 50,001 entries
#     sudo bench/storages.sh --rounds 5 --only xfs,disk build
#
# ext4, xfs and btrfs are on loop devices; the overlay has the data in its lower layer, on another such ext4; disk is
# what $TMPDIR (default: /tmp) is on, compared with du and gdu too when cold. All is made in a private folder there and
# gone afterwards. What this machine lacks is named and left out.
#
# Cold empties the caches of the whole machine before each run, so it slows down everybody else. Exits 1 if a total
# or a fingerprint differs, and 2 for wrong usage; goals that were missed are only called so.
set -eu
export LC_ALL=C # $EPOCHREALTIME has a point

kinds=(tmpfs ext4 xfs btrfs overlay disk)
fixed=(1 2 4 8 16)
limit=1.05
entries=
rounds=9
bad=0
work='' ram='' image=''

die()
{
	echo "storages.sh: $2" >&2
	exit "$1"
}

progress()
{
	echo "storages.sh: $*" >&2
}

usage()
{
	echo "usage: bench/storages.sh [--entries N] [--rounds N] [--only NAMES] BUILD_FOLDER" >&2
	exit 2
}

parse()
{
	local name

	while [ $# -gt 1 ]; do
		case $1 in
		--entries) entries=$2 ;;
		--rounds) rounds=$2 ;;
		--only) IFS=, read -ra kinds <<<"$2" ;;
		*) usage ;;
		esac
		shift 2
	done
	[[ $# -eq 1 && $1 != -* && $rounds =~ ^[1-9][0-9]*$ && ${entries:-1} =~ ^[1-9][0-9]*$ ]] || usage
	for name in "${kinds[@]}"; do
		[[ $name =~ ^(tmpfs|ext4|xfs|btrfs|overlay|disk)$ ]] || die 2 "no kind of storage is called '$name'"
	done
	disktracker=$(realpath -m -- "$1/tools/disktracker")
	gendata=$(realpath -m -- "$1/bench/gendata")
	[[ -x $disktracker && -x $gendata ]] || die 2 "'$1' has no tools/disktracker and bench/gendata"
	[ "$(id -u)" = 0 ] || die 1 "only root may mount file systems and empty caches"
}

# -- the file system of one kind --------------------------------------------------------------------------------------
#
# $work/fs is where it is mounted (or just a folder: disk), $work/merged the overlay on it, $image what its loop device
# is backed by, and $data the tree to scan. $ram holds whatever must not touch the storage that is measured.

is_mounted()
{
	mountpoint -q "$1"
}

# is_loop: it can be mounted anew
is_loop()
{
	[ "$kind" != tmpfs ] && [ "$kind" != disk ]
}

mount_lower()
{
	case $kind in
	tmpfs) mount -t tmpfs tmpfs "$work/fs" ;;
	disk) ;;
	*) mount -t "$type" "$loop" "$work/fs" ;;
	esac
}

mount_upper()
{
	local layers=lowerdir=$work/fs/lower,upperdir=$work/fs/upper,workdir=$work/fs/work

	[ "$kind" != overlay ] || mount -t overlay -o "$layers" overlay "$work/merged"
}

# unmount [OPTION]: -l for a last resort
unmount()
{
	local point

	for point in "$work/merged" "$work/fs"; do
		! is_mounted "$point" || umount "$@" "$point" || return
	done
}

# Devices are asked for by our image, so one that was attached just before a signal is found as well.
detach()
{
	local name

	for name in $(losetup -n -O NAME -j "$image"); do
		losetup -d "$name" || return
	done
}

attach()
{
	truncate -s "$image_bytes" "$image"
	loop=$(losetup --show -f --direct-io=on "$image" 2>/dev/null) || {
		detach
		loop=$(losetup --show -f "$image" 2>"$ram/err")
	}
}

# Nothing may be left to be written in the background, as ext4 does by default after its first mount.
make_type()
{
	case $type in
	ext4) mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$loop" ;;
	xfs) mkfs.xfs -q -f "$loop" ;;
	btrfs) mkfs.btrfs -q -f "$loop" ;;
	esac >"$ram/said" 2>"$ram/err"
}

# how_attached: in words
how_attached()
{
	if [ "$(losetup -n -O DIO "$loop" | tr -d ' ')" = 1 ]; then
		echo "a loop device with direct I/O"
	else
		echo "a loop device through the page cache of its image"
	fi
}

# make_storage: mounted and empty; else $reason says why not
make_storage()
{
	made=$work/fs/data data=$made
	type=$kind
	if [ "$kind" = overlay ]; then
		type=ext4 made=$work/fs/lower/data data=$work/merged/data
	fi
	if is_loop; then
		reason="mkfs.$type is not installed"
		command -v "mkfs.$type" >/dev/null || return
		reason="no loop device"
		attach || return
		reason="mkfs.$type failed"
		make_type || return
		on="$type, $(how_attached)"
	fi
	reason="it cannot be mounted"
	mount_lower 2>"$ram/err" || return
	[ "$kind" != overlay ] || mkdir "$work/fs/lower" "$work/fs/upper" "$work/fs/work" || return
	mount_upper 2>"$ram/err" || return
	is_loop || on=$(findmnt -n -o FSTYPE -T "$work/fs")
}

# The data is made below an overlay that isn't there yet, and seen by a mount that didn't make it.
make_data()
{
	is_mounted "$work/merged" && umount "$work/merged"
	"$gendata" ${entries:+--entries "$entries"} "$made" >"$ram/said"
	sync -f "$made"
	! is_loop || remount
}

remount()
{
	unmount
	mount_lower
	mount_upper
}

remove_storage()
{
	unmount 2>/dev/null || unmount -l
	detach
	rm -rf --one-file-system -- "$image" "$work/fs/data"
}

# -- one run ----------------------------------------------------------------------------------------------------------

# get KEY NAME: puts a value of the scan that ran last into a variable
get()
{
	local said

	read -r said <"$ram/said"
	[[ $said =~ \"$1\":(\"([^\"]*)\"|([0-9]+)) ]] || die 1 "a scan did not report '$1'"
	printf -v "$2" %s "${BASH_REMATCH[2]}${BASH_REMATCH[3]}"
}

# timed COMMAND...: sets us, the time from before its fork to after its exit; what it says is in $ram/said
timed()
{
	local start end

	start=$EPOCHREALTIME
	"$@" >"$ram/said" 2>"$ram/err" || {
		cat "$ram/err" >&2
		die 1 "this failed: $*"
	}
	end=$EPOCHREALTIME
	us=$((${end/./} - ${start/./}))
}

# scan READERS [OPTION...]
scan()
{
	local -a readers=(--threads "$1")

	[ "$1" != auto ] || readers=()
	shift
	timed "$disktracker" scan --json "${readers[@]}" "$@" "$data"
}

# run auto|READERS|du|gdu
run()
{
	case $1 in
	du) timed du -s -B1 "$data" ;;
	gdu) timed "$gdu" -n -p -c "$data" ;;
	*) scan "$1" --no-store ;;
	esac
}

# Dropping the caches drops the programs too; they are no part of what is measured.
make_cold()
{
	local data=$ram/empty

	! is_loop || remount
	sync
	echo 3 >/proc/sys/vm/drop_caches
	run auto
	[ "$kind" != disk ] || run du
	[ "$kind" != disk ] || [ -z "$gdu" ] || run gdu
}

# -- what is measured -------------------------------------------------------------------------------------------------

# Every number of readers finds what du finds, and the same tree. One index for all of them, since each index has a
# secret of its own that fingerprints depend on; --cold takes nothing from the scan before.
check_totals()
{
	local want bytes print found first='' readers wrong=0

	progress "$kind: totals"
	want=$(du -s -B1 "$data")
	want=${want%%[!0-9]*}
	for readers in auto "${fixed[@]}"; do
		scan "$readers" --cold --index "$ram/index/index.db"
		get bytes bytes
		get fingerprint print
		found="$bytes bytes, fingerprint $print"
		first=${first:-$found}
		[[ $found = "$first" && $bytes = "$want" ]] || {
			echo "- $kind: wrong with $readers: $found; auto: $first; du: $want bytes"
			wrong=1
		}
	done >>"$ram/totals"
	rm -rf -- "$ram/index"
	if [ $wrong = 1 ]; then
		bad=1
	else
		echo "- $kind: $want bytes as du says; the same fingerprint, $print" >>"$ram/totals"
	fi
}

# measure warm|cold: the samples are lines of round, what ran, its time in us, its readers in the end
measure()
{
	local state=$1 round what log cached readers
	local -a bars=(auto "${fixed[@]}")

	: >"$ram/samples"
	if [ "$state" = warm ]; then
		run auto
	elif [ "$kind" = disk ]; then
		bars+=(du ${gdu:+gdu})
	fi
	for ((round = 1; round <= rounds; round++)); do
		progress "$kind: $state, round $round of $rounds"
		for what in $(shuf -e "${bars[@]}"); do
			[ "$state" = warm ] || make_cold
			run "$what"
			readers=-
			if [ "$what" = auto ]; then
				get readers readers
				get readers_log log
				get cached_percent cached
			fi
			echo "$round $what $us $readers" >>"$ram/samples"
		done
	done
	echo "- $kind, $state, $cached% cached: $log" >>"$ram/choices"
	summary "$state"
}

# summary warm|cold: one row of the table; what else the samples say goes to $ram
summary()
{
	awk -v kind="$kind" -v state="$1" -v limit=$limit -v fixed="${fixed[*]}" -v times="$ram/times" \
		-v goals="$ram/goals" -v peers="$ram/peers" '
		function sort(a, n,   i, j, x) {
			for (i = 2; i <= n; i++) {
				x = a[i]
				for (j = i - 1; j >= 1 && a[j] > x; j--)
					a[j + 1] = a[j]
				a[j + 1] = x
			}
		}
		# Between two samples in proportion
		function quantile(a, n, q,   at, low) {
			at = 1 + (n - 1) * q
			low = int(at)
			return low < n ? a[low] + (at - low) * (a[low + 1] - a[low]) : a[n]
		}
		function median(what,   a, r) {
			for (r = 1; r <= rounds; r++)
				a[r] = us[what, r]
			sort(a, rounds)
			return quantile(a, rounds, 0.5)
		}
		# The ratios within rounds; sets mid
		function ratio(to,   a, r) {
			for (r = 1; r <= rounds; r++)
				a[r] = us["auto", r] / us[to, r]
			sort(a, rounds)
			mid = quantile(a, rounds, 0.5)
			return sprintf("%.3f (%.3f..%.3f)", mid, quantile(a, rounds, 0.25),
				quantile(a, rounds, 0.75))
		}
		function compare(peer) {
			if ((peer, 1) in us)
				printf "- %s, %s: auto / %s %s; %s takes %.1f ms\n", kind, state, peer, ratio(peer),
					peer, median(peer) / 1000 >>peers
		}
		{
			rounds = $1
			us[$2, $1] = $3
		}
		$2 == "auto" {
			least = least == "" || $4 + 0 < least ? $4 + 0 : least
			most = $4 + 0 > most ? $4 + 0 : most
		}
		END {
			n = split(fixed, number, " ")
			for (i = 1; i <= n; i++) {
				t[i] = median(number[i])
				if (!best || t[i] < t[best])
					best = i
				row = row sprintf(" %.1f |", t[i] / 1000)
			}
			printf "| %s | %s |%s\n", kind, state, row >>times
			text = ratio(number[best])
			printf "| %s | %s | %.1f | %.1f (%s) | %s | %s |\n", kind, state, median("auto") / 1000,
				t[best] / 1000, number[best], text, least == most ? most : least ".." most
			printf "- %s, %s: auto / best fixed %.3f, at most %.2f: %s\n", kind, state, mid, limit,
				mid <= limit ? "met" : "missed" >>goals
			compare("du")
			compare("gdu")
		}' "$ram/samples"
}

left_out()
{
	progress "$kind: left out, $reason"
	[ ! -s "$ram/err" ] || reason="$reason: $(grep -m 1 . "$ram/err")"
	echo "- $kind: left out, $reason" >>"$ram/kinds"
}

measure_kind()
{
	local storage evidence

	kind=$1
	: >"$ram/err"
	if ! make_storage; then
		left_out
		remove_storage
		return
	fi
	progress "$kind: data set"
	make_data
	check_totals
	measure warm
	[ "$(stat -f -c %T "$data")" = tmpfs ] || measure cold
	# What it is for a scan, of which the last one may have been du.
	run auto
	get storage storage
	get storage_evidence evidence
	echo "- $kind: $on; storage $storage: ${evidence//"$work/"/}" >>"$ram/kinds"
	remove_storage
}

# -- all of it --------------------------------------------------------------------------------------------------------

clean_up()
{
	local status=$?

	trap - EXIT
	trap '' INT TERM HUP # once more changes nothing
	set +e
	[ -n "$work" ] || exit "$status"
	remove_storage
	! is_mounted "$ram" || umount "$ram" 2>/dev/null || umount -l "$ram"
	rm -rf --one-file-system -- "$work"
	exit "$status"
}

# Images are sparse, but what is written to one must fit.
check_space()
{
	local n=${entries:-50001} free need

	image_bytes=$((n * 32768 + (512 << 20)))
	need=$((n * 8192 + (512 << 20)))
	free=$(df --output=avail -B1 "$work" | tail -n 1)
	[ "$free" -gt $need ] || die 1 "'${work%/*}' has $free bytes free, and $need are needed; set TMPDIR"
}

make_work()
{
	work=$(mktemp -d "${TMPDIR:-/tmp}/disktracker-storages.XXXXXXXX")
	work=$(realpath -- "$work")
	ram=$work/ram image=$work/image
	mkdir "$work/fs" "$work/merged" "$ram"
	check_space
	mount -t tmpfs tmpfs "$ram"
	mkdir "$ram/empty"
	export DISKTRACKER_INDEX=$ram/index.db
}

# Other programs are called gdu as well.
find_gdu()
{
	local name

	for name in gdu gdu-go; do
		gdu=$(command -v "$name") && grep -q -e --non-interactive <("$gdu" --help 2>&1) && return
	done
	gdu=
}

# list TITLE FILE: if there is anything to list
list()
{
	[ -s "$ram/$2" ] || return 0
	printf '\n%s\n\n' "$1"
	cat "$ram/$2"
}

report()
{
	local kind version processors kernel load

	version=$("$disktracker" version)
	processors=$(nproc)
	kernel=$(uname -r -m)
	read -r load _ </proc/loadavg
	TZ=UTC printf -- '- %s, %s processors, Linux %s, %(%FT%TZ)T\n' "$version" "$processors" "$kernel" -1
	printf -- '- %s entries, %s interleaved rounds; load before: %s\n\n' "${entries:-50001}" "$rounds" "$load"
	echo '| kind | caches | auto ms | best fixed ms (readers) | auto/best (quartiles) | readers at the end |'
	echo '|---|---|--:|--:|--:|--:|'
	for kind in "${kinds[@]}"; do
		measure_kind "$kind"
	done
	list 'Goals:' goals
	list 'Other programs, in the same rounds:' peers
	if [ -s "$ram/times" ]; then
		printf '\n| median ms with readers | |'
		printf ' %s |' "${fixed[@]}"
		printf '\n|---|---|'
		printf -- '--:|%.0s' "${fixed[@]}"
		echo
		cat "$ram/times"
	fi
	list 'What auto chose, in the last round:' choices
	list "Totals, with each number of readers:" totals
	list 'Kinds:' kinds
}

trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
parse "$@"
find_gdu
make_work
report
[ $bad = 0 ] # is the exit status
