#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh BUILD check|table
#
# check: decodes every kernel of libggml-cuda.so, libcublas and libcublasLt; each architecture of each
# library is a test, which fails if a kernel does not decode or if there are no kernels.
# table: the same, then the toolkit's other libraries for information, and writes
# docs/results/ptx-census.md. VGPU_GGML_CUDA: path of libggml-cuda.so; default: the copy in the npm package
# that scripts/npm.sh installs.
set -u
build=$1
mode=$2
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
lib=$CUDA_HOME/lib64
passed=0
failed=0
skipped=0

not_run() { # TEST REASON
    echo "not run: $1: $2"
    skipped=$((skipped + 1))
}

ggml=${VGPU_GGML_CUDA:-}
if [ -z "$ggml" ]; then
    "$top/scripts/npm.sh" llama >"$build/npm.log" 2>&1 || tail -n 2 "$build/npm.log"
    ggml=${VGPU_BUILD:-$top/build}/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda/libggml-cuda.so
fi

# NAME FILE: writes BUILD/NAME.out, a line per architecture, and BUILD/NAME.ops.
census() {
    if [ ! -e "$2" ]; then
        not_run "$1" "$2 is not there"
        return 1
    fi
    "$build/census" --opcodes "$build/$1.ops" "$2" >"$build/$1.out"
    return 0
}

rm -f "$build"/*.out "$build"/*.ops
must="libggml-cuda.so libcublas.so.13 libcublasLt.so.13"
for name in $must; do
    case $name in libggml*) file=$ggml ;; *) file=$lib/$name ;; esac
    census "$name" "$file" || continue
    grep '^FAIL' "$build/$name.out" | head -n 20
    while IFS='	' read -r library arch modules bytes kernels decoded; do
        [ "$library" = "$name" ] || continue
        if [ "$kernels" -gt 0 ] && [ "$kernels" = "$decoded" ]; then
            echo "$library sm_$arch: $decoded of $kernels kernels decoded, $modules modules, $((bytes / 1000000)) MB of PTX"
            passed=$((passed + 1))
        else
            echo "FAIL: $library sm_$arch: $decoded of $kernels kernels decoded"
            failed=$((failed + 1))
        fi
    done <"$build/$name.out"
done

# The list from which tests are generated must contain every spelling that occurs.
if [ $skipped = 0 ]; then
    list=$top/host/softgpu/tests-ptx/spellings.txt
    for name in $must; do cut -f 3 "$build/$name.ops"; done | sort -u >"$build/found"
    new=$(grep -v '^#' "$list" | sort -u | comm -23 "$build/found" - | tr '\n' ' ')
    if [ -z "$new" ]; then
        echo "spellings: all $(wc -l <"$build/found") are in host/softgpu/tests-ptx/spellings.txt"
        passed=$((passed + 1))
    else
        echo "FAIL: spellings: not in host/softgpu/tests-ptx/spellings.txt: $new"
        failed=$((failed + 1))
    fi
fi

# The survey of wheels must count a library's fat binaries as census does; then its own test.
if python3 "$here/wheels_test.py" >"$build/wheels.log" 2>&1; then
    echo "wheels: $(grep -c '^ok' "$build/wheels.log") of fat binaries made for it"
    passed=$((passed + 1))
else
    echo "FAIL: wheels: $(grep -v '^ok' "$build/wheels.log" | head -n 5)"
    failed=$((failed + 1))
fi
for name in libcublas.so.13 libcublasLt.so.13; do
    [ -s "$build/$name.out" ] || continue
    if python3 "$here/wheels.py" --tsv "$lib/$name" 2>&1 | sort >"$build/wheels" &&
        grep "^$name" "$build/$name.out" | cut -f 1-3 | sort | cmp -s - "$build/wheels"; then
        echo "wheels: $name: as many fat binaries of each architecture"
        passed=$((passed + 1))
    else
        echo "FAIL: wheels: $name: $(tr '\t\n' ' ;' <"$build/wheels"), not those of census"
        failed=$((failed + 1))
    fi
done

if [ "$mode" = table ]; then
    for file in "$lib"/libcufft.so.* "$lib"/libcusparse.so.* "$lib"/libcusolver.so.* "$lib"/libcusolverMg.so.* \
        "$lib"/libcurand.so.* "$lib"/libnccl.so.* "$lib"/libcudnn_*.so.*; do
        case ${file##*/} in *.so.*.*) continue ;; esac # the same by its full version
        census "${file##*/}" "$file" && grep -v '^FAIL' "$build/${file##*/}.out"
    done
    awk -v must="$must" -v date="$("$top/scripts/results.py" stamp)" -f "$here/table.awk" "$build"/*.ops "$build"/*.out >"$top/docs/results/ptx-census.md"
    echo "written: docs/results/ptx-census.md"
fi
echo "census: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
