#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh OUT BUILD MODELS [all]: Ollama over the socket, its tokens compared with those of its CPU backend; `all`: also in
# a guest. Prints `not run` unless Ollama has been built, which takes minutes.
set -u
out=$1 build=$2 models=$3 what=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$build/userspace/vgpu/vgpu
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION CUDA_VISIBLE_DEVICES
# Ollama reads its settings from the environment; the user's are removed.
for name in $(compgen -e OLLAMA_) $(compgen -e LLAMA_ARG_); do unset "$name"; done
passed=0 failed=0 skipped=0
export LC_ALL=C

bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }
not_run() { skipped=$((skipped + 1)); echo "not run: $1: $2"; }

# session WAY LIMIT COMMAND... -- ARGS...: prints a session's lines, with WAY before each name.
session()
{
    local way=$1 limit=$2 line status command=()

    shift 2
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    rm -rf "${out:?}/$way"
    mkdir -p "$out/$way"
    (cd "$out" && exec timeout "$limit" "${command[@]}" /usr/bin/python3 -B "$here/session.py" --ollama "$build/ollama" \
        --models "$models" --vgpu "$vgpu" --work "$out/$way" "$@") > "$out/$way.out" 2> "$out/$way.err" < /dev/null
    status=$?
    while read -r line; do
        case $line in
        "ok - "*) passed=$((passed + 1)); echo "ok - $way: ${line#ok - }" ;;
        "FAIL: "*) bad "$way" "${line#FAIL: }" ;;
        "not run: "*) not_run "$way" "${line#not run: }" ;;
        esac
    done < "$out/$way.out"
    [ $status = 0 ] || grep -q '^FAIL' "$out/$way.out" ||
        bad "$way" "ended with $status: $(tail -n 3 "$out/$way.err" | tr '\n' ' ')"
    return $status
}

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 userspace/libnvidia-ml/libnvidia-ml.so.1 \
    host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    not_run ollama "not built:$missing"
elif ! VGPU_BUILD=$build "$here/../../../scripts/ollama.sh" --there || [ ! -e "$models/tiny-q8_0.gguf" ]; then
    not_run ollama "not built (make ollama builds it)"
else
    mkdir -p "$out"
    export LD_LIBRARY_PATH=$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # Keeps ggml from starting a debugger when it aborts; the message is enough.
    export GGML_NO_BACKTRACE=1
    if session cpu 600 -- --cpu "$out/cpu.json"; then
        session socket 900 "$vgpu" run --gpu soft -- --compare "$out/cpu.json"
        if [ "$what" != all ]; then
            :
        elif [ -e "$build/guest/initrd.cpio" ] && [ -e "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}" ] &&
            [ -e "${VGPU_DRIVER:-$build/kernel/vgpu_drv.ko}" ]; then
            session guest 2400 "$vgpu" vm run --gpu soft --memory 4096 --timeout 2300 -- --compare "$out/cpu.json"
        else
            not_run "ollama in a guest" "QEMU, the guest's kernel or the driver is not built"
        fi
    fi
fi
echo "ollama: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
