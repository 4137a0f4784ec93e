#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# kill.sh PROGRAM - a scan that is killed at any moment leaves the index as it was.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python
rounds=20
is_sanitized && rounds=10
rounds=${TEST_KILLS:-$rounds}
mkfifo "$work/quiet" && exec {quiet}<>"$work/quiet"

# What list says, and what SQLite says of the file
index_is_whole()
{
	status_is 0 "$DT" list --index "$index" || return
	cut -f 1-5 "$work/out" >"$work/list"
	diff "$1" "$work/list" || return
	$python - "$index" <<'PY'
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
said = db.execute("PRAGMA integrity_check").fetchone()[0]
loose = db.execute("SELECT count(*) FROM snapshot WHERE root NOT IN (SELECT id FROM root)").fetchone()[0]
sys.exit(f"{said}, {loose} snapshots without a root" if said != "ok" or loose else 0)
PY
}

# kill_scan MILLISECONDS PATH: true if it was killed before it was done
kill_scan()
{
	local pid pause status=0
	"$DT" scan --index "$index" "$2" >/dev/null 2>&1 &
	pid=$!
	started $pid
	# Starting sleep(1) takes longer than a small scan.
	printf -v pause '0.%03d1' "$1"
	read -r -t "$pause" -u "$quiet"
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null || status=$?
	[ $status -eq 137 ]
}

# rounds_on TREE: kills between its start and a little after its usual end
rounds_on()
{
	local tree=$1 i killed=0 longest start
	start=$(now_ms)
	scan_ok "$tree" || return
	longest=$(($(now_ms) - start + 5))
	for ((i = 0; i < rounds; i++)); do
		"$DT" list --index "$index" | cut -f 1-5 >"$work/before"
		# every round something else is new, so there is something to write
		mkdir -p "$tree/round$i/below" && head -c $((i * 1000)) /dev/zero >"$tree/round$i/below/f"
		if kill_scan $((RANDOM % longest)) "$tree"; then
			killed=$((killed + 1))
			# Killed after it had committed, it is there, whole; or not at all.
			if [ "$("$DT" list --index "$index" | wc -l)" -gt "$(wc -l <"$work/before")" ]; then
				"$DT" list --index "$index" | cut -f 1-5 >"$work/before"
			fi
			index_is_whole "$work/before" || return
		fi
	done
	echo "$killed of $rounds were killed in time"
	[ $killed -ge $((rounds / 10)) ]
}

# The newest stored one of a tree, whose sources have changed since
stored_is_mounted()
{
	local stored
	stored=$("$DT" list --index "$index" | awk -F '\t' -v root="$1" '$6 == root { b = $3 } END { print b }')
	mount_start && equal "$(number "$mnt$1" bytes)" "$stored" && equal "$(du -s -B1 "$mnt$1" | cut -f 1)" "$stored" || return
	equal "$(find "$mnt$1" -mindepth 1 -printf . | wc -c)" "$(number "$mnt$1" entries)" && mount_stop
}

next_scan_is_right()
{
	scan_ok "$1" && mount_start && equal "$(number "$mnt$1" bytes)" "$(du -s -B1 "$1" | cut -f 1)" &&
		$python "$here/equal.py" totals "$1" "$mnt$1" && mount_stop
}

# While a mount follows
mounted_while_killed()
{
	local i before
	scan_ok "$small" && mount_start || return
	before=$(number "$mnt$small" bytes)
	mkdir -p "$small/never" && head -c 100000 /dev/zero >"$small/never/f"
	for i in 1 2 3; do
		kill_scan $((i % 2)) "$small" || break
		sleep 0.3
		[ "$("$DT" list --index "$index" | wc -l)" = "$n_listed" ] || continue
		equal "$(number "$mnt$small" bytes)" "$before" || return
	done
	scan_ok "$small" && wait_for equal_du "$small" && mount_stop
}

equal_du()
{
	equal "$(number "$mnt$1" bytes)" "$(du -s -B1 "$1" | cut -f 1)"
}

small=$src/small
bigger=$src/bigger
mkdir -p "$small"/{a..e}/{1..5} "$bigger"
touch "$small"/{a..e}/{1..5}/{x,y,z}
$python - "$bigger" <<'PY'
import os, sys
for i in range(1500):
    os.makedirs(f"{sys.argv[1]}/d{i % 60}/e{i}")
    for j in range(8):
        open(f"{sys.argv[1]}/d{i % 60}/e{i}/f{i}-{j}", "w").close()
PY
check 'the very first scan, killed: an index without a snapshot, or none' kill_scan 2 "$bigger"
check 'and the next one stores' scan_ok "$small"
check "$rounds kills while a small tree is scanned: earlier snapshots whole, no half one" rounds_on "$small"
check "$rounds kills while a larger tree is scanned" rounds_on "$bigger"
check 'what was stored before is mounted, whole' stored_is_mounted "$bigger"
check 'the next scan of the large tree is right in every directory' next_scan_is_right "$bigger"
n_listed=$("$DT" list --index "$index" | wc -l)
check 'a mount beside killed scans shows the snapshot before, then the next' mounted_while_killed
finish
