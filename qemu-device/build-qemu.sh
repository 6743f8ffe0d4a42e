#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Builds a small qemu-system-x86_64 with the vgpu-cuda device from Debian's QEMU source.
#
#   build-qemu.sh [O]
#
# O (default: <repository>/build/qemu) receives
#   bin/qemu-system-x86_64     finds its firmware by itself, also after O is moved
#   share/qemu/*               firmware, from Debian's packages
#   src/, obj/                 unpacked source, objects
#
# Environment:
#   VGPU_QEMU_SUITE    Debian suite, default bookworm (QEMU 7.2); trixie has 10.0
#   QEMU_SOURCE        a folder or tar archive with QEMU's source instead of the suite's, which still gives the firmware
#   VGPU_MESON_SUITE   where meson comes from if this machine's is too old for that QEMU,
#                      default bookworm-backports
#   VGPU_DEBIAN_MIRROR, VGPU_DEBIAN_SECURITY_MIRROR   default: the archive this machine uses
#   JOBS               default: number of processors
# A second run only asks ninja whether the device changed. Nothing outside O and the cache of
# downloads (build-lib.sh: APT) is written.

set -eu
. "$(dirname "$0")/build-lib.sh"

O=${1:-${O:-$DEVICE_DIR/../build/qemu}}
SUITE=${VGPU_QEMU_SUITE:-bookworm}
JOBS=${JOBS:-$(nproc)}
PACKAGES="meson ninja-build gcc pkg-config python3-venv dpkg-dev libglib2.0-dev libpixman-1-dev \
libfdt-dev libattr1-dev libcap-ng-dev libseccomp-dev libslirp-dev"

mkdir -p "$O"
O=$(cd "$O" && pwd)
exec 9> "$O/.lock"
flock -n 9 || { say "waiting for another build in $O"; flock 9; }

need "$PACKAGES" meson ninja pkg-config gcc dpkg-source || exit 1

fetch_qemu "$SUITE" || die "cannot fetch the QEMU source of $SUITE (see $O/unpack.log)"
# Start of the PC, of a kernel, of its network card and of its display; the keys of VNC.
FIRMWARE="bios-256k.bin linuxboot_dma.bin pvh.bin kvmvapic.bin efi-virtio.rom vgabios-stdvga.bin"
KEYS=en-us
if [ "$(cat "$O/share/.suite" 2>/dev/null)" != "$SUITE $FIRMWARE $KEYS" ]; then
    say "fetching firmware"
    apt_setup "$SUITE" "$SUITE-updates" "$SUITE-security" || die "cannot fetch firmware"
    rm -rf "$O/fw" "$O/share"
    mkdir -p "$O/share/qemu"
    unpack_package seabios "$O/fw" || die "cannot fetch seabios"
    unpack_package qemu-system-data "$O/fw" || die "cannot fetch qemu-system-data"
    unpack_package ipxe-qemu "$O/fw" || die "cannot fetch ipxe-qemu"
    for f in $FIRMWARE; do
        cp -L "$(find "$O/fw" -name "$f" -type f | head -n 1)" "$O/share/qemu/$f"
    done
    mkdir -p "$O/share/qemu/keymaps"
    cp -L "$O/fw/usr/share/qemu/keymaps/$KEYS" "$O/share/qemu/keymaps/" || die "QEMU's data has no keymap $KEYS"
    rm -rf "$O/fw"
    echo "$SUITE $FIRMWARE $KEYS" > "$O/share/.suite"
fi
use_meson || die "this QEMU needs meson 1.5 or newer: install it or set VGPU_MESON_SUITE"
use_wheels || die "the Python packages that this QEMU needs cannot be fetched"
# Bump the number when the configure options change, so that old build folders are made anew.
# Changes of the device, of meson.build and of vgpu-devices.mak are noticed by ninja.
configure_qemu "3 $SUITE" || die "configure failed; see $O/configure.log"

[ -e "$O/obj/qemu-system-x86_64" ] || say "compiling with $JOBS jobs (a few minutes the first time)"
# ninja prints one line per step; show about one in ten seconds of them.
(cd "$O/obj" && nice ninja -j"$JOBS" qemu-system-x86_64) 2>&1 | tee "$O/ninja.log" |
    awk -v start="$START" '
        /^ninja: no work/ { next }
        /^\[[0-9]+\/[0-9]+\]/ { now = systime(); if (now - last >= 10) {
            last = now; printf "qemu [%4ds] %s\n", now - start, $1; fflush() } next }
        /error:|warning:/ { print; fflush() }'
[ "${PIPESTATUS[0]}" = 0 ] || { grep -A 12 '^FAILED' "$O/ninja.log" >&2 || tail "$O/ninja.log" >&2
                                die "compilation failed; see $O/ninja.log"; }

mkdir -p "$O/bin"
if ! cmp -s "$O/obj/qemu-system-x86_64" "$O/bin/.unstripped"; then
    cp "$O/obj/qemu-system-x86_64" "$O/bin/.unstripped"
    strip -o "$O/bin/qemu-system-x86_64.new" "$O/bin/.unstripped"
    mv "$O/bin/qemu-system-x86_64.new" "$O/bin/qemu-system-x86_64"
fi
say "ready: $O/bin/qemu-system-x86_64"
