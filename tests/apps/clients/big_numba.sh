# SPDX-License-Identifier: MIT
# Numba's CUDA test suite, a process per module. Sourced by run.sh all.

# Tests that fail, with reasons: docs/results/clients.md.
numba_known="test_pinned_memory test_mapped_contextmanager test_pinned_contextmanager test_struct_model_type_arr \
test_type_with_struct_data_model test_dump_bytecode test_invalid_array_type"

numba_tests()
{
    local module all=$out/work/numba-tests name new= good

    have "Numba's tests" numba || return
    numba_ready || { not_run "Numba's tests" "the toolkit has no libdevice"; return; }
    : > "$all"
    # test_cuda_libraries contains no test, for which the runner would run all of Numba's.
    while read -r module; do
        numba_run 300 -m numba.runtests -v "$module" >> "$all" 2>&1 < /dev/null
    done < <(cd "$host/usr/lib/python3/dist-packages" && find numba/cuda/tests -name 'test_*.py' |
        grep -v test_cuda_libraries | sed 's/\.py$//; s#/#.#g' | sort)
    good=$(grep -c '\.\.\. ok$' "$all")
    while read -r name; do
        [[ " $numba_known " = *" $name "* ]] || new="$new $name"
    done < <(sed -n 's/^\(ERROR\|FAIL\): \([^ ]*\) .*/\2/p' "$all" | sort -u)
    if [ -z "$new" ] && [ "$good" -ge 1200 ]; then
        ok "Numba's tests: $good passed, none fails but the known"
    else
        bad "Numba's tests" "$good passed, new failures:${new:- none} ($all)"
    fi
}
numba_tests
