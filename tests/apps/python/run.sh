#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh OUT BUILD: each *_client.py with its unmodified package, on the software GPU over the socket, and three of them
# in a guest. Prints `not run` for each environment whose packages have not been fetched.
set -u
out=$1 build=$2
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$build/userspace/vgpu/vgpu
unset JAX_PLATFORMS XLA_FLAGS TRITON_PTXAS_PATH TRITON_PTXAS_BLACKWELL_PATH TRITON_CACHE_DIR CUDA_ROOT JAX_SKIP_CUDA_CONSTRAINTS_CHECK
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION CUDA_VISIBLE_DEVICES CUPY_COMPILE_WITH_PTX LD_PRELOAD VGPU_JIT
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
passed=0 failed=0 skipped=0

# client NAME LIBRARIES [NAME=VALUE...]: runs its tests with LIBRARIES in the library path.
client()
{
    local name=$1 libraries=$2 line status

    shift 2
    # Kernels compiled by an earlier run are not reused: compiling is part of the test.
    rm -rf "$out/$name"
    mkdir -p "$out/$name"
    env -u CUDA_HOME -u CUDA_PATH LD_LIBRARY_PATH="$libraries" HOME="$out/$name" XDG_CACHE_HOME="$out/$name" "$@" \
        timeout 900 "$vgpu" run --gpu soft "$place/bin/python" -W ignore "$here/${name}_client.py" \
        > "$out/$name.out" 2> "$out/$name.err" < /dev/null
    status=$?
    while read -r line; do
        case $line in
        "ok "*) passed=$((passed + 1)); echo "ok - $name: ${line#ok }" ;;
        "wrong "*) failed=$((failed + 1)); echo "FAIL: $name: ${line#wrong }" ;;
        esac
    done < "$out/$name.out"
    if [ $status != 0 ] && ! grep -q '^wrong' "$out/$name.out"; then
        failed=$((failed + 1))
        echo "FAIL: $name: ended with $status: $(tail -n 3 "$out/$name.err" | tr '\n' ' ')"
    fi
}

# guest NAME...: the same clients in a guest, in a single boot.
guest()
{
    local name line file rc

    for file in "$build/guest/initrd.cpio" "${VGPU_DRIVER:-$build/kernel/vgpu_drv.ko}" \
        "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}"; do
        [ -e "$file" ] && continue
        skipped=$((skipped + 1))
        echo "not run: python: guest: ${file##*/} is not built"
        return
    done
    rm -rf "$out/guest"
    mkdir -p "$out/guest"
    env -u CUDA_HOME -u CUDA_PATH timeout 900 "$vgpu" vm run --gpu soft --memory 3072 --timeout 880 --share "$out/guest" sh -c '
        python=$1 here=$2 libraries=$3
        export HOME=$4 XDG_CACHE_HOME=$4 LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$libraries
        shift 4
        for name; do
            "$python" -W ignore "$here/${name}_client.py" > "$HOME/$name.out" 2> "$HOME/$name.err" < /dev/null
            echo "ended $?" >> "$HOME/$name.out"
        done' sh "$place/bin/python" "$here" "$CUDA_HOME/lib64" "$out/guest" "$@" > "$out/guest/vm" 2>&1 < /dev/null
    rc=$?
    for name; do
        while read -r line; do
            case $line in
            "ok "*) passed=$((passed + 1)); echo "ok - guest: $name: ${line#ok }" ;;
            "wrong "*) failed=$((failed + 1)); echo "FAIL: guest: $name: ${line#wrong }" ;;
            esac
        done 2> /dev/null < "$out/guest/$name.out"
        grep -q '^wrong\|^ended 0$' "$out/guest/$name.out" 2> /dev/null && continue
        failed=$((failed + 1))
        echo "FAIL: guest: $name: did not end well (the guest: $rc): $(cat "$out/guest/$name.err" "$out/guest/vm" 2> /dev/null |
            tail -n 3 | tr '\n' ' ')"
    done
}

# environment NAME: sets `place` to its path.
environment()
{
    if place=$(bash "$here/environment.sh" path "$1" 2> /dev/null); then
        return 0
    fi
    skipped=$((skipped + 1))
    echo "not run: python: the packages of requirements${1:+-$1}.txt are not fetched (make -C tests/apps/python fetches them)"
    return 1
}

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 userspace/libnvidia-ml/libnvidia-ml.so.1 \
    host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    skipped=1
    echo "not run: python: not built:$missing"
else
    mkdir -p "$out"
    if environment ""; then
        client bindings ""
        client cupy "$CUDA_HOME/lib64"
        # Links with the toolkit's libnvJitLink.
        client numba "$CUDA_HOME/lib64"
        client warp ""
        guest bindings warp numba
    fi
    if environment torch; then
        client triton "" TORCHINDUCTOR_CACHE_DIR="$out/triton/inductor" TORCHINDUCTOR_COMPILE_THREADS=1
    fi
    if environment jax; then
        client jax ""
    fi
    if environment libraries; then
        client nvmath ""
        # Opens libcublas.so.12.
        client ctranslate2 "$(dirname "$(find "$place" -name libcublas.so.12 | head -n 1)")"
    fi
    if environment cudf; then
        client cudf ""
    fi
fi
echo "python: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
