#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares what libcuda.so.1 exports with cuda.h, with the generated list and with what cuBLAS looks up.
#   exports_test.sh BUILD_DIR
out=$1
bad=0
nm -D --defined-only "$out/libcuda.so.1" | awk '{ print $3 }' | sort > "$out/test/exports"
printf '#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n' |
    gcc -E -P -I"$CUDA_HOME/include" - |
    grep -oE '\bcu[A-Z][A-Za-z0-9_]* *\(' | tr -d ' (' | sort -u > "$out/test/declared"
grep -v '^#' testdata/dlsym_cublas.txt | sort > "$out/test/cublas"

complain() { # FILE OF MISSING NAMES, WHAT
    if [ -s "$1" ]; then
        echo "FAIL exports_test: $2: $(tr '\n' ' ' < "$1")"
        bad=1
    fi
}
comm -13 "$out/test/exports" "$out/test/declared" > "$out/test/missing"
complain "$out/test/missing" "cuda.h declares, we do not export"
comm -13 "$out/test/exports" "$out/test/cublas" > "$out/test/missing"
complain "$out/test/missing" "cuBLAS looks up, we do not export"
grep -v '^cu[A-Z]' "$out/test/exports" > "$out/test/missing"
complain "$out/test/missing" "exported, but not a driver API name"
readelf -d "$out/libcuda.so.1" | grep -q 'SONAME.*\[libcuda.so.1\]' || { echo "FAIL exports_test: soname"; bad=1; }
[ $bad -eq 0 ] && echo "ok   exports_test: $(wc -l < "$out/test/exports") names"
echo "libcuda/exports: $((1 - bad)) passed, $bad failed, 0 skipped"
exit $bad
