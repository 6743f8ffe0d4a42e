#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh BUILD CUDA_INCLUDE [CALL...]: has CBMC prove what gen/templates/prove.py states of the worker's decoders: for a record
# of any bytes and any length that its call may have, none reads beside it, writes beside the reply, or accepts what is longer
# than the description allows. A decoder with a loop over elements: for 48 bytes beyond the fixed part of its call. CALL: names;
# without one, all. CALL_SIDES, WORKER_HEADERS: as in the Makefile. PROVE_JOBS: how many at once. CBMC: the program. Prints a line for each, and a count.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
out=$1/prove
cuda=$2
shift 2
[ "${1:-}" != all ] || shift
cbmc=${CBMC:-$("$top/scripts/cbmc.sh" --where)} || {
    echo "not run: prove_codec: cbmc is not there; scripts/cbmc.sh fetches it"
    echo "prove: 0 passed, 0 failed, 1 skipped"
    exit 0
}
rm -rf "$out"
mkdir -p "$out"
/usr/bin/python3 "$top/protocol/gen/emit.py" $CALL_SIDES --prove "$out" $WORKER_HEADERS || exit 1
[ $# -gt 0 ] || set -- $(ls "$out" | sed -n 's/^prove_\(.*\)\.c$/\1/p')
for call; do
    [ -e "$out/prove_$call.c" ] || { echo "FAIL: prove_codec.$call: no such call"; echo "prove: 0 passed, 1 failed, 0 skipped"; exit 1; }
done
inc=$CALL_RUNTIME_INC # by another name: xargs replaces CALL
export top out cuda cbmc inc
printf '%s\n' "$@" | xargs -P "${PROVE_JOBS:-2}" -I CALL sh -c '
    "$cbmc" "$out/prove_CALL.c" -D__CUDA_API_VERSION_INTERNAL -I"$top/protocol" \
        -I"$top/build/generated" $inc -I"$cuda" --bounds-check --pointer-check --pointer-overflow-check --signed-overflow-check \
        --unwinding-assertions --unwind 17 --no-library --slice-formula --drop-unused-functions --function prove \
        > "$out/CALL.log" 2>&1
    if [ $? = 0 ] && grep -q "^VERIFICATION SUCCESSFUL" "$out/CALL.log"; then
        echo "prove_codec.CALL: proved"
    else
        echo "FAIL: prove_codec.CALL: $out/CALL.log"
    fi' > "$out/results"
sort "$out/results"
passed=$(grep -c ': proved$' "$out/results")
failed=$(($# - passed))
echo "prove: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
