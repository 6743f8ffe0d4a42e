#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh --top-build DIR [--build DIR] [--gpu soft|nvidia] [--only direct|socket]
#
# Runs the conformance suite (a) on the provider alone and (b) through libcuda and the backend over
# the socket, and compares the two outputs line by line. With --gpu nvidia the provider is the
# host's own libcuda.so.1 and every difference is printed, call by call. (b) uses the build folder;
# if a part is missing there, (b) is `not run` and the missing part is named.
# The last line sums checks over all programs: `conform: N passed, M failed, K skipped`.
set -u
gpu=soft
only=
build=
top_build=
while [ $# -gt 0 ]; do
    case $1 in
    --gpu) gpu=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --top-build) top_build=$2; shift 2 ;;
    *) echo "usage: run.sh --top-build DIR [--build DIR] [--gpu soft|nvidia] [--only direct|socket]" >&2; exit 2 ;;
    esac
done
build=${build:-$top_build/tests/conformance/driver}
out=$build/out
mkdir -p "$out" "$build/soft"
soft=$(find "$top_build/host" -name libcuda-soft.so.1 2>/dev/null | head -n 1)
vgpu=$(find "$top_build/userspace" -type f -name vgpu -perm -u+x 2>/dev/null | head -n 1)
passed=0
failed=0
skipped=0

not_run() { # TEST REASON
    echo "not run: $1: $2"
    skipped=$((skipped + 1))
}

# Adds the last line of a program's output, "name: N passed, M failed, K skipped", to the sums.
add() { # FILE STATUS
    set -- "$1" "$2" $(tail -n 1 "$1" | sed -n 's/.*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    if [ $# -lt 5 ]; then
        echo "FAIL: ${1##*/}: ended with status $2 and no count"
        failed=$((failed + 1))
        return
    fi
    if [ $(($3 + $4 + $5)) -eq 0 ]; then
        echo "FAIL: ${1##*/}: ran no test"
        failed=$((failed + 1))
    fi
    passed=$((passed + $3))
    failed=$((failed + $4))
    skipped=$((skipped + $5))
}

# NAME WAY PROGRAM [ARGS]: runs PROGRAM the given way; prints failures and skips.
one() {
    name=$1
    way=$2
    shift 2
    log=$out/$name.$way
    case $way in
    direct)
        if [ "$gpu" = nvidia ]; then
            CONFORM_REAL=1 timeout 600 "$@" >"$log" 2>"$log.err"
        else
            LD_LIBRARY_PATH=$build/soft${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
                timeout 600 "$@" >"$log" 2>"$log.err"
        fi
        ;;
    socket)
        timeout 600 "$vgpu" run --gpu "$gpu" "$@" >"$log" 2>"$log.err"
        ;;
    esac
    status=$?
    grep -E '^not run' "$log" | sed "s/^not run: /not run: $way: /"
    grep -E ' FAIL( |$)' "$log" | sed "s/^/FAIL: $way: /"
    echo "$name, $way: $(tail -n 1 "$log")"
    [ $status -gt 1 ] && tail -n 3 "$log.err"
    add "$log" $status
}

# NAME: the two outputs must be equal.
compare() {
    if [ ! -f "$out/$1.direct" ] || [ ! -f "$out/$1.socket" ]; then
        return
    fi
    # Compares checks only: the device's own messages (a failed assert) have no fixed place among them.
    grep -E '^[a-z0-9_]+\.[^ ]+ ' "$out/$1.direct" >"$out/$1.a"
    grep -E '^[a-z0-9_]+\.[^ ]+ ' "$out/$1.socket" >"$out/$1.b"
    if [ "$gpu" = nvidia ]; then # undefined cases exist only on our side
        cut -d. -f1 "$out/$1.a" | sort -u >"$out/$1.cases"
        awk -F. 'NR == FNR { want[$1]; next } $1 in want' "$out/$1.cases" "$out/$1.b" >"$out/$1.b2"
        mv "$out/$1.b2" "$out/$1.b"
    fi
    if diff "$out/$1.a" "$out/$1.b" >"$out/$1.diff"; then
        echo "$1: $(wc -l <"$out/$1.a") lines, equal both ways"
        passed=$((passed + 1))
    else
        echo "FAIL: $1: provider alone (<) and through us (>) differ:"
        cat "$out/$1.diff"
        failed=$((failed + 1))
    fi
}

