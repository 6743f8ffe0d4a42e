#!/bin/bash
# SPDX-License-Identifier: MIT
#
# kit.sh BUILD TOP_BUILD CUDA_HOME: collects everything that contact.sh needs on a machine with a GPU in BUILD/kit, and
# packs it as BUILD/kit.tar.gz. The folders match the build tree, so that the parts find each other. lib/ holds
# libraries that the machine may lack, except for the C library: 2.35 suffices, which is checked here.
#
# VGPU_KIT_VM=1: includes QEMU with its firmware and the guest. At most 50 MB in all; exit status 1 beyond that.
set -eu
build=$1 top_build=$2 cuda=$3
top=$(cd "$(dirname "$0")/../.." && pwd)
kit=$build/kit
NEWEST_GLIBC=2.35
GGML_PTX=90 # compute capability 9.0 and newer

rm -rf "$kit"
mkdir -p "$kit/lib" "$kit/bin"
# take FILE...: copies files of the build tree to the same paths in the kit.
take()
{
    local file

    for file; do
        mkdir -p "$kit/build/$(dirname "$file")"
        cp -aL "$top_build/$file" "$kit/build/$file"
    done
}
take host/backend/vgpu-backend host/backend/vgpu-worker host/softgpu/libcuda-soft.so.1 userspace/vgpu/vgpu \
    userspace/vgpu/ptxas/bin/ptxas \
    userspace/vgpu/jit/libvgpu-jit.so \
    userspace/libcuda/libcuda.so.1 userspace/libnvidia-ml/libnvidia-ml.so.1 tests/hardware/firstcall \
    tests/conformance/entrypoints/walk
for part in tests/conformance/driver tests/perf demo/programs; do
    while read -r file; do
        take "$part/${file##*/}"
    done < <(find "$top_build/$part" -maxdepth 1 -type f ! -name '*.o' ! -name '*.d' ! -name '*.log')
    [ "$part" = demo/programs ] && continue
    mkdir -p "$kit/$part"
    cp "$top/$part"/*.sh "$kit/$part/"
done
cp "$top"/tests/hardware/{contact.sh,frameworks.py} "$top"/tests/conformance/entrypoints/answers.{py,tsv} "$kit/"
cp "$(command -v strace)" "$kit/bin/" 2> /dev/null || echo "kit: there is no strace on this machine: the kit has none"
# The language model's library with PTX for a single GPU: with all its code it is three times the kit's size.
llama=$(echo "$top_build"/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda)
vocab=$top_build/llama/src/models/ggml-vocab-llama-spm.gguf
if [ -e "$llama/libggml-cuda.so" ] && [ -e "$vocab" ] && [ -x "$top_build/tests/apps/llm/llm_eval" ]; then
    mkdir -p "$kit/build/llama/bin"
    cp -aL "$llama"/lib{ggml-base,ggml-cpu-x64,ggml-cpu-haswell,ggml.cuda.*,llama.cuda.*}.so "$kit/build/llama/bin/"
    "$top/tests/hardware/fatbin_keep.py" "$GGML_PTX" "$llama/libggml-cuda.so" "$kit/build/llama/bin/libggml-cuda.so" > "$build/ggml.log"
    cp "$vocab" "$kit/build/llama/bin/vocab.gguf"
    cp "$top"/tests/apps/llm/{text,prompt}.md "$kit/build/llama/bin/"
    take tests/apps/llm/llm_eval tests/apps/llm/gguf_make
else
    echo "kit: no language model: npm's packages were not fetched, or tests/apps/llm is not built"
fi
if [ "${VGPU_KIT_VM:-0}" = 1 ]; then
    mkdir -p "$kit/build/guest"
    # The smaller of the kernel's two images, which an emulated processor unpacks in some seconds.
    cp -aL "$top_build/guest/vmlinuz" "$top_build/guest/initrd.cpio" "$top_build/guest/release" "$kit/build/guest/"
    take qemu/bin/qemu-system-x86_64 kernel/vgpu_drv.ko
    cp -a "$top_build/qemu/share" "$kit/build/qemu/share"
fi

# Debugging information is left out.
find "$kit/build" "$kit/bin" -type f | while read -r file; do
    if readelf -h "$file" > /dev/null 2>&1; then
        case $file in *.ko) strip -g "$file" ;; *) strip "$file" 2> /dev/null || true ;; esac
    fi
done
# Libraries that the programs need besides the C library, and libcudart.
cp -aL "$cuda"/lib64/libcudart.so.13 "$kit/lib/"
find "$kit/build" "$kit/bin" -type f -perm -u+x -exec env LD_LIBRARY_PATH="$kit/lib" ldd {} + 2> /dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux-x86-64|libcuda|libcudart|libcublas|libcublasLt|libggml[^/]*|libllama[^/]*)\.so|^'"$kit" | xargs -r cp -aLt "$kit/lib/"

# Most machines have a C++ library; this machine's is newer than the promised minimum.
mkdir -p "$kit/lib-c++"
mv "$kit"/lib/libstdc++.so.6 "$kit"/lib/libgcc_s.so.1 "$kit/lib-c++/" 2> /dev/null || true
newest=$(find "$kit/bin" "$kit/build" "$kit/lib" -type f -exec objdump -T {} + 2> /dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
newest=${newest#GLIBC_}
tar -C "$build" -cf - kit | gzip -9 > "$build/kit.tar.gz"
size=$(du -sm "$kit" | cut -f1)
echo "kit: $kit: $size MB ($(du -m "$build/kit.tar.gz" | cut -f1) MB packed), needs glibc $newest"
[ "$(printf '%s\n' "$newest" "$NEWEST_GLIBC" | sort -V | tail -n 1)" = "$NEWEST_GLIBC" ] ||
    { echo "kit: a file needs glibc $newest; $NEWEST_GLIBC is promised"; exit 1; }
[ "$(du -m "$build/kit.tar.gz" | cut -f1)" -le 50 ] || { echo "kit: more than 50 MB"; exit 1; }
