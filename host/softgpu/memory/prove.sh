#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prove.sh SOURCE STATEMENT...: has CBMC prove what memory/bounds_test.c states, and exec/sg_verify_proof.c with CBMC's own checks of
# bounds, pointers and overflows (statements verify_*; verify_rule_R: of the rule SG_R_R). SOURCE: host/softgpu. CaDiCaL
# decides each in seconds, where Z3 takes minutes or hours. Prints a line for each, as check.py reads them.
set -u
src=$1
cbmc=${CBMC:-$(command -v cbmc)} # make prove sets it; minutes on a busy machine, so not asked of every make check
shift
# The loops over registers of matrices are never entered: that is proved, too.
verify='--bounds-check --pointer-check --pointer-overflow-check --signed-overflow-check --unwinding-assertions
    --drop-unused-functions --slice-formula --unwind 10 --unwindset check_layout.0:64,sg_verify_units_flat.1:64,check_registers.0:1,check_mma.0:1'
"$src/../../scripts/cbmc.sh" --limits "$verify" "$src"/exec/sg_verify*.c || exit 1
passed=0
failed=0
skipped=0
# shellcheck disable=SC2086 # $checks: a list of options
for what; do
    name=prove_$what
    function=$name
    case $what in
    verify_rule_*)
        file=exec/sg_verify_proof.c
        function=prove_verify_rule
        checks="$verify -DRULE=SG_R_${what#verify_rule_}"
        ;;
    verify_*)
        file=exec/sg_verify_proof.c
        checks=$verify
        ;;
    *)
        file=memory/bounds_test.c
        checks=--no-standard-checks
        ;;
    esac
    if [ -z "$cbmc" ] || ! command -v cadical > /dev/null; then
        printf '[  SKIPPED ] %s\nnot run: %s: cbmc and cadical are not both installed; make prove fetches cbmc\n[  SKIPPED ] %s\n' $name $name $name
        skipped=$((skipped + 1))
    elif out=$("$cbmc" "$src/$file" -I"$src" $checks --function $function --external-sat-solver cadical 2>&1); then
        echo "[       OK ] $name"
        passed=$((passed + 1))
    else
        printf '%s\n[  FAILED  ] %s\n[  FAILED  ] %s\n' "$out" $name $name
        failed=$((failed + 1))
    fi
done
echo "prove: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
