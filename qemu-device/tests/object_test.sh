#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tests of the device as a preloaded object in Debian's unmodified QEMU: object_test.sh O (where build-qemu.sh
# has built). Debian's packages are unpacked below O, not installed; a guest is booted with them.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
O=$(cd "$1" && pwd)
build=$(cd "$O/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-object.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
unset VGPU_QEMU_BINARY VGPU_QEMU_OBJECTS LD_PRELOAD

check()
{
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "FAIL: $1${3:+: $3}"
    fi
}

# refuses NAME PATTERN BINARY
refuses()
{
    local text rc

    text=$(VGPU_QEMU_BINARY=$3 timeout 60 "$O/vgpu-qemu" -version 2>&1)
    rc=$?
    [ $rc = 125 ] && grep -q -- "$2" <<< "$text"
    check "vgpu-qemu: $1" $? "exit status $rc: $text"
}

finish()
{
    echo "qemu-object: $passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}

skip()
{
    skipped=$((skipped + 1))
    echo "not run: $1: $2"
}

. "$here/launcher_test.sh"
text=$("$here/../build-object.sh" "$O" 2>&1)
case $? in
0) check "the object is built" 0 ;;
75) skip "the object" "$(tail -n 1 <<< "$text")"; finish ;;
*) check "the object is built" 1 "$text"; finish ;;
esac

echo "# which QEMU"
stock=$O/stock/usr/bin/qemu-system-x86_64
[[ $("$O/vgpu-qemu" --vgpu-help) = "usage: vgpu-qemu"* ]]
check "vgpu-qemu --vgpu-help" $?
text=$(VGPU_QEMU_BINARY=$stock "$O/vgpu-qemu" --vgpu-which)
[[ $text = "$stock"$'\n'"$O/objects/vgpu-cuda-"*.so ]]
check "vgpu-qemu --vgpu-which: Debian's QEMU has its object" $? "$text"
refuses "no such program" "No such file" "$work/none"
refuses "a folder" "vgpu-qemu: " "$work"
printf '#!/bin/sh\nexec qemu-system-x86_64 with a comment that is longer than a header of an ELF file\n' > "$work/script"
refuses "a script" "a script? then VGPU_QEMU_BINARY" "$work/script"
: > "$work/empty"
refuses "an empty file" "not a program" "$work/empty"
refuses "another QEMU: what to do" "make qemu-object" "$O/bin/qemu-system-x86_64"
VGPU_QEMU_OBJECTS=$work refuses "a folder without objects" "make qemu-object" "$stock"
mkdir "$work/a b"
cp "$O"/objects/vgpu-cuda-*.so "$work/a b/"
VGPU_QEMU_OBJECTS="$work/a b" refuses "objects in a path with a blank" "cannot be preloaded" "$stock"
# Headers that lie: sizes and places beyond the file, in each field.
head -c 700 "$stock" > "$work/cut"
head -c 8192 "$stock" > "$work/short"
refuses "a file that is cut off" "no build id" "$work/cut"
/usr/bin/python3 - "$work/short" "$work" <<'PY'
import struct, sys
good = bytearray(open(sys.argv[1], "rb").read())
def write(name, at, value, form="<Q"):
    bad = bytearray(good)
    struct.pack_into(form, bad, at, value)
    open(f"{sys.argv[2]}/bad-{name}", "wb").write(bad)
write("phoff", 32, 2**64 - 8)
write("phnum", 56, 0xffff, "<H")
phoff, = struct.unpack_from("<Q", good, 32)
for i in range(struct.unpack_from("<H", good, 56)[0]):
    at = phoff + 56 * i
    if struct.unpack_from("<I", good, at)[0] == 4: # PT_NOTE
        write(f"offset{i}", at + 8, 2**64 - 16)
        write(f"size{i}", at + 32, 2**64 - 1)
        note, = struct.unpack_from("<Q", good, at + 8)
        if note + 12 <= len(good):
            write(f"namesz{i}", note, 2**32 - 1, "<I")
            write(f"descsz{i}", note + 4, 2**32 - 1, "<I")
PY
rc=0
for file in "$work"/bad-*; do
    VGPU_QEMU_BINARY=$file timeout 60 "$O/vgpu-qemu" --vgpu-which > "$work/log" 2>&1
    # 0: another note has the id.
    case $? in 0 | 125) ;; *) rc=1; cat "$work/log" ;; esac
done
check "vgpu-qemu: headers that lie" $rc

