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
for name in sort scan thrust groups; do
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
