# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Part of object_test.sh, and of packaging/install_test.sh: what vgpu-qemu gives to the QEMU that it runs and which object it
# takes, installed and in a build tree, with a stand-in for QEMU and for the objects. Needs $top, $work, check().
# Sourced, not run.

echo "# vgpu-qemu with stand-ins"
launcher=$work/launcher
mkdir -p "$launcher"/{installed/bin,installed/lib/vgpu/qemu/bin,tree/objects,given,empty}
cat > "$launcher/qemu.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    const char *preload = getenv("LD_PRELOAD");

    for (int i = 1; i < argc; i++)
        printf("[%s]", argv[i]);
    printf(" %s\n", preload ? preload : "nothing");
    return 7;
}
END
launcher_id=00112233445566778899aabbccddeeff01234567
launcher_made()
{
    ${CC:-cc} -O2 -Wl,--build-id=0x$launcher_id -o "$launcher/qemu" "$launcher/qemu.c" &&
        ${CC:-cc} -O2 -Wl,--build-id=0x${launcher_id%7}8 -o "$launcher/other" "$launcher/qemu.c" &&
        echo 'int vgpu_launcher_object;' | ${CC:-cc} -shared -fPIC -x c -o "$launcher/object.so" - &&
        ${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror -o "$launcher/vgpu-qemu" \
            "$top/qemu-device/vgpu-qemu.c"
}
text=$(launcher_made 2>&1)
check "vgpu-qemu is compiled without a warning" $? "$text"
cp "$launcher/object.so" "$launcher/user.so"
for place in installed/lib/vgpu/qemu tree/objects given; do
    cp "$launcher/object.so" "$launcher/$place/vgpu-cuda-$launcher_id.so"
done
cp "$launcher/vgpu-qemu" "$launcher/installed/bin/"
cp "$launcher/vgpu-qemu" "$launcher/tree/"

# launches NAME STATUS TEXT [VARIABLE=VALUE...] COMMAND...: ends with that status and prints exactly that
launches()
{
    local name=$1 want=$2 line=$3 rc

    shift 3
    text=$(env -u LD_PRELOAD -u VGPU_QEMU_OBJECTS VGPU_QEMU_BINARY="$launcher/qemu" "$@" 2>&1)
    rc=$?
    [ $rc = "$want" ] && [ "$text" = "$line" ]
    check "vgpu-qemu: $name" $? "exit status $rc: $text"
}
installed=$launcher/installed/lib/vgpu/qemu/vgpu-cuda-$launcher_id.so
launches "installed: its object, arguments and exit status" 7 "[-m][64][][a b] $installed" "$launcher/installed/bin/vgpu-qemu" -m 64 "" "a b"
launches "in a build tree" 7 " $launcher/tree/objects/vgpu-cuda-$launcher_id.so" "$launcher/tree/vgpu-qemu"
launches "VGPU_QEMU_OBJECTS comes first" 7 " $launcher/given/vgpu-cuda-$launcher_id.so" VGPU_QEMU_OBJECTS="$launcher/given" "$launcher/tree/vgpu-qemu"
launches "an empty VGPU_QEMU_OBJECTS is none" 7 " $installed" VGPU_QEMU_OBJECTS= "$launcher/installed/bin/vgpu-qemu"
launches "what the user preloads stays, behind the object" 7 " $installed:$launcher/user.so" LD_PRELOAD="$launcher/user.so" "$launcher/installed/bin/vgpu-qemu"
launches "an empty LD_PRELOAD is none" 7 " $installed" LD_PRELOAD= "$launcher/installed/bin/vgpu-qemu"
launches "--vgpu-which is its own as the first word only" 7 "[-x][--vgpu-which] $installed" "$launcher/installed/bin/vgpu-qemu" -x --vgpu-which
launches "--vgpu-which" 0 "$launcher/qemu"$'\n'"$installed" "$launcher/installed/bin/vgpu-qemu" --vgpu-which
ln -s ../installed/bin/vgpu-qemu "$launcher/empty/link"
launches "called by a symbolic link" 7 " $installed" "$launcher/empty/link"
remedy="vgpu-qemu: there is no device for this QEMU ($launcher/other, build id ${launcher_id%7}8): install a version of qemu-system-x86 that $launcher/installed/lib/vgpu/qemu/*.txt name, or a newer package vgpu-qemu"
launches "installed: another build, and its package" 125 "$remedy" VGPU_QEMU_BINARY="$launcher/other" "$launcher/installed/bin/vgpu-qemu"
cp "$launcher/qemu" "$launcher/installed/lib/vgpu/qemu/bin/qemu-system-x86_64"
launches "installed: and the QEMU that has the device" 125 "$remedy, or run the QEMU that has the device: $launcher/installed/lib/vgpu/qemu/bin/qemu-system-x86_64" \
    VGPU_QEMU_BINARY="$launcher/other" "$launcher/installed/bin/vgpu-qemu"
text=$(VGPU_QEMU_BINARY=$launcher/other "$launcher/tree/vgpu-qemu" 2>&1)
[ $? = 125 ] && grep -q 'make qemu-object' <<< "$text"
check "vgpu-qemu: another build, in a tree" $? "$text"
