#!/bin/sh
# SPDX-License-Identifier: MIT
# conform.sh BUILD direct|socket|runtime: the conformance suite for mutants of either side.
#   direct   on the software GPU alone
#   socket   through libcuda and the backend; the lines must equal those of an earlier run on the provider alone, and the
#            worker's audit must find no stray object
#   runtime  libcudart's programs, through libcuda and the backend
set -u
build=$1
suite=$build/tests/conformance/driver
out=$suite/mutate
vgpu=$build/userspace/vgpu/vgpu
mkdir -p "$out" "$suite/soft"
ln -sfn "$build/host/softgpu/libcuda-soft.so.1" "$suite/soft/libcuda.so.1"

# WAY COMMAND...: the separate cases with two devices.
two() {
    way=$1
    shift
    VGPU_SOFT_CC=8.0,8.0 CONFORM_DEVICES=2 timeout 300 "$@" "$suite/conform" >"$out/two.$way" 2>"$out/err"
    status=$?
    grep -E ' FAIL( |$)' "$out/two.$way"
    [ $status = 0 ] || { echo "conform with two devices, $way: status $status"; exit 1; }
}

lines() { grep -E '^[a-z0-9_]+\.[^ ]+ ' "$1"; }

direct() {
    LD_LIBRARY_PATH=$suite/soft timeout 300 "$suite/conform" >"$out/direct.new" 2>"$out/err"
    status=$?
    grep -E ' FAIL( |$)' "$out/direct.new"
    [ $status = 0 ] || { echo "conform, direct: status $status"; exit 1; }
    lines "$out/direct.new" >"$out/direct"
    two direct env "LD_LIBRARY_PATH=$suite/soft"
    lines "$out/two.direct" >"$out/two"
}

case $2 in
direct) direct ;;
socket)
    # Must be newer than the suite, as an older suite prints different lines.
    [ "$out/two" -nt "$suite/conform" ] || direct
    VGPU_TEST_AUDIT=1 timeout 300 "$vgpu" run --verbose --gpu soft "$suite/conform" >"$out/socket.new" 2>"$out/err"
    status=$?
    grep -E ' FAIL( |$)' "$out/socket.new"
    [ $status = 0 ] || { echo "conform, socket: status $status"; exit 1; }
    # Objects that a call failed to destroy or create in the worker, named by its audit.
    grep -q 'audit: each call' "$out/err" || { echo "conform, socket: no audit"; exit 1; }
    ! grep 'audit: [^e]' "$out/err" || exit 1
    lines "$out/socket.new" | diff "$out/direct" - || exit 1
    two socket "$vgpu" run --gpu soft
    lines "$out/two.socket" | diff "$out/two" -
    ;;
runtime)
    for program in conform_rt_static conform_rt_ptds conform_dl; do
        timeout 120 "$vgpu" run --gpu soft "$suite/$program" >"$out/rt" 2>&1 ||
            { grep -E ' FAIL( |$)' "$out/rt"; tail -n 3 "$out/rt"; echo "$program: failed"; exit 1; }
    done
    ;;
esac
