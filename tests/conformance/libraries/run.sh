#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD check|table PROGRAM...
#
# Runs each case of each program over the socket, in its own process. table also writes
# docs/results/cuda-libraries.md between its two marks.
set -u
build=$1
top_build=$2
vgpu=$top_build/userspace/vgpu/vgpu
what=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
page=$here/../../../docs/results/cuda-libraries.md

if [ ! -x "$vgpu" ] || [ ! -x "$top_build/host/backend/vgpu-backend" ]; then
    echo "not run: libs: vgpu or its backend is not built"
    echo "libs: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
passed=0
failed=0
skipped=0
: >"$build/results"
for library in cufft curand cusolver cusparse nccl cudnn nvJitLink; do
    case " $* " in
    *" $library "*) ;;
    *)
        echo "not run: libs: the toolkit has no lib$library"
        skipped=$((skipped + 1))
        continue
        ;;
    esac
    for name in $("$vgpu" run --gpu soft "$build/$library" --list 2>/dev/null); do
        VGPU_TRACE=refusals timeout 600 "$vgpu" run --gpu soft "$build/$library" "$name" \
            >"$build/one" 2>"$build/one.err"
        rc=$?
        line=$(grep "	$name	" "$build/one" || printf '%s\t%s\tfailed\tended with %s' "$library" "$name" $rc)
        if grep -q 'the image has no PTX' "$build/one.err"; then
            line="$line; the kernel that it chose exists as machine code only"
        fi
        printf '%s\n' "$line" >>"$build/results"
        known=$(grep "^$library $name " "$here/known.txt" | cut -d ' ' -f 3-)
        if [ $rc = 0 ] && [ -z "$known" ]; then
            echo "ok   $library $name"
            passed=$((passed + 1))
        elif [ $rc = 3 ] && [ -n "$known" ]; then
            echo "ok   $library $name: refused: $known"
            passed=$((passed + 1))
        else
            echo "FAIL: $library $name: $line"
            failed=$((failed + 1))
        fi
    done
done
if [ "$what" = table ]; then
    {
        sed '/^<!-- table/q' "$page"
        printf '\n%s.\n' "$("$here/../../../scripts/results.py" stamp)"
        printf '\n| library | case | result | detail |\n|---|---|---|---|\n'
        awk -F '\t' '{ gsub(/\|/, "\\|", $4); printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }' "$build/results"
        printf '\n'
        sed -n '/^<!-- end/,$p' "$page"
    } >"$build/page" && cp "$build/page" "$page" && echo "written: docs/results/cuda-libraries.md"
fi
echo "libs: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
