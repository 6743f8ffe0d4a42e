#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the unit tests of this folder and sums them up.
#   run_tests.sh BUILD_DIR CUDA_HOME TEST...
out=$1
export CUDA_HOME=$2
shift 2
passed=0
failed=0
skipped=0
log=$out/test/log
for t; do
    CMOCKA_MESSAGE_OUTPUT=TAP timeout 120 "$t" > "$log" 2>&1
    rc=$?
    name=$(basename "$t")
    sed -n "s/^ok [0-9]* - /ok   $name: /p; s/^not ok [0-9]* - /FAIL $name: /p" "$log"
    sed -n 's/^ok .*# SKIP */not run: /p' "$log"
    p=$(grep -c '^ok ' "$log")
    f=$(grep -c '^not ok ' "$log")
    if [ $rc -ne 0 ]; then
        [ "$f" -eq 0 ] && f=1 && echo "FAIL $name: ended with status $rc"
        grep -v '^ok ' "$log" | tail -20
    fi
    passed=$((passed + p))
    failed=$((failed + f))
done
if CUDA_HOME=$CUDA_HOME sh exports_test.sh "$out"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
echo "libcuda: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
