#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2119,SC2120,SC2016,SC2086,SC2010,SC2012,SC2015,SC2155
#
# cli.sh PROGRAM - statuses, sentences, JSON, permissions of the index, two scans at once. Needs no mount.
# shellcheck source=tests/mount/lib.sh
. "$(dirname -- "$0")/lib.sh" "$@"
need $python

json_lines()
{
	$python -c '
import json, sys
for line in open(sys.argv[1], "rb"):
    row = json.loads(line.decode("utf-8"), parse_constant=None)
    print(row["root"].encode().hex() if "root_hex" not in row else row["root_hex"])
' "$1"
}

odd_roots()
{
	local name path
	for name in $'byte\xff' $'new\nline' $'quote"\\back' $'tab\t' $'esc\033' ' ' $'\xc3\xa9'; do
		path=$src/$name
		mkdir -p "$path/in"
		"$DT" scan --index "$index" --json "$path" >"$work/out" || return
		equal "$(json_lines "$work/out")" "$(printf %s "$path" | od -An -v -tx1 | tr -d ' \n')" || return
		"$DT" scan --index "$index" "$path" >"$work/out" || return
		! LC_ALL=C grep -q $'[\001-\011\013-\037\177]' "$work/out" || return
	done
	"$DT" list --index "$index" --json >"$work/out" && equal "$(json_lines "$work/out" | wc -l)" 14 || return
	"$DT" list --index "$index" >"$work/out" && equal "$(wc -l <"$work/out")" 14 &&
		! LC_ALL=C grep -q $'[\001-\010\013-\037\177\377]' "$work/out"
}

no_store_writes_nothing()
{
	"$DT" scan --index "$work/none/index.db" --no-store --json "$src" >"$work/out" && [ ! -e "$work/none" ] || return
	equal "$($python -c 'import json,sys; d=json.load(open(sys.argv[1])); print(d["bytes"], d["files"], d["dirs"])' "$work/out")" \
		"$(du -s -B1 "$src" | cut -f 1) $(find "$src" -type f -printf . | wc -c) $(find "$src" -mindepth 1 -type d -printf . | wc -c)"
}

index_is_private()
{
	local mask
	for mask in 000 022 077; do
		rm -rf "$work/private"
		(umask $mask && "$DT" scan --index "$work/private/deep/index.db" "$src" >/dev/null) || return
		equal "$(stat -c %a "$work/private/deep" "$work/private" | tr '\n' ' ')" '700 700 ' || return
		equal "$(stat -c %a "$work/private/deep/index.db")" 600 || return
	done
}

default_place()
{
	[ "$(id -u)" != 0 ] || return 0 # root's is not ours to write
	"$DT" scan "$src" && [ -f "$XDG_STATE_HOME/disktracker/index.db" ]
}

by_environment()
{
	DISKTRACKER_INDEX=$work/env/i.db "$DT" scan "$src" >/dev/null && [ -f "$work/env/i.db" ]
}

# STATUS 2 and one sentence for each: WORDS|PATTERN
usage_errors()
{
	local words pattern
	while IFS='|' read -r words pattern; do
		refused 2 "^disktracker: .*$pattern" "$DT" $words && equal "$(wc -l <"$work/err")" 1 || return
	done <<-END
		scan|PATH is missing
		scan --nonsense /tmp|unknown option '--nonsense'
		scan --treads 3 /tmp|did you mean '--threads'
		scan --thr 3 /tmp|did you mean '--threads'
		scan --threads 0 /tmp|takes a number from 1 to 256, not '0'
		scan --threads 257 /tmp|takes a number
		scan --threads many /tmp|takes a number
		scan --threads 99999999999999999999999 /tmp|takes a number
		scan --threads|no value given for '--threads'
		scan --order sideways /tmp|takes auto, inode or directory
		scan --progress-fd 999 /tmp|takes an open descriptor
		scan --cold=yes /tmp|unexpected value for '--cold'
		scan --exclude a/b /tmp|takes a pattern
		list extra|unexpected argument 'extra'
		list --nonsense|see 'disktracker list --help'
		list --index|no value given for '--index'
		diff|A is missing
		diff 1 2 / 4|unexpected argument '4'
		diff --top -3 1 2|takes a positive number
		prune|needs a rule
		prune --older-than soon|takes a time
		check --jsno|unknown option
		version extra|unexpected argument
		umount|MOUNTPOINT is missing
		umount a b|unexpected argument 'b'
		umount -x|unknown option '-x'
		mount|MOUNTPOINT is missing
		mount -o|no value given for '-o'
		mount -o xatr /tmp|did you mean 'xattr'
		mount -o every /tmp|no value given for 'every'
		mount -o xattr=1 /tmp|unexpected value for 'xattr=1'
		mount -fx /tmp|unknown option '-x'
		nonsense|unknown command 'nonsense': see
		scna|did you mean 'scan'
		help lisst|did you mean 'list'
	END
	status_is 2 "$DT" && [ ! -e "$index.none" ]
}

