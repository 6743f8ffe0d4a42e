#!/bin/bash
# SPDX-License-Identifier: MIT
#
# check.sh BUILD TOP_BUILD CUDA_HOME: firstcall against the software GPU and against libraries that fail,
# crash or hang; the kit; the stages of contact.sh that need no GPU, in a root without compiler, headers and
# libraries, and with Debian's copy of NVIDIA's library, which finds no device.
set -u
build=$1 top_build=$2 cuda=$3
here=$(cd "$(dirname "$0")" && pwd)
soft=$top_build/host/softgpu/libcuda-soft.so.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }
not_run() { skipped=$((skipped + 1)); echo "not run: $1: $2"; }

# wrong_steps FILE: prints the steps whose result is neither 0 nor the assert's 710.
wrong_steps() { awk '$2 ~ /^-?[0-9]+$/ && $3 ~ /^[0-9.]+$/ && $2 != 0 && !($1 == "assert" && $2 == 710)' "$1"; }

total=$("$build/firstcall" --list | wc -l)
if [ -e "$soft" ]; then
    timeout 300 "$build/firstcall" --libcuda "$soft" > "$work/soft" 2>&1
    wrong=$(wrong_steps "$work/soft")
    if [ -z "$wrong" ] && grep -q "^firstcall: $total steps, $((total - 1)) succeeded, 1 refused, 0 died" "$work/soft"; then
        ok "firstcall: the software GPU: all $total steps"
    else
        bad "firstcall: the software GPU" "$wrong $(tail -n 1 "$work/soft")"
    fi
else
    not_run "firstcall: the software GPU" "it is not built"
fi

# fake NAME CUINIT PATTERN: checks the first line, and that all steps were tried.
fake()
{
    FAKE_CUINIT=$2 timeout 300 "$build/firstcall" --limit 1 --libcuda "$build/libcuda-fake.so" ${4:+--only "$4"} > "$work/fake" 2>&1
    if grep -q "$3" "$work/fake" && grep -q "^firstcall: ${5:-$total} steps" "$work/fake"; then
        ok "firstcall: $1"
    else
        bad "firstcall: $1" "$(head -n 1 "$work/fake"); $(tail -n 1 "$work/fake")"
    fi
}
fake "no device" 100 '^init *100 '
fake "functions that the library lacks" 0 '^version *500 '
fake "a step that dies, and those behind it" die '^ipc_event *-1 .*DIED: signal 11'
fake "a step that hangs" hang '^init *-1 .*HANGS' init 1
timeout 20 "$build/firstcall" --libcuda "$work/none.so" > "$work/none" 2>&1
if [ $? = 2 ] && grep -q 'firstcall: .*none.so' "$work/none"; then
    ok "firstcall: no library"
else
    bad "firstcall: no library" "$(cat "$work/none")"
fi

for part in host/backend/vgpu-backend userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 demo/programs/driver_ptx; do
    [ -e "$top_build/$part" ] || { not_run "kit" "$part is not built"; echo "hardware: $passed passed, $failed failed, $skipped skipped"; exit $((failed > 0)); }
done
for part in conformance/driver conformance/entrypoints perf; do
    make -s --no-print-directory -C "$here/../$part" O="$top_build/tests/$part" all > "$work/make" 2>&1 ||
        bad "kit: tests/$part" "$(tail -n 1 "$work/make")"
done
make -s --no-print-directory -C "$here/../apps/llm" O="$top_build/tests/apps/llm" all > "$work/make" 2>&1 ||
    not_run "ggml" "npm's packages cannot be had: $(tail -n 1 "$work/make")"
# Includes a guest if it is built; the limit on size applies to the complete packed kit.
vm=1
[ -z "${VGPU_TEST_NO_GUEST:-}" ] || vm=0
for part in qemu/bin/qemu-system-x86_64 guest/initrd.cpio kernel/vgpu_drv.ko; do
    [ -e "$top_build/$part" ] || vm=0
done
if VGPU_KIT_VM=$vm bash "$here/kit.sh" "$build" "$top_build" "$cuda" > "$work/kit" 2>&1; then
    ok "$(tail -n 1 "$work/kit" | sed "s|$build/||")"
elif grep -q 'is promised$' "$work/kit" && ! getconf GNU_LIBC_VERSION | grep -q ' 2\.3[0-6]$'; then
    not_run "kit" "this machine's C library is newer than what the kit promises: $(tail -n 1 "$work/kit")"
