#!/bin/bash
# SPDX-License-Identifier: MIT
#
# debug.sh TOP [SEEDS [CHECKER [SECONDS]]]: the driver under a kernel with UBSAN, lockdep, object debugging and CHECKER: kasan
# (with kmemleak) or kcsan, which exclude each other. Builds the kernel in TOP/build/guest-debug/CHECKER from the source that
# the driver's KUnit build has fetched, or LINUX_SRC (some twenty minutes of processor time each, once), boots a guest with it
# and runs debug_guest.sh there. SECONDS: duration of the driver's selftest "hostile". Not part of make test.
set -eu
top=$1
seeds=${2:-5}
checker=${3:-kasan}
hostile=${4:-60}
dir=$top/build/guest-debug/$checker
here=$top/tests/system/boot
src=${LINUX_SRC:-$(ls -d "$top"/build/kernel/kunit/src/linux-source-* 2> /dev/null | sort -V | tail -n 1)}
if [ -z "$src" ]; then
    echo "not run: debug.$checker: no kernel source: make check-kernel.vgpu_drv fetches it, or set LINUX_SRC="
    echo "debug: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
# As in kunit.sh, the folder is a link, so the kernel tree follows edits here.
ln -sfn "$top/kernel/vgpu_drv" "$src/drivers/misc/vgpu"
grep -q misc/vgpu/Kconfig "$src/drivers/misc/Kconfig" ||
    sed -i 's#^endmenu#source "drivers/misc/vgpu/Kconfig"\nendmenu#' "$src/drivers/misc/Kconfig"
grep -q VGPU_CUDA "$src/drivers/misc/Makefile" || echo 'obj-$(CONFIG_VGPU_CUDA) += vgpu/' >> "$src/drivers/misc/Makefile"
mkdir -p "$dir/kernel" "$dir/work"
kernel_make()
{
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u O PATH="/usr/bin:$PATH" make -s -C "$src" O="$dir/kernel" "$@"
}
cat "$here/debug.config" "$here/debug-$checker.config" > "$dir/all.config"
kernel_make KCONFIG_ALLCONFIG="$dir/all.config" allnoconfig > "$dir/build.log" 2>&1
if grep '^CONFIG' "$dir/all.config" | grep -vxFf "$dir/kernel/.config"; then
    echo "error: these settings have no effect in $src" >&2
    exit 1
fi
kernel_make -j"${JOBS:-$(nproc)}" bzImage modules >> "$dir/build.log" 2>&1
# All drivers of the guest are built in: the initramfs holds only our init.
rm -rf "$dir/tree"
mkdir -p "$dir/tree/dev" "$dir/tree/proc" "$dir/tree/sys" "$dir/tree/modules"
install -m 755 "$top/build/userspace/vgpu/guest-init" "$dir/tree/init"
: > "$dir/tree/modules/order"
(cd "$dir/tree" && find . | LC_ALL=C sort | cpio -o -H newc --owner=0:0 --quiet) > "$dir/initrd.cpio"
cd "$dir/work"
VGPU_KERNEL=$dir/kernel/arch/x86/boot/bzImage VGPU_INITRD=$dir/initrd.cpio VGPU_DRIVER=$dir/kernel/drivers/misc/vgpu/vgpu_drv.ko \
    exec "$top/build/userspace/vgpu/vgpu" vm run --gpu soft --accel "${ACCEL:-auto}" --keep-log "$dir/kernel.log" --timeout 2400 \
    sh "$here/debug_guest.sh" "$top/build/tests" "$dir/kernel/drivers/misc/vgpu/vgpu_drv.ko" "$seeds" \
    "$checker" "$hostile" "$top/build/kernel/selftest"
