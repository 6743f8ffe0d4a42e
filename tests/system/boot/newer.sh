#!/bin/bash
# SPDX-License-Identifier: MIT
#
# newer.sh TOP: the boots `guest` and `virtgpu` with the newest kernel of the machine's Debian release, from its backports
# (VGPU_NEWER_SUITE: another suite). Tests features that the release's own kernel lacks, such as virtio-gpu's syncobjs before
# Linux 6.6. Fetches some 110 MB once, into TOP/build/guest-newer. Not part of make test.
set -eu
top=$1
build=$top/build
dir=$build/guest-newer
here=$top/tests/system/boot
suite=${VGPU_NEWER_SUITE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)-backports}
not_run()
{
    echo "not run: boot newer: $1"
    echo "boot: 0 passed, 0 failed, 1 skipped"
    exit 0
}
VGPU_GUEST_KERNEL=linux-image-amd64 VGPU_GUEST_SUITE=$suite "$top/scripts/guest-kernel.sh" "$dir" ||
    not_run "Debian's kernel of $suite cannot be fetched"
"$top/scripts/initramfs.sh" "$build/userspace/vgpu/guest-init" "$dir"
mkdir -p "$dir/driver"
make -C "$top/kernel/vgpu_drv" O="$dir/driver" KDIR="$dir/headers" module > "$dir/driver/build.log" 2>&1 ||
    { tail -n 20 "$dir/driver/build.log"; exit 1; }
ln -sfn driver/module/vgpu_drv.ko "$dir/vgpu_drv.ko"
ln -sfn "$build/kernel/selftest" "$dir/selftest"
echo "kernel $(cat "$dir/release")"
exec /usr/bin/python3 "$here/boot.py" --top-build "$build" --build "$build/tests/system/boot/newer" --guest "$dir" \
    --accel "${ACCEL:-auto}" guest virtgpu
