#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Prints the folder of the CUDA Toolkit, version 13.0 or newer.
#
#   find-cuda.sh [--where|--check] [GROUP...]
#
# Looked for in this order: $CUDA_HOME when it is set; /usr/local/cuda; the cache, where a toolkit is made of
# NVIDIA's own packages from the Python package index (cuda-packages.txt: pinned and verified; progress on
# standard error). Only packages of the named GROUPs (default: core) that are not there yet are fetched;
# an installed toolkit is taken as it is. The cache is shared by all clones (lib.sh: CACHE).
#
# --where   prints where the toolkit is or would be; fetches and checks nothing
# --check   checks an installed toolkit; where there is none and one would be fetched, it says nothing
#
# Without a usable toolkit (nvcc and cuda.h) it says what to install and exits with status 1. Nothing of the
# toolkit is needed inside the guest or on the host at run time except what the user's own programs link.

set -u
. "$(dirname "$0")/lib.sh"

LIST=$SCRIPTS/cuda-packages.txt
OWN=$CACHE/cuda-13.0
MARKS=.vgpu-packages

where_only=
check_only=
groups=
for arg; do
    case $arg in
    --where) where_only=1 ;;
    --check) check_only=1 ;;
    -*) sed -n '4,18s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) groups="$groups $arg" ;;
    esac
done
groups=${groups:- core}

# The toolkit and where that is said.
if [ -n "${CUDA_HOME:-}" ]; then
    home=$CUDA_HOME
    where="in $home (from CUDA_HOME)"
elif [ -x /usr/local/cuda/bin/nvcc ]; then
    home=/usr/local/cuda
    where="in /usr/local/cuda, and CUDA_HOME is not set"
else
    home=$OWN
    where="in /usr/local/cuda, and CUDA_HOME is not set"
fi
[ -z "$where_only" ] || { printf '%s\n' "$home"; exit 0; }
[ -z "$check_only" ] || [ "$home" != "$OWN" ] || exit 0

fail()
{
    cat >&2 <<END
error: $1

The CUDA programs are compiled with NVIDIA's CUDA Toolkit, version 13.0 or newer (nvcc, cudart and
the headers; no driver and no GPU are needed). It comes in one of these ways; then run this again:

  * by itself: with CUDA_HOME not set and the Python package index within reach (as pip is set up for it),
    NVIDIA's packages are fetched into $OWN
  * Debian 12, NVIDIA's repository: https://developer.nvidia.com/cuda-downloads
    (Linux, x86_64, Debian, 12), then: apt-get install cuda-toolkit-13-0
  * any folder: run NVIDIA's runfile installer with --toolkit --toolkitpath=DIR

It is looked for in \$CUDA_HOME, then in /usr/local/cuda:  CUDA_HOME=DIR make demo
END
    exit 1
}

# packages_of GROUP...: their lines of the list, whole.
packages_of()
{
    awk -v g=" $* " '!/^#/ && index(g, " " $1 " ")' "$LIST"
}

# missing GROUP...: the lines of those that the cache's toolkit lacks.
missing()
{
    local group package version rest

    packages_of "$@" | while read -r group package version rest; do
        [ -e "$home/$MARKS/$package-$version" ] || echo "$group $package $version $rest"
    done
}

# A library's development name, for the linker; and lib64, where NVIDIA's installers put it.
links()
{
    local file

    mkdir -p "$home/lib"
    ln -sfn lib "$home/lib64"
    for file in "$home"/lib/lib*.so.*; do
        [ -e "$file" ] || continue
        [ -e "${file%%.so.*}.so" ] || ln -s "${file##*/}" "${file%%.so.*}.so"
    done
}

# stub: lib64/stubs/libcuda.so, against which programs are linked that call the driver. The index has none: it
# is made of the names in cuda.h. Its functions are never called: at run time there is a real libcuda.so.1.
stub()
{
    local place=$home/lib/stubs

    [ ! -e "$place/libcuda.so" ] && [ -e "$home/include/cuda.h" ] && command -v gcc > /dev/null || return 0
    mkdir -p "$place"
    {
        printf '#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n' |
            gcc -E -I"$home/include" - | tr '\n' ' ' | grep -oE '\bcu[A-Z][A-Za-z0-9_]* *\('
        # These need headers of OpenGL and others; the declarations are enough.
        cat "$home"/include/cuda{GL,EGL,VDPAU}.h 2> /dev/null | grep -oE '\bCUDAAPI +cu[A-Z][A-Za-z0-9_]* *\(' |
            sed 's/CUDAAPI *//'
    } | tr -d ' (' | sort -u | sed 's/.*/void &(void); void &(void) { __builtin_trap(); }/' > "$place/stub.c"
    gcc -w -fno-builtin -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$place/libcuda.so.new" "$place/stub.c" &&
        mv "$place/libcuda.so.new" "$place/libcuda.so"
}

# fetch GROUP...: what the cache's toolkit lacks of them.
fetch()
{
    local group package version sha bytes reason wheel total

    [ "$(uname -m)" = x86_64 ] || fail "no CUDA Toolkit found $where, and this machine is not x86-64"
    total=$(missing "$@" | awk '{ n += $5 } END { printf "%d", n / 1000000 }')
    say "fetching NVIDIA's packages ($*; $total MB) into $home:" >&2
    while read -r group package version sha bytes reason; do
        printf '         %-36s %4d MB  %s\n' "$package $version" $((bytes / 1000000)) "$reason" >&2
        wheel=$(python3 -B "$SCRIPTS/pypi.py" "$package" "$sha" "$bytes" "$CACHE/downloads") || return 1
        python3 -B "$SCRIPTS/pypi.py" --unpack "$wheel" "$home" || return 1
        rm -f "$wheel"
        links
        mkdir -p "$home/$MARKS"
        touch "$home/$MARKS/$package-$version"
    done < <(missing "$@")
    say "fetched." >&2
}

# The cache's toolkit is known by its marks, also when CUDA_HOME names it.
if [ "$home" = "$OWN" ] || [ -d "$home/$MARKS" ]; then
    mkdir -p "$home" 2> /dev/null || fail "no CUDA Toolkit found $where, and $home cannot be made"
    exec 9> "$home/.lock"
    flock 9
    [ -z "$(missing $groups)" ] || fetch $groups || fail "no CUDA Toolkit found $where, and it cannot be fetched"
    stub
fi
[ -x "$home/bin/nvcc" ] || fail "no CUDA Toolkit found: there is no bin/nvcc $where"
[ -e "$home/include/cuda.h" ] || fail "the CUDA Toolkit is not complete: there is no include/cuda.h $where"
version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\)$/\1/p' "$home/include/cuda.h")
[ "${version:-0}" -ge 13000 ] ||
    fail "the CUDA Toolkit in $home is too old: CUDA_VERSION is ${version:-unknown}, 13000 is needed"
printf '%s\n' "$home"
