#!/bin/sh
# SPDX-License-Identifier: MIT
# softgpu.sh TOP O CUDA: builds the software GPU of the tree TOP with its api_test and fuzz_test in O, with AddressSanitizer
# and UndefinedBehaviorSanitizer.
set -eu
san='-fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined -fno-omit-frame-pointer'
mkdir -p "$2"
# The outer make's settings do not apply to this build.
env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES make --no-print-directory -C "$1/host/softgpu" O="$2" CUDA_HOME="$3" VGPU_WERROR=0 \
    -j"${JOBS:-$(nproc)}" CFLAGS='-O1 -g' EXTRA_CFLAGS="$san" LDFLAGS="$san" all "$2/api_test" "$2/fuzz_test" > "$2/build.log" 2>&1 || {
    grep -E 'error|Error' "$2/build.log" | head -n 5
    echo "FAIL: the software GPU with sanitizers is not built, see $2/build.log"
    exit 1
}
