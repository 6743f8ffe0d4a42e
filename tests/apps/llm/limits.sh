# SPDX-License-Identifier: MIT
#
# Wrong input and limits over the socket; sourced by check.sh. In each case the client reports its own
# error, the trace names the call, doctor names the cause, and the next run works.

# refused NAME STATUS CLIENT TRACE VERDICT DOCTOR COMMAND...: COMMAND must exit with STATUS and print CLIENT
# (an extended regular expression: the client's own error), the trace of refusals must contain TRACE, and
# vgpu doctor must give VERDICT, with DOCTOR in its text.
refused()
{
    local name=$1 status=$2 client=$3 trace=$4 verdict=$5 doctor=$6 rc

    shift 6
    # A separate shell swallows the message "Aborted".
    (timeout 200 "$VGPU" run --gpu soft --trace=refusals "$@" > "$name.log" 2>&1 < /dev/null; exit $?) 2> /dev/null
    rc=$?
    if [ $rc != "$status" ]; then
        bad "$name" "status $rc, not $status: $(tail -n 2 "$name.log")"
    elif ! grep -Eq "$client" "$name.log"; then
        bad "$name" "the client does not say '$client': $(tail -n 2 "$name.log")"
    elif ! grep -E "^vgpu\[" "$name.log" | grep -Eq "$trace"; then
        bad "$name" "the trace does not say '$trace': $(grep '^vgpu\[' "$name.log" | tail -n 2)"
    else
        ok "$name"
    fi
    # Here, too, a shell in between swallows "Aborted".
    (timeout 200 "$VGPU" doctor --gpu soft "$@" > "$name.doctor.log" 2>&1 < /dev/null; exit $?) 2> /dev/null
    if grep -q "^verdict: $verdict[ :]" "$name.doctor.log" && grep -Eq "$doctor" "$name.doctor.log"; then
        ok "${name}_doctor"
    else
        bad "${name}_doctor" "no verdict $verdict with '$doctor': $(tail -n 3 "$name.doctor.log")"
    fi
}

# After a limit: the same program without it.
next_run()
{
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 8 --quiet --follow q4_0.bin
    run "$1" "$VGPU" run --gpu soft "${EVAL[@]}"
}

# killed_doctor: doctor must not blame vgpu for a client killed while it decodes.
killed_doctor()
{
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 64 --kill-after 8
    timeout 200 "$VGPU" doctor --gpu soft "${EVAL[@]}" > killed.doctor.log 2>&1 < /dev/null
    if [ $? = 50 ] && grep -q '^verdict: program-failed' killed.doctor.log; then
        ok client_killed_doctor
    else
        bad client_killed_doctor "$(tail -n 3 killed.doctor.log)"
    fi
}

memory()
{
    "$OUT/gguf_make" --vocab "$BUILD/llama/src/models/ggml-vocab-llama-spm.gguf" --text "$LLM/text.md" \
        --size tiny --type f16 --tokens 0 --out big.gguf || bad big_model "cannot be made"
    eval_cuda --model big.gguf --tokens 4
    VGPU_SOFT_MEMORY=$((16 << 20)) refused model_larger_than_memory 2 '^llm_eval: cannot load' \
        'cuMemAlloc_v2\(.*= CUDA_ERROR_OUT_OF_MEMORY' out-of-memory 'bytes asked for, [0-9]+ of 16777216 left' "${EVAL[@]}"
    rm -f big.gguf
    next_run model_larger_than_memory_next_run
    # cuBLAS requests 64 MiB at the first product; ggml aborts with its own message.
    eval_cuda --model "$OUT/models/tiny-f16.gguf" --tokens 4
    VGPU_SOFT_MEMORY=$((24 << 20)) refused memory_ends_at_first_product 134 'CUDA error: the resource allocation failed' \
        'cuMemAlloc_v2\(.*= CUDA_ERROR_OUT_OF_MEMORY' out-of-memory '67108864 bytes asked for' "${EVAL[@]}"
    next_run memory_ends_at_first_product_next_run
    # A growing context: the client gets the error and frees memory; its first context keeps working.
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 8 --grow --quiet --follow q4_0.bin
    VGPU_SOFT_MEMORY=$((64 << 20)) refused memory_ends_in_the_middle 0 "grow: [1-9].*memory was full" \
        'cuMemAlloc_v2\(.*= CUDA_ERROR_OUT_OF_MEMORY' ok 'cuMemAlloc_v2 gave CUDA_ERROR_OUT_OF_MEMORY, and the program went on' \
        "${EVAL[@]}"
    grep -q '^tokens: all' memory_ends_in_the_middle.log || bad memory_ends_in_the_middle "other tokens afterwards"
}

