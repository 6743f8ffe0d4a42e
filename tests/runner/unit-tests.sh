#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs unit tests (cmocka programs) and sums them up as "NAME: N passed, M failed, K skipped".
#   unit-tests.sh NAME LOG TEST...
# VGPU_TEST_PRELOAD: a library that selects tests (filter.c). Unless it is set, a program without tests fails.
label=$1
log=$2
shift 2
passed=0
failed=0
skipped=0
for t; do
    CMOCKA_MESSAGE_OUTPUT=TAP timeout 120 ${VGPU_TEST_PRELOAD:+env "LD_PRELOAD=$VGPU_TEST_PRELOAD" ASAN_OPTIONS=verify_asan_link_order=0} "$t" > "$log" 2>&1
    rc=$?
    name=$(basename "$t")
    sed -n "/# SKIP/!s/^ok [0-9]* - /ok   $name: /p; s/^not ok [0-9]* - /FAIL $name: /p" "$log"
    sed -n 's/^ok .*# SKIP */not run: /p' "$log"
    s=$(grep -c '^ok .*# SKIP' "$log")
    p=$(($(grep -c '^ok ' "$log") - s))
    f=$(grep -c '^not ok ' "$log")
    if [ $((p + f + s)) -eq 0 ] && [ $rc -eq 0 ] && [ -z "${VGPU_TEST_PRELOAD:-}" ]; then
        f=1
        echo "FAIL $name: ran no test"
    fi
    if [ $rc -ne 0 ]; then
        [ "$f" -eq 0 ] && f=1 && echo "FAIL $name: ended with status $rc"
        grep -v '^ok ' "$log" | tail -20
    fi
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
done
echo "$label: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