helps()
{
	local command option
	status_is 0 "$DT" help && cp "$work/out" "$work/help" || return
	for command in $("$DT" help words | cut -f 1 | sort -u); do
		grep -qE "^  $command " "$work/help" && status_is 0 "$DT" help $command || return
		cp "$work/out" "$work/help.one"
		head -1 "$work/help.one" | grep -qx "usage: disktracker $command.*" || return
		for option in --help -h '--index x --help'; do
			[ "$option" != '--index x --help' ] || "$DT" help words | grep -q "^$command.--index" || continue
			status_is 0 "$DT" $command $option && cmp "$work/out" "$work/help.one" && [ ! -s "$work/err" ] || return
		done
	done
	status_is 0 "$DT" --help && cmp "$work/out" "$work/help" && status_is 0 "$DT" -h && cmp "$work/out" "$work/help" &&
		status_is 0 "$DT" help files && grep -q ^bytes "$work/out"
}

# completed WORD...: what bash would offer for the last one
completed()
{
	local -a COMP_WORDS=("$DT" "$@") COMPREPLY=()
	local COMP_CWORD=$#
	. "$here/../../packaging/disktracker.bash"
	_disktracker 2>"$work/err"
	echo "${COMPREPLY[*]-}"
}

completes()
{
	local command
	equal "$(completed '')" "$("$DT" help words | cut -f 1 | uniq | tr '\n' ' ' | sed 's/ $//')" || return
	for command in $("$DT" help words | cut -f 1 | sort -u); do
		equal "$(completed $command --)" "$({ "$DT" help words | grep "^$command.--" | cut -f 2; echo --help; } | tr '\n' ' ' | sed 's/ $//')" || return
	done
	mkdir -p "$work/c/dir" && touch "$work/c/file" || return
	equal "$(completed scan --order '')" 'auto inode directory' && equal "$(completed mount -o xa)" xattr &&
		equal "$(completed mount -o ro,ca)" ro,cache= && equal "$(completed diff l)" latest &&
		equal "$(completed scan "$work/c/")" "$work/c/dir" && equal "$(completed list --index "$work/c/f")" "$work/c/file" &&
		equal "$(completed diff "$work/c/")" "$work/c/dir" && equal "$(completed mount --root "$work/c/")" "$work/c/dir" &&
		equal "$(completed mount "$work/c/")" "$work/c/dir" && equal "$(completed scan --threads '')" '' &&
		equal "$(completed help di)" diff && equal "$(completed umount "$work/c")" ''
}

tells_version()
{
	status_is 0 "$DT" version && grep -qE '^disktracker [0-9]+\.[0-9]+' "$work/out" && status_is 0 "$DT" --version
}