else
    bad "kit" "$(tail -n 3 "$work/kit" | tr '\n' ' ')"
fi

libraries=
# contact OUT OPTIONS...: runs the kit's contact.sh in a separate folder, so that it cannot find files of the build tree.
# Its time limits are generous, as this machine may be under load.
cp -a "$build/kit" "$work/kit-elsewhere"
contact()
{
    local out=$1

    shift
    (cd "$work" && env -u LD_LIBRARY_PATH -u CUDA_HOME -u VGPU_BUILD ${libraries:+LD_LIBRARY_PATH="$libraries"} timeout 900 bash "$work/kit-elsewhere/contact.sh" \
        --patience 4 --out "$out" "$@" > "$work/contact" 2>&1)
}
# Prints the matching faulty lines of a summary, at most five, joined.
lines() { grep -E "$2" "$1/summary.txt" 2> /dev/null | head -n 5 | tr '\n' ';'; }

where="in a bare root"
if bash "$here/bare.sh" --test 2> /dev/null; then
    timeout 900 bash "$here/bare.sh" "$work/root" "$work/kit-elsewhere" "$cuda" \
        /usr/bin/bash /kit/contact.sh --gpu soft --patience 4 --out /out 1 2 3 > "$work/contact" 2>&1
    out=$work/root/out
    if [ -z "$(find "$work/root" \( -name 'gcc*' -o -name 'nvcc*' -o -name 'python*' -o -name '*.h' -o -name 'libstdc++*' \) -print -quit)" ]; then
        ok "bare root: no compiler, no headers, no interpreter, no C++ library"
    else
        bad "bare root" "$(find "$work/root" -name '*.h' | head -n 3)"
    fi
else
    not_run "bare root" "this user may not make mounts of its own"
    where="here"
    out=$work/out
    contact "$out" --gpu soft 1 2 3
fi
if grep -q 'diagnosis: all rungs answer as native' "$out/summary.txt" && [ "$(grep -c 'ladder: .*: as native' "$out/summary.txt")" = 3 ] &&
    [ "$(grep -cE 'compiled code: (native|enforce|cache-shm): ptx_new .* us \(0\)  ptx_again .* us \(0\)' "$out/summary.txt")" = 3 ]; then
    ok "contact: stage 1 $where: the ladder on the software GPU"
else
    bad "contact: stage 1 $where" "$(lines "$out" 'ladder|compiled|diagnosis') $(tail -n 2 "$work/contact")"
fi
if grep -q '^2-conform  *0 ' "$out/summary.txt" && [ "$(grep -c '^2-demo-.*: PASS' "$out/summary.txt")" = "$(find "$build/kit/build/demo/programs" -type f | wc -l)" ]; then
    ok "contact: stage 2 $where: conformance and demo programs"
else
    bad "contact: stage 2 $where" "$(grep -v PASS "$out/summary.txt" | grep -E '^2-|FAIL' | head -n 5 | tr '\n' ';')"
fi
if grep -q '^3-bench  *0 ' "$out/summary.txt"; then
    ok "contact: stage 3 $where: the bench"
else
    bad "contact: stage 3 $where" "$(lines "$out" '^3-')"
fi
if grep -q '^not run: ggml' "$out/summary.txt"; then
    not_run "contact: stage 3: ggml" "$(sed -n 's/^not run: ggml: //p' "$out/summary.txt")"
elif grep -q '^3-ggml-vgpu  *0 .*are the same' "$out/summary.txt" && grep -q 'cuda: .* tokens/s' "$out/summary.txt"; then
    ok "contact: stage 3 $where: a language model on ggml"
else
    bad "contact: stage 3 $where: ggml" "$(lines "$out" '^3-ggml')"
fi
contact "$work/out4" --gpu soft 4
wrong_4=$(awk '$1 ~ /^4-/ && $2 != 0 { print }' "$work/out4/summary.txt" 2> /dev/null | head -n 5 | tr '\n' ';')
if [ $vm = 0 ]; then
    not_run "contact: stage 4: in a guest" "no guest is built, or none is wanted"
elif [ -z "$wrong_4" ] && [ "$(grep -cE '^4-(first  *0 .* 1 refused, 0 died|two-.*: 2 of 2 passed|killed-guests .* did not notice|demo-.*: PASS)' "$work/out4/summary.txt")" = 5 ]; then
    ok "contact: stage 4: a guest, two programs in it, two guests, a worker killed in one"
