#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh O SECONDS CUDA: runs the software GPU's api_test, then sequences of one thread, then of two for a third of the time.
set -u
out=$1
export CUDA_HOME="$3"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
export LD_LIBRARY_PATH="$out/softgpu"
passed=0 failed=0
# What was used after its end once shows under AddressSanitizer alone, also in the tests that were written for it.
if "$out/softgpu/api_test" > "$out/api_test.log" 2>&1; then
    passed=1
else
    failed=1
    echo "FAIL: api_test with sanitizers (log: $out/api_test.log)"
    grep -m 5 -E '^\[  FAILED|ERROR: AddressSanitizer|runtime error' "$out/api_test.log"
fi
for threads in 1 2; do
    seconds=$2
    [ $threads = 1 ] || seconds=$(($2 / 3))
    log=$out/threads-$threads.log
    if env LD_PRELOAD="$("${CC:-gcc}" -print-file-name=libasan.so)" "$out/sequences" --counts --threads $threads \
        --seconds "$seconds" > "$log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        grep -m 5 -E '^FAIL|ERROR: AddressSanitizer|runtime error' "$log"
        echo "(log: $log)"
    fi
    tail -n 1 "$log"
done
echo "sequences: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
