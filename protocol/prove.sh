#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh BUILD CUDA_INCLUDE [CALL...]: has CBMC prove what gen/templates/prove.py states of the worker's decoders: for a record
# of any bytes, up to 48 beyond the fixed part of its call, none reads beside it, writes beside the reply, or accepts
# what is longer than the description allows. CALL: all, or names; without one a call of each shape.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
out=$1
cuda=$2
shift 2
cbmc=$("$top/scripts/cbmc.sh" --where) || {
    echo "not run: prove_codec: cbmc is not there; scripts/cbmc.sh fetches it"
    echo "prove: 0 passed, 0 failed, 1 skipped"
    exit 0
}
mkdir -p "$out"
/usr/bin/python3 "$top/protocol/gen/emit.py" --prove "$out/vgp_prove.c" || exit 1
# An object and a scalar; a string; bytes; an array of structs; parts one after the other.
[ $# -gt 0 ] || set -- cuFuncGetParamCount vgpHello vgpBlobAppend vgpMemPoolSetAccess vgpLaunch
[ "$1" != all ] || set -- $(sed -n 's/^void alone_\(.*\)(void)$/\1/p' "$out/vgp_prove.c")
passed=0
failed=0
for call; do
    "$cbmc" "$out/vgp_prove.c" -D__CUDA_API_VERSION_INTERNAL -I"$top/protocol" -I"$top/protocol/generated" -I"$cuda" \
        --bounds-check --pointer-check --pointer-overflow-check --signed-overflow-check --unwinding-assertions --unwind 17 \
        --no-malloc-may-fail --slice-formula --drop-unused-functions --function "alone_$call" > "$out/prove.$call.log" 2>&1
    # The worker's own functions have no body here: their results are anything.
    if grep -q '^\*\* [0-9]* of [0-9]* failed' "$out/prove.$call.log" &&
        ! grep FAILURE "$out/prove.$call.log" | grep -v 'no body for callee'; then
        echo "prove_codec.$call: proved"
        passed=$((passed + 1))
    else
        echo "FAIL: prove_codec.$call: $out/prove.$call.log"
        failed=$((failed + 1))
    fi
done
echo "prove: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