else
    bad "contact: stage 4: in a guest" "$wrong_4 $(lines "$work/out4" '^4-')"
fi
if grep -q '^4-killed  *0 .*did not notice' "$work/out4/summary.txt"; then
    ok "contact: stage 4: a worker is killed while another computes"
else
    bad "contact: stage 4" "$(lines "$work/out4" '^4-')"
fi
# A lent machine returns at most 8 files of 16 MB; the summary comes last.
if [ "$(find "$out" "$work/out4" -name logs.tar.gz -size -16384k | wc -l)" = 2 ] && [ "$(tail -n 1 "$work/contact")" = "$(tail -n 1 "$work/out4/summary.txt")" ]; then
    ok "contact: the packed logs are small, the summary is printed last"
else
    bad "contact: the packed logs" "$(ls -l "$out" "$work/out4" | grep tar) $(tail -n 1 "$work/contact")"
fi
[ -s "$out/logs.tar.gz" ] && tar -tzf "$out/logs.tar.gz" | grep -q 1-native.log
if [ $? = 0 ]; then ok "contact: the logs are packed"; else bad "contact: the logs are packed" "$(ls "$out")"; fi
FAKE_CUINIT=100 contact "$work/none.d" --gpu nvidia --libcuda "$build/libcuda-fake.so" 1
if grep -q 'ladder: natively init 100' "$work/none.d/summary.txt" && grep -q '^1-enforce' "$work/none.d/summary.txt"; then
    ok "contact: a driver without a device: a full summary"
else
    bad "contact: a driver without a device" "$(tr '\n' ';' < "$work/none.d/summary.txt")"
fi

# Frameworks: without any, and with those fetched by tests/apps/python; differing results are named.
python3 -I -S "$here/frameworks.py" > "$work/none" 2>&1
if [ "$(sort "$work/none" | tr '\n' ';')" = "$(printf 'not run: %s: not installed;' cupy jax numba torch triton)" ]; then
    ok "frameworks: none installed: a line each"
else
    bad "frameworks: none installed" "$(head -n 5 "$work/none")"
fi
printf '# a line\ncupy.x 2 1.5\ncupy.y failed\ncupy.z 1 7\n' > "$work/a"
printf 'cupy.x 3 1.5\ncupy.y 1 1\ncupy.z 1 8\ntorch.w 1 1\n' > "$work/b"
printf '%s\n' 'cupy.x: native 2 ms, through us 3 ms, 1.50 times; same result' 'cupy.y: native failed; through us 1 1' \
    'cupy.z: native 1 ms, through us 1 ms, 1.00 times; DIFFERS: 7.0 and 8.0' 'torch.w: native missing; through us 1 1' > "$work/want"
if python3 "$here/frameworks.py" --compare "$work/a" "$work/b" 2>&1 | diff "$work/want" - > "$work/diff"; then
    ok "frameworks: two runs beside each other"
else
    bad "frameworks: two runs beside each other" "$(tr '\n' ';' < "$work/diff")"
fi
if place=$(bash "$here/../apps/python/environment.sh" path 2> /dev/null); then
    # CuPy needs the toolkit's libraries; with the toolkit's libnvJitLink Numba would make machine code.
    libraries=$cuda/lib64 contact "$work/cupy" --gpu soft --python "$place/bin/python" frameworks
    contact "$work/numba" --gpu soft --python "$place/bin/python" frameworks
    if [ "$(grep -cE '^  cupy\.(elementwise: .* 5329\.17|matmul: .* 16\.0755|raw_kernel: .* 2048)$' "$work/cupy/summary.txt")" = 3 ] &&
        grep -qE '^  numba\.kernel: .* 8190$' "$work/numba/summary.txt" && grep -q '^not run: torch: not installed$' "$work/cupy/summary.txt"; then
        ok "contact: stage 3: CuPy and Numba"
    else
        bad "contact: stage 3: frameworks" "$(cat "$work/cupy/summary.txt" "$work/numba/summary.txt" | grep -E '^  |^not' | tr '\n' ';')"
    fi
else
    not_run "contact: stage 3: CuPy and Numba" "tests/apps/python has not fetched them"
