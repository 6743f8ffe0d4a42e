#!/bin/bash
# SPDX-License-Identifier: MIT
#
# python_test.sh O: what `vgpu run` does for Python's frameworks (base/python.c), and the ptxas that keeps PTX. The backend
# and the frameworks are scripts here.
set -u
out=$(cd "$1" && pwd)
ptxas=$out/ptxas/bin/ptxas
jit=$out/jit/libvgpu-jit.so
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-python.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tmp" "$work/lib" "$work/nvml" "$work/home"
touch "$work/lib/libcuda.so.1" "$work/nvml/libnvidia-ml.so.1"
export TMPDIR=$work/tmp HOME=$work/home VGPU_LIBCUDA_DIR=$work/lib VGPU_NVML_DIR=$work/nvml VGPU_BACKEND=$work/backend LC_ALL=C
unset PYTHONPATH LD_PRELOAD TRITON_PTXAS_PATH TRITON_PTXAS_BLACKWELL_PATH CUDA_ROOT XLA_FLAGS JAX_SKIP_CUDA_CONSTRAINTS_CHECK VGPU_PTXAS VGPU_JIT
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1${2:+: $2}"; }
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "expected '$2', got '$3'"; fi; }
# says NAME STATUS PATTERN COMMAND...
says()
{
    local name=$1 want=$2 pattern=$3 text rc

    shift 3
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    rc=$?
    if [ $rc = "$want" ] && grep -q -- "$pattern" <<< "$text"; then ok "$name"; else bad "$name" "status $rc: $text"; fi
}

