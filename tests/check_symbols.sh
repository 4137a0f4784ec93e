#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_symbols.sh LIBVIEW - fails when the answers of fs/view/ know FUSE: neither they nor what they call for.
set -eu

symbols=$(nm -A "$1")
[ -n "$symbols" ] || {
	echo "$1 has no symbols"
	exit 1
}
! grep fuse_ <<<"$symbols"
