#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: runs the programs through libcuda and the backend, over the socket.
set -u
build=$1
vgpu=$2/userspace/vgpu/vgpu
passed=0
failed=0
skipped=0
for arch in 75 80 90; do
    counts=$("$2/host/softgpu/sg_ptxrun" "$build/headers_$arch.ptx" | tee "$build/headers_$arch.log" |
        sed -n 's/^\([0-9]*\) kernels, \([0-9]*\) decoded, .*/\1 \2/p')
    echo "headers, sm_$arch: ${counts#* } of ${counts% *} functions decode"
    if [ -n "$counts" ] && [ "${counts% *}" = "${counts#* }" ] && [ "${counts% *}" -ge 1000 ]; then
        passed=$((passed + 1))
    else
        echo "FAIL: headers, sm_$arch"
        head -n 5 "$build/headers_$arch.log"
        failed=$((failed + 1))
    fi
done
for name in sort scan thrust groups headers; do
    if [ ! -x "$vgpu" ] || [ ! -x "$2/host/backend/vgpu-backend" ]; then
        echo "not run: $name: vgpu or its backend is not built"
        skipped=$((skipped + 1))
        continue
    fi
    timeout 600 "$vgpu" run --gpu soft "$build/$name" >"$build/$name.log" 2>"$build/$name.err"
    rc=$?
    grep '^FAIL' "$build/$name.log"
    set -- "$1" "$2" $(sed -n 's/^[a-z_]*: \([0-9]*\) passed, \([0-9]*\) failed, 0 skipped$/\1 \2/p' "$build/$name.log")
    if [ $# -lt 4 ]; then
        echo "FAIL: $name: ended with status $rc and no count"
        tail -n 3 "$build/$name.err"
        failed=$((failed + 1))
        continue
    fi
    echo "$name: $3 right, $4 wrong"
    passed=$((passed + $3))
    failed=$((failed + $4))
done
echo "cub: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