roots_refused()
{
	touch "$work/file"
	refused 3 'No such file' "$DT" scan --index "$work/new/i.db" "$work/nowhere" &&
		refused 3 'Not a directory' "$DT" scan --index "$work/new/i.db" "$work/file" &&
		refused 3 'No such file' "$DT" scan --index "$work/new/i.db" '' && [ ! -e "$work/new" ] || return
	# one good root among bad ones is stored, and the worst status counts
	status_is 3 "$DT" scan --index "$work/new/i.db" "$work/nowhere" "$src" &&
		equal "$("$DT" list --index "$work/new/i.db" | wc -l)" 1
}

# Paths with dots, symlinks and slashes name the root they lead to.
roots_are_resolved()
{
	local index=$work/resolve.db
	ln -s "$src" "$work/link"
	(cd "$src" && "$DT" scan --index "$index" . ../src "$src///" "$work/link") >/dev/null || return
	equal "$("$DT" list --index "$index" | cut -f 6 | sort -u)" "$src"
}

index_refused()
{
	refused 3 'does not exist' "$DT" list --index "$work/nowhere.db" || return
	[ "$(id -u)" = 0 ] || return 0
	mkdir -p "$work/nobodys" && chmod 0555 "$work/nobodys"
	refused 3 'Permission denied' "${nobody[@]}" "$DT" scan --index "$work/nobodys/i.db" "$src"
}

full_disk()
{
	local tries=5 kb
	mkdir -p "$work/tiny"
	$python -c '
import os, sys
for i in range(20000):
    if i % 20 == 0: os.makedirs(f"{sys.argv[1]}/{i}")
    open(f"{sys.argv[1]}/{i - i % 20}/{os.urandom(40).hex()}", "w").close()' "$work/names"
	# Not even room for what SQLite begins with
	for kb in 20 32 44; do
		mount -t tmpfs -o mode=700,size=${kb}k tmpfs "$work/tiny" || return
		refused 3 '(no space|No space)' "$DT" scan --index "$work/tiny/i.db" "$src" || return
		umount "$work/tiny"
	done
	# Or for the files beside it
	mount -t tmpfs -o mode=700,size=4m,nr_inodes=2 tmpfs "$work/tiny" || return
	refused 3 '(no space|No space)' "$DT" scan --index "$work/tiny/i.db" "$src" || return
	umount "$work/tiny"
	# Whichever worker meets it first
	for ((; tries; tries--)); do
		mount -t tmpfs -o mode=700,size=300k tmpfs "$work/tiny" && "$DT" scan --index "$work/tiny/i.db" "$src" >/dev/null || return
		refused 3 'nothing was stored.*(no space|No space)' "$DT" scan --threads 8 --index "$work/tiny/i.db" "$work/names" || return
		equal "$("$DT" list --index "$work/tiny/i.db" | wc -l)" 1 && umount "$work/tiny" || return
	done
}

# All modes that look at the previous snapshot say so; --cold does without
damaged()
{
	local index=$work/spoilt/i.db mode
	"$DT" scan --index "$index" "$src" >/dev/null || return
	$python -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for id, fps in db.execute("SELECT id, fps FROM pack").fetchall():
    db.execute("UPDATE pack SET fps=? WHERE id=?", (bytes([fps[0] ^ 1]) + fps[1:], id))
db.commit()' "$index"
	for mode in '' --quick; do
		refused 3 'nothing was stored.*damaged' "$DT" scan --index "$index" $mode "$src" || return
	done
	status_is 0 "$DT" scan --index "$index" --cold "$src" && status_is 3 "$DT" check --index "$index" &&
		status_is 0 "$DT" scan --index "$index" --quick "$src"
}

