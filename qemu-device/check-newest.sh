#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Builds the newest QEMU that the archive has with the device, and runs the device's tests on it.
#
#   check-newest.sh [O] [SUITE...]    O: default <repository>/build/qemu-newest; SUITE: of Debian, the first whose source
#                                     can be fetched is taken (default: sid trixie-backports forky)
#
# A suite's lists may name a source that the archive does not have; when that is so with all, it says "not run" and
# succeeds. Environment as in build-qemu.sh.

set -eu
. "$(dirname "$0")/build-lib.sh"

O=${1:-$DEVICE_DIR/../build/qemu-newest}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- sid trixie-backports forky
mkdir -p "$O"
O=$(cd "$O" && pwd)
for suite; do
    fetch_qemu "$suite" || continue
    say "QEMU $(cat "$O/src/VERSION") of $suite"
    export VGPU_QEMU_SUITE=$suite
    exec 8>&- # the lock of apt_setup, which the build takes again
    exec make --no-print-directory -C "$DEVICE_DIR" O="$O" check
done
echo "not run: check-newest: the archive has QEMU's source of none of: $*"
echo "qemu-device: 0 passed, 0 failed, 1 skipped"
