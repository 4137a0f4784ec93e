#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_html.sh BENCH_TOOL [PICTURE.png] - opens the HTML report in headless Chromium, without a network: its charts have
# bars and a size, nothing is logged, nothing else is loaded. Exit status 77 where there is no Chromium.
set -eu

[ $# -ge 1 ] || {
	echo "usage: bench/check_html.sh BENCH_TOOL [PICTURE.png]" >&2
	exit 2
}
bench=$1 picture=${2-}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
	echo "left out: Chromium is not installed"
	exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf -- "$tmp"' EXIT
bad=0

# browse OPTION... URL
browse()
{
	# A profile of its own; no sandbox, since that needs a privileged helper in containers; no name resolves.
	HOME=$tmp timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
		--disable-background-networking --host-resolver-rules='MAP * ~NOTFOUND' --user-data-dir="$tmp/profile" \
		--enable-logging=stderr "$@" 2>"$tmp/log"
}

# judge WHAT STATUS
judge()
{
	if [ "$2" -eq 0 ]; then
		echo "fine: $1"
	else
		echo "wrong: $1"
		bad=1
	fi
}

# lacks FILE PATTERN: prints what it finds
lacks()
{
	! grep -aoE -e "$2" "$1"
}

"$bench" --entries 501 --runs 2 --format html --output "$tmp/report.html"

# The page as it is.
status=0 && browse --window-size=1280,3600 --screenshot="$tmp/page.png" "file://$tmp/report.html" >/dev/null || status=$?
judge "a picture" $((status || $(wc -c <"$tmp/page.png") < 20000))
status=0 && lacks "$tmp/log" 'CONSOLE.*' || status=$?
judge "nothing on the console" $status
status=0 && lacks "$tmp/report.html" '(src|href)="[^d#][^"]*|url\(|@import' || status=$?
judge "no link out" $status
[ -z "$picture" ] || cp -- "$tmp/page.png" "$picture"

# A copy that may run a script and load what it wants says how large the charts came out, how many bars in them are to be
# seen, and how many things it loaded, or tried to.
{
	grep -v Content-Security-Policy "$tmp/report.html"
	cat <<-'END'
		<script>
		const seen = [...document.querySelectorAll("svg")].map(s => {
			const r = s.getBoundingClientRect();
			const marks = [...s.querySelectorAll("rect,circle")].filter(m => m.getBoundingClientRect().width >= 1 &&
				getComputedStyle(m).fill !== "rgb(0, 0, 0)");
			return r.width > 500 && r.height > 100 ? marks.length : 0;
		});
		addEventListener("load", () => document.title = "charts " + seen.join(" ") + " loaded " +
			performance.getEntriesByType("resource").length + " end");
		</script>
	END
} >"$tmp/probe.html"
title=$(browse --dump-dom "file://$tmp/probe.html" | grep -aoE '<title>charts [0-9a-z ]* end') || title=none
echo "marks to be seen: ${title#<title>}"
status=0 && grep -qE '^<title>charts( [1-9][0-9]*){4} ' <<<"$title" || status=$?
judge "four charts, each with marks" $status
status=0 && grep -qE ' loaded 0 end$' <<<"$title" || status=$?
judge "nothing else is loaded" $status
exit $bad
