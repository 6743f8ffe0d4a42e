#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh TOP CUDA_INCLUDE: has CBMC prove what prove_ring.c and prove_handle.c state of the worker's ring and of its table of
# handles, with its checks of pointers, bounds and overflows. Prints what was proved, and a count.
set -u
top=$1
cuda=$2
worker=$top/host/backend/worker
if ! cbmc=$("$top/scripts/cbmc.sh" --where); then
    echo "not run: prove_ring, prove_handle: cbmc is not there; scripts/cbmc.sh fetches it"
    echo "prove: 0 passed, 0 failed, 2 skipped"
    exit 0
fi
passed=0
failed=0
prove() { # NAME SOURCES OPTION...
    name=$1
    sources=$2
    shift 2
    # shellcheck disable=SC2046,SC2086 # lists of words
    if out=$("$cbmc" $sources -D__CUDA_API_VERSION_INTERNAL -I"$top" -I"$top/host/backend" -I"$top/protocol" -I"$top/protocol/generated" \
        -I"$top/kernel/vgpu_drv/uapi" -I"$top/host/backend/common" -I"$top/lib/link" -I"$cuda" \
        $(find "$worker" -type d | sed 's/^/-I/') --bounds-check --pointer-check --pointer-overflow-check --signed-overflow-check \
        --div-by-zero-check --unwinding-assertions --slice-formula --function "prove_$name" "$@" 2>&1); then
        echo "prove_$name: proved"
        passed=$((passed + 1))
    else
        printf '%s\n' "$out" | grep -E 'FAILURE|error' | head -n 20
        echo "FAIL: prove_$name"
        failed=$((failed + 1))
    fi
}
prove ring "$top/host/backend/tests/prove_ring.c $worker/window/ring.c" --unwind 6 --no-malloc-may-fail
# The loop over parts of what is removed is never entered: that is proved, too.
for what in find put no_return mint; do
    prove $what "$top/host/backend/tests/prove_handle.c" --no-library --drop-unused-functions --unwind 6 \
        --unwindset wrk_handles_remove.0:1
done
prove parts "$top/host/backend/tests/prove_handle.c" --no-library --drop-unused-functions --unwind 7 \
    --unwindset wrk_handles_remove:2,wrk_handles_remove.0:5
prove part "$top/host/backend/tests/prove_handle.c" --no-library --drop-unused-functions --unwind 7 \
    --unwindset wrk_handles_remove.0:1
echo "prove: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
