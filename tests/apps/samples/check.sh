#!/bin/bash
# SPDX-License-Identifier: MIT
#
# check.sh SAMPLES OUT TOP_BUILD [OPTION...] [SAMPLE...]: runs run.py if the samples and its tools exist; otherwise
# names the missing part.
set -u
samples=$1
out=$2
build=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION

not_run()
{
    echo "not run: samples: $1"
    echo "samples: 0 passed, 0 failed, 1 skipped"
    exit 0
}

if [ -z "$samples" ]; then
    not_run "they are not part of this project: git clone https://github.com/NVIDIA/cuda-samples, then make CUDA_SAMPLES=/its/path"
fi
[ -f "$samples/test_args.json" ] || not_run "$samples is no checkout of NVIDIA's cuda-samples (13.0 or later)"
for tool in cmake ninja /usr/bin/python3 "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    command -v "$tool" > /dev/null || not_run "$tool is missing"
done
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 host/backend/vgpu-backend \
    host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || not_run "not built: $file"
done
mkdir -p "$out"
exec /usr/bin/python3 "$here/run.py" --samples "$(cd "$samples" && pwd)" --out "$out" --build "$build" "$@"
