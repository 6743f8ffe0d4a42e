#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: records programs on the software GPU with its default settings, replays them with
# other settings, and checks that wrong recordings are detected and named.

set -u
build=$1
top=$2
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$top/userspace/vgpu/vgpu
work=$build/recordings
tool=(/usr/bin/python3 "$here/recording.py")
passed=0
failed=0
skipped=0
rm -rf "$work"
mkdir -p "$work"

ok()
{
    passed=$((passed + 1))
    echo "ok: $1"
}

bad()
{
    failed=$((failed + 1))
    echo "FAIL: $1: $2"
    [ -z "${3:-}" ] || tail -n 8 "$3"
}

skip()
{
    skipped=$((skipped + 1))
    echo "not run: $1: $2"
}

# record NAME PROGRAM ARGS...: makes NAME.vgr; false on failure.
record()
{
    if timeout 300 "$vgpu" trace --gpu soft --record "$work/$1.vgr" "${@:2}" > "$work/$1.out" 2>&1 &&
        [ -s "$work/$1.vgr" ]; then
        ok "record $1"
    else
        bad "record $1" "status $?" "$work/$1.out"
        return 1
    fi
}

# equal NAME FORM SETTING... -- OPTION...: replays every recording NAME.vgr* with the settings; every answer
# must be equal. Recordings of killed processes count up to their last event.
equal()
{
    local name=$1 form=$2 settings=() file files=0 calls=0 n
    shift 2
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    for file in "$work/$name.vgr"*; do
        if ! env "${settings[@]}" timeout 300 "$vgpu" replay --gpu soft --partial --timeout 100 "$@" \
            "$file" > "$work/replay.log" 2>&1; then
            bad "$name, $form" "$(basename "$file") differs" "$work/replay.log"
            return
        fi
        n=$(sed -n 's/^\([0-9]*\) calls of .* replayed: .* 0 differences, .*/\1/p' "$work/replay.log")
        [ -n "$n" ] || { bad "$name, $form" "no totals" "$work/replay.log"; return; }
        files=$((files + 1))
        calls=$((calls + n))
    done
    ok "$name, $form: $calls calls in $files recordings"
}

# Settings of the software GPU with equal results. --move: all addresses differ.
forms()
{
    equal "$1" "again" -- --show 5
    equal "$1" "interpreted" VGPU_SOFT_JIT=0 --
    equal "$1" "one thread, capability 9.0" VGPU_SOFT_THREADS=1 VGPU_SOFT_CC=9.0 --
    equal "$1" "at other addresses" -- --move 5
}

# wrong NAME LOG WANTED COMMAND...: COMMAND must exit with status 1 and print WANTED.
wrong()
{
    timeout 300 "${@:4}" > "$work/$2" 2>&1
    local rc=$?
    if [ $rc = 1 ] && grep -q "$3" "$work/$2"; then
        ok "$1"
    else
        bad "$1" "status $rc, wanted 1 and: $3" "$work/$2"
    fi
}

# refused NAME WANTED OPTION...: vgpu replay must exit with status 2 and print WANTED.
refused()
{
    timeout 60 "$vgpu" replay "${@:3}" > "$work/refused.log" 2>&1
    local rc=$?
    if [ $rc = 2 ] && grep -q -- "$2" "$work/refused.log"; then
        ok "$1"
    else
        bad "$1" "status $rc, wanted 2 and: $2" "$work/refused.log"
    fi
}

if [ ! -x "$vgpu" ] || [ ! -x "$top/host/backend/vgpu-backend" ]; then
    skip replay "vgpu or its backend is not built"
    echo "replay: 0 passed, 0 failed, 1 skipped"
    exit 0
fi

# ---- programs ----
record runtime "$top/tests/conformance/driver/conform_rt_static" && forms runtime
cases=(ctx_primary ctx_threads_share mem_attributes pinned_alloc pinned_register memset copy_sizes copy_order
    copy_2d copy_3d module_fatbin module_globals module_two library launch_params launch_dims launch_ex
    device_atomics device_warp device_float stream_order stream_wait_event event host_func threads
    stream_per_thread sticky_store sticky_trap not_sticky device_printf launch_many mem_pool mem_managed
    stream_callback "capture_*" "graph_*" vmm_pool vmm_access link_ptx memop_batch managed_variable batch_copies
    pinned_live "array_*" "texref_*" "gmem_*" "gcond_*" "advice_*")
record conform "$top/tests/conformance/driver/conform" "${cases[@]}" && forms conform
# tensor maps exist from that capability on
VGPU_SOFT_CC=9.0 record maps "$top/tests/conformance/driver/conform" tensor_map && VGPU_SOFT_CC=9.0 forms maps
record cub "$top/tests/conformance/cub/scan" && forms cub
if [ -x "$top/tests/conformance/blas/blas" ]; then
    record blas "$top/tests/conformance/blas/blas" sgemm sgemmBatched gemmEx-bf16 ltMatmul-f16 && forms blas
else
    skip blas "the toolkit has no cuBLAS"
fi
npm=$top/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda
model=$top/tests/apps/llm/models/tiny-q4_0.gguf
if [ -x "$top/tests/apps/llm/llm_eval" ] && [ -e "$model" ]; then
    LD_LIBRARY_PATH=${CUDA_HOME:-/usr/local/cuda}/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} GGML_NO_BACKTRACE=1 \
        record llm "$top/tests/apps/llm/llm_eval" --backends "$npm" --device cuda \
        --prompt "$here/../../apps/llm/prompt.md" --model "$model" --tokens 4 && forms llm
else
    skip llm "the programs of tests/apps/llm are not built (make -C tests/apps/llm)"
