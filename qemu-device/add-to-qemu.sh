#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Adds the vgpu-cuda device to an unmodified QEMU source tree (7.2 .. 11.0).
#
#   add-to-qemu.sh QEMU-SOURCE
#
# The whole change: symbolic links hw/vgpu to this folder and include/hw/vgpu to the device ABI;
# one line each in hw/meson.build, hw/Kconfig and the top meson.build (trace events); a minimal
# device configuration for configure --with-devices-x86_64=vgpu; a stub that QEMU 11 lacks. Running it again changes nothing.

set -eu
dev=$(cd "$(dirname "$0")" && pwd)
src=${1:?usage: add-to-qemu.sh QEMU-SOURCE}

[ -f "$src/hw/virtio/vhost-user.c" ] || { echo "$src is not a QEMU source tree" >&2; exit 1; }

ln -sfn "$dev" "$src/hw/vgpu"
# Under include/, and not by a path with "..", which ninja could not follow through the link above.
ln -sfn "$dev/../kernel/vgpu_drv/uapi" "$src/include/hw/vgpu"
grep -q "^subdir('vgpu')" "$src/hw/meson.build" ||
    sed -i "s/^subdir('virtio')/&\nsubdir('vgpu')/" "$src/hw/meson.build"
grep -q "^source vgpu/Kconfig" "$src/hw/Kconfig" || echo 'source vgpu/Kconfig' >> "$src/hw/Kconfig"
grep -q "^ *'hw/vgpu'," "$src/meson.build" ||
    sed -i "s/^\( *\)'hw\/virtio',/\1'hw\/vgpu',\n&/" "$src/meson.build"
cmp -s "$dev/vgpu-devices.mak" "$src/configs/devices/x86_64-softmmu/vgpu.mak" 2>/dev/null ||
    cp "$dev/vgpu-devices.mak" "$src/configs/devices/x86_64-softmmu/vgpu.mak"
# QEMU 11 does not link without CXL: its ACPI tables call this function, for which it has no stub.
stubs=$src/hw/cxl/cxl-host-stubs.c
! grep -qs cxl_fmws_get_all_sorted "$src/hw/acpi/cxl.c" || grep -q cxl_fmws_get_all_sorted "$stubs" ||
    echo 'GSList *cxl_fmws_get_all_sorted(void) { return NULL; }' >> "$stubs"
