#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# time.sh PROGRAM - the past, what changed since, and how snapshots come and go; against time_model.py.
# LONG=1 in the environment: 200 trees with 10 snapshots each, and more of everything else.
[ -w /dev/shm ] && export TMPDIR=/dev/shm # thousands of small files, and blocks are given at once
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python

model()
{
	local what=$1 seconds=120
	shift
	is_sanitized && seconds=600
	timeout $((${LONG:+3600} + seconds)) $python "$here/time_model.py" "$what" "$DT" "$work/$what" "$@" >"$work/$what.out" 2>&1
	echo "status $?" >>"$work/$what.out"
}

# agree RUN TOPIC: the model was asked about it, the whole run went through, and nothing was wrong
agree()
{
	grep "^compared $2 [1-9]" "$work/$1.out" && grep -qE '^status [01]$' "$work/$1.out" &&
		! grep -A2 "^wrong $2:" "$work/$1.out" && return
	tail -n 5 "$work/$1.out"
	return 1
}

field()
{
	sed -n "s/^$2 //p" "$1"
}

json_field()
{
	$python -c 'import json, sys; print(json.loads(sys.stdin.readlines()[-1])[sys.argv[1]])' "$1" <"$work/scan.out"
}

# -- three kinds of scan

mode_is()
{
	local mode=$1
	shift
	scan_ok --json "$@" "$src" && equal "$(json_field mode)" "$mode" && mount_start || return
	equal "$(field "$mnt/.telemetry/scan" mode)" "$mode" &&
		equal "$(field "$mnt$src/.usage/stat" approximate)" "$([ $mode = quick ] && echo 1 || echo 0)" &&
		equal "$(grep -c Approximate "$mnt$src/.usage/summary")" "$([ $mode = quick ] && echo 1 || echo 0)" &&
		equal "$("$DT" list --index "$index" --json | tail -1 | grep -o 'approximate":.')" "approximate\":$([ $mode = quick ] && echo 1 || echo 0)" &&
		equal "$("$DT" list --index "$index" | tail -1 | cut -f 5)" "$([ $mode = quick ] && echo approximate || echo complete)" &&
		mount_stop
}

appended_byte()
{
	local before
	touch -d @1000000000 "$src/still"
	scan_ok --json "$src"
	before=$(json_field apparent)
	printf x >>"$src/still/full"
	scan_ok --json --quick "$src" && equal "$(json_field apparent)" "$before" || return
	scan_ok "$src" --quick && grep -q 'approximately' "$work/scan.out" || return
	scan_ok --json "$src" && equal "$(json_field apparent)" $((before + 1)) &&
		equal "$(json_field bytes)" "$(du -s -B1 "$src" | cut -f 1)" && equal "$(json_field nodes_written)" 2
}

unchanged()
{
	local calls rows
	scan_ok --json --cold "$src"
	calls=$(json_field syscalls)
	rows=$("$DT" list --index "$index" | wc -l)
	scan_ok --json "$src" && equal "$(json_field nodes_written) $(json_field listings_written)" '0 0' &&
		equal "$("$DT" list --index "$index" | wc -l)" $((rows + 1)) && [ "$(json_field syscalls)" -le "$calls" ]
}

# -- one root, however it is written

one_history()
{
	local -x index=$work/state/names.db
	mkdir "$work/real" && ln -s real "$work/link" && echo >"$work/real/f" || return
	scan_ok "$work/real" && scan_ok "$work/real/" && scan_ok "$work/link" && scan_ok "$work/link/" &&
		scan_ok "$work/real/../real/." && (cd "$work" && scan_ok real) && (cd "$work/real" && scan_ok .) || return
	equal "$("$DT" list --index "$index" | cut -f 6 | sort | uniq -c | tr -s ' ')" " 7 $work/real" || return
	mount_at "$work/other" && equal "$(ls -A "$work/other$work/real/.usage/at" | wc -l)" 7 && mount_stop "$work/other"
}

# -- prune under readers

