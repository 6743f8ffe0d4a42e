#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nvcc for the samples: their CMakeLists ask for SASS of nine architectures; here it is PTX of one,
# which is what the software GPU runs and takes a tenth of the time. What else they ask for stays.
# SAMPLES_ARCH: the virtual architecture, default 80. An image asked for as SASS only
# (-cubin) or for a newer virtual architecture alone stays as it was asked for.
arch=${SAMPLES_ARCH:-80}
args=() cubin=
for arg; do
    case $arg in
    -cubin | --cubin) cubin=1 ;;
    esac
done
if [ -n "$cubin" ]; then
    exec "${SAMPLES_NVCC:?}" "$@"
fi
while [ $# -gt 0 ]; do
    case $1 in
    --generate-code=* | -gencode=*) ;;
    -gencode | --generate-code) shift ;;
    -arch=* | --gpu-architecture=* | -code=* | --gpu-code=*) ;;
    -arch | --gpu-architecture | -code | --gpu-code) shift ;;
    *) args+=("$1") ;;
    esac
    shift
done
exec "${SAMPLES_NVCC:?}" "${args[@]}" -gencode "arch=compute_$arch,code=compute_$arch"
