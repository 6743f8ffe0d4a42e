#!/bin/bash
# SPDX-License-Identifier: MIT
#
# inside.sh ROOT COMMAND...: runs COMMAND in ROOT, in a mount namespace with the machine's /proc, /dev, /tmp,
# the toolkit and this script's tree at the same paths. --test: status 0 if this user can do so.
set -u
as=(unshare -m)
[ "$(id -u)" = 0 ] || as=(unshare -U -r -m)
if [ "$1" = --test ]; then
    exec "${as[@]}" mount --bind /tmp /tmp
fi
top=$(cd "$(dirname "$0")/../../.." && pwd)
root=$1
shift
see=(/proc /dev /tmp "$top" "$(readlink -f "${CUDA_HOME:-/usr/local/cuda}")")
case $root in "$top"/*) ;; *) see+=("$root") ;; esac
# shellcheck disable=SC2016
exec "${as[@]}" bash -c '
    root=$1 n=$2
    shift 2
    for ((i = 0; i < n; i++)); do
        mkdir -p "$root$1"
        [ ! -d "$1" ] || mount --rbind "$1" "$root$1" || exit 125
        shift
    done
    for link in bin lib lib64 sbin; do
        [ -e "$root/$link" ] || ln -s "usr/$link" "$root/$link"
    done
    exec chroot "$root" "$@"' inside "$root" ${#see[@]} "${see[@]}" "$@"
