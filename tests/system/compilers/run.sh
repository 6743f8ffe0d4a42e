#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the tree without a warning by other compilers than the one that built BUILD, also those of a minimal
# Debian 13, and runs the demo programs with what was built there.
#
#   run.sh O BUILD
#
# O      logs and objects
# BUILD  what was built before: configuration, demo programs
# Environment: CUDA_HOME; VGPU_TRIXIE_ROOT, a root of Debian 13 with the packages that are listed below.

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../scripts/lib.sh"
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
shift 2
root=${VGPU_TRIXIE_ROOT:-$CACHE/roots/trixie-build}
parts="lib host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu"
# What the parts are built from in the root.
packages=$(awk '!/^#/ && $2 == "demo" { print $1 }' "$TOP/scripts/packages.txt" |
           grep -vxE 'apt|cpio|kmod|libelf1|meson|ninja-build|python3-venv|lib(glib2.0|pixman-1|fdt|attr1|cap-ng|slirp)-dev|dpkg-dev|xz-utils|zstd')
packages="$packages libcmocka-dev"
passed=0 failed=0 skipped=0

# The second call of this script: in a mount namespace of its own.
if [ "${VGPU_COMPILERS_INSIDE:-}" = 1 ]; then
    work=$out/overlay
    mkdir -p "$work"
    mount -t tmpfs -o size=4G none "$work" || exit 75
    mkdir -p "$work"/{up,work,root}
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/up,workdir=$work/work" "$work/root" || exit 75
    for folder in "$TOP" "$build" "$CUDA_HOME"; do
        mkdir -p "$work/root$folder"
        mount --rbind "$folder" "$work/root$folder" && mount -o remount,bind,ro "$work/root$folder" || exit 75
    done
    mount -t proc proc "$work/root/proc" && mount --rbind /dev "$work/root/dev" || exit 75
    mkdir -p "$work/root/o"
    mount --bind "$out" "$work/root/o"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 JOBS="${JOBS:-}" CUDA_HOME="$CUDA_HOME" \
        chroot "$work/root" "$@"
fi

check()
{
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "FAIL: $1${3:+: $3}"
    fi
}

not_run()
{
    echo "not run: compilers: $1: $2"
    skipped=$((skipped + 1))
}

# build_with CC FOLDER LOG [PREFIX...]: all parts, by that compiler, every warning an error.
build_with()
{
    local cc=$1 to=$2 log=$3 part
    shift 3

    : > "$log"
    for part in $parts; do
        "$@" make -k -C "$TOP/$part" CC="$cc" O="$to/$part" CUDA_HOME="$CUDA_HOME" CONFIG_DIR="$build" VGPU_WERROR=1 \
            -j"${JOBS:-$(nproc)}" all >> "$log" 2>&1 || return 1
    done
}

told()
{
    grep -E ' (error|warning): ' "$1" | head -n 5
    echo "(log: $1)"
}

if command -v clang > /dev/null; then
    version=$(clang --version | head -n 1)
    VGPU_BUILD=$build build_with clang "$out/clang" "$out/clang.log"
    check "the host's $version: no warning" $? "$(told "$out/clang.log")"
else
    not_run "clang" "it is not installed"
fi

# within COMMAND...: in the root.
within()
{
    VGPU_COMPILERS_INSIDE=1 timeout 1200 unshare -m --propagation private "$here/run.sh" "$out" "$build" "$@"
}

if [ "$(id -u)" != 0 ]; then
    not_run "Debian 13" "root is needed"
elif ! reason=$(debian_root "$root" trixie "$out/debootstrap.log" --include="$(echo $packages | tr ' ' ,)"); then
    not_run "Debian 13" "$reason; VGPU_TRIXIE_ROOT names a root that is there"
elif ! within true > "$out/root.log" 2>&1; then
    not_run "Debian 13" "no overlay can be mounted, see $out/root.log"
else
    for cc in gcc clang; do
        version=$(within $cc --version | head -n 1)
        build_with $cc /o/trixie-$cc "$out/trixie-$cc.log" within
        check "Debian 13's $version: no warning" $? "$(told "$out/trixie-$cc.log")"
    done
    # Programs of the host, with the system's libraries and our parts of Debian 13.
    mkdir -p "$out/demo"
    within /bin/bash "$TOP/demo/all.sh" "$build/demo/programs" /o/demo /o/trixie-gcc/userspace/vgpu/vgpu run --gpu soft \
        > "$out/demo.log" 2>&1
    rc=$?
    want=$(find "$build/demo/programs" -maxdepth 1 -type f -perm -u+x | wc -l)
    good=$(grep -c '^@ .* 0$' "$out/demo.log")
    [ $rc = 0 ] && [ "$good" = "$want" ]
    check "the demo programs run in Debian 13 ($good of $want)" $? "$(grep '^@' "$out/demo.log" | grep -v ' 0$' | head -n 3) (log: $out/demo.log)"
fi

echo "compilers: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
