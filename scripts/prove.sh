#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh DIR NAME COMMAND...: runs each command, which prints `prove: N passed, N failed, N skipped` at its end, whatever the ones
# before it said, and ends with a table of them all and how long each took. Their output is in DIR/NAME.log.
set -u
dir=$1
shift
mkdir -p "$dir"
failed=0
table=
while [ $# -ge 2 ]; do
    began=$(date +%s)
    sh -c "$2" > "$dir/$1.log" 2>&1
    status=$?
    count=$(sed -n 's/^prove: //p' "$dir/$1.log" | tail -n 1)
    grep -E '^not run:|^FAIL:|FAILED' "$dir/$1.log" | sort -u
    table="$table$(printf '%-10s %-46s %5d s' "$1" "${count:-no result: $dir/$1.log}" $(($(date +%s) - began)))
"
    [ $status -eq 0 ] && [ -n "$count" ] || failed=1
    shift 2
done
printf '%s' "$table"
exit $failed
