#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh --top-build DIR --build DIR [--gpu soft|nvidia] [--quick] [--json FILE] [--provider LIBCUDA]
# Runs the bench through `vgpu run`, beside the provider called directly.
set -u
gpu=soft
quick=
json=
build=
top_build=
provider=
while [ $# -gt 0 ]; do
    case $1 in
    --gpu) gpu=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --top-build) top_build=$2; shift 2 ;;
    --json) json=$2; shift 2 ;;
    --quick) quick=--quick; shift ;;
    --provider) provider=$2; shift 2 ;;
    *) echo "usage: run.sh --top-build DIR --build DIR [--gpu soft|nvidia] [--quick] [--json FILE] [--provider LIBCUDA]" >&2; exit 2 ;;
    esac
done
build=${build:-$top_build/tests/perf}
json=${json:-$build/bench.json}
vgpu=$(find "$top_build/userspace" -type f -name vgpu -perm -u+x 2>/dev/null | head -n 1)
if [ -n "$provider" ]; then
    :
elif [ "$gpu" = soft ]; then
    provider=$(find "$top_build/host" -name libcuda-soft.so.1 2>/dev/null | head -n 1)
else
    provider=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -n 1)
fi
for part in "vgpu:$vgpu" "provider:$provider" "libcuda.so.1:$(find "$top_build/userspace" -name libcuda.so.1 | head -n 1)" \
    "vgpu-backend:$(find "$top_build/host" -type f -name vgpu-backend 2>/dev/null | head -n 1)"; do
    if [ -z "${part#*:}" ]; then
        echo "not run: bench: ${part%%:*} is not built"
        echo "bench: 0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done
passed=0
failed=0
skipped=0
# part NAME COMMAND...: runs COMMAND and adds the counts of its last line "NAME: N passed, M failed[, K skipped]".
part() {
    name=$1
    shift
    "$@" > "$build/$name.log" 2>&1
    status=$?
    cat "$build/$name.log"
    sums=$(sed -n "s/^$name: \([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p" "$build/$name.log" | tail -n 1)
    if [ -z "$sums" ] || { [ $status != 0 ] && [ "${sums#* }" = 0 ]; }; then
        echo "$name: ended with $status"
        sums=${sums%% *}
        sums="${sums:-0} 1"
    fi
    passed=$((passed + ${sums%% *}))
    failed=$((failed + ${sums##* }))
}
part bench timeout 900 "$vgpu" run --gpu "$gpu" "$build/bench" $quick --json "$json" --provider "$provider"
if [ ! -x /usr/bin/python3 ]; then
    echo "not run: plot: there is no /usr/bin/python3"
    skipped=$((skipped + 1))
elif [ -n "$quick" ]; then
    part plot /usr/bin/python3 -B "$(dirname "$0")/plot.py" --check "$build/bench.log" "$(dirname "$0")/../../docs/results"
elif /usr/bin/python3 -B "$(dirname "$0")/plot.py" "$build/bench.log" "${json%.json}.svg"; then
    echo "plotted: ${json%.json}.svg"
fi
part crowd-bench timeout 300 "$vgpu" run --gpu "$gpu" "$build/crowd-bench" $quick --json "${json%.json}-crowd.json"
if [ "$gpu" = soft ]; then
    # Cost of the software GPU: per instruction and, where ggml's libraries exist (GGML_DIR, or build/npm, filled by
    # scripts/npm.sh), per ggml operation.
    part insn-bench timeout 300 "$build/insn-bench" $quick --json "${json%.json}-insn.json" --provider "$provider"
    part soft-bench timeout 300 "$build/soft-bench" $quick --json "${json%.json}-soft.json" --provider "$provider"
    if [ -n "$quick" ] && [ -x /usr/bin/python3 ]; then
        part bench-check timeout 300 /usr/bin/python3 -B "$(dirname "$0")/bench_check.py" --build "$top_build" --bench "$build"
    elif [ -n "$quick" ]; then
        echo "not run: bench-check: there is no /usr/bin/python3"
        skipped=$((skipped + 1))
    fi
    if [ -z "$quick" ]; then
        :
    elif [ -n "${VGPU_TEST_NO_GUEST:-}" ]; then
        echo "not run: bench-guest: no guest is wanted"
        skipped=$((skipped + 1))
    elif [ -x /usr/bin/python3 ] && [ -x "$top_build/qemu/bin/qemu-system-x86_64" ] && [ -e "$top_build/guest/initrd.cpio" ] &&
        [ -e "$top_build/kernel/vgpu_drv.ko" ]; then
        part bench-guest timeout 300 /usr/bin/python3 -B "$(dirname "$0")/bench_guest.py" --brief --build "$top_build" --bench "$build"
    else
        echo "not run: bench-guest: QEMU, the guest or its driver is not built"
        skipped=$((skipped + 1))
    fi
    if [ -n "$quick" ] && [ -x /usr/bin/python3 ]; then
        part peers-test timeout 300 /usr/bin/python3 -B "$(dirname "$0")/peers_test.py" --build "$top_build" --bench "$build"
    elif [ -n "$quick" ]; then
        echo "not run: peers-test: there is no /usr/bin/python3"
        skipped=$((skipped + 1))
    fi
    # Shares between clients and between VMs: ratios of work done in the same time.
    if [ -x /usr/bin/python3 ]; then
        part tenancy-bench timeout 900 /usr/bin/python3 -B "$(dirname "$0")/tenancy.py" $quick --build "$top_build" --bench "$build" --json "${json%.json}-tenancy.json"
        # A client that tries to exceed its share: the remaining clients' share is a limit here, not a figure.
        [ -z "$quick" ] || part tenancy-bench timeout 900 /usr/bin/python3 -B "$(dirname "$0")/tenancy.py" --check --build "$top_build" --bench "$build"
    else
        echo "not run: tenancy-bench: there is no /usr/bin/python3"
        skipped=$((skipped + 1))
    fi
    ggml=${GGML_DIR:-$top_build/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda}
    if [ -e "$ggml/libggml-cuda.so" ]; then
        part ggml-bench timeout 600 "$vgpu" run --gpu soft "$build/ggml-bench" $quick --dir "$ggml" \
            --cuda "${CUDA_HOME:-/usr/local/cuda}" --json "${json%.json}-ggml.json"
    else
        echo "not run: ggml-bench: $ggml has no libggml-cuda.so"
        skipped=$((skipped + 1))
    fi
fi
if [ "$gpu" = soft ] && [ -z "$quick" ]; then
    # Tokens per second of a small model; tests/apps/llm fetches and builds what it needs (npm packages by name).
    # The check of tests/apps/llm runs the same programs.
    here=$(cd "$(dirname "$0")" && pwd)
    if make -C "$here/../apps/llm" O="$top_build/tests/apps/llm" CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" speed > "$build/llm-build.log" 2>&1; then
        part llm-bench timeout 1200 /usr/bin/python3 -B "$here/../apps/llm/measure.py" bench --build "$top_build" \
            --cuda "${CUDA_HOME:-/usr/local/cuda}" --json "${json%.json}-llm.json"
    else
        echo "not run: llm-bench: tests/apps/llm does not build: $(tail -n 1 "$build/llm-build.log")"
        skipped=$((skipped + 1))
    fi
fi
echo "bench: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
