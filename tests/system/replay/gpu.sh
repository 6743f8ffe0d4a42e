#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gpu.sh BUILD TOP_BUILD [GPU]: for a machine with an NVIDIA GPU. Records each program on the software GPU and
# replays it on GPU (nvidia), then vice versa; prints the totals and every difference. Differences are findings
# and do not fail the script; a program that cannot be recorded or replayed does.

set -u
build=$1
top=$2
other=${3:-nvidia}
vgpu=$top/userspace/vgpu/vgpu
work=$build/both
passed=0
failed=0
mkdir -p "$work"
rm -f "$work"/*

# both NAME PROGRAM ARGS...
both()
{
    local from to file rc
    for from in soft "$other"; do
        [ $from = soft ] && to=$other || to=soft
        if ! timeout 300 "$vgpu" trace --gpu $from --record "$work/$1-$from.vgr" "${@:2}" \
            > "$work/$1-$from.out" 2>&1; then
            echo "the program ended with status $? on $from: its recording is taken as far as it goes"
        fi
        for file in "$work/$1-$from.vgr"*; do
            echo "== $1: recorded on $from, replayed on $to"
            timeout 600 "$vgpu" replay --gpu $to --partial --timeout 60 --show 200 "$file" 2>&1
            rc=$?
            if [ $rc -le 1 ]; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
                echo "FAIL: $1: recorded on $from, replayed on $to: status $rc"
            fi
        done
    done
}

both runtime "$top/tests/conformance/driver/conform_rt_static"
both conform "$top/tests/conformance/driver/conform" "copy_*" "mem*" "module_*" "launch_*" "device_*" "stream_*" event \
    "capture_*" "graph_*" "vmm_*" "pool_*" "link_*" "batch_*"
both cub "$top/tests/conformance/cub/scan"
[ ! -x "$top/tests/conformance/blas/blas" ] || both blas "$top/tests/conformance/blas/blas" sgemm sgemmBatched gemmEx-bf16 ltMatmul-f16
echo "replay_gpu: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
