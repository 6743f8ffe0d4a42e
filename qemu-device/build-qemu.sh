#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Builds a small qemu-system-x86_64 with the vgpu-cuda device from Debian's QEMU source.
#
#   build-qemu.sh [O]
#
# O (default: <repository>/build/qemu) receives
#   bin/qemu-system-x86_64     finds its firmware by itself, also after O is moved
#   share/qemu/*.bin           firmware, from Debian's packages
#   src/, obj/, apt/           unpacked source, objects, downloads
#
# Environment: VGPU_QEMU_SUITE (default bookworm: QEMU 7.2), JOBS (default: number of processors),
# VGPU_DEBIAN_MIRROR, VGPU_DEBIAN_SECURITY_MIRROR (default: the archive this machine uses).
# A second run only asks ninja whether the device changed. Nothing outside O is written.

set -eu
. "$(dirname "$0")/build-lib.sh"

O=${1:-${O:-$DEVICE_DIR/../build/qemu}}
SUITE=${VGPU_QEMU_SUITE:-bookworm}
JOBS=${JOBS:-$(nproc)}
PACKAGES="meson ninja-build gcc libglib2.0-dev libpixman-1-dev libfdt-dev libattr1-dev libcap-ng-dev pkg-config python3-venv dpkg-dev"

mkdir -p "$O"
O=$(cd "$O" && pwd)
exec 9> "$O/.lock"
flock -n 9 || { say "waiting for another build in $O"; flock 9; }

# Bump the number when the configure options change, so that old build folders are made anew.
# Changes of the device, of meson.build and of vgpu-devices.mak are noticed by ninja.
STAMP="1 $SUITE"
need "$PACKAGES" ninja meson pkg-config gcc dpkg-source flock

if [ ! -e "$O/src/configure" ] || [ "$(cat "$O/.suite" 2>/dev/null)" != "$SUITE" ]; then
    say "fetching the package lists of $SUITE"
    apt_setup "$SUITE" "$SUITE-updates" "$SUITE-security" || die "cannot fetch the package lists"
    say "fetching and unpacking the QEMU source"
    rm -rf "$O/obj" "$O/.stamp"
    unpack_qemu "$O/src" || die "cannot fetch the QEMU source; see $O/unpack.log"
    say "fetching firmware"
    rm -rf "$O/fw" "$O/share"
    unpack_package seabios "$O/fw" || die "cannot fetch seabios"
    unpack_package qemu-system-data "$O/fw" || die "cannot fetch qemu-system-data"
    mkdir -p "$O/share/qemu"
    for f in bios-256k.bin linuxboot_dma.bin pvh.bin kvmvapic.bin; do
        cp -L "$(find "$O/fw" -name "$f" \( -type f -o -xtype f \) | head -n 1)" "$O/share/qemu/$f"
    done
    rm -rf "$O/fw"
    echo "$SUITE" > "$O/.suite"
fi

"$DEVICE_DIR/add-to-qemu.sh" "$O/src"
if [ "$(cat "$O/.stamp" 2>/dev/null)" != "$STAMP" ]; then
    say "configuring QEMU $(cat "$O/src/VERSION")"
    rm -rf "$O/obj"
    mkdir -p "$O/obj"
    case $(cat "$O/src/VERSION") in
    7.*) EXTRA="--enable-cap-ng --enable-coroutine-pool" ;;
    *) EXTRA="--python=/usr/bin/python3 --disable-download" ;;
    esac
    (cd "$O/obj" && ../src/configure --prefix=/usr --target-list=x86_64-softmmu \
        --without-default-features --without-default-devices \
        --with-devices-x86_64=vgpu --enable-system --disable-user --enable-tcg --enable-kvm \
        --enable-vhost-user --enable-vhost-kernel --enable-virtfs --enable-attr \
        --enable-fdt=system --enable-malloc-trim --enable-membarrier --disable-docs \
        --disable-tools --disable-debug-info --disable-install-blobs --audio-drv-list= \
        --enable-trace-backends=log $EXTRA) > "$O/configure.log" 2>&1 ||
        { tail -n 20 "$O/configure.log" >&2; die "configure failed; see $O/configure.log"; }
    echo "$STAMP" > "$O/.stamp"
    say "compiling with $JOBS jobs (two to five minutes the first time)"
fi

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
