#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Builds a QEMU of version 11 or newer with the device, and runs the device's tests on it.
#
#   check-newest.sh [O] [SUITE...]    O: default <repository>/build/qemu-newest; SUITE: of Debian, tried in this order
#                                     (default: sid trixie-backports forky)
#
# The source is the one of QEMU_SOURCE, a folder (which is copied) or a tar archive; else that of the first SUITE
# whose package is of version 11 or newer and is in the archive, whose lists may name packages that it does not have;
# else PINNED. When there is none of these, it says "not run" with the versions that were found, and succeeds.
# A version before 11 is tested when QEMU_SOURCE names it. Environment beside that as in build-qemu.sh.

set -eu
. "$(dirname "$0")/build-lib.sh"

OLDEST=11
# Ubuntu's copy of a release of QEMU that Debian's archive has no more, without firmware, and its SHA-512.
PINNED=${VGPU_QEMU_PINNED-http://archive.ubuntu.com/ubuntu/pool/main/q/qemu/qemu_11.0.3+ds.orig.tar.xz}
PINNED_SUM=c9a16e4d34b438708d1dd7e98f5dc7b12a7667395f6a50fe3f3d23bf234a7d85d799f49657a5c4a755f172f22f4367bc1d3895d6f32608c421f419b8636da9b5

O=${1:-$DEVICE_DIR/../build/qemu-newest}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- sid trixie-backports forky
mkdir -p "$O"
O=$(cd "$O" && pwd)

# run_tests FROM: on the source in $O/src.
run_tests()
{
    say "QEMU $(cat "$O/src/VERSION") of $1"
    exec 8>&- # the lock of apt_setup, which the build takes again
    make --no-print-directory -C "$DEVICE_DIR" O="$O" check
    say "this was QEMU $(cat "$O/src/VERSION") of $1"
    exit 0
}

# fetch_pinned: PINNED as QEMU_SOURCE, verified, in the cache.
fetch_pinned()
{
    local file=$APT/${PINNED##*/}

    [ -n "$PINNED" ] && mkdir -p "$APT" || return 1
    if ! echo "$PINNED_SUM  $file" | sha512sum --status -c 2> /dev/null; then
        say "fetching $PINNED"
        curl -fsS --retry 2 -o "$file.new" "$PINNED" || return 1
        echo "$PINNED_SUM  $file.new" | sha512sum --status -c || { rm -f "$file.new"; say "$PINNED: not the file that was expected"; return 1; }
        mv "$file.new" "$file"
    fi
    export QEMU_SOURCE=$file
}

if [ -n "${QEMU_SOURCE:-}" ]; then
    QEMU_SOURCE=$(realpath "$QEMU_SOURCE")
    export QEMU_SOURCE
    fetch_qemu given || die "$QEMU_SOURCE is no source of QEMU"
    run_tests "$QEMU_SOURCE"
fi
found=
for suite; do
    fetch_qemu "$suite" || { found="$found, $suite: no source in the archive"; continue; }
    version=$(cat "$O/src/VERSION")
    [ "${version%%.*}" -ge $OLDEST ] || { found="$found, $suite: QEMU $version"; continue; }
    export VGPU_QEMU_SUITE=$suite
    run_tests "Debian's $suite"
done
if fetch_pinned; then
    fetch_qemu given || die "$QEMU_SOURCE is no source of QEMU"
    run_tests "$PINNED"
fi
echo "not run: check-newest: no QEMU $OLDEST or newer$found; QEMU_SOURCE=FOLDER or ARCHIVE names one"
echo "qemu-device: 0 passed, 0 failed, 1 skipped"