fi
# framework ENVIRONMENT NAME LINES PATTERN: LINES of its result lines match PATTERN, and no part failed.
framework()
{
    local place

    if ! place=$(bash "$here/../apps/python/environment.sh" path "$1" 2> /dev/null); then
        not_run "contact: stage 3: $2" "tests/apps/python has not fetched it"
        return
    fi
    contact "$work/$1" --gpu soft --python "$place/bin/python" frameworks
    if [ "$(grep -cE "^  $2\.$4\$" "$work/$1/summary.txt")" = "$3" ] && ! grep -q "^  $2\..*failed" "$work/$1/summary.txt"; then
        ok "contact: stage 3: $2"
    else
        bad "contact: stage 3: $2" "$(grep -E '^  |^not' "$work/$1/summary.txt" | tr '\n' ';')"
    fi
}
framework torch triton 3 '(add: .* 2|dot: .* 32|torch_compile: .* 0\.000976562)'
framework jax jax 5 '(jit: .* 0\.0156237|grad: .* 0\.999878|matmul\.bfloat16: .* 64|conv: .* 33\.0625|fft: .* 64)'

# A hanging driver takes at most the stage's time: omitted steps are named, and the summary is complete.
VGPU_KIT_STAGE=3 FAKE_CUINIT=hang contact "$work/late.d" --gpu nvidia --libcuda "$build/libcuda-fake.so" 1
if [ $? = 0 ] && grep -q 'diagnosis: ' "$work/late.d/summary.txt" && grep -q '^not run: 1-enforce: the time of this stage is over' "$work/late.d/summary.txt"; then
    ok "contact: a driver that hangs: the stage ends in time"
else
    bad "contact: a driver that hangs" "$(tr '\n' ';' < "$work/late.d/summary.txt")"
fi

# NVIDIA's library loads, natively and in the sandboxed worker, and finds no device.
driver=usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1
if [ -e /proc/driver/nvidia/version ]; then
    not_run "contact: NVIDIA's library" "this machine has a driver of its own"
elif [ "$where" = here ]; then
    not_run "contact: NVIDIA's library" "the library makes device nodes, so it runs in a bare root only"
elif ! bash "$here/../apps/clients/get.sh" "$build" driver > "$work/get" 2>&1 || [ ! -e "$build/driver/$driver" ]; then
    not_run "contact: NVIDIA's library" "$(tail -n 1 "$work/get")"
else
    VGPU_BARE_MORE=$build/driver timeout 900 bash "$here/bare.sh" "$work/root" "$work/kit-elsewhere" "$cuda" \
        /usr/bin/bash /kit/contact.sh --gpu nvidia --libcuda "/more/$driver" --patience 4 --out /out/driver 1 > "$work/contact" 2>&1
    if grep -q 'ladder: natively init 100' "$out/driver/summary.txt" && grep -q "^1-native .* $total steps" "$out/driver/summary.txt" &&
        [ "$(grep -c 'ladder: .*: no step answered: .*cuInit gave 100 ' "$out/driver/summary.txt")" = 3 ] &&
        grep -q 'diagnosis: first difference' "$out/driver/summary.txt"; then
        ok "contact: NVIDIA's library without a device: cuInit 100 on each rung, a full summary"
    else
        bad "contact: NVIDIA's library without a device" "$(lines "$out/driver" 'ladder|1-native|diagnosis')"
    fi
fi

# A provider that computes like the software GPU and behaves like NVIDIA's driver (as_nvidia.c).
asn=$build/as-nvidia/libcuda.so.1
printf '#!/bin/sh\nexec "%s" --provider "%s" --jit-cache-dir "%s" $AS_NVIDIA "$@"\n' \
    "$top_build/host/backend/vgpu-backend" "$asn" "$work/jit" > "$work/as-nvidia"
chmod +x "$work/as-nvidia"
# as_nvidia SECONDS COMMAND...: runs COMMAND through vgpu on that provider, whose long calls take 20 ms.
as_nvidia() { timeout "$1" env VGPU_TEST_BLOCK_MS=20 "$top_build/userspace/vgpu/vgpu" run --verbose --backend "$work/as-nvidia" --gpu nvidia "${@:2}"; }
# The two columns of results, without intended differences: exported memory, which NVIDIA's driver cannot share as
# vgpu does, and IPC, for which the software GPU's workers would need sockets that NVIDIA's policy forbids.
answers() { awk '$2 ~ /^-?[0-9]+$/ && $3 ~ /^[0-9.]+$/ && $1 !~ /^(vmm_export|ipc_.*)$/ { print $1, $2 }' "$1"; }

