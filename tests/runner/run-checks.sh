#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs `make check` in each folder and sums the results.
#
#   run-checks.sh [--jobs N] [--beside "FOLDER..."] FOLDER... [--together FOLDER...]
#
# A folder's check prints "<name>: N passed, M failed, K skipped" for each of its test runners and
# "not run: <test>: <reason>" for each skip. A check that fails without naming a failed test, or without
# such a line, counts as a failure. Logs: build/log/check-<folder>.log; the last line printed is the sum.
# Exit status 1 if a test failed. --jobs: number of concurrent checks (default 1).
# --beside: these folders run in sequence beside the rest, as most checks keep only one processor busy.
# --together: the folders after it run last, three at a time, since they alternate between waiting and computing.
# Prints after each its wall time and the processor time of all its processes, s.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$top/scripts/lib.sh"
mkdir -p "$BUILD/log"
rm -f "$BUILD"/log/check-*.log
results=$BUILD/log/results.txt
: > "$results"

# seconds_of FILE: sums the children's user and system time in FILE, the output of `times`: 1m2.345s 0m1.234s.
seconds_of()
{
    awk 'NR == 2 { gsub("[ms]", " "); printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4 }' "$1"
}

# one FOLDER: runs its check, then prints all its lines together.
one()
{
    local folder=$1 name=check-${1//\//-} started rc

    started=$(date +%s)
    (
        VGPU_LOG_LINES=30 "$top/scripts/step.sh" "$name" "testing $folder" \
            make --no-print-directory -C "$top" "check-${folder//\//.}"
        rc=$?
        times > "$BUILD/log/$name.times" # of this subshell, then of its children
        exit $rc
    )
    rc=$?
    awk -v folder="$folder" -v rc=$rc -v seconds=$(($(date +%s) - started)) -v cpu="$(seconds_of "$BUILD/log/$name.times")" \
        -f "$here/sum.awk" "$BUILD/log/$name.log" > "$BUILD/log/$name.sum"
    cat "$BUILD/log/$name.sum" >> "$results"
    cat "$BUILD/log/$name.sum"
    rm "$BUILD/log/$name.sum" "$BUILD/log/$name.times"
}

jobs=1
if [ "${1:-}" = --jobs ]; then
    jobs=$2
    shift 2
fi
if [ "${1:-}" = --beside ]; then
    trap 'trap - TERM; kill 0' INT TERM
    for folder in $2; do
        one "$folder"
    done &
    shift 2
fi
for folder; do
    if [ "$folder" = --together ]; then
        wait
        jobs=3
        continue
    fi
    # Background processes do not receive Ctrl-C, so the whole group is killed.
    [ "$jobs" = 1 ] || trap 'trap - TERM; kill 0' INT TERM
    if [ "$jobs" = 1 ]; then
        one "$folder"
        continue
    fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
    done
    one "$folder" &
done
wait

awk '/^result / { passed += $3; failed += $4; skipped += $5 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }
    ' <(awk '/^  [^ ].*: [0-9]+ passed, / { print "result", $1, $2, $4, $6 }' "$results") # not what a failed test has said