# The trace must name each refused call once, with a reason.
trace() {
    log=$out/trace
    VGPU_TRACE=1 timeout 60 "$vgpu" run --gpu "$gpu" "$build/conform" not_supported module_wrong_image module_sass_only \
        trap_register_part_of_pages register_shared \
        >"$log.out" 2>"$log"
    bad=0
    for name in $(sed -n 's/^not_supported\.\(cu[A-Za-z0-9]*\) .*/\1/p' "$log.out"); do
        n=$(grep -c "$name: not supported" "$log")
        if [ "$n" -ne 1 ]; then
            echo "FAIL: trace: $name is named $n times as not supported, not once"
            bad=1
        fi
    done
    # ... and each refused image with its fault.
    refused=$(grep -c '\] cuModuleLoadData(.* = CUDA_ERROR' "$log")
    explained=$(grep -c 'why cuModuleLoadData: ..*' "$log")
    if [ "$refused" -lt 8 ] || [ "$explained" -lt "$refused" ]; then
        echo "FAIL: trace: $refused refused images, $explained of them explained"
        bad=1
    fi
    # Registered memory that cannot be shared with the worker: parts of pages, and shared memory.
    staged=$(grep -c 'why cuMemHostGetDevicePointer: .*is only copied' "$log")
    if [ "$staged" -ne 2 ]; then
        echo "FAIL: trace: $staged of 2 refused device pointers of registered memory are explained"
        bad=1
    fi
    if [ $bad = 0 ]; then
        echo "trace: each refused call named once, each of $refused refused images explained"
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

# The line of a failed device assert goes to standard error, never into the program's output.
assert_line() {
    log=$out/assert
    timeout 60 "$vgpu" run --gpu "$gpu" "$build/conform" sticky_assert >"$log.out" 2>"$log.err"
    if grep -q 'Assertion .* failed' "$log.err" && ! grep -q 'Assertion .* failed' "$log.out"; then
        echo "assert: the line of a failed device assert is on standard error"
        passed=$((passed + 1))
    else
        echo "FAIL: assert: the line of a failed device assert is not on standard error alone"
        failed=$((failed + 1))
    fi
}

# The software GPU's log is the only file that workers may write to.
soft_log() {
    log=$out/soft_log
    rm -f "$log.file"
    VGPU_SOFT_LOG=$log.file timeout 60 "$vgpu" run --gpu soft "$build/conform" external_refused array_bad_handle >"$log" 2>&1
    status=$?
    if [ $status = 0 ] && [ "$(grep -c '^libcuda-soft: ' "$log.file")" -gt 2 ]; then
        echo "soft_log: $(wc -l <"$log.file") lines of the software GPU's log are in its file"
        passed=$((passed + 1))
    else
        echo "FAIL: soft_log: status $status: $(tail -n 1 "$log"); $(wc -l <"$log.file") lines in the file"
        failed=$((failed + 1))
    fi
}

# NAME COMMAND...: reruns the suite under different conditions; the output must equal the socket's.
again() {
    log=$out/$1
    name=$1
    shift
    timeout 600 "$@" "$vgpu" run --gpu "$gpu" "$build/conform" >"$log" 2>"$log.err"
    grep -E '^[a-z0-9_]+\.[^ ]+ ' "$out/conform.socket" >"$log.a"
    grep -E '^[a-z0-9_]+\.[^ ]+ ' "$log" >"$log.b"
    if diff "$log.a" "$log.b" >"$log.diff"; then
        echo "$name: $(wc -l <"$log.b") lines, equal"
        passed=$((passed + 1))
    else
        echo "FAIL: $name: the output (>) differs from the ordinary one (<):"
        cat "$log.diff"
        failed=$((failed + 1))
    fi
}

# Calls create and destroy the objects that their description names, and no case leaves an object behind: the worker's
# audit is silent.
audited() {
    log=$out/audited
    VGPU_TEST_AUDIT=1 timeout 600 "$vgpu" run --verbose --gpu "$gpu" "$build/conform" >"$log" 2>"$log.err"
    if grep -q 'audit: each call' "$out/audited.err" && ! grep -q 'audit: [^e]' "$out/audited.err"; then
        passed=$((passed + 1))
    else
        echo "FAIL: audited: $(grep -h 'audit: [^e]' "$out/audited.err" | sort | uniq -c | sort -rn | head -n 5)"
        failed=$((failed + 1))
    fi
}

# Calls that the software GPU lacks are forwarded to a provider that has them: the backend's test provider.
provider() {
    log=$out/provider
    sock=$(mktemp -d "${TMPDIR:-/tmp}/conform.XXXXXX") || return
    backend=$(find "$top_build/host" -type f -name vgpu-backend | head -n 1)
    libcuda=$(find "$top_build/userspace" -name libcuda.so.1 | head -n 1)
    VGPU_TEST_TWO=1 "$backend" --listen "$sock/s" --provider "$build/libtestprov.so" >"$log.backend" 2>&1 &
    pid=$!
    until [ -S "$sock/s" ] || ! kill -0 $pid 2>/dev/null; do
        sleep 0.05
    done
    VGPU_SOCKET=$sock/s LD_LIBRARY_PATH=$(dirname "$libcuda")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 60 "$build/conform_provider" \
        >"$log" 2>"$log.err"
    status=$?
    kill $pid 2>/dev/null
    wait $pid 2>/dev/null
    rm -rf "$sock"
    grep -E ' FAIL( |$)' "$log" | sed "s/^/FAIL: /"
    echo "provider, socket: $(tail -n 1 "$log")"
    [ $status -gt 1 ] && tail -n 3 "$log.err" "$log.backend"
    add "$log" $status
}

# Green contexts with a GPU's number of multiprocessors.
many_sms() {
    for way in direct socket; do
        log=$out/many_sms.$way
        if [ $way = direct ]; then
            VGPU_SOFT_THREADS=24 LD_LIBRARY_PATH=$build/soft${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 120 "$build/conform" 'green_*' >"$log" 2>"$log.err"
        else
            VGPU_SOFT_THREADS=24 timeout 120 "$vgpu" run --gpu soft "$build/conform" 'green_*' >"$log" 2>"$log.err"
        fi
        add "$log" $?
        grep -E ' FAIL( |$)' "$log" | sed "s/^/FAIL: many_sms: $way: /"
    done
    if diff "$out/many_sms.direct" "$out/many_sms.socket" >"$out/many_sms.diff"; then
        echo "many_sms: $(wc -l <"$out/many_sms.direct") lines, equal both ways"
        passed=$((passed + 1))
    else
        echo "FAIL: many_sms: provider alone (<) and through us (>) differ:"
        cat "$out/many_sms.diff"
        failed=$((failed + 1))
    fi
}

# Each case named in traps.md exists.
traps() {
    LD_LIBRARY_PATH=$build/soft${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$build/conform" --list >"$out/cases" 2>/dev/null
    missing=$(grep -o '`[a-z0-9_]*`' "$(dirname "$0")/traps.md" | tr -d '`' | sort -u |
        grep -vxF -f "$out/cases" | grep -vxE 'conform|extra' | tr '\n' ' ')
    if [ -s "$out/cases" ] && [ -z "$missing" ]; then
        echo "traps: every case of the table is there"
        passed=$((passed + 1))
    else
        echo "FAIL: traps: the table names cases that are not there: $missing"
        failed=$((failed + 1))
    fi
}

# Each attribute of cuda.h has a case that checks its effect, or a reason for having none.
attributes() {
    header=${CUDA_HOME:-/usr/local/cuda}/include/cuda.h
    if [ ! -f "$header" ]; then
        not_run attributes "no cuda.h"
    elif /usr/bin/python3 "$(dirname "$0")/attributes.py" "$header" "$out/cases" >"$out/attributes"; then
        echo "attributes: $(cat "$out/attributes")"
        passed=$((passed + 1))
    else
        sed 's/^/FAIL: attributes: /' "$out/attributes"
        failed=$((failed + 1))
    fi
}

ways=${only:-direct socket}
if [ "$gpu" = soft ]; then
    if [ -n "$soft" ]; then
        ln -sfn "$soft" "$build/soft/libcuda.so.1"
    else
        not_run "conform on the provider alone" "libcuda-soft.so.1 is not built"
        ways=$(echo "$ways" | sed 's/direct//')
    fi
fi
case $ways in
*socket*)
    missing=
    [ -n "$vgpu" ] || missing="$missing vgpu"
    [ -n "$(find "$top_build/userspace" -name libcuda.so.1 2>/dev/null)" ] || missing="$missing libcuda.so.1"
    [ -n "$(find "$top_build/host" -type f -name vgpu-backend 2>/dev/null)" ] || missing="$missing vgpu-backend"
    if [ -n "$missing" ]; then
        not_run "conform through libcuda and the backend" "not built:$missing"
        ways=$(echo "$ways" | sed 's/socket//')
    fi
    ;;
esac
rm -f "$out"/*
case $ways in
*direct*)
    if [ "$gpu" = soft ]; then
        traps
        attributes
    fi
    ;;
esac
for way in $ways; do
    one conform $way "$build/conform"
    if [ "$gpu" = soft ]; then # the cases that need a second device
        export VGPU_SOFT_CC=8.0,8.0 CONFORM_DEVICES=2
        one two_devices $way "$build/conform"
        export VGPU_SOFT_JIT=0
        one two_revoke_interpreted $way "$build/conform" 'revoke_*'
        unset VGPU_SOFT_CC CONFORM_DEVICES
        one revoke_interpreted $way "$build/conform" 'revoke_*'
        unset VGPU_SOFT_JIT
        export VGPU_SOFT_CC=9.0 # a device that has clusters
        one clusters $way "$build/conform" cluster_launch cluster_preferred cluster_occupancy
        unset VGPU_SOFT_CC
    fi
    one dlclose $way "$build/conform_dl"
    if [ $way = direct ] && [ "$gpu" = soft ]; then
        not_run "runtime API on the software GPU alone" \
            "libcudart asks for tables (cuGetExportTable) that our libcuda has and a plain provider has not"
        continue
    fi
    one rt_dynamic $way "$build/conform_rt_dynamic"
    one rt_static $way "$build/conform_rt_static"
    one rt_ptds $way "$build/conform_rt_ptds"
    one rt_newer $way "$build/conform_rt_newer"
    one rt_sticky $way "$build/conform_rt_dynamic" --sticky
    for form in dynamic static ptds; do
        one rt_busy_$form $way "$build/conform_rt_$form" --busy
    done
    one rt_reports $way "$build/conform_rt_reports"
    [ $way = direct ] || one rt_sem $way "$build/conform_rt_sem"
    one rt_many $way "$build/conform_rt_many" "$build"
    one rt_many_busy $way "$build/conform_rt_many" "$build" --busy
done
for name in conform two_devices clusters rt_dynamic rt_static rt_ptds rt_sticky rt_many rt_many_busy dlclose; do
    compare $name
done
case $ways in
*socket*)
    trace
    assert_line
    [ "$gpu" != soft ] || soft_log
    [ "$gpu" != soft ] || provider
    [ "$ways" != 'direct socket' ] || [ "$gpu" != soft ] || many_sms
    # System calls are interrupted at random, and every call is traced.
    again disturbed env CONFORM_ALARM=1 VGPU_TRACE="$out/disturbed.trace"
    # After each call the worker checks that created objects exist and destroyed objects do not.
    audited
    # All threads and the worker share a processor: a lost wake-up shows as a slow case.
    again one_processor env CONFORM_LIMIT=12 taskset -c 0
    ;;
esac
# Every backend reports wrong accounts when its last client leaves.
if grep -q 'accounts are wrong' "$out"/*; then
    echo "FAIL: conservation: $(grep -h 'accounts are wrong' "$out"/* | head -n 3)"
    failed=$((failed + 1))
fi
echo "conform: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