cat > "$work/backend" <<'END'
#!/bin/bash
while [ $# -gt 1 ]; do [ "$1" = --ready-fd ] && fd=$2; shift; done
printf R >&$fd
exec sleep 600
END
# Two environments: one with JAX's plugin, one without. Their interpreters are shells.
for place in jax plain; do
    mkdir -p "$work/$place/bin" "$work/$place/lib/python3.11/site-packages"
    ln -s /bin/sh "$work/$place/bin/python3"
done
mkdir -p "$work/jax/lib/python3.11/site-packages/jax_plugins/xla_cuda13"
cp "$ptxas" "$work/jax/bin/ptxas"
chmod +x "$work/backend"
run="timeout 60 $out/vgpu run --gpu soft"
names="LD_PRELOAD TRITON_PTXAS_PATH TRITON_PTXAS_BLACKWELL_PATH CUDA_ROOT XLA_FLAGS JAX_SKIP_CUDA_CONSTRAINTS_CHECK"
# values COMMAND...: what it passes on of the variables.
values() { "$@" -c 'for n in '"$names"'; do eval "echo \"$n=\$$n\""; done' 2> /dev/null | tr '\n' ' '; }

echo "# ptxas"
printf '.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n' > "$work/k.ptx"
says "ptxas --version: a release that Triton and XLA read" 0 'release 13\.0, V13\.0\.' "$ptxas" --version
says "ptxas --help" 0 'keeps\|as it is' "$ptxas" --help
says "ptxas: as Triton calls it" 0 '^$' "$ptxas" -lineinfo -v --regAllocOptLevel=2 --gpu-name=sm_90a "$work/k.ptx" -o "$work/k.o"
same "ptxas: the fat binary: magic, PTX, 9.0" "50 ed 55 ba 01 00 10 00 01 00 01 01 90" \
    "$(od -An -v -tx1 -N18 "$work/k.o" | tr -s ' \n' ' ' | cut -d' ' -f2-9) $(od -An -tx1 -j16 -N4 "$work/k.o" | tr -s ' ' | cut -c2-) $(od -An -tu1 -j44 -N1 "$work/k.o" | tr -d ' ')"
same "ptxas: the PTX is in it as it was" "$(cat "$work/k.ptx")" "$(tail -c +81 "$work/k.o" | tr -d '\000')"
same "ptxas: its sizes" "$(($(stat -c %s "$work/k.o") - 16)) $(($(stat -c %s "$work/k.o") - 80))" \
    "$(od -An -tu8 -j8 -N8 "$work/k.o" | tr -d ' ') $(od -An -tu8 -j24 -N8 "$work/k.o" | tr -d ' ')"
says "ptxas: as XLA calls it" 0 '^$' "$ptxas" "$work/k.ptx" -o "$work/x.o" -arch=sm_80 --warn-on-spills -v
says "ptxas: values of their own" 0 '^$' "$ptxas" --opt-level 0 -maxrregcount 64 --gpu-name sm_80 "$work/k.ptx" --output-file "$work/y.o"
if cmp -s "$work/x.o" "$work/y.o"; then ok "ptxas: the same file"; else bad "ptxas: the same file"; fi
(cat "$work/k.ptx" | "$ptxas" -arch sm_80 -o "$work/z.o" -) && cmp -s "$work/x.o" "$work/z.o"
same "ptxas: standard input" 0 $?
"$ptxas" -o "$work/t.o" "$work/k.ptx"
same "ptxas: no architecture: the text's own" 80 "$(od -An -tu1 -j44 -N1 "$work/t.o" | tr -d ' ')"
sed 's/8\.0/99.99/' "$work/k.ptx" > "$work/new.ptx"
says "ptxas: too new: the version that there is" 255 "Unsupported .version 99.99; current version is '9.0'" "$ptxas" "$work/new.ptx" -o "$work/n.o"
echo 'int main;' > "$work/c.ptx"
says "ptxas: not PTX" 255 'not PTX: no .version' "$ptxas" "$work/c.ptx" -o "$work/n.o"
printf '.version 8.0\n\0.target sm_80\n' > "$work/nul.ptx"
says "ptxas: not a text" 255 'a NUL' "$ptxas" "$work/nul.ptx" -o "$work/n.o"
: > "$work/empty.ptx"
says "ptxas: nothing in it" 255 'not PTX' "$ptxas" "$work/empty.ptx" -o "$work/n.o"
says "ptxas: no such file" 255 'No such file' "$ptxas" "$work/none.ptx" -o "$work/n.o"
says "ptxas: a folder" 255 'Is a directory' "$ptxas" "$work" -o "$work/n.o"
says "ptxas: nowhere to write" 255 'No such file' "$ptxas" "$work/k.ptx" -o "$work/none/n.o"
says "ptxas: a full disk" 255 'No space left' "$ptxas" "$work/k.ptx" -o /dev/full
says "ptxas: no file" 255 'no input' "$ptxas" -v
same "ptxas: a refused file leaves nothing" "" "$(ls "$work/n.o" 2> /dev/null)"

echo "# variables"
same "without JAX" "LD_PRELOAD=$jit TRITON_PTXAS_PATH=$ptxas TRITON_PTXAS_BLACKWELL_PATH=$ptxas CUDA_ROOT= XLA_FLAGS=--xla_gpu_cuda_data_dir=$out/ptxas JAX_SKIP_CUDA_CONSTRAINTS_CHECK= " \
    "$(values $run "$work/plain/bin/python3")"
all="LD_PRELOAD=$jit TRITON_PTXAS_PATH=$ptxas TRITON_PTXAS_BLACKWELL_PATH=$ptxas CUDA_ROOT=$out/ptxas XLA_FLAGS=--xla_gpu_cuda_data_dir=$out/ptxas JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 "
same "with JAX: by its path" "$all" "$(values $run "$work/jax/bin/python3")"
same "with JAX: found in the path" "$all" "$(PATH=$work/jax/bin:$PATH values $run python3)"
same "with JAX: in PYTHONPATH" "$all" "$(PYTHONPATH=/nowhere:$work/jax/lib/python3.11/site-packages values $run "$work/plain/bin/python3")"
mkdir -p "$work/home/.local/lib/python3.11/site-packages/jax_plugins/xla_cuda12"
same "with JAX: the user's" "$all" "$(values $run "$work/plain/bin/python3")"
rm -r "$work/home/.local"
same "the user's values stay" "LD_PRELOAD=$jit TRITON_PTXAS_PATH=/mine TRITON_PTXAS_BLACKWELL_PATH=/mine CUDA_ROOT=/mine XLA_FLAGS=--xla_gpu_cuda_data_dir=/mine JAX_SKIP_CUDA_CONSTRAINTS_CHECK=0 " \
    "$(TRITON_PTXAS_PATH=/mine TRITON_PTXAS_BLACKWELL_PATH=/mine CUDA_ROOT=/mine XLA_FLAGS=--xla_gpu_cuda_data_dir=/mine JAX_SKIP_CUDA_CONSTRAINTS_CHECK=0 \
        values $run "$work/jax/bin/python3")"
same "a GPU of NVIDIA's takes machine code" "LD_PRELOAD= TRITON_PTXAS_PATH= TRITON_PTXAS_BLACKWELL_PATH= CUDA_ROOT= XLA_FLAGS= JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 " \
    "$(values timeout 60 "$out/vgpu" run --gpu nvidia "$work/jax/bin/python3")"
says "it says what it has set" 0 "hand over PTX, which the software GPU executes: LD_PRELOAD=$jit TRITON_PTXAS_PATH=$ptxas" \
    $run "$work/jax/bin/python3" -c true
says "and nothing for other programs" 0 '^$' $run true
says "another ptxas" 0 "^TRITON_PTXAS_PATH=$work/jax/bin/ptxas$" $run --ptxas "$work/jax/bin/ptxas" env
says "a ptxas that is not there" 125 "given by --ptxas" $run --ptxas /nowhere/ptxas true

echo "# XLA's flags and what is preloaded"
says "flags of the user's stay" 0 "^XLA_FLAGS=--xla_dump_to=/x --xla_gpu_cuda_data_dir=$out/ptxas$" env XLA_FLAGS=--xla_dump_to=/x $run env
says "a file with flags stays" 0 "^XLA_FLAGS=/my/flags$" env XLA_FLAGS=/my/flags $run env
other=$work/tmp/libother.so
cp "$jit" "$other"
same "a library of the user's is first" "$other:$jit" "$(LD_PRELOAD=$other $run printenv LD_PRELOAD 2> /dev/null)"
same "not twice" "$jit" "$(LD_PRELOAD=$jit $run printenv LD_PRELOAD 2> /dev/null)"
rm "$other"
printf '\177ELF\001\001\001' > "$work/elf32" && head -c 200 /dev/zero >> "$work/elf32" && chmod +x "$work/elf32"
# A program that cannot run: what it would have got is said.
says "a program of 32 bits: nothing is preloaded" 127 "executes: TRITON_PTXAS_PATH" $run --verbose "$work/elf32"
{ cat /bin/true; echo libasan.so.8; } > "$work/asan" && chmod +x "$work/asan"
says "a program with gcc's AddressSanitizer, which wants to be first" 0 "executes: TRITON_PTXAS_PATH" $run --verbose "$work/asan"
mkdir "$work/a b" && cp "$jit" "$work/a b/"
says "a path that the loader cannot take" 0 "cannot be preloaded" $run --jit "$work/a b/libvgpu-jit.so" true
says "another library" 0 "^LD_PRELOAD=$work/jit.so$" $run --jit "$(cp "$jit" "$work/jit.so" && echo "$work/jit.so")" env
says "a library that is not there" 125 "given by --jit" $run --jit /nowhere/jit.so true

echo "# the device node that JAX looks for"
nodes() { $run "$1" -c 'ls /dev/nvidia0 /dev/null /dev/fd /dev/shm > /dev/null && echo x > /dev/null && echo there' 2> /dev/null; }
if [ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then
    skipped=$((skipped + 1))
    echo "not run: /dev/nvidia0: this machine has one"
elif ! unshare -m true 2> /dev/null && ! unshare -Urm true 2> /dev/null; then
    skipped=$((skipped + 1))
    echo "not run: /dev/nvidia0: this machine lets nobody have mounts of one's own"
    says "no mounts: it says so, and runs" 0 'JAX stays on the CPU' $run "$work/jax/bin/python3" -c true
else
    same "with JAX it is there, and all of /dev" there "$(nodes "$work/jax/bin/python3")"
    same "without JAX it is not" "" "$(nodes "$work/plain/bin/python3")"
    same "on the machine it is not" "" "$(ls /dev/nvidia0 2> /dev/null)"
    same "the program's exit status" 7 "$($run "$work/jax/bin/python3" -c 'exit 7' 2> /dev/null; echo $?)"
    same "the same user" "$(id -u):$(id -g)" "$($run "$work/jax/bin/python3" -c 'echo $(id -u):$(id -g)' 2> /dev/null)"
    same "what is written in the working directory stays" kept "$(cd "$work" && $run "$work/jax/bin/python3" -c 'echo kept > file' 2> /dev/null; cat "$work/file")"
    if [ "$(id -u)" = 0 ] && chmod 755 "$work" && chmod 777 "$work/tmp" && setpriv --reuid 65534 --regid 65534 --clear-groups "$out/vgpu" --version > /dev/null 2>&1 &&
        setpriv --reuid 65534 --regid 65534 --clear-groups unshare -Urm true 2> /dev/null; then
        same "another user" "there 65534" "$(setpriv --reuid 65534 --regid 65534 --clear-groups $run "$work/jax/bin/python3" \
            -c 'ls /dev/nvidia0 > /dev/null && echo x > /dev/null && echo there $(id -u)' 2> /dev/null)"
    fi
fi
same "nothing is left in the temporary folder" "" "$(ls "$work/tmp")"

echo "vgpu run for Python: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
