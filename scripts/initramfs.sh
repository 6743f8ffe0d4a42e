#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Packs the guest's initramfs: our init and the kernel modules with which it reaches the host.
#
#   initramfs.sh INIT [DIR]
#
# INIT   the statically linked init (userspace/vgpu/guest-init.c)
# DIR    what guest-kernel.sh made (default build/guest); receives initrd.cpio, and nothing when it
#        is newer than its parts. Not compressed: unpacking is slow on an emulated CPU.

set -eu
. "$(dirname "$0")/lib.sh"

init=$1
dir=${2:-$BUILD/guest}
release=$(cat "$dir/release")

# virtio-pci, the virtio-serial port of the channel, the 9p file systems, the overlay, card and disks.
modules="virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_net virtio_blk"

if [ -e "$dir/initrd.cpio" ] && [ "$dir/initrd.cpio" -nt "$init" ] &&
    [ "$dir/initrd.cpio" -nt "$dir/release" ] && [ "$dir/initrd.cpio" -nt "$0" ]; then
    exit 0
fi

[ -e "$dir/root/lib/modules/$release/modules.dep" ] || depmod -b "$dir/root" "$release"
tree=$dir/initrd.tree
rm -rf "$tree"
mkdir -p "$tree/modules" "$tree/dev" "$tree/proc" "$tree/sys"
install -m 755 "$init" "$tree/init"

# Dependencies first, each once. A module that is built in prints "builtin" and is left out.
for module in $modules; do
    modprobe -d "$dir/root" -S "$release" --show-depends "$module" ||
        die "the guest kernel $release has no module $module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' > "$dir/modules.list"
while read -r file; do
    name=$(basename "$file")
    case $name in
    *.xz) name=${name%.xz}; xz -dc "$file" > "$tree/modules/$name" ;;
    *.zst) name=${name%.zst}; zstd -qdc "$file" > "$tree/modules/$name" ;;
    *) cp "$file" "$tree/modules/$name" ;;
    esac
    printf '%s\n' "$name" >> "$tree/modules/order"
done < "$dir/modules.list"
(cd "$tree" && find . | LC_ALL=C sort | cpio -o -H newc --owner=0:0 --quiet) > "$dir/initrd.cpio.new"
mv "$dir/initrd.cpio.new" "$dir/initrd.cpio"
rm -rf "$tree" "$dir/modules.list"
