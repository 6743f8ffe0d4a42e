#!/bin/bash
# SPDX-License-Identifier: MIT
#
# table.sh BUILD TOP_BUILD: records whole suites on the software GPU, replays them in each form, and writes
# docs/results/replay.md: numbers of calls and equal answers, and each difference.

set -u
build=$1
top=$2
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$top/userspace/vgpu/vgpu
work=$build/table
page=$here/../../../docs/results/replay.md
rm -rf "$work"
mkdir -p "$work"
: > "$work/differences"

# sums FILE: a log's totals: calls, equal answers, differences, calls without answer, calls not replayed.
sums()
{
    awk '/ calls of .* replayed: / { calls += $1; for (i = 1; i < NF; i++) {
             if ($(i + 1) == "answers") equal += $i
             if ($(i + 1) == "differences,") different += $i
             if ($(i + 1) == "calls" && i > 1) silent += $i } }
         /^  not replayed: / { skipped += $3 }
         END { printf "%d | %d | %d | %d | %d", calls, equal, different, silent, skipped }' "$1"
}

# row NAME FORM SETTING... -- OPTION...
row()
{
    local name=$1 form=$2 settings=() file files=0 log
    shift 2
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    log="$work/$name.$(tr -c 'a-z0-9\n' _ <<< "$form").log"
    : > "$log"
    for file in "$work/$name.vgr"*; do
        env "${settings[@]}" timeout 300 "$vgpu" replay --gpu soft --partial --timeout 100 "$@" "$file" \
            >> "$log" 2>&1
        files=$((files + 1))
    done
    echo "| $name | $form | $files | $(sums "$log") |"
    grep -hE "^(different|not replayed): " "$log" | sed "s/^/$name, $form: /" >> "$work/differences"
}

# rows NAME PROGRAM ARGS...
rows()
{
    timeout 580 "$vgpu" trace --gpu soft --record "$work/$1.vgr" "${@:2}" > "$work/$1.out" 2>&1
    row "$1" "again" --
    row "$1" "interpreted" VGPU_SOFT_JIT=0 --
    row "$1" "one thread, capability 9.0" VGPU_SOFT_THREADS=1 VGPU_SOFT_CC=9.0 --
    row "$1" "at other addresses" -- --move 5
}

{
    echo "# Recorded on the software GPU, replayed on it in other forms"
    echo
    echo "Written by \`make -C tests/system/replay table\` on $("$here/../../../scripts/results.py" stamp)."
    echo "A row is one replay of all recordings of a program, one per process. Each answer is compared as"
    echo "[replay.md](../replay.md) describes; errors of calls without an answer appear in later answers. The"
    echo "cases ipc_* and share_* of conform are left out because they need a second process, which a replay"
    echo "does not have. The recording of a process that was killed on purpose ends at that point."
    echo
    echo "| program | replayed | recordings | calls | answers equal | differences | calls without answer | not replayed |"
    echo "|---|---|---|---|---|---|---|---|"
    rows conform_rt "$top/tests/conformance/driver/conform_rt_static"
    mapfile -t cases < <("$vgpu" run --gpu soft "$top/tests/conformance/driver/conform" --list | grep -v '^ipc_\|^share_')
    rows conform "$top/tests/conformance/driver/conform" "${cases[@]}"
    rows cub_scan "$top/tests/conformance/cub/scan"
    [ ! -x "$top/tests/conformance/blas/blas" ] || rows blas "$top/tests/conformance/blas/blas"
    if [ -x "$top/tests/apps/llm/llm_eval" ]; then
        LD_LIBRARY_PATH=${CUDA_HOME:-/usr/local/cuda}/lib64 rows llm "$top/tests/apps/llm/llm_eval" \
            --backends "$top/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda" --device cuda \
            --prompt "$here/../../apps/llm/prompt.md" --model "$top/tests/apps/llm/models/tiny-q4_0.gguf" --tokens 24
    fi
    echo
    echo "## Differences, and calls that were not replayed"
    echo
    if [ -s "$work/differences" ]; then
        echo '```'
        cut -c1-200 "$work/differences"
        echo '```'
        echo
        echo "Three differences are expected. A GPU of capability 9.0 grants a kernel more shared memory than the"
        echo "recorded one, and has tensor maps. An access far outside of all memory reaches the block that --move has reserved, where"
        echo "it is no error."
    else
        echo "None."
    fi
} > "$work/page"
cp "$work/page" "$page"
echo "written: docs/results/replay.md"
