#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh SOURCE STATEMENT...: has CBMC prove what memory/bounds_test.c states. SOURCE: host/softgpu. Each statement has the solver
# that decides it in seconds, where another takes hours: Z3 for sums, CaDiCaL for rotations. Prints a line for
# each, as check.py reads them.
set -u
src=$1
shift
passed=0
failed=0
skipped=0
for what; do
    name=prove_$what
    case $what in
    native_*) solver=cadical options="--external-sat-solver cadical" ;;
    *) solver=z3 options=--z3 ;;
    esac
    if ! command -v cbmc > /dev/null || ! command -v $solver > /dev/null; then
        printf '[  SKIPPED ] %s\nnot run: %s: cbmc and %s are not both installed\n[  SKIPPED ] %s\n' $name $name $solver $name
        skipped=$((skipped + 1))
    elif out=$(cbmc "$src/memory/bounds_test.c" -I"$src" --no-standard-checks --function $name $options 2>&1); then
        echo "[       OK ] $name"
        passed=$((passed + 1))
    else
        printf '%s\n[  FAILED  ] %s\n[  FAILED  ] %s\n' "$out" $name $name
        failed=$((failed + 1))
    fi
done
echo "prove: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