pruned_under_readers()
{
	local i reader readers=() before
	for i in 1 2 3 4 5 6 7 8; do
		head -c $((i * 10000)) /dev/zero >"$src/d$i"
		scan_ok "$src" || return
	done
	mount_start || return
	for i in 1 2 3; do
		while [ ! -e "$work/enough" ]; do
			cat "$mnt$src"/.usage/{history,growth/1d,largest,stat} "$mnt$src/.usage/at"/*/.usage/{bytes,children} 
			ls -lR "$mnt$src/.usage/at/1" "$mnt/.growth/365d" || : # at/1 may be gone by now
		done >/dev/null 2>&1 &
		started $!
		readers+=($!)
	done
	exec 7<"$mnt$src/.usage/largest"
	before=$(cat "$mnt$src/.usage/largest")
	sleep 0.3
	"$DT" prune --index "$index" --keep-last 2 >"$work/pruned" || return
	wait_for follows_prune || return
	equal "$(cat <&7)" "$before" || return
	exec 7<&-
	touch "$work/enough"
	for reader in "${readers[@]}"; do
		wait "$reader" || return
	done
	equal "$(number "$mnt$src" bytes)" "$(du -s -B1 "$src" | cut -f 1)" &&
		equal "$(wc -l <"$mnt$src/.usage/history")" 2 &&
		"$DT" check --index "$index" || return
	head -c 5000 /dev/zero >"$src/after"
	scan_ok --json "$src" && equal "$(json_field nodes_written)" 1 &&
		wait_for bytes_are_right && mount_stop
}

follows_prune()
{
	equal "$(ls "$mnt$src/.usage/at" | wc -l)" 2
}

bytes_are_right()
{
	equal "$(number "$mnt$src" bytes)" "$(du -s -B1 "$src" | cut -f 1)"
}

# -- damage

# The last but one is damaged; the last shares nothing with it.
damage_is_named()
{
	local id damaged whole=0
	scan_ok "$src" && find "$src" -exec touch -d @1234567890 {} + && scan_ok "$src" || return
	cp "$index" "$work/damaged.db"
	damaged=$($python - "$work/damaged.db" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
snapshot, node = db.execute("SELECT id, node FROM snapshot ORDER BY id DESC LIMIT 1 OFFSET 1").fetchone()
# The pack that its root is in; the newest snapshot shares nothing with it.
pack, data = db.execute("SELECT id, head FROM pack WHERE id = ?", (node >> 12,)).fetchone()
data = bytearray(data)
data[len(data) // 2] ^= 1
db.execute("UPDATE pack SET head=? WHERE id=?", (bytes(data), pack))
db.commit()
print(snapshot)
PY
	)
	local -x index=$work/damaged.db
	refused 3 'damaged' "$DT" check --index "$index" && grep -qx "damaged snapshot $damaged" "$work/out" || return
	grep -qx "damaged snapshot $((damaged + 1))" "$work/out" && return 1
	cp "$work/out" "$work/named"
	mount_at "$work/other" || return
	for id in $("$DT" list --index "$index" | cut -f 1); do
		if grep -qx "damaged snapshot $id" "$work/named"; then
			fails_with 'Structure needs cleaning|Input/output|No such' ls -lR "$work/other$src/.usage/at/$id" || return
		else
			ls -lR "$work/other$src/.usage/at/$id" >/dev/null || return
			whole=$((whole + 1))
		fi
	done
	[ $whole -gt 0 ] && mount_stop "$work/other"
}

# -- the mount scans by itself

snapshots()
{
	"$DT" list --index "$index" | wc -l
}

snapshots_at_least()
{
	[ "$(snapshots)" -ge "$1" ]
}

children_of()
{
	cat "/proc/$1/task"/*/children 2>/dev/null | tr -d '\n'
}

by_itself()
{
	local n start end
	n=$(snapshots)
	start=$(now_ms)
	mount_start -o every=1s || return
	printf 1234 >>"$src/d1"
	end=$(($(now_ms) + 3500))
	while [ "$(now_ms)" -lt $end ]; do
		[ "$(children_of "$daemon" | wc -w)" -le 1 ] || {
			echo "two scans at once: $(children_of "$daemon")"
			return 1
		}
	done
	wait_for snapshots_at_least $((n + 2)) && wait_for bytes_are_right || return
	[ "$(snapshots)" -le $((n + 1 + ($(now_ms) - start) / 1000)) ] || return
	equal "$(field "$mnt/.telemetry/progress" every)" 1 && equal "$(field "$mnt/.telemetry/progress" last_status)" 0 && mount_stop
}

on_request()
{
	local n
	n=$(snapshots)
	mount_start || return
	equal "$(field "$mnt/.telemetry/progress" running)" 0 || return
	head -c 70000 /dev/zero >"$src/d2"
	sleep 0.5 && equal "$(snapshots)" "$n" || return
	echo >"$mnt/.telemetry/rescan" && wait_for bytes_are_right && equal "$(snapshots)" $((n + 1))
}

