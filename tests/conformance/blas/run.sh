#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD check|table
#
# check: every case over the socket, with the device's default settings.
# table: each case also for further capabilities reported to cuBLAS (VGPU_SOFT_LIBRARY_CC), and writes
# docs/results/cublas.md.
set -u
build=$1
vgpu=$2/userspace/vgpu/vgpu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)

if [ ! -x "$vgpu" ] || [ ! -x "$2/host/backend/vgpu-backend" ]; then
    echo "not run: blas: vgpu or its backend is not built"
    echo "blas: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
if [ ! -e "$CUDA_HOME/lib64/libcublas.so" ]; then
    echo "not run: blas: the toolkit has no cuBLAS"
    echo "blas: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
if [ "$3" = check ]; then
    timeout 900 "$vgpu" run --gpu soft "$build/blas" >"$build/check.log" 2>"$build/check.err"
    rc=$?
    cat "$build/check.log"
    grep -q '^blas: ' "$build/check.log" || { tail -n 5 "$build/check.err"; echo "FAIL: blas ended with $rc"; }
    exit $rc
fi

# CAPABILITY: writes NAME RESULT DETAIL of each case to BUILD/table.CAPABILITY; refusals with the worker's reason.
column() {
    cc=$1
    [ "$cc" = default ] && unset VGPU_SOFT_LIBRARY_CC || export VGPU_SOFT_LIBRARY_CC="$cc"
    : >"$build/table.$cc"
    for name in $("$vgpu" run --gpu soft "$build/blas" --list 2>/dev/null); do
        VGPU_TRACE=refusals timeout 400 "$vgpu" run --gpu soft "$build/blas" --table "$name" \
            >"$build/one" 2>"$build/one.err"
        if grep -q 'the image has no PTX' "$build/one.err"; then
            sed 's/$/; the kernel that it chose exists as machine code only/' "$build/one"
        else
            cat "$build/one"
        fi >>"$build/table.$cc"
    done
    echo "capability $cc: $(cut -f 2 "$build/table.$cc" | sort | uniq -c | tr -s ' \n' ' ')"
}
columns="default 7.5 8.0 9.0 12.0 13.0"
for cc in $columns; do
    column "$cc"
done
for cc in $columns; do
    sed "s/^/$cc	/" "$build/table.$cc"
done | awk -F '\t' -v columns="$columns" -v date="$("$top/scripts/results.py" stamp)" -f "$here/table.awk" >"$top/docs/results/cublas.md"
echo "written: docs/results/cublas.md"
