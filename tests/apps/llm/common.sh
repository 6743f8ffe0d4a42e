# SPDX-License-Identifier: MIT
# Shared functions of this folder's scripts; sourced with BUILD set.

LLM=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$LLM/../../../scripts/lib.sh"
OUT=$BUILD/tests/apps/llm
VGPU=$BUILD/userspace/vgpu/vgpu
BACKENDS=$BUILD/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda
# The build without CUDA, so that the reference cannot use a GPU by mistake.
CPU_BACKENDS=$BUILD/npm/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
# libcudart and libcublas as NVIDIA ships them; vgpu prepends libcuda.so.1's folder.
export LD_LIBRARY_PATH=$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Keeps ggml from starting a debugger when it aborts; the message is enough.
export GGML_NO_BACKTRACE=1

# eval_cuda ARGS...: the command line of llm_eval on the CUDA backend, for vgpu to run.
eval_cuda()
{
    EVAL=("$OUT/llm_eval" --backends "$BACKENDS" --device cuda --prompt "$LLM/prompt.md" "$@")
}

# eval_cpu ARGS...: runs llm_eval on ggml's CPU backend here.
eval_cpu()
{
    "$OUT/llm_eval" --backends "$CPU_BACKENDS" --device cpu --prompt "$LLM/prompt.md" "$@"
}

# compared OUTPUT: prints a line with the scope and result of llm_eval --follow's comparison; status 1: no comparison.
# The answer's text is meaningless, as the weights are generated from a seed.
compared()
{
    local tokens logits

    logits=$(sed -n 's/^logits: \([0-9]*\) x \([0-9]*\) compared, .*, nmse \([^ ]*\) .*limit \([^)]*\)).*/\1 x \2 logits are equal (nmse \3, limit \4)/p' "$1" | tail -n 1)
    tokens=$(sed -n 's/^tokens: all \([0-9]*\) are the same.*/all \1 tokens and/p; s/^tokens: number \([0-9]*\) differs:.*/token \1 differs by a close choice,/p' "$1" | tail -n 1)
    [ -n "$tokens" ] && [ -n "$logits" ] || return 1
    echo "compared the GPU of vgpu-cuda with ggml's CPU backend on this host: $tokens $logits. The answer is nonsense, since the weights are random"
}
