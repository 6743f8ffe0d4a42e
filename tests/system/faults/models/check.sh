#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check.sh BUILD [short]: searches the models in this folder exhaustively, then each of their mutations (short: the first
# mutation of each model), which the search must find.
# Prints a line per run, the number of states, and "models: N passed, M failed, K skipped".
here=$(cd "$(dirname "$0")" && pwd)
build=$1
passed=0
failed=0
skipped=0
mkdir -p "$build" || exit 1
cd "$build" || exit 1

run() { # MODEL [MUTATION]
    name=$1${2:+-$2}
    rm -rf "$name"
    mkdir "$name" && cd "$name" || exit 1
    spin ${2:+-D$2} -a "$here/$1.pml" >spin.log 2>&1 &&
        gcc $([ -n "${2:-}" ] && echo -O0 || echo -O1) -w -DSAFETY -DCOLLAPSE -DMEMLIM=2048 -o pan pan.c >cc.log 2>&1 &&
        timeout 300 ./pan -m400000 >pan.log 2>&1
    cd ..
}
verdict() { # NAME WANTED(0|1)
    errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$1/pan.log" 2>/dev/null)
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$1/pan.log" 2>/dev/null)
    # Without an error only a complete search counts; a search that finds an error may stop early.
    whole=$(grep -cE 'max search depth too small|Search not completed|out of memory' "$1/pan.log" 2>/dev/null)
    if [ "$2" = 0 ] && [ "$errors" = 0 ] && [ "$whole" = 0 ]; then
        echo "ok   model $1: $states states, no lost wake-up, no access too late"
        passed=$((passed + 1))
    elif [ "$2" = 1 ] && [ "${errors:-0}" -gt 0 ]; then
        echo "ok   model $1: the fault is found"
        passed=$((passed + 1))
    else
        echo "FAIL: model $1: errors: ${errors:-none counted}"
        tail -n 5 "$1"/*.log
        failed=$((failed + 1))
    fi
}

if ! command -v spin >/dev/null 2>&1; then
    echo "not run: models: spin is not installed"
    echo "models: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
for model in handshake grace quarantine; do
    run $model
    verdict $model 0
    for mutation in $(sed -n '1,/\*\//s/[^-]*-D\([A-Z_]*\)[^-]*/\1 /gp' "$here/$model.pml"); do
        run $model "$mutation"
        verdict "$model-$mutation" 1
        [ "${2:-}" != short ] || break
    done
done
echo "models: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
