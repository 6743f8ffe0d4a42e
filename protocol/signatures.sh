#!/bin/sh
# SPDX-License-Identifier: MIT
# signatures.sh GENERATED INCLUDE...: has the compiler compare the signature of every export in GENERATED/vgp_entry.c with the
# one in cuda.h, in the first INCLUDE that has it. Fails where one differs, or where the exports are not found.
generated=$1
shift
n=$#
for folder; do
    set -- "$@" -isystem "$folder"
done
shift "$n"
heads=$(sed -n 's/^\(CUresult CUDAAPI cu[A-Za-z0-9_]*(.*)\)$/\1;/p' "$generated/vgp_entry.c")
[ "$(echo "$heads" | wc -l)" -gt 600 ] || { echo "signatures.sh: the exports are not found" >&2; exit 1; }
printf '#include "vgp_guest_rt.h"\n#include "vgp_newer.h"\n%s\n' "$heads" |
    ${CC:-cc} -std=gnu11 -Wall -Wextra -Wstrict-prototypes -Werror -fsyntax-only -D__CUDA_API_VERSION_INTERNAL \
        -I"$(dirname "$0")" -I"$generated" "$@" -x c -
