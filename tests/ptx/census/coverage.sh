#!/bin/sh
# SPDX-License-Identifier: MIT
#
# coverage.sh BUILD SOFTGPU_BUILD PTXGEN SOFTGPU_SOURCE
#
# Checks that every instruction spelling of ggml and cuBLAS (tests-ptx/spellings.txt) occurs in a test with an
# independent reference. Collects the PTX of those tests: opcodes, loads and stores, matrices, order, whole
# kernels, nvcc's output for tests-ptx, and random programs. Each spelling without a test is a failure that
# names the spelling. Last line: "coverage: N passed, M failed, K skipped".
set -u
build=$1
softgpu=$2
ptxgen=$3
list=$4/tests-ptx/spellings.txt
texts=$build/texts
rm -f "$texts"
for test in op_test op_float_test ldst_test matrix_test sync_test run_test; do
    SG_TEST_TEXTS=$texts timeout 300 "$softgpu/$test" >"$build/$test.log" ||
        echo "FAIL: coverage: $test failed (its own folder says what)"
done
cat "$softgpu"/basic_*.ptx "$softgpu"/matrix_*.ptx >>"$texts" 2>/dev/null
timeout 300 "$ptxgen" --programs 400 --show >>"$texts"
"$build/census" --text <"$texts" | cut -f 3 | sort -u >"$build/covered"
grep -v '^#' "$list" | sort -u >"$build/wanted"
comm -23 "$build/wanted" "$build/covered" | sed 's/^/FAIL: coverage: no test has /'
missing=$(comm -23 "$build/wanted" "$build/covered" | wc -l)
echo "coverage: $(($(wc -l <"$build/wanted") - missing)) passed, $missing failed, 0 skipped"
[ "$missing" = 0 ]
