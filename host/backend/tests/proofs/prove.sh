#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh TOP CUDA_INCLUDE: has CBMC prove what prove_ring.c and prove_handle.c state of the worker's ring and of its table of
# handles, with its checks of pointers, bounds and overflows. CaDiCaL decides those of the table, each in minutes; CBMC's own
# solver ends with none of those that remove. Prints what was proved, and a count.
set -u
top=$1
cuda=$2
worker=$top/host/backend/worker
if ! cbmc=$("$top/scripts/cbmc.sh" --where); then
    echo "not run: prove_ring, prove_handle: cbmc is not there; scripts/cbmc.sh fetches it"
    echo "prove: 0 passed, 0 failed, 8 skipped"
    exit 0
fi
removed=wrk_handles_remove # its loops are limited below
"$top/scripts/cbmc.sh" --limits "$removed:1" "$worker/core/wrk_handle.c" || exit 1
passed=0
failed=0
prove() { # NAME SOURCES OPTION...
    name=$1
    sources=$2
    shift 2
    # shellcheck disable=SC2046,SC2086 # lists of words
    if out=$("$cbmc" $sources -D__CUDA_API_VERSION_INTERNAL -I"$top" -I"$top/host/backend" -I"$top/protocol" -I"$top/build/generated" \
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
prove ring "$top/host/backend/tests/proofs/prove_ring.c $worker/window/wrk_ring.c" --unwind 6 --no-malloc-may-fail
if command -v cadical > /dev/null; then
    handle() { # NAME OPTION...
        what=$1
        shift
        prove "$what" "$top/host/backend/tests/proofs/prove_handle.c" --no-library --drop-unused-functions --external-sat-solver cadical "$@"
    }
    # The loop over parts of what is removed is never entered: that is proved, too.
    for what in find put mint; do
        handle $what --unwind 6 --unwindset "$removed.0:1"
    done
    for what in no_return no_return_minted part; do
        handle $what -DWRK_HANDLE_CHUNK=1u --unwind 7 --unwindset "$removed.0:1"
    done
    handle parts -DWRK_HANDLE_CHUNK=1u --unwind 7 --unwindset "$removed:2,$removed.0:5"
    skipped=0
else
    echo "not run: prove_handle: cadical is not installed"
    skipped=7
fi
echo "prove: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