# As nobody: a directory of root's, 0700
incomplete()
{
	local out
	mkdir -p "$work/closed/open/x" "$work/closed/secret/deep" "$work/nobody"
	head -c 5000 /dev/zero >"$work/closed/open/f"
	chmod 0700 "$work/closed/secret" && chown 65534 "$work/nobody" || return
	status_is 1 "${nobody[@]}" "$DT" scan --index "$work/nobody/state/i.db" "$work/closed" && grep -q 'at least' "$work/out" &&
		grep -q '1 unreadable' "$work/out" || return
	status_is 1 "${nobody[@]}" "$DT" scan --index "$work/nobody/state/i.db" --json "$work/closed" && grep -q '"complete":0' "$work/out" &&
		grep -q '"errors":1' "$work/out" || return
	out=$("${nobody[@]}" "$DT" list --index "$work/nobody/state/i.db")
	equal "$(cut -f 5 <<<"$out" | sort -u)" incomplete && equal "$("${nobody[@]}" du -s -B1 "$work/closed" 2>/dev/null | cut -f 1)" "$(cut -f 3 <<<"$out" | head -1)"
}

two_at_once()
{
	local index=$work/two/i.db i pid status=0
	local -a running=()
	mkdir -p "$work/wide"/{1..40}/{1..20}
	for i in 1 2 3; do
		"$DT" scan --index "$index" "$work/wide" >"$work/two.$i" 2>&1 &
		running+=($!)
		started $!
	done
	for pid in "${running[@]}"; do
		wait "$pid" || status=1
	done
	cat "$work"/two.?
	[ $status -eq 0 ] && equal "$("$DT" list --index "$index" | wc -l)" 3 &&
		equal "$("$DT" list --index "$index" | cut -f 3 | sort -u)" "$(du -s -B1 "$work/wide" | cut -f 1)"
}

