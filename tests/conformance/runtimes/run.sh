#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: the client with every runtime of runtimes.txt, over the socket.
set -u
out=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$build/userspace/vgpu/vgpu
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-runtimes.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION LD_LIBRARY_PATH
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING CUDA_LAUNCH_BLOCKING

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }
not_run() { skipped=$((skipped + 1)); echo "not run: $1: $2"; }

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 host/backend/vgpu-backend \
    host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    echo "not run: runtimes: not built:$missing"
    echo "runtimes: 0 passed, 0 failed, 1 skipped"
    exit 0
fi

# runtime NAME LIBCUDART ISA VARIABLE...: the client must pass, and no slot of a hidden table be refused.
runtime()
{
    local name=$1 library=$2 isa=$3 text rc
    shift 3
    rm -f "$work/trace"
    text=$(timeout 120 env VGPU_TRACE="$work/trace" "$@" "$vgpu" run --gpu soft \
        "$out/client" "$library" "${isa%.*}" "${isa#*.}" 2>&1 < /dev/null)
    rc=$?
    if [ $rc != 0 ]; then
        bad "$name" "status $rc: $(grep -v '^ok' <<< "$text" | paste -sd ';')"
    elif grep -q 'is not served' "$work/trace"; then
        bad "$name" "$(grep -m 3 'is not served' "$work/trace")"
    else
        ok "$name: $(grep '^runtime' <<< "$text")"
    fi
}

while read -r version isa spec hash bytes; do
    case $version in '#'* | '') continue ;; esac
    if ! place=$(bash "$here/fetch.sh" "$spec" "$hash" "$bytes" 2> "$work/why"); then
        not_run "libcudart $version" "$(tail -n 1 "$work/why")"
        continue
    fi
    library=$(find "$place" -name 'libcudart.so.1*' | head -n 1)
    runtime "libcudart $version" "$library" "$isa"
    runtime "libcudart $version, eager loading" "$library" "$isa" CUDA_MODULE_LOADING=EAGER
    # Any driver of the same major version serves a runtime of it, and every newer one.
    runtime "libcudart $version, driver ${version%.*}.0" "$library" "$isa" \
        VGPU_DRIVER_VERSION=$((${version%.*} * 1000))
done < "$here/runtimes.txt"

echo "runtimes: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
