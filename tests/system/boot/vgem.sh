#!/bin/sh
# SPDX-License-Identifier: MIT
#
# vgem.sh TOOL MODULES: loads the guest kernel's vgem driver, whose buffers and fences the tests use, from MODULES
# (/lib/modules/VERSION of the guest's packages) with TOOL (boot_tool), and waits for its node. Status 1: there is none.
[ ! -e /dev/dri/card0 ] || exit 0 # built in, or loaded before
for module in $(sed -n "s,^kernel/drivers/gpu/drm/vgem/vgem.ko: *,,p" "$2/modules.dep" | tr ' ' '\n' | tac) \
    kernel/drivers/gpu/drm/vgem/vgem.ko; do
    name=$(basename "$module" .ko)
    [ -d "/sys/module/$name" ] || "$1" insmod "$2/$module" || exit 1
done
for _ in $(seq 100); do
    [ ! -e /dev/dri/card0 ] || exit 0
    sleep 0.1
done
exit 1
