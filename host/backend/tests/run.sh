#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs cmocka programs one after the other and sums their results.
# VGPU_TEST_PRELOAD: a library that selects tests (tests/runner/filter.c). Without it a program that runs no test fails.
passed=0 failed=0 skipped=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for t in "$@"; do
    timeout 300 ${VGPU_TEST_PRELOAD:+env "LD_PRELOAD=$VGPU_TEST_PRELOAD" ASAN_OPTIONS=verify_asan_link_order=0} "$t" >"$out" 2>&1
    status=$?
    grep -aE '^\[(       OK |  SKIPPED |  ERROR   |   LINE   )\]|^not run:' "$out"
    grep -aE '^\[  FAILED  \] [a-z_0-9]+$' "$out" | sort -u
    ok=$(grep -ac '^\[       OK \]' "$out")
    bad=$(grep -aE '^\[  FAILED  \] [a-z_0-9]+$' "$out" | sort -u | wc -l)
    skip=$(grep -aE '^\[  SKIPPED \] [a-z_0-9]+$' "$out" | sort -u | wc -l)
    if [ "$status" -ne 0 ]; then
        [ "$bad" -eq 0 ] && bad=1
        echo "--- $t ended with status $status"
        tail -n 40 "$out"
    fi
    if [ $((ok + bad + skip)) -eq 0 ] && [ -z "${VGPU_TEST_PRELOAD:-}" ]; then
        bad=1
        echo "FAIL: $t ran no test"
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
echo "backend: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
