#!/bin/bash
# SPDX-License-Identifier: MIT
#
# contact.sh [OPTIONS] STAGE...: collects the behaviour of a machine with a GPU in little time. Runs from the kit
# (make gpu-kit); compiles nothing; never stops at a failure.
#
#   1 facts     the machine, the driver, all first calls: natively, then through vgpu under increasing restrictions;
#               the first rung with different results is the diagnosis
#   2 conform   the conformance suite and the demo programs, natively and through vgpu
#   3 figures   the bench, a language model on ggml and the installed Python frameworks, natively and through vgpu
#   frameworks  the Python frameworks of 3 alone
#   answers     every entry point with bad arguments, natively, compared with the table of answers: finds wrong guesses
#   4 vm        a worker killed while another computes; first calls and demo programs in a guest, two guest
#               processes and two guests at once
#
# --gpu nvidia|soft   default nvidia; soft tries the kit without a GPU
# --libcuda PATH      the driver library; default: searched for in LD_LIBRARY_PATH, the linker's cache, and the
#                     folders of container runtimes
# --out DIR           default ./contact: summary.txt, a log a step, and logs.tar.gz (each log's last 2 MB)
# --python PATH       the interpreter with the frameworks (default: python3)
# --patience N        multiplies all time limits, for slow machines (default 1)
#
# Each step has a time limit, each stage a limit of 530 s; each step adds a line to the summary, which is printed last.
# Exit status: 0 if every step was tried, whatever the result.
#
# ggml: the kit contains its CUDA library, with PTX for compute capability 9.0, which needs the machine's libcublas.so.13.
# For a kit without it, build it on a machine with nvcc, CMake and git, in a clone of llama/gitRelease.bundle
# of npm's node-llama-cpp: cmake -B b -DGGML_CUDA=ON -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF -DBUILD_SHARED_LIBS=ON
# -DCMAKE_CUDA_ARCHITECTURES=90; cmake --build b -j --target ggml-cuda; b/bin/libggml-cuda.so into build/llama/bin.
set -u
kit=$(cd "$(dirname "$0")" && pwd)
build=$kit/build
gpu=nvidia
libcuda=
out=$PWD/contact
stages=
patience=1
python=python3

usage() { sed -n '4,27s/^# \{0,1\}//p' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
    --gpu) gpu=${2:?}; shift ;;
    --libcuda) libcuda=${2:?}; shift ;;
    --out) out=${2:?}; shift ;;
    --python) python=${2:?}; shift ;;
    --patience) patience=${2:?}; shift ;;
    [1-4] | frameworks | answers) stages="$stages $1" ;;
    *) usage ;;
    esac
    shift
done
[ -n "$stages" ] && [ "$patience" -ge 1 ] 2> /dev/null || usage
mkdir -p "$out"
out=$(cd "$out" && pwd)
summary=$out/summary.txt
: > "$summary"
export LC_ALL=C PYTHONUNBUFFERED=1
vgpu=$build/userspace/vgpu/vgpu
firstcall=$build/tests/hardware/firstcall

tell() { printf '%s\n' "$*" | tee -a "$summary"; }
pack()
{
    (cd "$out" && mkdir -p packed && for log in *.log; do [ -e "$log" ] && tail -c 2000000 "$log" > "packed/$log"; done
     tar -czf logs.tar.gz packed && rm -r packed) 2> /dev/null
}

# step NAME SECONDS COMMAND...: output to NAME.log, a line to the summary. Returns COMMAND's status.
step()
{
    local name=$1 limit=$(($2 * patience)) rc start

    shift 2
    start=$(date +%s)
    if [ $((stage_end - start)) -lt 5 ]; then
        tell "not run: $name: the time of this stage is over"
        return 1
    fi
    [ "$limit" -lt $((stage_end - start)) ] || limit=$((stage_end - start))
    timeout -k 5 "$limit" "$@" > "$out/$name.log" 2>&1 < /dev/null
    rc=$?
    tell "$(printf '%-26s %4s %4d s  %s' "$name" "$([ $rc = 124 ] && echo LATE || echo $rc)" $(($(date +%s) - start)) \
        "$(grep -v '^$' "$out/$name.log" | tail -n 1 | cut -c1-150)")"
    pack
    return $rc
}

