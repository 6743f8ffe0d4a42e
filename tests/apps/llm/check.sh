#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The short form: each type of weights over the socket, the client, one guest.
#
#   check.sh BUILD [PART...]    parts: verdict_line generator types waits client limits guest (default: all, in this order;
#                               client, limits and guest compare with the output of types)

set -u
BUILD=$(cd "${1:?}" && pwd) || exit 1
. "$(dirname "$0")/common.sh"
. "$LLM/limits.sh"
T=$OUT/check
[ $# -gt 1 ] || rm -rf "$T"
mkdir -p "$T"
cd "$T" || exit 1
passed=0
failed=0
skipped=0

# ok NAME / bad NAME REASON...: reports a test's result.
ok()
{
    passed=$((passed + 1))
    echo "ok: $1"
}

bad()
{
    failed=$((failed + 1))
    echo "FAIL: $1: ${*:2}"
}

# run NAME COMMAND...: the test passes if COMMAND succeeds; its output goes to NAME.log.
run()
{
    if timeout 700 "${@:2}" > "$1.log" 2>&1 < /dev/null; then
        ok "$1"
    else
        bad "$1" "status $?"
        tail -n 8 "$1.log"
    fi
}

# Checks the demo's last line, which is derived from llm_eval's output.
verdict_line()
{
    local logits="logits: 16 x 32000 compared, largest difference 0.0123, nmse 1.2e-06 (worst token 3e-06, limit 1e-04)"

    printf '%s\n' "$logits" "tokens: all 16 are the same (the closest choice was by 0.5)" > verdict.txt
    compared verdict.txt | grep -q "all 16 tokens and 16 x 32000 logits are equal (nmse 1.2e-06, limit 1e-04)" &&
        ok "demo_says_equal" || bad "demo_says_equal" "$(compared verdict.txt)"
    printf '%s\n' "$logits" "tokens: number 3 differs: 5 here (logits 1 here, 1 saved), 6 saved (1 here, 1 saved)" > verdict.txt
    compared verdict.txt | grep -q "token 3 differs by a close choice, 16 x 32000 logits" && ok "demo_says_differs" || bad "demo_says_differs" "$(compared verdict.txt)"
    printf 'device: CPU\n' > verdict.txt
    ! compared verdict.txt > /dev/null && ok "demo_without_a_comparison" || bad "demo_without_a_comparison" "$(compared verdict.txt)"
}

generator()
{
    local vocab=$BUILD/llama/src/models/ggml-vocab-llama-spm.gguf

    run generator_same_file "$OUT/gguf_make" --vocab "$vocab" --text "$LLM/text.md" --size tiny \
        --type q4_0 --out again.gguf
    cmp -s again.gguf "$OUT/models/tiny-q4_0.gguf" || bad generator_same_file "the file is another one"
    for option in "--type q3" "--size huge" "--tokens 1" "--embd 300" "--layers 0" "--seed x"; do
        # shellcheck disable=SC2086
        "$OUT/gguf_make" --vocab "$vocab" --text "$LLM/text.md" --out bad.gguf $option > bad.log 2>&1
        if [ $? = 2 ] && grep -q '^gguf_make: --' bad.log && [ ! -e bad.gguf ]; then
            ok "generator_refuses ${option% *}"
        else
            bad "generator_refuses ${option% *}" "$(cat bad.log)"
        fi
    done
}

# Each type of weights over the socket, against ggml's CPU backend.
types()
{
    local type

    for type in f16 q8_0 q4_k q4_0; do
        eval_cpu --model "$OUT/models/tiny-$type.gguf" --threads 1 --tokens 24 --save "$type.bin" > "cpu_$type.log" 2>&1 ||
            bad "cpu_$type" "$(tail -n 1 "cpu_$type.log")"
        eval_cuda --model "$OUT/models/tiny-$type.gguf" --tokens 24 --follow "$type.bin"
        run "socket_$type" "$VGPU" run --gpu soft "${EVAL[@]}"
    done
}

# A decoded token waits at most twice: for its inputs, whose stream is not the graph's, and for the logits.
waits()
{
    local tokens counts=()

    for tokens in 16 48; do
        eval_cuda --model "$OUT/models/tiny-f16.gguf" --tokens $tokens
        VGPU_STATS=1 timeout 300 "$VGPU" run --gpu soft "${EVAL[@]}" > waits.log 2>&1 < /dev/null
        counts+=("$(sed -n 's/^vgpu-stats:.* round_trips=\([0-9]*\).*/\1/p' waits.log)")
    done
    if [ -n "${counts[0]}" ] && [ -n "${counts[1]}" ] && [ $((counts[1] - counts[0])) -le 64 ]; then
        ok waits_of_a_token
    else
        bad waits_of_a_token "round trips of 16 and of 48 tokens: ${counts[*]:-none}; $(tail -n 2 waits.log)"
    fi
}

# graphs_and_pool NAME TRACE TOKENS: the machine-readable trace must show CUDA graphs and the VMM pool in use: a
# graph captured, instantiated and launched for nearly every token, and the pool's memory reserved and mapped.
graphs_and_pool()
{
    if /usr/bin/python3 - "$2" "$3" > "$1.log" 2>&1 <<'END'
import collections, json, sys
calls = collections.Counter()
for line in open(sys.argv[1], encoding="ascii"):
    event = json.loads(line)
    if event["type"] == "call" and event["code"] == 0:
        calls[event["call"]] += 1
print(calls)
for name in ("cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuMemAddressReserve",
             "cuMemCreate", "cuMemMap", "cuMemSetAccess"):
    assert calls[name] > 0, name
assert calls["cuGraphLaunch"] >= int(sys.argv[2]) - 4, "cuGraphLaunch"
END
    then
        ok "$1"
    else
        bad "$1" "$(tail -n 1 "$1.log")"
    fi
}

client()
{
    local node

    node=$("$SCRIPTS/npm.sh" --node) || { bad client "no node"; return; }
    run socket_client "$VGPU" trace --gpu soft --totals --json client-trace.json "$node" "$LLM/client.mjs" --npm "$BUILD/npm" --tokens 24 \
        --model "$OUT/models/tiny-f16.gguf" --prompt "$LLM/prompt.md" --save client.json
    graphs_and_pool client_graphs_and_pool client-trace.json 24
    # Without a GPU it must report so instead of using the CPU.
    if timeout 200 "$node" "$LLM/client.mjs" --npm "$BUILD/npm" --tokens 4 --model "$OUT/models/tiny-f16.gguf" \
        --prompt "$LLM/prompt.md" > client_alone.log 2>&1; then
        bad client_without_gpu "it ran"
    elif grep -q '^client: no CUDA' client_alone.log; then
        ok client_without_gpu
    else
        bad client_without_gpu "$(tail -n 3 client_alone.log)"
    fi
}

guest()
{
    local node name status

    for part in qemu/bin/qemu-system-x86_64 kernel/vgpu_drv.ko guest/initrd.cpio; do
        [ -e "$BUILD/$part" ] && continue
        echo "not run: guest: $part is not built"
        skipped=$((skipped + 1))
        return
    done
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 1500
    killed guest_killed_while_decoding qemu-system-x86_64 "$VGPU" vm run --gpu soft --memory 2048 "${EVAL[@]}"
    node=$("$SCRIPTS/npm.sh" --node)
    run guest "$VGPU" vm run --gpu soft --memory 3072 --timeout 680 "$LLM/guest.sh" "$BUILD" "$node"
    while read -r name status _; do
        [ -n "$name" ] || continue
        if [ "$status" = 0 ]; then
            ok "$name"
        else
            bad "$name" "status $status: $(tail -n 3 "$name.log")"
        fi
    done < guest.txt
    graphs_and_pool guest_client_graphs_and_pool guest-trace.json 24
    cmp -s client.json guest-client.json || bad guest_client "other tokens than over the socket"
}

VGPU_BUILD=$BUILD "$SCRIPTS/llama.sh" llama-bench llama-server || exit 1
shift
for part in "${@:-verdict_line generator types waits client limits guest}"; do
    for test in $part; do
        "$test"
    done
done
echo "llm: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