only_by_the_owner()
{
	equal "$(stat -c '%a %u' "$mnt/.telemetry/rescan")" "200 $(id -u)" || return
	[ "$(id -u)" = 0 ] || return 0
	! "${nobody[@]}" sh -c "echo >'$mnt/.telemetry/rescan'" 2>/dev/null
}

progress_is_running()
{
	equal "$(field "$mnt/.telemetry/progress" running) $(field "$mnt/.telemetry/progress" root)" "1 $src"
}

has_gone()
{
	! [ -e "/proc/$1/exe" ] # a zombie has none
}

# catch_scan: $child is the mount's scan, stopped in the midst of its work. Nothing is forked to find it: it is short.
catch_scan()
{
	local list end=$(($(now_ms) + 300))

	echo >"$mnt/.telemetry/rescan"
	while [ "${EPOCHREALTIME/[.,]/}" -lt "${end}000" ]; do
		for list in "/proc/$daemon/task"/*/children; do
			read -r child <"$list" # says no, as no line ends there
			[ -n "$child" ] && kill -STOP $child && break 2
		done
	done
	# One that has just ended, or not begun, is none.
	grep -qF progress-fd "/proc/$child/cmdline" && wait_for grep -q '^State:.T' "/proc/$child/status" && return
	[ -z "$child" ] || kill -CONT $child
	return 1
} 2>/dev/null

# The scan is held, as one that meets a dead server is.
held_scan()
{
	local child='' tries=0

	until catch_scan; do
		[ $((++tries)) -lt 50 ] && is_mounted "$mnt" || return
	done
	echo "caught after $tries others"
	wait_for progress_is_running && number "$mnt$src" bytes || return
	echo >"$mnt/.telemetry/rescan" # asks for one more later, not for one beside
	sleep 0.5
	equal "$(children_of "$daemon" | wc -w)" 1 || return
	kill -TERM "$daemon"
	wait_for has_gone "$daemon" || return
	! kill -0 "$child" 2>/dev/null || {
		echo 'the scan is still there'
		return 1
	}
	! is_mounted "$mnt" && "$DT" check --index "$index"
}

mkdir -p "$src/still" "$src/other/below" "$work/other"
head -c 4096 /dev/zero >"$src/still/full"
head -c 100 /dev/zero >"$src/still/part"
head -c 9000 /dev/zero >"$src/other/below/f"
counts=(20 6 2 18 30)
is_sanitized && counts=(6 4 1 8 10)
[ -n "${LONG:-}" ] && counts=(200 10 30 200 200)

check 'the first scan is cold, and says so' mode_is cold
check 'the next one is warm' mode_is warm
check 'a cold one is asked for' mode_is cold --cold
check 'a quick one is approximate, wherever it is shown' mode_is quick --quick
check 'the scan after it is not' mode_is warm
check 'one byte more is seen by a scan, and missed by a quick one' appended_byte
check 'an unchanged tree writes one row, with no more calls than a cold scan' unchanged
check 'a root has one history, however it is written' one_history

model trees "${counts[0]}" "${counts[1]}" 100
check 'diff says what a model of brute force says' agree trees diff
check 'so does history' agree trees history
check 'so do growth and its windows' agree trees growth
check 'so do all directories under at/, by id, time, date and prev' agree trees at
check 'so does the tree of growth' agree trees .growth
check 'ls -S ranks by growth' agree trees 'ls -S'
check 'all of that without a failure' grep -qx 'status 0' "$work/trees.out"
model roots "${counts[2]}" 900
check 'above several roots history, growth and sums are right, now and then' agree roots 'above roots'
check 'and so is the past of each root, entered from above' agree roots 'at above roots'
check 'all of that without a failure, with a root inside another one too' grep -qx 'status 0' "$work/roots.out"
model prune "${counts[3]}" 5
check 'prune keeps what the rules say, and what it keeps is as before' agree prune prune
check 'all of that without a failure' grep -qx 'status 0' "$work/prune.out"
model kill "${counts[4]}" 9
check 'a killed scan loses nothing that was acknowledged' agree kill 'kill scan'
check 'a killed prune removed all or nothing' agree kill 'kill prune'
check 'all of that without a failure' grep -qx 'status 0' "$work/kill.out"

check 'prune under a mount with readers: no hang, no stale number' pruned_under_readers
check 'damage is named, and the other snapshots can still be looked at' damage_is_named
check '-o every=1s scans by itself, one scan at a time' by_itself
check 'writing to rescan scans now' on_request
check 'but not for everybody' only_by_the_owner
check 'a scan that hangs shows as running, and a mount that ends takes it along' held_scan
finish
