#!/bin/sh
# SPDX-License-Identifier: MIT
# mutants.sh TOP O CUDA SEEDS [PATCH...]: reverts each fix in mutants/ in a copy of the software GPU (worker-*: of the backend;
# client-*: of libcuda, used by two threads); sequences must find the fault. ptx-*: in the software GPU, where PTX with
# exchanged registers (fuzz_test) must find it.
set -u
top=$1 out=$2 cuda=$3 seeds=$4
src=$top/tests/system/sequences
shift 4
[ $# -gt 0 ] || set -- "$src"/mutants/*.patch
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
passed=0 failed=0
dir=$out/mutant

# The build is newer than the sources' copies, so that only patched files, and files that include a patched header, are
# recompiled; its dependency files are rewritten to name the copies.
copied() { # BUILT
    rm -rf "$dir"
    mkdir -p "$dir/host" "$dir/build" "$dir/kernel/vgpu_drv"
    # Includes the sources generated from the description, at the place where scripts/generated.mk expects them.
    cp -a "$top/scripts" "$top/lib" "$top/protocol" "$dir/" && cp -a "$top/kernel/vgpu_drv/uapi" "$dir/kernel/vgpu_drv/" &&
        cp -a "$top/build/generated" "$dir/build/" && cp -a "$1" "$dir/built" || exit 1
    find "$dir/built" -name '*.d' -exec \
        sed -i "s#$1/#@built@/#g; s#$top/#$dir/#g; s#@built@/#$dir/built/#g" {} + || exit 1
}
mended() { # NAME COMMAND...: what the command says has to be a finding
    name=$1
    shift
    if ! patch -s -p1 -d "$dir" < "$patch" || ! "$@"; then
        echo "FAIL: $name does not apply or is not built"
        failed=$((failed + 1))
        return 1
    fi
}
found() { # NAME WHAT SHOWN: WHAT empty: nothing was found
    if [ -n "$2" ]; then
        echo "$1: found in $(($(date +%s) - began)) s: $2, $3"
        passed=$((passed + 1))
    else
        echo "FAIL: $1: not found: $(tail -n 1 "$log")"
        failed=$((failed + 1))
    fi
}
report_of() { # FILE...
    cat "$@" 2> /dev/null | sed -n 's/.*ERROR: AddressSanitizer: \([a-zA-Z-]*\).*/\1/p; s/.*runtime error: //p' | head -n 1
}

for patch; do
    mutant=$(basename "$patch" .patch)
    log=$out/mutant-$mutant.log
    case $mutant in
    worker-* | client-*)
        threads=1
        [ "${mutant#client-}" = "$mutant" ] || threads=2
        copied "$out/worker"
        mkdir -p "$dir/userspace"
        cp -a "$top/host/backend" "$dir/host/" && cp -a "$top/userspace/libcuda" "$dir/userspace/" || exit 1
        mended "$mutant" true || continue
        began=$(date +%s) # with what is compiled
        "$src/worker.sh" "$dir" "$out" "$dir/built" "$cuda" 900 --once --jobs 4 --threads $threads \
            --seeds "$seeds" > "$log" 2>&1
        found "$mutant" "$(sed -n 's/^FAIL: \(seed [^:]*\):.*/\1/p' "$log" | head -n 1)" \
            "$(report_of "$dir"/built/reports/* "$dir/built/sequences.log")"
        ;;
    ptx-*)
        copied "$out/softgpu"
        cp -a "$top/host/softgpu" "$dir/host/" || exit 1
        mended "$mutant" "$src/softgpu.sh" "$dir" "$dir/built" "$cuda" || continue
        began=$(date +%s)
        timeout 60 "$dir/built/fuzz_test" 1000000 registers > "$log" 2>&1
        found "$mutant" "$(report_of "$log" | sed 's/.*/exchanged registers/')" "$(report_of "$log")"
        ;;
    *)
        copied "$out/softgpu"
        cp -a "$top/host/softgpu" "$dir/host/" || exit 1
        mended "$mutant" "$src/softgpu.sh" "$dir" "$dir/built" "$cuda" || continue
        began=$(date +%s)
        LD_LIBRARY_PATH=$dir/built LD_PRELOAD=$("${CC:-gcc}" -print-file-name=libasan.so) \
            "$out/sequences" --once --jobs 4 --seeds "$seeds" --seconds 900 > "$log" 2>&1
        found "$mutant" "$(sed -n 's/^FAIL: \(seed [0-9]*\).*/\1/p' "$log" | head -n 1)" "$(report_of "$log")"
        ;;
    esac
done
rm -rf "$dir"
echo "sequences-mutants: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
