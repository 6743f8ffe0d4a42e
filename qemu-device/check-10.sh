#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compiles the device's objects against QEMU 10.x, without building QEMU.
#
#   check-10.sh [O]        O: default <repository>/build/qemu-10
#
# QEMU 10 needs meson 1.5 or newer; an older one on this machine is passed over for the package of
# VGPU_MESON_SUITE, unpacked under O. What cannot be fetched gives "not run" and success.
#
# Environment: VGPU_QEMU10_SUITE (default trixie), VGPU_MESON_SUITE (default bookworm-backports),
# JOBS, VGPU_DEBIAN_MIRROR, VGPU_DEBIAN_SECURITY_MIRROR.

set -eu
. "$(dirname "$0")/build-lib.sh"

O=${1:-${O:-$DEVICE_DIR/../build/qemu-10}}
SUITE=${VGPU_QEMU10_SUITE:-trixie}
MESON_SUITE=${VGPU_MESON_SUITE:-bookworm-backports}
JOBS=${JOBS:-$(nproc)}

not_run()
{
    echo "not run: check-10: $*"
    echo "qemu-device: 0 passed, 0 failed, 1 skipped"
    exit 0
}

mkdir -p "$O"
O=$(cd "$O" && pwd)
exec 9> "$O/.lock"
flock 9

need "ninja-build gcc libglib2.0-dev libfdt-dev libattr1-dev pkg-config python3-venv dpkg-dev" \
    ninja pkg-config gcc dpkg-source

if [ ! -e "$O/src/configure" ]; then
    say "fetching the package lists of $SUITE"
    apt_setup "$SUITE" "$SUITE-updates" "$SUITE-security" "$MESON_SUITE" ||
        not_run "the package lists of $SUITE and $MESON_SUITE cannot be fetched"
    say "fetching and unpacking the QEMU source"
    unpack_qemu "$O/src" || not_run "the QEMU source of $SUITE cannot be fetched"
    if ! meson --version 2>/dev/null | awk -F. '{ exit !($1 > 1 || $2 >= 5) }'; then
        say "fetching meson"
        unpack_package "meson/$MESON_SUITE" "$O/meson" || {
            rm -rf "$O/src"
            not_run "meson of $MESON_SUITE cannot be fetched"
        }
    fi
fi
if [ -x "$O/meson/usr/bin/meson" ]; then
    export PATH="$O/meson/usr/bin:$PATH"
    export PYTHONPATH="$O/meson/usr/lib/python3/dist-packages"
fi

"$DEVICE_DIR/add-to-qemu.sh" "$O/src"
if [ ! -e "$O/obj/build.ninja" ]; then
    say "configuring QEMU $(cat "$O/src/VERSION")"
    rm -rf "$O/obj"
    mkdir -p "$O/obj"
    (cd "$O/obj" && ../src/configure --prefix=/usr --target-list=x86_64-softmmu \
        --python=/usr/bin/python3 --disable-download --without-default-features \
        --without-default-devices --with-devices-x86_64=vgpu --enable-system --disable-user \
        --enable-tcg --enable-kvm --enable-vhost-user --enable-vhost-kernel --enable-virtfs \
        --enable-attr --enable-fdt=system --disable-docs --disable-tools --disable-debug-info \
        --disable-install-blobs --audio-drv-list=) > "$O/configure.log" 2>&1 ||
        { tail -n 20 "$O/configure.log" >&2; rm -rf "$O/obj"; die "see $O/configure.log"; }
fi

cd "$O/obj"
objects=$(ninja -t targets all | sed -n 's/^\(.*hw_vgpu_[a-z-]*\.c\.o\): .*/\1/p')
[ -n "$objects" ] || die "the device is not part of the build"
passed=0
failed=0
for object in $objects; do
    if nice ninja -j"$JOBS" "$object" > "$O/ninja.log" 2>&1 && ! grep -q 'warning:' "$O/ninja.log"
    then
        say "compiled ${object##*hw_vgpu_}"
        passed=$((passed + 1))
    else
        grep -E -A 4 'warning:|error:' "$O/ninja.log" | head -n 40
        rm -f "$object"
        failed=$((failed + 1))
    fi
done
say "QEMU $(cat "$O/src/VERSION"): objects of the device"
echo "qemu-device: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
