#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A language model in a guest: node-llama-cpp, with its distributed CUDA backend and NVIDIA's libcudart
# and libcublas, prints tokens computed by the host's GPU, and ggml's CPU backend on the host computes
# them again for comparison.
#
#   demo.sh [--host] [--gpu soft|nvidia|auto] [--type f16|q8_0|q4_k|q4_0] [--size SIZE] [--tokens N] [BUILD]
#
# --host: over a unix socket, without a virtual machine. Exit status 0: all tokens were printed, and the
# logits match the CPU's.

set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)

where=guest
gpu=()
type=q8_0
size=small
tokens=64
while [ $# -gt 0 ]; do
    case $1 in
    --host) where=host ;;
    --gpu) gpu=(--gpu "${2:?}"); shift ;;
    --type) type=${2:?}; shift ;;
    --size) size=${2:?}; shift ;;
    --tokens) tokens=${2:?}; shift ;;
    --help) sed -n '4,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) BUILD=$1 ;;
    esac
    shift
done
BUILD=$(cd "${BUILD:-$here/../../../build}" && pwd) || exit 1
. "$here/common.sh"

for lib in libcudart.so.13 libcublas.so.13 libcublasLt.so.13; do
    [ -e "$CUDA_HOME/lib64/$lib" ] ||
        die "$CUDA_HOME/lib64 has no $lib: install the CUDA Toolkit 13 with cuBLAS, or set CUDA_HOME"
done
node=$("$SCRIPTS/npm.sh" --node) || exit 1
model=$OUT/models/$size-$type.gguf
make -s -C "$here" O="$OUT" CUDA_HOME="$CUDA_HOME" "$model" || die "the model cannot be made"
work=$BUILD/demo-llm
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

# heartbeat: prints a line for each 15 s in which output.txt does not grow, until killed.
heartbeat()
{
    local size=0 now

    trap 'kill $! 2> /dev/null; exit 0' TERM
    while :; do
        sleep 15 &
        wait $!
        now=$(stat -c %s output.txt)
        [ "$now" != "$size" ] || say "still at work: no output for 15 s"
        size=$now
    done
}

say "model: $(basename "$model"), $(($(stat -c %s "$model") / 1000000)) MB, made here from a seed: no weights were downloaded"
client=("$node" "$here/client.mjs" --npm "$BUILD/npm" --model "$model" --prompt "$here/prompt.md"
    --tokens "$tokens" --save client.json)
eval_cuda --model "$model" --tokens "$tokens" --quiet --save cuda.bin
# In a single boot of the guest: the client, then the same with its logits saved.
cat > inside.sh <<END
printf 'computed in: %s (Linux %s, %s CPUs, %s)\n' "\$(hostname)" "\$(uname -r)" "\$(nproc)" \
    "\$([ -e /dev/vgpu0 ] && echo /dev/vgpu0 || echo 'a unix socket to the host')"
$(printf '%q ' "${client[@]}") || exit 1
echo 'the same once more, keeping the logits:'
$(printf '%q ' "${EVAL[@]}") || exit 1
END
if [ $where = guest ]; then
    say "booting a guest: Debian's stock kernel $(cat "$BUILD/guest/release"), -device vgpu-cuda"
    run=("$VGPU" vm run "${gpu[@]}" --memory 3072 --timeout 1500 --keep-log "$work/kernel.log")
else
    run=("$VGPU" run "${gpu[@]}")
fi
# Loading the model and the first token take a minute on an emulated CPU: the heartbeat shows that it is no hang.
: > output.txt
heartbeat &
pulse=$!
"${run[@]}" /bin/bash inside.sh < /dev/null 2>&1 | tee output.txt
rc=$?
kill $pulse 2> /dev/null
wait $pulse 2> /dev/null
if [ $rc != 0 ]; then
    say "error: the run ended with status $rc. To see which call was refused, and why:"
    say "    $VGPU run --trace=refusals ${client[*]}"
    exit 1
fi
say "ggml's CPU backend on the host, following the same tokens:"
eval_cpu --model "$model" --threads 1 --tokens "$tokens" --quiet --follow cuda.bin | tee -a output.txt ||
    die "the CPU backend computes something else: $work/output.txt"
say "tokens and output: $work"
line=$(compared output.txt) || die "the comparison says nothing: $work/output.txt"
say "$line"