fi

# ---- wrong recordings ----
file=$work/runtime.vgr
call=$("${tool[@]}" copy "$file")
"${tool[@]}" alter "$file" "$work/byte.vgr" "$call" byte=2
wrong "a changed byte of a copy is found and named" byte.log "^different: call $call vgpCopy: .*1 of " \
    "$vgpu" replay --gpu soft "$work/byte.vgr"
wrong "... at other addresses, too" byte.log "^different: call $call vgpCopy: .*1 of " \
    "$vgpu" replay --gpu soft --move 5 "$work/byte.vgr"
call=$("${tool[@]}" called "$file" 0x0108)
"${tool[@]}" alter "$file" "$work/result.vgr" "$call" result=719
wrong "a changed result is found and named" result.log \
    "^different: call $call vgpCtxSynchronize: result: recorded 719, here 0" \
    "$vgpu" replay --gpu soft "$work/result.vgr"
wrong "... with one difference of all answers" result.log " 1 differences, " \
    "$vgpu" replay --gpu soft --json "$work/result.json" "$work/result.vgr"
if [ "$(grep -c '"verdict":"different"' "$work/result.json")" = 1 ] &&
    /usr/bin/python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$work/result.json"; then
    ok "--json: the same, one object a line"
else
    bad "--json" "not one difference, or no JSON" "$work/result.json"
fi

# Flips the lowest bit of a float computed by cuBLAS.
floats=$(ls -S "$work"/blas.vgr* 2> /dev/null | head -n 1)
if [ -n "$floats" ]; then
    call=$("${tool[@]}" copy "$floats")
    "${tool[@]}" alter "$floats" "$work/float.vgr" "$call" byte=0
    wrong "the last bit of a float is found" float.log "^different: call $call vgpCopy: .*1 of " \
        "$vgpu" replay --gpu soft "$work/float.vgr"
    if timeout 300 "$vgpu" replay --gpu soft --tolerance 1e-2 "$work/float.vgr" > "$work/near.log" 2>&1; then
        ok "--tolerance takes it"
    else
        bad "--tolerance" "status $?" "$work/near.log"
    fi
fi

size=$(stat -c %s "$file")
"${tool[@]}" cut "$file" "$work/inside.vgr" $((size - 100))
refused "a file that was cut off inside of an event" ": byte [0-9]*: cut off" --gpu soft "$work/inside.vgr"
"${tool[@]}" cut "$file" "$work/noend.vgr" $((size - 32))
refused "a file without its end" "cut off: the recorded program did not end" --gpu soft "$work/noend.vgr"
if timeout 100 "$vgpu" replay --gpu soft --partial "$work/noend.vgr" > "$work/partial.log" 2>&1; then
    ok "--partial takes it"
else
    bad "--partial" "status $?" "$work/partial.log"
fi
refused "a file that is no recording" "this is no recording" "$here/run.sh"
refused "a file that is not there" "No such file" "$work/none.vgr"
refused "no file" "usage: vgpu replay"
refused "an unknown option" "see .vgpu replay --help" --fast "$file"
refused "a tolerance that is none" "tolerance" --tolerance much "$file"

timeout 100 "$vgpu" trace --gpu soft --record "$work/limit.vgr" --limit 64K \
    "$top/tests/conformance/driver/conform_rt_static" > "$work/limit.log" 2>&1
rc=$?
if [ $rc = 125 ] && grep -q "the limit of 65536 bytes is reached" "$work/limit.log" &&
    grep -q "175 passed\|passed, 0 failed" "$work/limit.log" &&
    [ "$(stat -c %s "$work/limit.vgr")" -le 65536 ]; then
    ok "--limit: the recording ends, the program does not"
else
    bad "--limit" "status $rc" "$work/limit.log"
fi
if timeout 100 "$vgpu" replay --gpu soft "$work/limit.vgr" > "$work/limited.log" 2>&1 &&
    grep -q "had reached its limit" "$work/limited.log"; then
    ok "what there is of it is replayed"
else
    bad "a limited recording" "status $?" "$work/limited.log"
fi

# ---- socket and guest ----
# A single guest replays a recording made over the socket, and records a program, which is replayed here.
guest()
{
    local missing="" part
    for part in "$top/guest/initrd.cpio" "${VGPU_QEMU:-$top/qemu/bin/qemu-system-x86_64}" \
        "${VGPU_DRIVER:-$top/kernel/vgpu_drv.ko}"; do
        [ -e "$part" ] || missing="$missing $part"
    done
    if [ -n "$missing" ]; then
        skip "in a guest" "not built:$missing"
        return
    fi
    cat > "$work/in_guest" <<END
#!/bin/sh
"$vgpu" replay "$work/runtime.vgr"; echo "replay: \$?"
"$vgpu" trace --record "$work/guest.vgr" "$top/tests/conformance/driver/conform_rt_static" > /dev/null 2>&1; echo "record: \$?"
END
    chmod 755 "$work/in_guest"
    (cd "$work" && timeout 400 "$vgpu" vm run --gpu soft --timeout 380 ./in_guest) > "$work/guest.out" 2>&1
    if grep -q "^[0-9]* calls of .* 0 differences" "$work/guest.out" && grep -q "^replay: 0" "$work/guest.out"; then
        ok "recorded over the socket, replayed in a guest"
    else
        bad "replayed in a guest" "" "$work/guest.out"
    fi
    if grep -q "^record: 0" "$work/guest.out"; then
        ok "recorded in a guest"
        equal guest "replayed over the socket" --
    else
        bad "recorded in a guest" "" "$work/guest.out"
    fi
}
guest

echo "replay: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
