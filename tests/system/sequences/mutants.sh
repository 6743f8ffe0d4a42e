#!/bin/sh
# SPDX-License-Identifier: MIT
# mutants.sh TOP O CUDA SEEDS [PATCH...]: takes each mend in mutants/ out of a copy of the software GPU, worker-*: out of one of
# the backend; sequences must find it.
set -u
top=$1 out=$2 cuda=$3 seeds=$4
src=$top/tests/system/sequences
shift 4
[ $# -gt 0 ] || set -- "$src"/mutants/*.patch
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
passed=0 failed=0
for patch; do
    name=$(basename "$patch" .patch)
    dir=$out/mutant
    log=$out/mutant-$name.log
    rm -rf "$dir"
    mkdir -p "$dir/host"
    case $name in
    worker-*)
        mkdir -p "$dir/userspace" "$dir/kernel/vgpu_drv"
        cp -a "$top/scripts" "$top/lib" "$top/protocol" "$dir/" && cp -a "$top/host/backend" "$dir/host/" &&
            cp -a "$top/userspace/libcuda" "$dir/userspace/" && cp -a "$top/kernel/vgpu_drv/uapi" "$dir/kernel/vgpu_drv/" &&
            cp -a "$out/worker" "$dir/built" || exit 1
        if ! patch -s -p1 -d "$dir" < "$patch"; then
            echo "FAIL: $name does not apply"
            failed=$((failed + 1))
            continue
        fi
        began=$(date +%s)
        "$src/worker.sh" "$dir" "$out" "$dir/built" "$cuda" 900 --once --jobs 4 --seeds "$seeds" > "$log" 2>&1
        if grep -q '^FAIL: seed' "$log"; then
            echo "$name: found in $(($(date +%s) - began)) s: $(sed -n 's/^FAIL: \(seed [^:]*\):.*/\1/p' "$log" | head -n 1)," \
                "$(grep -aohE 'AddressSanitizer: [a-zA-Z-]*|runtime error: .*' "$dir"/built/reports/* | head -n 1)"
            passed=$((passed + 1))
        else
            echo "FAIL: $name: not found: $(tail -n 1 "$log")"
            failed=$((failed + 1))
        fi
        continue
        ;;
    esac
    # Newer than the objects is only what the patch changes.
    cp -a "$top/scripts" "$top/lib" "$dir/" && cp -a "$top/host/softgpu" "$dir/host/" && cp -a "$out/softgpu" "$dir/built" || exit 1
    if ! patch -s -p1 -d "$dir" < "$patch" || ! "$src/softgpu.sh" "$dir" "$dir/built" "$cuda"; then
        echo "FAIL: $name does not apply or is not built"
        failed=$((failed + 1))
        continue
    fi
    began=$(date +%s)
    LD_LIBRARY_PATH=$dir/built LD_PRELOAD=$("${CC:-gcc}" -print-file-name=libasan.so) \
        "$out/sequences" --once --jobs 4 --seeds "$seeds" --seconds 900 > "$log" 2>&1
    if grep -q '^FAIL: seed' "$log"; then
        echo "$name: found in $(($(date +%s) - began)) s: $(sed -n 's/^FAIL: \(seed [0-9]*\).*/\1/p' "$log" | head -n 1)," \
            "$(sed -n 's/.*ERROR: AddressSanitizer: \([a-zA-Z-]*\).*/\1/p; s/.*runtime error: //p' "$log" | head -n 1)"
        passed=$((passed + 1))
    else
        echo "FAIL: $name: not found: $(tail -n 1 "$log")"
        failed=$((failed + 1))
    fi
done
rm -rf "$out/mutant"
echo "sequences-mutants: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
