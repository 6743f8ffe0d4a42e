#!/bin/sh
# SPDX-License-Identifier: MIT
#
# drm_module.sh TOOL MODULES NAME: loads a driver of the guest's kernel (vgem/vgem, virtio/virtio-gpu), whose buffers, fences
# and syncobjs the tests use, from MODULES (/lib/modules/VERSION of the guest's packages) with TOOL (boot_tool), and waits
# for its device node. Status 1: no such node.
tool=$1
modules=$2
driver=$3
loaded() { # PATH
    [ -d "/sys/module/$(basename "${1%%.ko*}" | tr - _)" ]
}
nodes() {
    ls /dev/dri/card* 2>/dev/null | wc -l
}
insmod() { # PATH: some kernels' packages have compressed modules
    file=$modules/$1
    case $1 in
    *.xz) xz -dc "$file" >module.ko && file=module.ko ;;
    *.zst) zstd -qdcf "$file" >module.ko && file=module.ko ;;
    esac
    "$tool" insmod "$file"
}
if [ ! -f "$modules/modules.dep" ]; then # a kernel of our own, where all is built in
    [ "$(nodes)" -gt 0 ]
    exit
fi
line=$(grep "^kernel/drivers/gpu/drm/$driver\.ko" "$modules/modules.dep") || exit 1
path=${line%%:*}
! loaded "$path" || exit 0
before=$(nodes)
for module in $(echo "${line#*:}" | tr ' ' '\n' | tac) "$path"; do
    loaded "$module" || insmod "$module" || exit 1
done
rm -f module.ko
for _ in $(seq 100); do
    [ "$(nodes)" -eq "$before" ] || exit 0
    sleep 0.1
done
exit 1
