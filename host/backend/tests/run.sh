#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs cmocka programs, as many at a time as VGPU_TEST_JOBS says (2: most of them wait for processes that end or stay silent), and sums
# their results. The reports come in the order of the arguments.
# VGPU_TEST_PRELOAD: a library that selects tests (tests/runner/filter.c). Without it a program that runs no test fails.
passed=0 failed=0 skipped=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
# Numbered, so that two programs of one name do not share a report.
n=0
for t in "$@"; do
    n=$((n + 1))
    printf '%s\0%s\0' "$dir/$n" "$t"
done | xargs -0 -n 2 -P "${VGPU_TEST_JOBS:-2}" sh -c '
    timeout 300 ${VGPU_TEST_PRELOAD:+env "LD_PRELOAD=$VGPU_TEST_PRELOAD" ASAN_OPTIONS=verify_asan_link_order=0} "$1" > "$0.new" 2>&1
    echo $? > "$0.status"
    mv "$0.new" "$0"' &
n=0
for t in "$@"; do
    n=$((n + 1))
    out=$dir/$n
    while ! [ -e "$out" ] && kill -0 $! 2> /dev/null; do
        sleep 0.1
    done
    status=$(cat "$out.status" 2> /dev/null || echo none)
    [ -e "$out" ] || : > "$out"
    grep -aE '^\[(       OK |  SKIPPED |  ERROR   |   LINE   )\]|^not run:' "$out"
    grep -aE '^\[  FAILED  \] [a-z_0-9]+$' "$out" | sort -u
    ok=$(grep -ac '^\[       OK \]' "$out")
    bad=$(grep -aE '^\[  FAILED  \] [a-z_0-9]+$' "$out" | sort -u | wc -l)
    skip=$(grep -aE '^\[  SKIPPED \] [a-z_0-9]+$' "$out" | sort -u | wc -l)
    if [ "$status" != 0 ]; then
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
