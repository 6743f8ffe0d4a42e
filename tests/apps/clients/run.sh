#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh OUT BUILD [all]: unmodified third-party programs on the software GPU; each result is compared with the
# processor's or with the output of `vgpu smi`. `all`: includes large programs.
set -u
out=$1 build=$2 what=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$build/userspace/vgpu/vgpu
log=$out/log
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION APT_CONFIG
export LC_ALL=C
mkdir -p "$out/home" "$out/work" "$out/bin"
. "$here/lib.sh"

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 userspace/libnvidia-ml/libnvidia-ml.so.1 \
    host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    not_run clients "not built:$missing"
else
    smi=$(timeout 60 "$vgpu" smi --gpu soft --format=csv,noheader,nounits \
        --query-gpu=name,uuid,memory.total,driver_version,compute_cap)
    IFS=, read -r name uuid memory driver capability <<< "$smi"
    uuid=${uuid# } memory=${memory# } driver=${driver# } capability=${capability# }
    for part in "$here"/part_*.sh; do
        . "$part"
    done
    if [ "$what" = all ]; then
        for part in "$here"/big_*.sh; do
            . "$part"
        done
    fi
fi
echo "clients: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