# waits_while_held INDEX SENTENCE COMMAND...: while another process writes it waits and says so; then it succeeds
waits_while_held()
{
	local index=$1 sentence=$2 holder waiter status=0
	shift 2
	coproc HOLDER { $python -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
db.execute("ROLLBACK")' "$index"; }
	holder=$HOLDER_PID
	started "$holder"
	read -r -u "${HOLDER[0]}" _ || return
	"$@" >"$work/waiting" 2>&1 &
	waiter=$!
	started $waiter
	wait_for grep -q "$sentence" "$work/waiting" || status=1
	kill -0 $waiter || status=1
	# shellcheck disable=SC2153
	echo >&"${HOLDER[1]}"
	wait $waiter || status=1
	wait "$holder" || status=1
	cat "$work/waiting"
	return $status
}

waits_for_a_writer()
{
	local index=$work/two/i.db
	waits_while_held "$index" 'waiting: another scan' "$DT" scan --index "$index" "$work/wide" &&
		equal "$("$DT" list --index "$index" | wc -l)" 4
}

excluded()
{
	mkdir -p "$work/ex/keep" "$work/ex/skip.tmp/x" "$work/ex/cache/x"
	head -c 50000 /dev/zero >"$work/ex/skip.tmp/x/f"
	head -c 70000 /dev/zero >"$work/ex/cache/x/f"
	head -c 10000 /dev/zero >"$work/ex/keep/f"
	echo 'Signature: 8a477f597d28d172789f06886806bc55' >"$work/ex/cache/CACHEDIR.TAG"
	"$DT" scan --no-store --json --exclude '*.tmp' --exclude none "$work/ex" >"$work/out" || return
	grep -q "\"bytes\":$(du -s -B1 --exclude='*.tmp' "$work/ex" | cut -f 1)," "$work/out" && grep -q '"skipped":1,' "$work/out" || return
	"$DT" scan --no-store --json --exclude-caches "$work/ex" >"$work/out" && grep -q '"skipped":1,' "$work/out" &&
		grep -q '"files":2,' "$work/out" || { cat "$work/out"; return 1; }
}

# Formats from before the first release: a sentence that says what to do, and the file stays as it is
old_format_is_refused()
{
	local command old=$work/old.db
	rm -f "$old"*
	"$DT" scan --index "$old" "$src/plain" >/dev/null || return
	$python -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version=2")' "$old"
	for command in 'list' 'check' 'prune --keep-last 1' "scan $src/plain"; do
		refused 3 'scan again' "$DT" ${command%% *} --index "$old" ${command#"${command%% *}"} || return
	done
}

# The work is done, but nobody learns of it: status 4. A reader that had enough is another matter.
output_is_checked()
{
	local command
	[ -w /dev/full ] || return 0
	for command in "scan --no-store $src" "scan --no-store --json $src" "scan --index $work/full.db $src" list 'list --json' "diff --json prev latest $src" check \
		'prune --dry-run --keep-last 1' version --version help 'help files' 'help scan' --help 'mount --help'; do
		case $command in
		list* | diff* | check* | prune*) command="${command%% *} --index $index ${command#"${command%% *}"}" ;;
		esac
		refused 4 '^disktracker: the report could not be written: No space left' sh -c '"$@" >/dev/full' '' "$DT" $command &&
			refused 4 '^disktracker: the report could not be written: Bad file' sh -c '"$@" >&-' '' "$DT" $command || return
		(trap '' PIPE && "$DT" $command 2>"$work/err"; echo $? >"$work/status") | true
		equal "$(cat "$work/status")" 0 && [ ! -s "$work/err" ] || { echo "$command"; cat "$work/err"; return 1; }
	done
}

# What a scan took is never the same.
figures()
{
	sed -E 's/_(ns|kb)":[0-9]+/_\1":N/g; s/"(time|steals|readers_changes|cached_percent|readers_log)":("[^"]*"|[0-9]+)/"\1":N/g'
}

# A preloaded library lets one allocation fail, each in turn.
no_memory()
{
	local command n status full
	is_sanitized && return
	printf '%s\n' '#include <errno.h>' '#include <fcntl.h>' '#include <stdlib.h>' 'void *__libc_malloc(size_t); void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);' \
		'static long left = -1;' \
		'static int fails(void) { const char *s; if (left < 0) left = (s = getenv("FAIL_AT")) ? atol(s) : 0;' \
		'if (left <= 0 || __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED)) return 0; errno = ENOMEM; return 1; }' \
		'__attribute__((destructor)) static void end(void) { if (left > 0) open(getenv("FAIL_LEFT"), O_CREAT, 0600); }' \
		'void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }' \
		'void *calloc(size_t n, size_t m) { return fails() ? NULL : __libc_calloc(n, m); }' \
		'void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }' >"$work/fail.c"
	cc -w -O1 -shared -fPIC -o "$work/fail.so" "$work/fail.c" || return
	for command in version help 'help scan' 'help words' "list --index $index" "list --index $index --json" "check --index $index" \
		"diff --index $index prev latest $src/new" "diff --index $index --json prev latest $src/new" "scan --threads 1 --no-store --json $src/new"; do
		full=$("$DT" $command | figures) || return
		for ((n = 1; n < 4000; n += n < 40 ? 1 : n / 25)); do
			status=0
			FAIL_AT=$n FAIL_LEFT=$work/left LD_PRELOAD=$work/fail.so "$DT" $command >"$work/out" 2>"$work/err" || status=$?
			[ $status -le 4 ] || { echo "$command: allocation $n: status $status"; cat "$work/err"; return 1; }
			[ $status -eq 0 ] || { grep -q '^disktracker: ' "$work/err" && continue; echo "$command: allocation $n: no sentence"; return 1; }
			equal "$(figures <"$work/out")" "$full" || { echo "$command: allocation $n"; return 1; }
			[ ! -e "$work/left" ] || break # there are no more
		done
		[ -e "$work/left" ] && rm "$work/left" || return
	done
}

# What a terminal or a reader would take for more than text: C0, DEL, C1 (U+009B is CSI), line separators, directions
steers()
{
	$python -c '
import sys
text = open(sys.argv[1], "rb").read().decode("utf-8")
bad = [c for c in text if c not in "\t\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or ord(c) in (0x61c, 0x200e, 0x200f)
	or 0x2028 <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069)]
print(ascii(bad))
sys.exit(not bad)' "$1"
}

