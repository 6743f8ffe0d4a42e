#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh BUILD TOP_BUILD: runs the walk on the provider alone and over the socket and compares the two, and the
# former with the committed table of answers.
# The last line: `api: N passed, M failed, K skipped`.
set -u
build=$1
top_build=$2
here=$(cd "$(dirname "$0")" && pwd)
generated=$(cd "$here/../../.." && pwd)/build/generated
PYTHON=${PYTHON:-/usr/bin/python3}
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
soft=$top_build/host/softgpu
vgpu=$top_build/userspace/vgpu/vgpu
out=$build/out
passed=0
failed=0
skipped=0
mkdir -p "$out"
rm -rf "$out"/*

ok() { # NAME STATUS
    if [ "$2" -eq 0 ]; then
        echo "ok   $1"
        passed=$((passed + 1))
    else
        echo "FAIL: $1"
        failed=$((failed + 1))
    fi
}

not_run() { # NAME REASON
    echo "not run: $1: $2"
    skipped=$((skipped + 1))
}

# WAY COMMAND...: prints the walk's failures; the walk's last line has the counts.
walk() {
    way=$1
    shift
    # Some calls write files, so they run in a folder of their own.
    rm -rf "$out/files"
    mkdir "$out/files"
    (cd "$out/files" && "$@") >"$out/walk.$way" 2>"$out/walk.$way.err"
    status=$?
    grep ' FAIL want ' "$out/walk.$way" | sed "s/^/FAIL: $way: /" | head -n 100
    [ $status -gt 1 ] && tail -n 3 "$out/walk.$way.err"
    ok "every entry point of cuda.h with bad arguments, $way: $(tail -n 1 "$out/walk.$way")" $status
}

libcuda=$top_build/userspace/libcuda/libcuda.so.1
if [ -e "$libcuda" ]; then
    "$PYTHON" "$here/names.py" "${CC:-cc}" "$CUDA_HOME/include" "$libcuda" "$soft/libcuda.so.1" \
        "$build/lookup" "$here/../../.." >"$out/names" 2>&1
    status=$?
    cat "$out/names"
    ok "the names of the driver API in all places" $status
    # The same against the newest cuda.h available, from the newest runtime's package.
    read -r spec hash bytes < <(awk '$2 == "cudart" { line = $3 " " $4 " " $5 } END { print line }' \
        "$here/../runtimes/runtimes.txt")
    if place=$(bash "$here/../runtimes/fetch.sh" "$spec" "$hash" "$bytes" 2>"$out/why"); then
        "$PYTHON" "$here/names.py" "${CC:-cc}" "$place/include:$CUDA_HOME/include" "$libcuda" "$soft/libcuda.so.1" \
            "$build/lookup" "$here/../../.." >"$out/names.newest" 2>&1
        status=$?
        cat "$out/names.newest"
        ok "the names of the driver API, against the cuda.h of ${spec#*==}" $status
        sh "$here/../../../protocol/signatures.sh" "$generated" "$place/include" "$CUDA_HOME/include"
        ok "every described signature is that of the cuda.h of ${spec#*==}" $?
    else
        not_run "names of the newest cuda.h" "$(tail -n 1 "$out/why")"
    fi
    # ... and that a missing name is detected.
    for place in userspace/libcuda/entry/entry.def:/^local.cuCtxGetFlags/d docs/calls.md:s/cuCtxGetFlags/cuCtxGetFlag/ \
        protocol/cuda_symbols.tsv:/^cuCtxGetFlags/d userspace/libcuda/testdata/dlsym_cublas.txt:s/^cuLaunchKernel$/cuMemMops/; do
        rm -rf "$out/broken"
        mkdir -p "$out/broken/protocol" "$out/broken/docs" "$out/broken/userspace/libcuda/entry"
        cp "$here/../../../protocol/cuda_calls.def" "$here/../../../protocol/cuda_symbols.tsv" "$out/broken/protocol/"
        cp "$here/../../../userspace/libcuda/entry/entry.def" "$out/broken/userspace/libcuda/entry/"
        cp "$here/../../../docs/calls.md" "$out/broken/docs/"
        cp -r "$here/../../../userspace/libcuda/testdata" "$out/broken/userspace/libcuda/"
        sed -i "${place#*:}" "$out/broken/${place%%:*}"
        "$PYTHON" "$here/names.py" "${CC:-cc}" "$CUDA_HOME/include" "$libcuda" "$soft/libcuda.so.1" \
            "$build/lookup" "$out/broken" >"$out/names.broken" 2>&1
        [ $? -eq 1 ] && grep -q '^FAIL: .*cu\(CtxGetFlag\|MemMops\)' "$out/names.broken"
        ok "a name missing in ${place%%:*} is noticed" $?
    done
else
    not_run "names" "$libcuda is not built"
fi
if [ -e "$soft/libcuda.so.1" ]; then
    walk "provider alone" env LD_LIBRARY_PATH="$soft" "$build/walk"
    "$PYTHON" "$here/answers.py" check "$out/walk.provider alone" "$here/answers.tsv" >"$out/answers"
    status=$?
    cat "$out/answers"
    ok "the answers are those of the table" $status
    # ... and that a different answer, or one that wrote more bytes, is detected.
    for change in '/^cuMemAlloc_v2 context (dptr=NULL)/s/VALUE/HANDLE/' '/^cuMemAlloc_v2 context (bytesize=0)/s/$/ wrote dptr:0-0/'; do
        sed "$change" "$out/walk.provider alone" >"$out/walk.broken"
        "$PYTHON" "$here/answers.py" check "$out/walk.broken" "$here/answers.tsv" >"$out/answers.broken"
        [ $? -eq 1 ] && [ "$(grep -c '^FAIL: cuMemAlloc_v2 context' "$out/answers.broken")" = 1 ]
        ok "another answer is noticed: $change" $?
    done
    # ... and NVIDIA's answers, except for differences with a recorded reason.
    "$PYTHON" "$here/answers.py" differ "$here/answers.tsv" "$here/driver-580.tsv" "$here/driver-580-kept.tsv"
    ok "the answers are those of driver 580, or differ for a reason" $?
    for change in '/^cuMemAlloc_v2\tcontext/s/INVALID_VALUE/NOT_FOUND/' 's/^cuCtxGetId\tcontext\tINVALID_CONTEXT\(.*ctx=another kind\)/cuCtxGetId\tcontext\tCONTEXT_IS_DESTROYED\1/'; do
        sed "$change" "$here/answers.tsv" >"$out/answers.other"
        "$PYTHON" "$here/answers.py" differ "$out/answers.other" "$here/driver-580.tsv" "$here/driver-580-kept.tsv" >"$out/differ.other"
        [ $? -eq 1 ] && grep -q '^FAIL: cu\(MemAlloc_v2\|CtxGetId\) context' "$out/differ.other"
        ok "a difference without a reason, or a reason without a difference, is noticed: $change" $?
    done
else
    not_run "walk on the provider alone" "$soft/libcuda.so.1 is not built"
fi
if [ -x "$vgpu" ] && [ -e "$top_build/userspace/libcuda/libcuda.so.1" ] && [ -x "$top_build/host/backend/vgpu-backend" ]; then
    walk socket "$vgpu" run --gpu soft "$build/walk" --ours
else
    not_run "walk over the socket" "vgpu, libcuda or backend is not built"
fi
if [ -e "$out/walk.provider alone" ] && [ -e "$out/walk.socket" ]; then
    "$PYTHON" "$here/compare.py" "$out/walk.provider alone" "$out/walk.socket" \
        "$here/../../../protocol/cuda_calls.def" >"$out/compare"
    status=$?
    cat "$out/compare"
    ok "the same results both ways" $status
fi
echo "api: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
