#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_headers.sh - fails when a header does not compile alone.
set -eu

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# Libraries that are not installed only hurt the headers that need them.
flags=(-std=gnu17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 '-DDISKTRACKER_VERSION="0"' -Wall -Wextra -Werror -I.)
for lib in sqlite3 libxxhash libzstd fuse3 cmocka; do
	read -ra more < <(pkg-config --cflags "$lib" 2>/dev/null) || true
	flags+=("${more[@]}")
done

bad=0 headers=0
while IFS= read -r header; do
	headers=$((headers + 1))
	# Included from nothing, as the main file it would be told off for `#pragma once`.
	"${CC:-gcc}" -fsyntax-only "${flags[@]}" -include "$header" -x c /dev/null || {
		echo "$header does not compile alone"
		bad=1
	}
done < <(find base scanner snapshot fs tools bench tests -name '*.h' 2>/dev/null | LC_ALL=C sort)
[ $headers -gt 0 ] || {
	echo "no header found"
	bad=1
}
exit $bad