# find_libcuda: prints the path of the physical GPU's driver library, or nothing.
find_libcuda()
{
    local dir

    if [ "$gpu" = soft ]; then
        echo "$build/host/softgpu/libcuda-soft.so.1"
        return
    fi
    for dir in ${LD_LIBRARY_PATH//:/ } "$(ldconfig -p 2> /dev/null | sed -n 's|.*libcuda\.so\.1 .*=> \(.*\)/libcuda.so.1|\1|p' | head -n 1)" \
        /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/local/nvidia/lib64 /run/nvidia/driver/usr/lib/x86_64-linux-gnu \
        /usr/lib/wsl/lib /run/opengl-driver/lib "/home/${GKE:-kubernetes}/bin/nvidia/lib64"; do
        [ -n "$dir" ] && [ -e "$dir/libcuda.so.1" ] && { echo "$dir/libcuda.so.1"; return; }
    done
}

libcuda=${libcuda:-$(find_libcuda)}
# The machine's libraries come before the kit's. The worker finds the driver by the same path.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$([ -z "$libcuda" ] || [ "$gpu" = soft ] || printf '%s:' "$(dirname "$libcuda")")$kit/lib
ldconfig -p 2> /dev/null | grep -q 'libstdc++.so.6' || LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$kit/lib-c++
export LD_LIBRARY_PATH

# backend SANDBOX: starts a backend whose workers' sandbox is enforced, logging or off; prints its path.
backend()
{
    printf '#!/bin/sh\nexec "%s" --sandbox=%s --log-level debug "$@"\n' "$build/host/backend/vgpu-backend" "$1" > "$out/backend-$1"
    chmod +x "$out/backend-$1"
    echo "$out/backend-$1"
}

results_of() { awk '$2 ~ /^-?[0-9]+$/ && $3 ~ /^[0-9.]+$/ { print $1, $2 }' "$1" 2> /dev/null; }

# rung NAME: prints its differences from the native run.
rung()
{
    local different

    different=$(diff <(results_of "$out/1-native.log") <(results_of "$out/$1.log") | grep '^[<>]' | tr '\n' ' ')
    if [ -z "$(results_of "$out/$1.log")" ]; then
        tell "  ladder: $1: no step answered: $(grep -hs ' gave ' "$out/$1.log" | head -n 1 | grep -o '[^ ]* gave .*' | cut -c1-150)"
    elif [ -n "$different" ]; then
        tell "  ladder: $1: differs from native (<): $different"
    else
        tell "  ladder: $1: as native"
        return 0
    fi
    grep -hsoE '(denied|forbidden|not allowed)[^,;]*' "$out/$1.log" | sort | uniq -c | sort -rn | head -n 10 |
        while read -r line; do tell "    $line"; done
    return 1
}

facts()
{
    uname -a
    cat /etc/os-release
    nproc
    free -m
    ls -l /dev/nvidia* /dev/kvm /dev/dri 2>&1
    cat /proc/driver/nvidia/version /proc/driver/nvidia/params /sys/module/nvidia_uvm/parameters/uvm_disable_hmm 2>&1
    echo "security modules: $(cat /sys/kernel/security/lsm 2>&1)"
    echo "user namespaces: $(unshare -Ur true 2>&1 && echo yes)"
    id
    ulimit -a
    ldconfig -p 2> /dev/null | grep -E 'libcuda|libnvidia-ml'
    ldd --version | head -n 1
    command -v nvcc gcc python3 strace qemu-system-x86_64 nvidia-smi
    python3 -m pip list 2> /dev/null | grep -iE 'torch|cupy|jax|triton|numba|tensorflow|nvidia|cuda'
    echo "driver library: ${libcuda:-none}"
}

stage_1()
{
    local first=

    export -f facts
    export libcuda
    step 1-facts 60 bash -c facts
    tell "  $(uname -r), $(grep -h ^PRETTY_NAME /etc/os-release | cut -d= -f2), driver library ${libcuda:-NONE}"
    command -v nvidia-smi > /dev/null && step 1-smi 60 nvidia-smi -q
    if [ -z "$libcuda" ]; then
        tell "  no driver library: name it with --libcuda"
        return
    fi
    step 1-native 150 "$firstcall" --libcuda "$libcuda"
    grep -qs '^init *0 ' "$out/1-native.log" || tell "  ladder: natively $(grep -s '^init' "$out/1-native.log" | tr -s ' ')"
    if [ -x "$kit/bin/strace" ]; then
        step 1-strace 150 "$kit/bin/strace" -f -qq -o "$out/1-strace-calls.log" "$firstcall" --libcuda "$libcuda"
        sed -nE 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/p' "$out/1-strace-calls.log" 2> /dev/null | sort | uniq -c | sort -rn > "$out/1-calls.log"
        grep -oE '"/[^"]*"' "$out/1-strace-calls.log" 2> /dev/null | sort | uniq -c | sort -rn > "$out/1-paths.log"
        tell "  system calls: $(awk '{ print $2 }' "$out/1-calls.log" | tr '\n' ' ' | cut -c1-1500)"
    fi
    for sandbox in off log enforce; do
        step 1-$sandbox 150 "$vgpu" run --verbose --backend "$(backend $sandbox)" --gpu "$gpu" "$firstcall"
        rung 1-$sandbox || first=${first:-$sandbox}
    done
    # Tests whether compiled code is cached, and at which of the paths that a worker can be given.
    sed 's/"\$@"$/--jit-cache-path shm "$@"/' "$(backend enforce)" > "$out/backend-shm"
    chmod +x "$out/backend-shm"
    step 1-cache-shm 150 "$vgpu" run --backend "$out/backend-shm" --gpu "$gpu" "$firstcall"
    for path in native enforce cache-shm; do
        tell "  compiled code: $path: $(awk '$1 ~ /^ptx_(new|again)$/ { printf "%s %s us (%s)  ", $1, $3, $2 }' "$out/1-$path.log" 2> /dev/null)"
    done
    tell "  diagnosis: $([ -n "$first" ] && echo "first difference with --sandbox=$first" || echo "all rungs answer as native")"
}

stage_2()
{
    step 2-conform 500 sh "$kit/tests/conformance/driver/run.sh" --gpu "$gpu" --top-build "$build" --build "$build/tests/conformance/driver"
    grep -h '^FAIL' "$out/2-conform.log" | head -n 40 | while read -r line; do tell "  $line"; done
    for program in "$build"/demo/programs/*; do
        name=$(basename "$program")
        [ -x "$program" ] || continue
        (cd "$out" && step "2-demo-$name" 60 "$vgpu" run --gpu "$gpu" "$program")
    done
}

# Prints the folder of NVIDIA's libcublas.so.13 on this machine, Python packages included; or nothing.
find_cublas()
{
    local dir

    for dir in ${LD_LIBRARY_PATH//:/ } "$(ldconfig -p 2> /dev/null | sed -n 's|.*libcublas\.so\.13 .*=> \(.*\)/libcublas.so.13|\1|p' | head -n 1)" \
        /usr/local/cuda*/lib64 $(python3 -c 'import glob, sys
print(*(f[:-16] for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libcublas.so.13")))' 2> /dev/null); do
        [ -n "$dir" ] && [ -e "$dir/libcublas.so.13" ] && { echo "$dir"; return; }
    done
}

# A language model: tokens/s natively and through vgpu; the second run follows the first's tokens and compares logits.
ggml()
{
    local llama=$build/llama/bin model=$out/model.gguf cublas kind=large tokens=128 device=cuda eval

    if [ ! -e "$llama/libggml-cuda.so" ]; then
        tell "not run: ggml: the kit was made without libggml-cuda.so (npm's packages could not be had); contact.sh says how to build it"
        return
    fi
    cublas=$(find_cublas)
    if [ -z "$cublas" ]; then
        tell "not run: ggml: no libcublas.so.13 on this machine; name its folder in LD_LIBRARY_PATH"
        return
    fi
    # The software GPU serves CUDA's runtime through our libcuda only: the reference is then ggml's CPU backend.
    [ "$gpu" = nvidia ] || kind=tiny tokens=12 device=cpu
    mkdir -p "$out/native"
    [ -z "$libcuda" ] || ln -sf "$libcuda" "$out/native/libcuda.so.1"
    export LD_LIBRARY_PATH=$llama:$LD_LIBRARY_PATH:$cublas GGML_NO_BACKTRACE=1
    step 3-ggml-model 20 "$build/tests/apps/llm/gguf_make" --vocab "$llama/vocab.gguf" --text "$llama/text.md" --size $kind --type q8_0 --out "$model"
    eval=("$build/tests/apps/llm/llm_eval" --backends "$llama" --quiet --threads 1 --model "$model" --prompt "$llama/prompt.md" --tokens $tokens)
    step 3-ggml-native 70 env LD_LIBRARY_PATH="$out/native:$LD_LIBRARY_PATH" "${eval[@]}" --device $device --save "$out/model.tokens"
    step 3-ggml-vgpu 70 env VGPU_SOFT_CC=9.0 "$vgpu" run --gpu "$gpu" "${eval[@]}" --device cuda --follow "$out/model.tokens"
    grep -h 'tokens/s' "$out/3-ggml-native.log" "$out/3-ggml-vgpu.log" | while read -r line; do tell "  $line"; done
    rm -f "$model" "$out/model.tokens"
}

# The driver's answers to bad arguments, compared with the table, which marks guesses. Invented handles may crash
# a process in the driver, so each entry point runs in its own, and the list records crashes.
stage_answers()
{
    local native=$out/native list=$out/answers-walk.log files=$out/answers-files

    mkdir -p "$native" "$files"
    [ -z "$libcuda" ] || ln -sf "$libcuda" "$native/libcuda.so.1"
    (cd "$files" && step answers-walk 500 env LD_LIBRARY_PATH="$native:$LD_LIBRARY_PATH" "$build/tests/conformance/entrypoints/walk" --limit 10)
    step answers-check 20 "$python" "$kit/answers.py" check "$list" "$kit/answers.tsv"
    tell "  $(tail -n 1 "$out/answers-check.log"); $(grep -c 'the table (manual)' "$out/answers-check.log") against the manual"
}

# The installed Python frameworks, each natively and through vgpu.
stage_frameworks()
{
    local name small=

    if ! command -v "$python" > /dev/null; then
        tell "not run: frameworks: no $python"
        return
    fi
    [ "$gpu" = nvidia ] || small=--small
    for name in torch cupy jax triton numba; do
        if ! "$python" "$kit/frameworks.py" --list 2> /dev/null | grep -qw $name; then
            tell "not run: $name: not installed"
            continue
        fi
        : > "$out/3-$name-native.log"
        # The software GPU serves CUDA's runtime through our libcuda only.
        # shellcheck disable=SC2086
        [ "$gpu" != nvidia ] || step 3-$name-native 60 "$python" "$kit/frameworks.py" $small $name
        # shellcheck disable=SC2086
        step 3-$name-vgpu 60 "$vgpu" run --gpu "$gpu" "$python" "$kit/frameworks.py" $small $name
        "$python" "$kit/frameworks.py" --compare "$out/3-$name-native.log" "$out/3-$name-vgpu.log" |
            while read -r line; do tell "  $line"; done
    done
}

stage_3()
{
    step 3-bench 160 sh "$kit/tests/perf/run.sh" --quick --gpu "$gpu" --top-build "$build" --build "$build/tests/perf" \
        --provider "$libcuda" --json "$out/bench.json"
    ggml
    stage_frameworks
}

# children_of PID NAME: prints PID's children whose names begin with NAME.
children_of()
{
    cat /proc/[0-9]*/status 2> /dev/null |
        awk -v parent="$1" -v name="$2" '$1 == "Name:" { is = $2 } $1 == "Pid:" { pid = $2 } $1 == "PPid:" && $2 == parent && index(is, name) == 1 { print pid }'
}

# running FILE: true if the program that writes FILE has finished some steps, but not all.
running() { [ "$(results_of "$1" | wc -l)" -ge 3 ] && ! grep -qs '^firstcall: .* steps' "$1"; }

# killed_once DIR BACKEND: kills the worker of one of two running programs, both stopped meanwhile so that neither exits.
# BACKEND: shared by both; none: each runs in its own guest. Status 2: a program was too quick, or the victim no longer
# needed that worker.
killed_once()
{
    local dir=$1 backend=$2 survivor victim worker='' i ours=$build/userspace/libcuda/libcuda.so.1

    set -m # a process group each
    if [ -z "$backend" ]; then
        "$vgpu" vm run --gpu "$gpu" "$firstcall" > "$dir/survivor.out" 2>&1 &
        survivor=$!
        "$vgpu" vm run --gpu "$gpu" "$dir/vic" > "$dir/victim.out" 2>&1 &
    else
        VGPU_SOCKET=$dir/s "$firstcall" --libcuda "$ours" > "$dir/survivor.out" 2>&1 &
        survivor=$!
        VGPU_SOCKET=$dir/s "$dir/vic" --libcuda "$ours" > "$dir/victim.out" 2>&1 &
    fi
    victim=$!
    set +m
    # shellcheck disable=SC2064
    trap "kill -CONT -- -$survivor -$victim; kill -- -$survivor -$victim; exit 1" TERM
    for ((i = 0; i < 6000; i++)); do
        running "$dir/survivor.out" && running "$dir/victim.out" && break
        kill -0 $survivor 2> /dev/null && kill -0 $victim 2> /dev/null || break
        sleep 0.05
    done
    kill -STOP -- -$survivor -$victim 2> /dev/null
    if running "$dir/survivor.out" && running "$dir/victim.out"; then
        # A guest's worker is named after its program, the only program of that guest.
        worker=$(children_of "${backend:-$(children_of $victim vgpu-backend)}" "vgpu-worker:${backend:+vic}")
        # shellcheck disable=SC2086
        [ -z "$worker" ] || kill -9 $worker
    fi
    kill -CONT -- -$survivor -$victim 2> /dev/null
    wait $survivor
    wait $victim
    trap - TERM
    [ -n "$worker" ] || return 2
    grep -q ', 1 refused, 0 died' "$dir/survivor.out" || return 1
    # Steps have their own processes: the killed worker may belong to a step that had already finished.
    [ "$(tail -n 1 "$dir/victim.out")" != "$(tail -n 1 "$dir/survivor.out")" ] || return 2
}

# killed [guests]: repeats killed_once until both programs were running.
killed()
{
    local dir backend='' rc=2 i

    dir=$(mktemp -d) || return
    cp "$firstcall" "$dir/vic"
    if [ "${1:-}" != guests ]; then
        mkfifo "$dir/ready"
        "$build/host/backend/vgpu-backend" --listen "$dir/s" --gpu "$gpu" --ready-fd 9 9> "$dir/ready" &
        backend=$!
        read -r _ < "$dir/ready"
    fi
    for ((i = 0; i < 20 && rc == 2; i++)); do
        killed_once "$dir" "$backend"
        rc=$?
    done
    if [ -n "$backend" ]; then
        kill "$backend"
        wait "$backend"
    fi
    cat "$dir/victim.out"
    echo "the survivor:"
    cat "$dir/survivor.out"
    case $rc in
    0) echo "killed: the other program did not notice ($(grep '^firstcall: .* steps' "$dir/survivor.out"))" ;;
    2) echo "killed: no worker was met at work" ;;
    *) echo "killed: the other program: $(tail -n 1 "$dir/survivor.out")" ;;
    esac
    rm -r "$dir"
    return $rc
}

# both COMMAND...: runs two at once; each must print PASS.
both()
{
    local dir rc=1

    dir=$(mktemp -d) || return
    "$@" > "$dir/a" 2>&1 &
    "$@" > "$dir/b" 2>&1
    wait
    cat "$dir/a" "$dir/b"
    grep -q PASS "$dir/a" && grep -q PASS "$dir/b" && rc=0
    echo "two at once: $(cat "$dir/a" "$dir/b" | grep -c PASS) of 2 passed"
    rm -r "$dir"
    return $rc
}

stage_4()
{
    export -f killed killed_once children_of running results_of both
    export build gpu firstcall vgpu
    step 4-killed 100 bash -c killed
    if [ ! -x "$build/qemu/bin/qemu-system-x86_64" ]; then
        tell "not run: vm: the kit was made without a guest (VGPU_KIT_VM=1 make gpu-kit)"
        return
    fi
    step 4-first 100 "$vgpu" vm run --gpu "$gpu" "$firstcall"
    step 4-two-processes 60 "$vgpu" vm run --gpu "$gpu" bash -c 'both "$0"' "$build/demo/programs/vector_add-static"
    step 4-two-guests 60 bash -c 'both "$0" vm run --gpu "$1" "$2"' "$vgpu" "$gpu" "$build/demo/programs/vector_add-static"
    step 4-killed-guests 120 bash -c 'killed guests'
    for program in "$build"/demo/programs/*-static; do
        step "4-demo-$(basename "$program")" 40 "$vgpu" vm run --gpu "$gpu" "$program"
        [ "$gpu" = nvidia ] || break
    done
}

for stage in $stages; do
    tell "== stage $stage"
    stage_end=$(($(date +%s) + ${VGPU_KIT_STAGE:-530} * patience))
    "stage_$stage"
done
echo
echo "== summary ($summary)"
cat "$summary"
