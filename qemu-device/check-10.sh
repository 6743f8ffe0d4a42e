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
# and JOBS, VGPU_DEBIAN_MIRROR, VGPU_DEBIAN_SECURITY_MIRROR as in build-qemu.sh.

set -eu
. "$(dirname "$0")/build-lib.sh"

O=${1:-${O:-$DEVICE_DIR/../build/qemu-10}}
SUITE=${VGPU_QEMU10_SUITE:-trixie}
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

need "ninja-build gcc pkg-config python3-venv dpkg-dev libglib2.0-dev libfdt-dev libpixman-1-dev libattr1-dev libslirp-dev" \
    ninja pkg-config gcc dpkg-source || not_run "a package is missing"

fetch_qemu "$SUITE" || not_run "the QEMU source of $SUITE cannot be fetched"
use_meson || not_run "no meson 1.5 or newer can be fetched"
configure_qemu "3 $SUITE" || die "configure failed; see $O/configure.log"

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
