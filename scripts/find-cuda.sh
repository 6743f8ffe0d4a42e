#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Prints the folder of the CUDA Toolkit: $CUDA_HOME when it is set, otherwise /usr/local/cuda.
# Without a usable toolkit (nvcc and cuda.h, version 13 or newer) it says what to install and exits
# with status 1. Nothing of the toolkit is needed inside the guest or on the host at run time except
# what the user's own programs link.

set -u

home=${CUDA_HOME:-/usr/local/cuda}

fail()
{
    cat >&2 <<END
error: $1

The CUDA programs are compiled with NVIDIA's CUDA Toolkit, version 13.0 or newer (nvcc, cudart and
the headers; no driver and no GPU are needed). Install it in one of these ways, then run this again:

  * Debian 12, NVIDIA's repository: https://developer.nvidia.com/cuda-downloads
    (Linux, x86_64, Debian, 12), then: apt-get install cuda-toolkit-13-0
  * any folder: run NVIDIA's runfile installer with --toolkit --toolkitpath=DIR

It is looked for in \$CUDA_HOME, then in /usr/local/cuda:  CUDA_HOME=DIR make demo
END
    exit 1
}

where="in $home (from CUDA_HOME)"
[ -n "${CUDA_HOME:-}" ] || where="in /usr/local/cuda, and CUDA_HOME is not set"
[ -x "$home/bin/nvcc" ] || fail "no CUDA Toolkit found: there is no bin/nvcc $where"
[ -e "$home/include/cuda.h" ] || fail "the CUDA Toolkit is not complete: there is no include/cuda.h $where"
version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\)$/\1/p' "$home/include/cuda.h")
[ "${version:-0}" -ge 13000 ] ||
    fail "the CUDA Toolkit in $home is too old: CUDA_VERSION is ${version:-unknown}, 13000 is needed"
printf '%s\n' "$home"