versions()
{
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 4
    VGPU_DRIVER_VERSION=12090 refused old_driver 2 'CUDA driver version is insufficient for CUDA runtime version' \
        'Insufficient driver: 12090 < 13000' driver-version 'driver version 12090 is too old' "${EVAL[@]}"
    next_run old_driver_next_run
}

# The CUDA backend without its PTX: the remaining code runs on other GPUs only.
sass_only()
{
    local f

    mkdir -p sass
    for f in "$BACKENDS"/*.so; do
        [ "${f##*/}" = libggml-cuda.so ] || ln -sf "$f" sass/
    done
    "$OUT/no_ptx" "$BACKENDS/libggml-cuda.so" sass/libggml-cuda.so > no_ptx.log || {
        bad sass_only "$(cat no_ptx.log)"
        return
    }
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 4 --backends "$PWD/sass"
    LD_LIBRARY_PATH=$PWD/sass:$LD_LIBRARY_PATH refused sass_only 134 'CUDA error: (no kernel image|device kernel image)' \
        'CUDA_ERROR_NO_BINARY_FOR_GPU' no-usable-code 'it has: SASS [0-9]+' "${EVAL[@]}"
    rm -rf sass
    next_run sass_only_next_run
}

two_at_once()
{
    eval_cuda --model "$OUT/models/tiny-q8_0.gguf" --tokens 24 --quiet --follow q8_0.bin
    printf '%q ' "${EVAL[@]}" > two.sh
    printf ' & one=$!\n' >> two.sh
    eval_cuda --model "$OUT/models/tiny-q4_k.gguf" --tokens 24 --quiet --follow q4_k.bin
    printf '%q ' "${EVAL[@]}" >> two.sh
    printf ' & two=$!\nwait $one && wait $two\n' >> two.sh
    run socket_two_at_once "$VGPU" run --gpu soft /bin/bash two.sh
}

# children PID: prints PID and all its descendants.
children()
{
    local child

    echo "$1"
    for child in $(pgrep -P "$1"); do
        children "$child"
    done
}

# killed NAME VICTIM COMMAND...: starts COMMAND, waits until it decodes (its output names the device and a
# token), and kills its descendant with VICTIM in the command line; no process or memory may remain.
killed()
{
    local name=$1 victim=$2 pid all p left i

    shift 2
    "$@" > "$name.log" 2>&1 < /dev/null &
    pid=$!
    for i in $(seq 600); do
        [ "$(sed -n '/^device:/,$p' "$name.log" | wc -c)" -gt 150 ] && break
        kill -0 $pid 2> /dev/null || break
        sleep 0.2
    done
    all=$(children $pid)
    left=
    for p in $all; do
        tr '\0' ' ' < "/proc/$p/cmdline" 2> /dev/null | grep -q "^[^ ]*$victim" && left="$left $p"
    done
    if [ -z "$left" ]; then
        bad "$name" "it does not run: $(tail -n 2 "$name.log")"
        kill $pid 2> /dev/null
        return
    fi
    # shellcheck disable=SC2086
    kill -KILL $left
    wait $pid 2> /dev/null
    for i in $(seq 100); do
        left=
        for p in $all; do
            [ ! -d "/proc/$p" ] || left="$left $p"
        done
        [ -n "$left" ] || break
        sleep 0.1
    done
    if [ -z "$left" ]; then
        ok "$name"
    else
        bad "$name" "left behind: $(ps -o pid=,args= -p "${left# }" | head -n 3)"
    fi
}

limits()
{
    memory
    versions
    sass_only
    two_at_once
    eval_cuda --model "$OUT/models/tiny-q4_0.gguf" --tokens 1500
    killed client_killed_while_decoding llm_eval "$VGPU" run --gpu soft "${EVAL[@]}"
    killed_doctor
    next_run socket_next_run
}
