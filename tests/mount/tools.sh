#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# tools.sh PROGRAM - every tool reads every virtual file whole, and the files have the forms that scripts rely on.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need_fuse
need $python

tools_py()
{
	$python "$here/tools.py" "$1" "$work" "${@:2}"
}

# Only numbers, each with its newline
is_number_file()
{
	LC_ALL=C grep -qzE '^-?[0-9]+
$' "$1" && [ "$(wc -l <"$1")" = 1 ]
}

every_name_is_listed_in_help()
{
	diff <("$DT" help files | cut -f 1 | grep -v -e '^\.telemetry' -e '^delta$' | LC_ALL=C sort) \
		<(cd "$view/.usage" && find . -type f ! -name '*.0' -printf '%P\n' | LC_ALL=C sort) &&
		diff <("$DT" help files | cut -f 1 | grep '^\.telemetry' | LC_ALL=C sort) \
			<(cd "$mnt" && ls -A .telemetry | sed 's|^|.telemetry/|' | LC_ALL=C sort)
}

telemetry_is_key_value()
{
	local file
	for file in scan mount index; do
		! LC_ALL=C grep -vE '^[a-z0-9_]+ .*$' "$mnt/.telemetry/$file" | grep -vE '^(storage|source)_evidence $' || return
	done
	equal "$("$DT" version)" "disktracker $(cat "$mnt/.telemetry/version")"
}

scan_json_has_the_keys_of_telemetry()
{
	diff <($python -c 'import json,sys; print("\n".join(k for k in json.load(open(sys.argv[1])) if not k.endswith("_hex")))' \
		"$work/scan.json") <(cut -d' ' -f 1 "$mnt/.telemetry/scan") &&
		equal "$(sed -n 's/^bytes //p' "$mnt/.telemetry/scan")" "$(number "$view" bytes)"
}

