#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs what a guest needs from the folder that `vgpu guest-bundle` made, for guests without our packages.
#
#   install.sh [--uninstall] [--kernel RELEASE] [--headers DIR] [--no-module]
#
#   --kernel RELEASE   the kernel that the module is for (default: the running one)
#   --headers DIR      its headers (default: /lib/modules/RELEASE/build)
#   --no-module        libraries, tools and configuration only
#
# Needs root, and for the module make, a compiler and the kernel's headers. With DKMS the module is built again for each
# new kernel; without it, this script has to be run again then. PREFIX (default /usr/local) is where libraries and the
# vgpu command go. Exit status: 0, or 1 after a line that says why.

set -u
here=$(cd "$(dirname "$0")" && pwd)
PREFIX=${PREFIX:-/usr/local}
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$here/driver/dkms.conf")
release=$(uname -r) headers= module=1 uninstall=

die()
{
    echo "install.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --uninstall) uninstall=1 ;;
    --no-module) module= ;;
    --kernel | --headers)
        [ $# -gt 1 ] || die "$1 needs a value"
        if [ "$1" = --kernel ]; then release=$2; else headers=$2; fi
        shift
        ;;
    *) die "$1: unknown; the head of this file has the options" ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || die "root is needed"
headers=${headers:-/lib/modules/$release/build}

files="etc/udev/rules.d/60-vgpu.rules etc/modprobe.d/vgpu.conf etc/modules-load.d/vgpu.conf"
# Of earlier versions: unlimited locked memory for everyone, where the driver has a limit of its own now.
gone=etc/security/limits.d/60-vgpu.conf

if [ -n "$uninstall" ]; then
    if command -v dkms > /dev/null && dkms status 2> /dev/null | grep -q "^vgpu/$version"; then
        dkms remove "vgpu/$version" --all
    fi
    rm -rf "/usr/src/vgpu-$version" "$PREFIX/lib/vgpu/libcuda"
    rm -f "/lib/modules/$release/updates/vgpu_drv.ko" "$PREFIX/bin/vgpu" /etc/ld.so.conf.d/zz-vgpu.conf
    for file in $files $gone; do rm -f "/$file"; done
    rmdir "$PREFIX/lib/vgpu" 2> /dev/null
    ! command -v ldconfig > /dev/null || ldconfig
    [ ! -d "/lib/modules/$release" ] || depmod "$release"
    exit 0
fi

# put SOURCE DESTINATION MODE: a new file and then its name, for programs that have the old one open.
put()
{
    mkdir -p "${2%/*}" && cp "$1" "$2.new" && chmod "$3" "$2.new" && mv -f "$2.new" "$2" ||
        die "cannot write $2 (is /usr or /etc read-only here? then the files are to be placed by the system's own means)"
}

# What the machine's package is called.
headers_package()
{
    ids=$(. /etc/os-release 2> /dev/null && echo "${ID:-} ${ID_LIKE:-}")
    case " $ids " in
    *" debian "* | *" ubuntu "*) echo "apt install make gcc linux-headers-$release" ;;
    *" fedora "* | *" rhel "*) echo "dnf install make gcc kernel-devel-$release" ;;
    *" arch "*) echo "pacman -S --needed base-devel linux-headers" ;;
    *suse*) echo "zypper install make gcc kernel-default-devel" ;;
    *) echo "install make, gcc and the headers of the kernel $release" ;;
    esac
}

install_module()
{
    [ -e "$headers/Makefile" ] || die "the headers of the kernel $release are not there ($headers): $(headers_package)"
    command -v make > /dev/null && command -v gcc > /dev/null || die "make and gcc are needed: $(headers_package)"
    if command -v dkms > /dev/null && [ "$headers" = "/lib/modules/$release/build" ]; then
        rm -rf "/usr/src/vgpu-$version"
        cp -R "$here/driver" "/usr/src/vgpu-$version" || die "cannot write to /usr/src"
        dkms install --force "vgpu/$version" -k "$release" || die "DKMS could not build the module"
        return
    fi
    work=$(mktemp -d) || die "no temporary folder"
    trap 'rm -rf "$work"' EXIT
    cp -R "$here/driver/." "$work/"
    make -C "$headers" M="$work" CONFIG_VGPU_CUDA=m modules > "$work/log" 2>&1 ||
        { tail -n 10 "$work/log" >&2; die "the module could not be built"; }
    put "$work/vgpu_drv.ko" "/lib/modules/$release/updates/vgpu_drv.ko" 644
    depmod "$release" || die "depmod failed"
}

for library in libcuda.so.1 libnvidia-ml.so.1; do
    put "$here/lib/$library" "$PREFIX/lib/vgpu/libcuda/$library" 644
done
put "$here/bin/vgpu" "$PREFIX/bin/vgpu" 755
for file in $files; do
    put "$here/$file" "/$file" 644
done
if [ -d /etc/ld.so.conf.d ] && command -v ldconfig > /dev/null; then
    echo "$PREFIX/lib/vgpu/libcuda" > /etc/ld.so.conf.d/zz-vgpu.conf
    ldconfig
else
    echo "install.sh: this system has no /etc/ld.so.conf.d: programs need LD_LIBRARY_PATH=$PREFIX/lib/vgpu/libcuda"
fi
if [ -n "$module" ]; then
    install_module
    rm -f "/$gone"
fi
if [ -n "$module" ] && [ "$release" = "$(uname -r)" ]; then
    ! command -v udevadm > /dev/null || udevadm control --reload 2> /dev/null
    modprobe vgpu_drv 2> /dev/null ||
        echo "install.sh: the module is installed and was not loaded: is there a vgpu-cuda device? (vgpu doctor says more)"
fi
echo "install.sh: installed; try: vgpu smi"
