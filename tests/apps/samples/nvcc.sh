#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nvcc for the samples. Their CMakeLists request SASS for nine architectures; this wrapper compiles PTX for a
# single one, which the software GPU runs, in a tenth of the time. Other options pass unchanged.
# SAMPLES_ARCH: the virtual architecture, default 80. A request for SASS alone (-cubin), or for a newer virtual
# architecture alone, also passes unchanged.
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
