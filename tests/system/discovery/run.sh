#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: discovery must report library=CUDA and agree with `vgpu smi`, over the socket
# and in a guest; under an injected fault it must report library=cpu, and doctor must name the fault.
set -u
out=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$build/userspace/vgpu/vgpu
ggml=$build/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda
log=$out/log
passed=0 failed=0 skipped=0
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }
not_run() { skipped=$((skipped + 1)); echo "not run: $1: $2"; }

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 userspace/libnvidia-ml/libnvidia-ml.so.1 \
    host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    not_run discovery "not built:$missing"
    echo "discovery: $passed passed, $failed failed, $skipped skipped"
    exit 0
fi
if [ ! -e "$ggml/libggml-cuda.so" ]; then
    VGPU_BUILD=$build "$here/../../../scripts/npm.sh" llama > "$log" 2>&1
fi
# The second half of the sequence needs no ggml, and runs alone where ggml is missing.
folder=$ggml
if [ ! -e "$ggml/libggml-cuda.so" ]; then
    not_run "ggml's half of the discovery" "the npm packages could not be fetched: $(tail -n 1 "$log")"
    folder=
fi
export LD_LIBRARY_PATH=$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# word LINE KEY: prints the value of KEY=
word() { sed -n "s/.*\b$2=\([^ ]*\).*/\1/p" <<< "$1"; }

# compare WAY: compares discovery's output ($text) with that of vgpu smi ($smi)
compare()
{
    local line cc driver total

    line=$(grep -m 1 '^library=' <<< "$text")
    IFS=', ' read -r cc driver total _ <<< "$smi"
    if [ "$(word "$line" library)" = CUDA ] && [ "$(word "$line" compute)" = "$cc" ] &&
        [ "$(word "$line" driver)" = "${driver%%.*}" ] && [ "$(word "$line" cuda)" = 13.5 ] &&
        [ "$(($(word "$line" total) >> 20))" = "$total" ] &&
        [ "$(($(word "$line" board) >> 20))" = "$total" ] && [ "$(word "$line" free)" -ge 0 ]; then
        ok "$1: $line"
    else
        bad "$1" "expected compute=$cc driver=${driver%%.*} total=$total MiB: $text"
    fi
}
query="--query-gpu=compute_cap,driver_version,memory.total --format=csv,noheader,nounits"

# Ollama limits its probe to 15 s; this machine may be slower under load.
text=$(timeout 120 "$vgpu" run --gpu soft "$out/discovery" $folder 2> "$log")
smi=$(timeout 60 "$vgpu" smi --gpu soft $query)
compare "socket"
text=$(VGPU_SOFT_CC=9.0 VGPU_SOFT_MEMORY=2G timeout 120 "$vgpu" run --gpu soft "$out/discovery" $folder 2> "$log")
smi=$(VGPU_SOFT_CC=9.0 VGPU_SOFT_MEMORY=2G timeout 60 "$vgpu" smi --gpu soft $query)
compare "socket, another compute capability and memory"

# refused NAME FAULT CAUSE: the client falls back to the CPU, and doctor names the cause
refused()
{
    local name=$1 cause=$3 report

    text=$(env "$2" timeout 120 "$vgpu" run --gpu soft "$out/discovery" $folder 2>&1)
    report=$(env "$2" timeout 120 "$vgpu" doctor --gpu soft "$out/discovery" $folder 2>&1)
    if grep -q '^library=cpu' <<< "$text" && grep -q "^verdict: $cause " <<< "$report"; then
        ok "$name: library=cpu, and doctor says $cause"
    else
        bad "$name" "$text; $report"
    fi
}
if [ -n "$folder" ]; then
    refused "export tables refused" VGPU_FAULT=table=500 export-table-refused
    refused "an old driver version" VGPU_DRIVER_VERSION=12090 driver-version
    refused "no devices" VGPU_FAULT=devices=0 no-devices
fi

if [ -e "$build/guest/initrd.cpio" ] && [ -e "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}" ] &&
    [ -e "${VGPU_DRIVER:-$build/kernel/vgpu_drv.ko}" ]; then
    text=$(timeout 500 "$vgpu" vm run --gpu soft --timeout 480 \
        sh -c "'$out/discovery' $folder; '$vgpu' smi $query" 2> "$log")
    smi=$(tail -n 1 <<< "$text")
    compare "in a guest"
else
    not_run "discovery in a guest" "QEMU, the guest's kernel or the driver is not built"
fi
echo "discovery: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