# A live text changes, but not that of an open file, whatever the kernel asks again; two readers at once, too
live_files_keep_their_promise()
{
	$python - "$mnt/.telemetry" <<'PY'
import os, sys, threading, time
base, wrong = sys.argv[1], []
def reader(name, end):
    while time.time() < end:
        with open(os.path.join(base, name), "rb") as f:
            text = f.read()
        if not text.endswith(b"\n") or b"\0" in text or not text.startswith(b"uptime "):
            wrong.append(text)
# Somebody stops in the middle while the text gets longer; nothing of it is left in the page cache.
path = os.path.join(base, "mount")
with open(path, "rb", buffering=0) as f:
    size, text, end = os.fstat(f.fileno()).st_size, f.read(10), time.time() + 60
    while os.stat(path).st_size <= size:
        if time.time() > end:
            sys.exit("the text did not get longer")
    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    text += f.read()
    if os.fstat(f.fileno()).st_size != size or len(text) != size or text != os.pread(f.fileno(), 65536, 0):
        wrong.append(text)
threads = [threading.Thread(target=reader, args=("mount", time.time() + 2)) for _ in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
sys.exit(f"{len(wrong)} texts were not whole, such as {wrong[0]!r}" if wrong else 0)
PY
}

summary_says_it()
{
	cat "$view/.usage/summary"
	grep -qE '[0-9.]+ ([KMG]i)?B on disk' "$view/.usage/summary" || return
	head -n 1 "$view/.usage/summary" | grep -qxF -- "$src" || return
	equal "$(grep -cE '^ +[0-9.]+ ([KMG]i)?B  ' "$view/.usage/summary")" 3 || return
	equal "$(grep -cE '^ +[0-9.]+ ([KMG]i)?B  ' "$view/many/.usage/summary")" 5
}

largest_is_sorted_find()
{
	local expected got
	expected=$(cd "$src" && find . -type f -printf '%b\n' | sort -rn | head -50 | awk '{ print $1 * 512 }')
	got=$(cut -f 1 "$view/.usage/largest")
	equal "$got" "$expected" || return
	# and each row says the truth about its file
	while IFS=$'\t' read -r -d '' bytes path; do
		equal "$(($(stat -c %b "$src/$path") * 512))" "$bytes" || return
	done <"$view/.usage/largest.0"
}

top_is_sorted_du()
{
	local bytes path n=0 last=
	while IFS=$'\t' read -r -d '' bytes path; do
		equal "$(du -s -B1 "$src/$path" | cut -f 1)" "$bytes" || return
		[ -z "$last" ] || [ "$bytes" -le "$last" ] || return
		last=$bytes n=$((n + 1))
	done <"$view/.usage/top.0"
	[ $n -eq 50 ]
}

crowded_is_find()
{
	diff <(cut -f 1 "$view/.usage/crowded") <(cd "$src" && find . -mindepth 1 -printf '%h\0' |
		LC_ALL=C sort -z | uniq -zc | tr '\0' '\n' | awk '{ print $1 }' | sort -rn | head -50)
}

# A row of the table, and the escaping of the manual page
names_are_escaped()
{
	printf '%s\n' 'a\040space' 'new\012line' 'back\134slash' 'tab\011here' 'byte\377' 'esc\033' $'\xc3\xa9' | LC_ALL=C sort >"$work/want"
	cut -f 2 "$view/names/.usage/children" | LC_ALL=C sort | cmp - "$work/want"
}

mkdir -p "$src"/names "$src"/many/{0..79}/deep "$src/empty"
touch "$src/names/a space" "$src/names/"$'new\nline' "$src/names/back\\slash" "$src/names/"$'tab\there' \
	"$src/names/"$'byte\xff' "$src/names/"$'esc\033' "$src/names/"$'\xc3\xa9'
for i in {0..79}; do
	head -c $((i * 3000)) /dev/zero >"$src/many/$i/deep/file-$i"
	head -c $((i * 100)) /dev/zero >"$src/many/$i/$(printf 'x%.0s' {1..200})-$i"
done
view=$mnt$src

check 'a tree is scanned' scan_ok "$src"
"$DT" scan --index "$index" --json "$src" >"$work/scan.json"
check 'and mounted' mount_start
check 'every tool reads every virtual file whole' \
	tools_py all "$view/.usage" "$mnt/.telemetry"
check 'and those of a directory with odd names, of an empty one, of the top' \
	tools_py few "$view/names/.usage" "$view/empty/.usage" "$mnt/.usage"
for name in bytes apparent files dirs entries shared errors vanished skipped newest asof complete; do
	check "$name is one number and a newline" is_number_file "$view/.usage/$name"
done
check '.usage and .telemetry hold what the help lists' every_name_is_listed_in_help
check 'telemetry is lines of key and value' telemetry_is_key_value
check 'scan --json and .telemetry/scan have the same keys, in the same order' scan_json_has_the_keys_of_telemetry
check 'a live file is read whole while it changes' live_files_keep_their_promise
check 'summary names the directory, its size and its children' summary_says_it
check 'largest is what find and sort say' largest_is_sorted_find
check 'top has the totals of du, the largest first' top_is_sorted_du
check 'crowded is what find and uniq say' crowded_is_find
check 'names are escaped as in /proc/mounts' names_are_escaped
check 'it ends without a complaint' mount_stop

# Before the first snapshot: an interrupted scan leaves an index without any. Each statx is held up, so that
# the interrupt comes in time.
interrupted_scan()
{
	local pid tracer
	rm -rf -- "$work/state"
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -f -qq -o /dev/null -e trace=statx \
		-e inject=statx:delay_enter=50000 "$DT" scan --index "$index" --threads 1 "$src" >"$work/scan.out" 2>&1 &
	tracer=$!
	started $tracer
	wait_for test -s "$index" || return
	sleep 0.3
	read -r pid _ <"/proc/$tracer/task/$tracer/children" || [ -n "$pid" ] || return
	kill -INT "$pid"
	wait $tracer
	equal $? 3 || { cat "$work/scan.out"; return 1; }
	grep -q 'interrupted; nothing was stored' "$work/scan.out" &&
		"$DT" list --index "$index" >"$work/out" && equal "$(cat "$work/out")" ''
}

says_zero()
{
	local name
	for name in bytes apparent files dirs entries shared errors vanished skipped newest asof; do
		equal "$(number "$mnt" $name)" 0 || return
	done
	equal "$(cat "$mnt/.usage/children")" '' || return
	equal "$(sed -n 's/^bytes //p' "$mnt/.telemetry/scan")" 0 || return
	equal "$(ls -A "$mnt" | tr '\n' ' ')" '.telemetry .usage '
}

check 'an interrupted scan ends with status 3 and stores nothing' interrupted_scan
check 'an index without a snapshot is mounted' mount_start
check 'before the first snapshot the files exist and say 0' says_zero
check 'and every tool reads them' tools_py few "$mnt/.usage"
check 'the first snapshot comes' scan_ok "$src"
check 'and is shown' wait_for test -e "$view/.usage/bytes"
check 'with its numbers' equal "$(number "$mnt" bytes)" "$(du -s -B1 "$src" | cut -f 1)"
check 'it ends without a complaint' mount_stop
finish
