#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The tests inside the guest, in a single boot started by check.sh. Each test writes NAME.log and a line
# "NAME STATUS SECONDS" to guest.txt.
#
#   guest.sh BUILD NODE

set -u
BUILD=$1
node=$2
. "$(dirname "$0")/common.sh"
: > guest.txt

in_guest()
{
    local start=$SECONDS

    timeout 300 "${@:2}" > "$1.log" 2>&1 < /dev/null
    echo "$1 $? $((SECONDS - start))" | tee -a guest.txt
}

both()
{
    local one two

    eval_cuda --model "$OUT/models/tiny-q8_0.gguf" --tokens 24 --quiet --follow q8_0.bin
    "${EVAL[@]}" &
    one=$!
    eval_cuda --model "$OUT/models/tiny-q4_k.gguf" --tokens 24 --quiet --follow q4_k.bin
    "${EVAL[@]}" &
    two=$!
    wait $one && wait $two
}

eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 24 --follow q4_0.bin
in_guest guest_q4_0 "${EVAL[@]}"
# Two concurrent processes, each with its own model.
export -f both eval_cuda
export OUT LLM BACKENDS
in_guest guest_two_at_once bash -c both
in_guest guest_llama_bench "$BUILD/llama/bin/llama-bench" -m "$OUT/models/tiny-q4_0.gguf" -p 32 -n 8 -r 1 -ngl 99 -fa 1
in_guest guest_llama_server "$LLM/server.sh" "$BUILD/llama/bin/llama-server" "$OUT/models/tiny-q4_0.gguf"
rm -f guest-trace.json
VGPU_TRACE_JSON=$PWD/guest-trace.json in_guest guest_client "$node" "$LLM/client.mjs" --npm "$BUILD/npm" --tokens 24 \
    --model "$OUT/models/tiny-f16.gguf" --prompt "$LLM/prompt.md" --save guest-client.json
