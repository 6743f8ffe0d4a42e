#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh BUILD SOURCE check|fuzz SECONDS [TARGET...]
#
# Runs each target for SECONDS over its seeds. check starts from the seeds alone, with a fixed random
# seed; fuzz keeps new inputs in BUILD/found/TARGET and continues from there, with another random seed
# each time. An input that crashes a target stays in BUILD/crash/ and is named. Runs as many
# single-threaded targets at once as there are processors (FUZZ_JOBS).
set -u
build=$1
src=$2
mode=$3
seconds=$4
shift 4
[ $# -gt 0 ] || set -- fuzz_image fuzz_sass fuzz_ptx fuzz_exec fuzz_exec-native fuzz_exec-avx2 fuzz_broker fuzz_dispatch
verdicts=$build/verdicts
rm -rf "$verdicts"
mkdir -p "$build/crash" "$verdicts"

# run NAME: runs a target; its verdict goes to a file of that name.
run()
{
    name=$1
    # fuzz_exec-native, fuzz_exec-avx2: fuzz_exec with native code and guard pages, with and without AVX-512.
    target=${name%-native}
    target=${target%-avx2}
    case $name in
    *-native) export FZ_GUARD=1; unset VGPU_SOFT_ISA VGPU_SOFT_JIT ;;
    *-avx2) export FZ_GUARD=1 VGPU_SOFT_ISA=avx2; unset VGPU_SOFT_JIT ;;
    *) unset FZ_GUARD; export VGPU_SOFT_ISA=avx2 VGPU_SOFT_JIT=0 ;;
    esac
    case $name in
    *-native) flag=avx512bw ;;
    *-avx2) flag=avx2 ;;
    *) flag=fpu ;;
    esac
    if ! grep -qw $flag /proc/cpuinfo; then
        echo "not run: $name: the processor has no $flag"
        echo skipped > "$verdicts/$name"
        return
    fi
    if [ ! -x "$build/$target" ]; then
        echo "not run: $name: clang with libFuzzer is not installed"
        echo skipped > "$verdicts/$name"
        return
    fi
    case $target in
    fuzz_image) seeds=$build/seeds max=16384 ;;
    fuzz_sass) seeds=$build/seeds_sass max=16384 ;;
    fuzz_broker) seeds=$build/seeds_broker max=4096 ;;
    fuzz_dispatch) seeds=$build/seeds_dispatch max=4096 ;;
    *) seeds=$src/corpus/${target#fuzz_} max=8192 ;;
    esac
    if [ "$mode" = check ]; then
        rm -rf "$build/work.$name"
        found=$build/work.$name
        options=-seed=1
    else
        found=$build/found/$target # both ways start from what either found
        options=
    fi
    # Inputs of fuzz_dispatch wait for answers; the target detects hangs itself.
    limit=60
    case $target in fuzz_dispatch | fuzz_broker) limit=300 ;; esac
    # libFuzzer's memory-watching thread may hold an allocator lock during a fork, which then stays locked in the child.
    rss=2048
    case $target in fuzz_dispatch | fuzz_broker) rss=0 ;; esac
    mkdir -p "$found"
    log=$build/$name.log
    # The limit per input is generous, as the machine is shared.
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 timeout $((seconds * 3 + 120)) \
        "$build/$target" $options -max_total_time="$seconds" -max_len=$max -timeout=$limit \
        -rss_limit_mb=$rss -malloc_limit_mb=1024 -dict="$build/dictionary" -artifact_prefix="$build/crash/$name-" \
        -print_final_stats=1 "$found" "$seeds" > "$log" 2>&1
    rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    if [ $rc = 0 ] && [ "${runs:-0}" -gt 0 ]; then
        echo "$name: $seconds s, $runs inputs, $edges edges: no finding"
        echo passed > "$verdicts/$name"
    else
        echo "FAIL: $name: ended with $rc after ${runs:-?} inputs; $log"
        grep -E 'ERROR|SUMMARY|runtime error|Test unit written' "$log" | head -n 5
        echo failed > "$verdicts/$name"
    fi
}

# count VERDICT: prints the number of targets with VERDICT
count()
{
    cat "$verdicts"/* 2> /dev/null | grep -c "^$1$"
}

lanes=${FUZZ_JOBS:-$(nproc)}
lane=0
while [ $lane -lt "$lanes" ]; do
    at=0
    for name; do
        [ $((at % lanes)) -ne $lane ] || echo "$name"
        at=$((at + 1))
    done | while read -r name; do
        run "$name"
    done &
    lane=$((lane + 1))
done
wait
failed=$(($# - $(count passed) - $(count skipped))) # also those that left no verdict
echo "fuzz: $(count passed) passed, $failed failed, $(count skipped) skipped"
[ $failed = 0 ]
