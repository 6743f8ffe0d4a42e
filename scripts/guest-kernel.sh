#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Gets Debian's stock kernel for the guest: unpacked, never installed.
#
#   guest-kernel.sh [DIR]        DIR (default build/guest) receives
#
#   release                      the kernel's release, e.g. 6.1.0-56-amd64
#   vmlinuz, vmlinux             as packaged; vmlinux is the same kernel for QEMU's PVH start, which
#                                saves the 3.5 s that unpacking takes on an emulated CPU
#   root/                        the packages' files (modules under root/lib/modules)
#   headers                      link to the build folder for modules (KDIR=...)
#
# VGPU_GUEST_KERNEL   Debian package to take (default linux-image-amd64, the stable kernel); its
#                     headers are taken in the same version. Runs once; `rm -r DIR` to run it again.
# VGPU_GUEST_SUITE    Debian suite to take it from (default: those of this machine)

set -eu
. "$(dirname "$0")/lib.sh"

dir=${1:-$BUILD/guest}
meta=${VGPU_GUEST_KERNEL:-linux-image-amd64}
suite=${VGPU_GUEST_SUITE:-}
wanted=$meta${suite:+/$suite}
[ "$(cat "$dir/.complete" 2> /dev/null)" = "$wanted" ] && exit 0

# depends_on PACKAGE PATTERN: the first versioned package that PACKAGE depends on.
depends_on()
{
    apt-cache depends "$1" 2> /dev/null |
        awk -v p="$2" '$1 == "Depends:" && $2 ~ p { print $2; exit }'
}

fetch()
{
    apt_knows "$meta" || apt_refresh || return 1
    release=$(depends_on "$meta" '^linux-image-[0-9]')
    [ -n "$release" ] || release=$meta
    release=${release#linux-image-}
    case $release in *-unsigned) release=${release%-unsigned} ;; esac
    headers=linux-headers-$release
    common=$(depends_on "$headers" '^linux-headers-.*-common')
    kbuild=$(depends_on "$headers" '^linux-kbuild-')
    [ -n "$common" ] && [ -n "$kbuild" ] || return 1
    say "downloading Debian's kernel $release and its headers"
    packages=$(debs "linux-image-$release" "$headers" "$common" "$kbuild")
}

mkdir -p "$dir"
exec 9> "$dir/.lock"
flock 9
[ "$(cat "$dir/.complete" 2> /dev/null)" = "$wanted" ] && exit 0
[ -z "$suite" ] || apt_suite "$suite" || die "cannot fetch the package lists of $suite from this machine's archive"
rm -rf "$dir/root" "$dir/.complete"
# The machine's lists may name versions that the archive no longer has: once more with fresh ones.
fetch || { apt_refresh && fetch; } ||
    die "cannot download the guest kernel ($meta) from this machine's package archive"

say "unpacking it"
mkdir -p "$dir/root"
while read -r deb; do
    dpkg -x "$deb" "$dir/root"
done <<< "$packages"
# From Debian 13 on the modules lie below usr/.
if [ ! -e "$dir/root/lib/modules" ] && [ -d "$dir/root/usr/lib/modules" ]; then
    mkdir -p "$dir/root/lib"
    ln -s ../usr/lib/modules "$dir/root/lib/modules"
fi

# The headers include each other by their installed place; here they lie elsewhere, and may be moved.
src=$dir/root/usr/src
headers_dir=$src/linux-headers-$release
for file in Makefile .kernelvariables; do
    [ ! -f "$headers_dir/$file" ] ||
        sed -i "s|/usr/src/$common|\$(abspath \$(dir \$(lastword \$(MAKEFILE_LIST))))/../$common|g" \
            "$headers_dir/$file"
done
ln -sfn "root/usr/src/linux-headers-$release" "$dir/headers"
ln -sfn "root/boot/vmlinuz-$release" "$dir/vmlinuz"

# The ELF kernel is the compressed payload of the bzImage (Linux x86 boot protocol: setup_sects at
# 0x1f1, payload_offset and payload_length at 0x248; the last 4 bytes of the payload are its size).
image=$dir/root/boot/vmlinuz-$release
sects=$(od -An -tu1 -j $((0x1f1)) -N 1 "$image" | tr -d ' ')
offset=$(od -An -tu4 -j $((0x248)) -N 4 "$image" | tr -d ' ')
length=$(od -An -tu4 -j $((0x24c)) -N 4 "$image" | tr -d ' ')
start=$(((sects + 1) * 512 + offset))
tail -c +$((start + 1)) "$image" | head -c $((length - 4)) > "$dir/payload"
case $(od -An -tx4 -N 4 "$dir/payload" | tr -d ' ') in
587a37fd) xz -dc < "$dir/payload" > "$dir/vmlinux.new" ;;
fd2fb528) zstd -qdc < "$dir/payload" > "$dir/vmlinux.new" ;;
*) rm -f "$dir/vmlinux.new" ;;
esac
rm -f "$dir/payload" "$dir/vmlinux"
# Without it the launcher starts the bzImage, which works as well, later.
if [ -s "$dir/vmlinux.new" ]; then mv "$dir/vmlinux.new" "$dir/vmlinux"; fi

printf '%s\n' "$release" > "$dir/release"
printf '%s\n' "$wanted" > "$dir/.complete"
say "ready: $release"