hostile_names()
{
	local name i words
	local -a names=($'csi\xc2\x9b2J' $'nel\xc2\x85' $'rlo\xe2\x80\xaegnp.exe' $'ls\xe2\x80\xa8x' $'lri\xe2\x81\xa6' $'alm\xd8\x9c' $'esc\033[2J')
	for name in "${names[@]}"; do
		i=$work/hostile.db
		mkdir -p "$src/h/$name/$name" && "$DT" scan --index "$i" "$src/h/$name" >"$work/all" && echo x >"$src/h/$name/$name/f" || return
		"$DT" scan --index "$i" --json "$src/h/$name" >>"$work/all" || return
		for words in list 'list --json' 'diff prev latest' 'diff --json prev latest'; do
			"$DT" ${words%% *} --index "$i" ${words#"${words%% *}"} >>"$work/all" || return
		done
		for words in umount "scan --index $i" 'list --index' 'diff --index' 'scan --threads' 'mount -o' list "help" ''; do
			"$DT" $words "$src/nowhere/$name" 2>>"$work/all" && return 1
		done
		"$DT" mount --index "$i" --root "$name" "$mnt" 2>>"$work/all" && return 1
		! steers "$work/all" || { printf '%q\n' "$name"; return 1; }
		grep -q '\\u\|\\[0-3][0-7][0-7]' "$work/all" && rm "$i" || return
	done
}

# The line of progress, on a terminal; reading is slowed down until there is one
hostile_progress()
{
	command -v strace >/dev/null || return 0
	is_sanitized && return
	mkdir -p "$src/slow/"{1..4}$'/csi\xc2\x9b2J\xe2\x80\xae'
	$python - "$work/all" strace -f -qq -o /dev/null -e trace=getdents64 -e inject=getdents64:delay_enter=120000 \
		"$DT" scan --no-store --threads 1 "$src/slow" <<-'END' || return
		import os, pty, sys
		with open(sys.argv[1], "wb") as out:
		    def read(fd):
		        data = os.read(fd, 4096)
		        out.write(data)
		        return data
		    pty.spawn(sys.argv[2:], read, lambda fd: b"")
	END
	grep -q 'entries/*, .*csi' "$work/all" || { cat -v "$work/all"; return 1; }
	sed -i 's/\r//g; s/\x1b\[K//g' "$work/all"
	! steers "$work/all"
}

mkdir "$src/plain"
head -c 12345 /dev/zero >"$src/plain/f"
check 'JSON and tables are valid for any root name' odd_roots
check 'scan --no-store counts as du and find, and writes nothing' no_store_writes_nothing
check 'an index is 0600 in a 0700 directory, whatever the umask' index_is_private
check 'the index of a user is in $XDG_STATE_HOME' default_place
check 'or in $DISKTRACKER_INDEX' by_environment
check 'wrong usage has status 2 and says so' usage_errors
check 'help explains every command' helps
check 'completion offers what the program knows' completes
check 'version' tells_version
check 'a root that is missing or no directory: status 3, a sentence, no index' roots_refused
check 'a root is stored under its canonical path' roots_are_resolved
check 'an index that cannot be used: status 3' index_refused
check 'three scans into one index at once all succeed' two_at_once
check 'a scan waits for another writer, and says so' waits_for_a_writer
check 'what is excluded is counted as skipped' excluded
check 'an index of a format before the first release is refused' old_format_is_refused
mkdir "$src/new"
check 'a new directory is there to be told of' "$DT" scan --index "$index" "$src"
head -c 50000 /dev/zero >"$src/new/f"
check 'and what grows in it' "$DT" scan --index "$index" "$src"
check 'a report that cannot be written has status 4 and a sentence; a closed pipe is fine' output_is_checked
check 'where memory runs out, nothing is printed in part with status 0' no_memory
check 'a name steers no terminal, in reports, JSON and messages' hostile_names
check 'nor in the line of progress' hostile_progress
check 'damage is called that; --cold does without what is damaged' damaged
if [ "$(id -u)" = 0 ]; then
	check 'a part that cannot be read: status 1, a lower bound, as du' incomplete
	check 'a full disk: status 3, nothing stored, earlier snapshots kept' full_disk
fi
finish
