#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh TOP CUDA_INCLUDE: has CBMC prove what prove_ring.c states of the worker's ring, with its checks of
# pointers, bounds and overflows. Prints what was proved, and a count.
set -u
top=$1
cuda=$2
worker=$top/host/backend/worker
if ! cbmc=$("$top/scripts/cbmc.sh" --where); then
    echo "not run: prove_ring: cbmc is not there; scripts/cbmc.sh fetches it"
    echo "prove: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
# shellcheck disable=SC2046 # lists of words; the source wherever it lies
if out=$("$cbmc" "$top/host/backend/tests/prove_ring.c" $(find "$worker" -name ring.c) -D__CUDA_API_VERSION_INTERNAL \
    -I"$top/protocol" -I"$top/protocol/generated" -I"$top/kernel/vgpu_drv/uapi" -I"$top/host/backend/common" \
    -I"$cuda" $(find "$worker" -type d | sed 's/^/-I/') --bounds-check --pointer-check --pointer-overflow-check \
    --signed-overflow-check --div-by-zero-check --unwinding-assertions --unwind 6 --no-malloc-may-fail \
    --slice-formula --function prove_ring 2>&1); then
    echo "prove_ring: proved"
    echo "prove: 1 passed, 0 failed, 0 skipped"
else
    printf '%s\n' "$out" | grep -E 'FAILURE|error' | head -n 20
    echo "FAIL: prove_ring"
    echo "prove: 0 passed, 1 failed, 0 skipped"
    exit 1
fi