if AS_NVIDIA='' as_nvidia 60 "$build/firstcall" --only init > "$work/refused" 2>&1; grep -q 'uvm_disable_hmm' "$work/refused"; then
    ok "as NVIDIA: kernels that reach all memory: refused, with what to do"
else
    bad "as NVIDIA: kernels that reach all memory" "$(tail -n 2 "$work/refused")"
fi
export AS_NVIDIA=--allow-hmm
VGPU_TEST_BLOCK_MS=20 timeout 300 "$build/firstcall" --libcuda "$asn" > "$work/native" 2>&1
as_nvidia 300 "$build/firstcall" > "$work/us" 2>&1
if [ "$(answers "$work/native" | wc -l)" = $((total - 3)) ] && diff <(answers "$work/native") <(answers "$work/us") > "$work/diff"; then
    ok "as NVIDIA: firstcall: all answers as natively"
else
    bad "as NVIDIA: firstcall" "$(grep '^[<>]' "$work/diff" | tr '\n' ';') $(tail -n 1 "$work/us")"
fi
# Fewer if this machine stalls the program; more would mean that the call blocked the worker's dispatcher.
blocked() { sed -nE 's/^fill_1_stream .*launch ([0-9]+) blocked.*/\1/p' "$1"; }
if [ "$(blocked "$work/native")" -le 1024 ] 2> /dev/null && [ "$(blocked "$work/us")" -le 1000 ] 2> /dev/null; then
    ok "as NVIDIA: the program blocks before the driver does"
else
    bad "as NVIDIA: the queue of launches" "$(grep -h fill_ "$work/native" "$work/us" | tr -s ' ' | tr '\n' ';')"
fi
if grep -q 'Assertion .* failed' "$work/us"; then
    ok "as NVIDIA: the text of a failed assert reaches the program"
else
    bad "as NVIDIA: the text of a failed assert" "$(grep assert "$work/us")"
fi
log=$work/jit/vgpu-jit/as-nvidia.log
rm -f "$log"
for _ in 1 2; do as_nvidia 60 "$build/firstcall" --only launch > "$work/launch" 2>&1; done
if [ "$(tail -n 1 "$log" 2> /dev/null)" = hit ] && grep -q '^launch *0 ' "$work/launch"; then
    ok "as NVIDIA: what one worker has compiled is there for the next"
else
    bad "as NVIDIA: compiled code" "$(tr '\n' ' ' < "$log")"
fi
# Only the software GPU has device graphs (its own interface is hidden here); memory of another process as above.
cases=$(LD_LIBRARY_PATH=$top_build/userspace/libcuda "$top_build/tests/conformance/driver/conform" --list | grep -vE '^(gdevice|gmem_auto_free|ipc_|share_p|refused_(opened|imported)_memory)' | awk 'NR % 5 == 1 || /^(link_|library_|rest_function|copy_other_stream)/' | tr '\n' ' ')
# shellcheck disable=SC2086
as_nvidia 300 "$top_build/tests/conformance/driver/conform" $cases > "$work/conform" 2>&1
if [ $? = 0 ] && grep -qE 'conform: [1-9][0-9]+ passed, 0 failed' "$work/conform"; then
    ok "as NVIDIA: conformance, a fifth of its cases: $(grep '^conform:' "$work/conform" | sed 's/^conform: //')"
else
    bad "as NVIDIA: conformance" "$(grep -E ' FAIL|^conform:' "$work/conform" | head -n 5 | tr '\n' ';')"
fi
if [ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia/version ]; then
    not_run "gpu: no driver" "there is one"
elif ! bash "$here/gpu.sh" --driver > "$work/gpu" 2>&1 && grep -q '^not run: gpu: no NVIDIA driver' "$work/gpu"; then
    ok "gpu: no driver"
else
    bad "gpu: no driver" "$(cat "$work/gpu")"
fi
(cd "$work" && timeout 60 bash "$work/kit-elsewhere/contact.sh" --fly > "$work/usage" 2>&1)
if [ $? = 2 ] && grep -q 'contact.sh \[OPTIONS\] STAGE' "$work/usage"; then ok "contact: wrong use"; else bad "contact: wrong use" "$(cat "$work/usage")"; fi
echo "hardware: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