echo "# Debian's QEMU with it"
if ! text=$(bash "$top/tests/apps/clients/get.sh" "$O/packages" qemu 2>&1); then
    skip "Debian's QEMU" "$(tail -n 1 <<< "$text")"
    finish
fi
host=$O/packages/host
cmp -s "$host/usr/bin/qemu-system-x86_64" "$stock" || { skip "Debian's QEMU" "the archive has another version than the object is for"; finish; }
# What a machine has where the packages are installed.
cat > "$work/qemu" <<END
#!/bin/sh
export VGPU_QEMU_BINARY=$host/usr/bin/qemu-system-x86_64
export LD_LIBRARY_PATH=$host/usr/lib/x86_64-linux-gnu:$host/lib/x86_64-linux-gnu:$host/usr/lib/x86_64-linux-gnu/pulseaudio
exec $O/vgpu-qemu -L $host/usr/share/qemu -L $host/usr/share/seabios "\$@"
END
chmod +x "$work/qemu"
text=$(timeout 120 "$work/qemu" -device help 2>&1)
grep -q '^name "vgpu-cuda", bus PCI' <<< "$text"
check "unmodified QEMU has the device" $? "$(tail -n 3 <<< "$text")"
text=$(timeout 120 "$work/qemu" -device vgpu-cuda,help 2>&1)
grep -q 'answer-timeout' <<< "$text"
check "and its properties" $? "$(tail -n 3 <<< "$text")"
# A program that QEMU starts, here the source of an incoming migration, does not get the object.
timeout 120 "$work/qemu" -nodefaults -display none -machine none -incoming "exec:env > $work/env" > "$work/log" 2>&1
grep -q '^PATH=' "$work/env" && ! grep -q '^LD_PRELOAD=' "$work/env"
check "programs that QEMU starts do not get the object" $? "$(cat "$work/log")"

# Debian 13's, in a root of its own: it needs a newer C library.
other=$(grep -l '(trixie)' "$O"/objects/*.txt 2> /dev/null | head -n 1)
if [ -z "$other" ]; then
    skip "Debian 13's QEMU" "no object was built for it: SUITES=trixie"
elif [ "$(id -u)" != 0 ]; then
    skip "Debian 13's QEMU" "chroot needs root"
elif ! text=$(VGPU_CLIENTS_FETCH=300 bash "$top/tests/apps/clients/get.sh" "$O/packages" qemu13 2>&1); then
    skip "Debian 13's QEMU" "$(tail -n 1 <<< "$text")"
else
    root=$O/packages/qemu13
    [ -e "$root/bin" ] || ln -s usr/bin usr/lib usr/lib64 "$root/"
    mkdir -p "$root/vgpu" && cp "$O/vgpu-qemu" "$O"/objects/vgpu-cuda-*.so "$root/vgpu/"
    text=$(VGPU_QEMU_OBJECTS=/vgpu timeout 120 chroot "$root" /vgpu/vgpu-qemu --vgpu-which 2>&1)
    [ "$text" = "/usr/bin/qemu-system-x86_64"$'\n'"/vgpu/$(basename "$other" .txt).so" ]
    check "vgpu-qemu: Debian 13's QEMU has its object" $? "$text"
    text=$(VGPU_QEMU_OBJECTS=/vgpu timeout 120 chroot "$root" /vgpu/vgpu-qemu -device vgpu-cuda,help 2>&1)
    grep -q 'answer-timeout' <<< "$text"
    check "Debian 13's QEMU has the device" $? "$(tail -n 3 <<< "$text")"
    text=$(VGPU_QEMU_OBJECTS=/vgpu timeout 120 chroot "$root" /vgpu/vgpu-qemu -M q35 -display none -nodefaults -device vgpu-cuda 2>&1)
    grep -q "is not shared with the broker" <<< "$text"
    check "and its checks run there" $? "$(tail -n 3 <<< "$text")"
fi

for part in userspace/vgpu/vgpu host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1 guest/vmlinux kernel/vgpu_drv.ko \
    demo/programs/vector_add-static; do
    [ -e "$build/$part" ] || { skip "a guest" "$part is not built"; finish; }
done
cp "$build/demo/programs/vector_add-static" "$work/program"
text=$(cd "$work" && XDG_CACHE_HOME=$work timeout 550 "$build/userspace/vgpu/vgpu" vm run --gpu soft --accel tcg --qemu "$work/qemu" ./program 2>&1)
[ $? = 0 ] && grep -q PASS <<< "$text"
check "a guest of Debian's unmodified QEMU runs a CUDA program" $? "$text"
finish
