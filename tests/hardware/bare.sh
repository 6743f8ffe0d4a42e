#!/bin/bash
# SPDX-License-Identifier: MIT
#
# bare.sh ROOT KIT CUDA_HOME COMMAND...: runs a command of the kit in a root with only a shell, its tools and their
# libraries: no compiler, headers, interpreter or C++ library. Creates ROOT; the kit is /kit there, results go to
# /out, and a folder VGPU_BARE_MORE is /more. Of CUDA_HOME the root has only cuBLAS, like a machine with a GPU.
#
# bare.sh --test: exit status 0 if this user can create such a root. Exit status 125: creating the root failed.
set -u
as=(unshare -m)
[ "$(id -u)" = 0 ] || as=(unshare -U -r -m)
if [ "$1" = --test ]; then
    exec "${as[@]}" mount --bind /tmp /tmp
fi
root=$1 kit=$2 cuda=$3
shift 3
tools="bash sh env cat cp rm rmdir mkdir mktemp mkfifo ls ln chmod touch head tail cut tr sort uniq wc date basename dirname
    seq sleep timeout tee printf id uname nproc stat find xargs grep sed awk tar gzip diff cmp taskset"

# Libraries lie where this machine's loader looks for them.
copy() { mkdir -p "$root$(dirname "$1")" && cp -L "$1" "$root$1"; }
mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,proc,dev,sys,tmp,etc,kit,out,more} || exit 125
for link in bin lib lib64; do
    ln -sfn "usr/$link" "$root/$link"
done
chmod 1777 "$root/tmp"
for tool in $tools; do
    path=$(type -P "$tool") || exit 125
    cp -L "$path" "$root/usr/bin/$tool"
    ldd "$path" | grep -o '/[^ ]*'
done | sort -u | while read -r lib; do copy "$lib"; done
# Further parts of the C library, which every system has.
libc=$(ldd "$(type -P sh)" | grep -o '/[^ ]*/libc\.so\.6')
for lib in "${libc%/*}"/lib{m,dl,pthread,rt,util}.so.?; do copy "$lib"; done
grep -h ^PRETTY_NAME /etc/os-release > "$root/etc/os-release"
mkdir -p "$root/usr/local/cuda/lib64"
for lib in "$cuda"/lib64/libcublas{,Lt}.so.13; do
    [ ! -e "$lib" ] || touch "$root/usr/local/cuda/lib64/${lib##*/}"
done
# The root is a mount point, so that workers can pivot to a root of their own.
# shellcheck disable=SC2016
exec "${as[@]}" bash -c '
    root=$1 kit=$2 cuda=$3
    shift 3
    mount --bind "$root" "$root" && cd "$root" && mount --bind "$kit" kit && mount --rbind /proc proc && mount --rbind /sys sys &&
        mount -t tmpfs bare dev && mkdir dev/shm && mount -t tmpfs bare dev/shm || exit 125
    # A separate /dev, since the library of a driver creates device nodes when it runs as root.
    for node in null zero full random urandom; do
        touch dev/$node && mount --bind /dev/$node dev/$node || exit 125
    done
    ln -s /proc/self/fd dev/fd
    [ -z "${VGPU_BARE_MORE:-}" ] || mount --bind "$VGPU_BARE_MORE" more || exit 125
    for lib in usr/local/cuda/lib64/*; do
        [ ! -e "$lib" ] || mount --bind "$(readlink -f "$cuda/lib64/${lib##*/}")" "$lib" || exit 125
    done
    exec chroot . env -i PATH=/usr/bin HOME=/tmp "$@"' bare "$root" "$kit" "$cuda" "$@"
