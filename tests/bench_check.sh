#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# bench_check.sh BENCH_TOOL BASELINE GENDATA - totals and call counts are those of the baseline; a baseline in which any
# one number is off by one is refused; wrong usage is told; reports are well-formed whatever the tree is called; the aged
# data set is the plain one; and bench_tool leaves nothing behind, also when interrupted.
set -eu

[ $# -eq 3 ] || {
	echo "usage: tests/bench_check.sh BENCH_TOOL BASELINE GENDATA" >&2
	exit 2
}
bench=$1 baseline=$2 gendata=$3
tmp=$(mktemp -d)
trap 'rm -rf -- "$tmp"' EXIT
mkdir "$tmp/work"
bad=0

# expect STATUS WHAT COMMAND...: prints what the command said when its exit status is another one
expect()
{
	local want=$1 what=$2 status=0 said
	shift 2
	said=$("$@" 2>&1) || status=$?
	if [ "$status" -eq "$want" ]; then
		echo "fine: $what"
	else
		printf '%s\nwrong: %s: exit status %s, not %s\n' "$said" "$what" "$status" "$want"
		bad=1
	fi
}

# plant KEY COUNTER: the baseline with that number of that run one larger
plant()
{
	awk -v key="\"key\": \"$1\"," -v name="\"$2\": " '
		index($0, key) && (at = index($0, name)) {
			before = substr($0, 1, at + length(name) - 1)
			rest = substr($0, at + length(name))
			match(rest, /^[0-9]+/)
			$0 = before (substr(rest, 1, RLENGTH) + 1) substr(rest, RLENGTH + 1)
		}
		{ print }' "$baseline" >"$tmp/planted.json"
	! cmp -s "$baseline" "$tmp/planted.json" || {
		echo "wrong: the baseline has no $2 of $1"
		bad=1
	}
}

# shellcheck disable=SC2317 # expect calls it
check()
{
	"$bench" --dir "$tmp/work" --check "$1"
}

expect 0 "all as in the baseline" check "$baseline"
# A sanitizer needs to see the program once, not each way to fail.
ldd "$bench" | grep -qE 'lib(asan|tsan)' || while read -r key counter; do
	plant "$key" "$counter"
	expect 1 "$counter of $key off by one" check "$tmp/planted.json"
done <<-END
	scan-8 files
	scan-1 dirs
	warm-scattered bytes
	scan-auto openat
	store-2 statx
	store-auto getdents64
	store-1 close
	warm-unchanged nodes_written
	warm-one nodes_written
END
grep -v warm-deep "$baseline" >"$tmp/planted.json"
expect 1 "a run that the baseline lacks" check "$tmp/planted.json"

expect 0 "the options" "$bench" --help
expect 2 "an option that there is not" "$bench" --bogus
expect 2 "a value that is none" "$bench" --runs 0
expect 2 "an argument" "$bench" extra
expect 2 "options that don't fit together" "$bench" --mount --hdd

# measure OPTION...: one round on a tree whose name has to be escaped in each format
# shellcheck disable=SC2317 # expect calls it
measure()
{
	"$bench" --dir "$tmp/work" --dataset "$odd" --no-peers --runs 1 "$@"
}

# is_told FILE TEXT
# shellcheck disable=SC2317 # expect calls it
is_told()
{
	grep -qF -- "$2" "$1"
}

odd="$tmp/a\"<é>"$'\n|'
mkdir "$odd"
for format in table markdown json html; do
	expect 0 "a report as $format" measure --format "$format" --output "$tmp/report.$format"
done
expect 1 "a report that is not written whole" measure --output /dev/full
expect 0 "the tree in the table" is_told "$tmp/report.table" '/a"<é>\012|: 1 entries'
expect 0 "in markdown" is_told "$tmp/report.markdown" '/a"<é>\012\|: 1 entries'
expect 0 "in JSON" is_told "$tmp/report.json" '/a\"<é>\u000a|"'
expect 0 "in HTML" is_told "$tmp/report.html" '/a&quot;&lt;é&gt;\012|: 1 entries'
if command -v python3 >/dev/null; then
	expect 0 "JSON is well-formed" python3 -m json.tool "$tmp/report.json"
fi

# list TREE: all that must not depend on how a tree was made; a directory that was larger once keeps its blocks
# shellcheck disable=SC2317 # expect calls it
list()
{
	(cd -- "$1" && find . -type d -printf '%p %y %m %n %T@\n' -o -printf '%p %y %m %n %T@ %s\n') | sort
}

# shellcheck disable=SC2317 # expect calls it
is_same()
{
	"$gendata" --entries 501 "$tmp/plain" && "$gendata" --aged --entries 501 "$tmp/aged" &&
		diff -r "$tmp/plain" "$tmp/aged" && list "$tmp/plain" >"$tmp/plain.list" &&
		list "$tmp/aged" | diff "$tmp/plain.list" -
}

# is_scattered TREE: most files and the one with the next inode number are in different directories
# shellcheck disable=SC2317 # expect calls it
is_scattered()
{
	find "$1" -type f -printf '%i %h\n' | sort -n | awk '$2 != dir { n++ } { dir = $2 } END { exit n < NR / 2 }'
}
expect 0 "the aged data set has the same entries, sizes and times" is_same
expect 0 "and its inodes are all over it" is_scattered "$tmp/aged"
expect 1 "which those of the plain one are not" is_scattered "$tmp/plain"

# has_entries N: what bench_tool made has come to that many
# shellcheck disable=SC2317 # expect calls it
has_entries()
{
	[ "$(find "$tmp/work" -printf '\n' 2>/dev/null | wc -l)" -ge "$1" ]
}

# interrupt N: when the tree that it builds has N entries
# shellcheck disable=SC2317 # expect calls it
interrupt()
{
	"$bench" --dir "$tmp/work" --no-peers --runs 1000 >/dev/null 2>&1 &
	until has_entries "$1"; do
		kill -0 $! || break
		sleep 0.02
	done
	kill -TERM $!
	wait $!
}
expect 143 "interrupted while it builds the tree" interrupt 100
expect 143 "interrupted when the tree is whole" interrupt 50001

left=$(ls -A "$tmp/work")
[ -z "$left" ] || {
	echo "wrong: left behind: $left"
	bad=1
}
exit $bad
