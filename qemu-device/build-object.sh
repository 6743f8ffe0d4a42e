#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compiles the device as an object that vgpu-qemu preloads into a distribution's unmodified QEMU.
#
#   build-object.sh [O [TO]]   O: default <repository>/build/qemu, where build-qemu.sh has put QEMU's source;
#                              another one gets the source of $VGPU_QEMU_SUITE, configured, not built
#
# O receives
#   stock/                             that QEMU, unpacked, not installed
# TO (default O) receives
#   vgpu-qemu                          the program that picks the object
#   objects/vgpu-cuda-BUILDID.so       the device for that QEMU
#   objects/vgpu-cuda-BUILDID.txt      which QEMU that is: package and version
#
# The object belongs to one build of QEMU: the source must be the one that the binary was built from, which the
# package says. A package that is newer than the source in O is refused.
#
# Exit status 75: the package cannot be fetched, or is not of that source; 1: anything else.
# Environment: as build-qemu.sh.

set -eu
. "$(dirname "$0")/build-lib.sh"

O=${1:-${O:-$DEVICE_DIR/../build/qemu}}
SUITE=${VGPU_QEMU_SUITE:-bookworm}
mkdir -p "$O"
O=$(cd "$O" && pwd)
TO=${2:-$O}
mkdir -p "$TO"
TO=$(cd "$TO" && pwd)
exec 9> "$O/.lock"
flock 9

need "gcc binutils python3" gcc readelf python3 || exit 1

fetch_stock()
{
    [ "$(cat "$O/stock/.suite" 2> /dev/null)" = "$SUITE" ] && return
    # shellcheck disable=SC2046
    apt_setup $(archives "$SUITE") || return 1
    rm -rf "$O/stock"
    unpack_package qemu-system-x86 "$O/stock" || return 1
    dpkg-deb -f "$(newest "$APT/$APT_SUITE/debs/qemu-system-x86_*.deb")" Package Version Source > "$O/stock/.package"
    echo "$SUITE" > "$O/stock/.suite"
}
not_now()
{
    say "$*" >&2
    exit 75
}

# build-qemu.sh has done this in its own folder.
if [ ! -x "$O/bin/qemu-system-x86_64" ] || [ ! -e "$O/obj/compile_commands.json" ]; then
    need "ninja-build pkg-config python3-venv dpkg-dev" ninja pkg-config dpkg-source || exit 1
    fetch_qemu "$SUITE" || not_now "the QEMU source of $SUITE cannot be fetched"
    use_meson || not_now "no meson 1.5 or newer can be fetched"
    configure_qemu "3 $SUITE" || die "configure failed; see $O/configure.log"
fi
fetch_stock || not_now "cannot fetch the package qemu-system-x86 of $SUITE"

binary=$O/stock/usr/bin/qemu-system-x86_64
id=$(readelf -n "$binary" | sed -n 's/.*Build ID: //p')
[ -n "$id" ] || die "$binary has no build id"
# "1:7.2+dfsg-7+deb12u18+b3 (1:7.2+dfsg-7+deb12u18)": a rebuild names the source's version.
package=$(sed -n 's/^Version: //p' "$O/stock/.package")
source=$(sed -n 's/^Source: .*(\(.*\))/\1/p' "$O/stock/.package")
have=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$O/src/debian/changelog")
[ "${source:-$package}" = "$have" ] ||
    not_now "the package was built from ${source:-$package}, the source is $have: remove $O/.suite and make qemu-device"

# QEMU's own build of them first, which makes the headers that it generates.
(cd "$O/obj" && ninja -t targets all | sed -n 's/^\(.*hw_vgpu[a-z_-]*\.c\.o\): .*/\1/p' |
    xargs -r nice ninja -j"${JOBS:-$(nproc)}") > "$O/ninja.log" 2>&1 || die "compilation failed; see $O/ninja.log"
# Its commands, as code for a shared object.
mkdir -p "$TO/objects/$id"
python3 - "$O/obj" "$TO/objects/$id" <<'PY'
import json, os, shlex, subprocess, sys
build, out = sys.argv[1:]
made = []
for entry in json.load(open(build + "/compile_commands.json")):
    if "hw_vgpu" not in entry.get("output", ""):
        continue
    to = f"{out}/{os.path.basename(entry['output'])}"
    command = ["-fPIC" if a == "-fPIE" else a for a in shlex.split(entry["command"])]
    for i, a in enumerate(command):
        if a in ("-o", "-MQ", "-MF"):
            command[i + 1] = to + (".d" if a == "-MF" else "")
    sources = [to + ".d"]
    old = os.path.getmtime(to) if os.path.exists(to) else 0
    if old:
        text = open(to + ".d").read().replace("\\\n", " ").split(":", 1)[1]
        sources = [os.path.join(entry["directory"], f) for f in text.split()]
    if not old or any(os.path.getmtime(f) > old for f in sources if os.path.exists(f)):
        subprocess.check_call(command, cwd=entry["directory"])
    made.append(to)
if len(made) < 5: # four sources and the trace events
    sys.exit("the device is not part of the build")
PY
gcc -std=gnu11 -O2 -Wall -Wextra -fPIC -c -o "$TO/objects/$id/object.o" "$DEVICE_DIR/object.c"
gcc -shared -Wl,-z,relro,-z,now -o "$TO/objects/.new.so" "$TO/objects/$id"/*.o
# What the object takes from QEMU must be there, or QEMU would not start at all.
missing=$(comm -23 <(nm -D --undefined-only "$TO/objects/.new.so" | awk '$1 == "U" && $2 !~ /@/ { print $2 }' | sort) \
                   <(nm -D --defined-only "$binary" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort) |
          grep -vE '^(g_|_ITM|__)' || true)
[ -z "$missing" ] || die "this QEMU does not export: $(echo $missing)"
strip --strip-unneeded "$TO/objects/.new.so"
mv "$TO/objects/.new.so" "$TO/objects/vgpu-cuda-$id.so"
echo "qemu-system-x86 $package ($SUITE)" > "$TO/objects/vgpu-cuda-$id.txt"
if [ "$DEVICE_DIR/vgpu-qemu.c" -nt "$TO/vgpu-qemu" ]; then
    gcc -std=gnu11 -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes -D_FORTIFY_SOURCE=2 -fstack-protector-strong \
        -Wl,-z,relro,-z,now -o "$TO/vgpu-qemu" "$DEVICE_DIR/vgpu-qemu.c"
fi
say "ready: $TO/objects/vgpu-cuda-$id.so for qemu-system-x86 $package"
