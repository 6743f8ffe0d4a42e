#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs `make check` of each folder and sums the results.
#
#   run-checks.sh FOLDER...
#
# A folder's check prints "<name>: N passed, M failed, K skipped" for each of its test runners and
# "not run: <test>: <reason>" for each skip. A check that fails without naming a failed test, or that
# prints no such line, counts as one failure. Each log is build/log/check-<folder>.log; the last
# line printed is the sum. Exit status 1 when a test failed.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$top/scripts/lib.sh"
mkdir -p "$BUILD/log"
rm -f "$BUILD"/log/check-*.log
results=$BUILD/log/results.txt
: > "$results"

for folder; do
    name=check-${folder//\//-}
    started=$(date +%s)
    VGPU_LOG_LINES=30 "$top/scripts/step.sh" "$name" "testing $folder" \
        make --no-print-directory -C "$top" "check-${folder//\//.}"
    rc=$?
    awk -v folder="$folder" -v rc=$rc -v seconds=$(($(date +%s) - started)) \
        -f "$here/sum.awk" "$BUILD/log/$name.log" | tee -a "$results"
done

awk '/^result / { passed += $3; failed += $4; skipped += $5 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }
    ' <(sed 's/^ *//' "$results" | awk '/: [0-9]+ passed, / { print "result", $1, $2, $4, $6 }')
