#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh TOP O SECONDS CUDA: runs the software GPU's api_test and fuzz_test, then sequences with one thread, and with two
# for a third of the time; then the same through a worker.
set -u
top=$1 out=$2
export CUDA_HOME="$4"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
passed=0 failed=0
# Uses after free, and an index of a register class without a row, show only under AddressSanitizer, also in the tests
# written for them.
for name in api_test fuzz_test; do
    if LD_LIBRARY_PATH=$out/softgpu "$out/softgpu/$name" > "$out/$name.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $name with sanitizers (log: $out/$name.log)"
        grep -m 8 -E '^\[  (FAILED|ERROR)|^\[   LINE|ERROR: AddressSanitizer|runtime error' "$out/$name.log"
    fi
done
# The patches of make mutants must still apply.
stale= skipped=0
command -v patch > /dev/null || { echo "not run: sequences: mutants apply: patch is not installed"; skipped=1; }
[ $skipped = 1 ] || for patch in "$top"/tests/system/sequences/mutants/*.patch; do
    patch --dry-run -s -f -p1 -d "$top" < "$patch" > "$out/mutants.log" 2>&1 || stale="$stale $(basename "$patch")"
done
if [ $skipped = 1 ]; then
    :
elif [ -z "$stale" ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAIL: these do not apply any more:$stale"
fi
for threads in 1 2; do
    seconds=$3
    [ $threads = 1 ] || seconds=$(($3 / 3))
    log=$out/threads-$threads.log
    if env LD_LIBRARY_PATH="$out/softgpu" LD_PRELOAD="$("${CC:-gcc}" -print-file-name=libasan.so)" "$out/sequences" --counts --jobs 4 --threads $threads \
        --seconds "$seconds" > "$log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        grep -m 5 -E '^FAIL|ERROR: AddressSanitizer|runtime error' "$log"
        echo "(log: $log)"
    fi
    tail -n 1 "$log"
    if "$top/tests/system/sequences/worker.sh" "$top" "$out" "$out/worker" "$CUDA_HOME" "$seconds" --jobs 4 --threads $threads; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "sequences: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
