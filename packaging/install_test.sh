#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests of install.sh and of the files that it installs: install_test.sh O. What the other folders have
# built is looked for beside O. Nothing outside O and a temporary folder is written.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=$(cd "$out/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
install=$here/install.sh
export BUILD=$build
unset DESTDIR PREFIX SYSCONFDIR DKMSDIR MAKEFLAGS MAKELEVEL
version=$(sed -n 's/.*VGB_VERSION "\(.*\)"/\1/p' "$top/host/backend/common/vgb_version.h")

# check NAME STATUS [WHY]
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

skip()
{
    skipped=$((skipped + 1))
    echo "not run: $1: $2"
}

# says NAME STATUS PATTERN COMMAND...
says()
{
    local name=$1 want=$2 pattern=$3 text rc
    shift 3
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    rc=$?
    [ $rc = "$want" ] && grep -q -- "$pattern" <<< "$text"
    check "$name" $? "exit status $rc: $text"
}

echo "# wrong use"
says "unknown part" 1 "fly is no part; there are backend" "$install" fly
says "relative PREFIX" 1 "an absolute path is needed" env PREFIX=usr "$install"
says "relative DESTDIR" 1 "an absolute path is needed" env DESTDIR=x "$install"
says "PREFIX with a blank" 1 "does not work" env PREFIX="$work/a b" "$install"
says "PREFIX with a character of sed" 1 "does not work" env PREFIX="$work/a|b" "$install"
says "nothing built: what to do" 1 "run .make. first" env BUILD="$work/none" DESTDIR="$work/d" "$install"
[ ! -e "$work/d" ]
check "nothing built: nothing is installed" $?
says "a folder that cannot be written to" 1 "cannot write to" env DESTDIR=/proc/1 "$install" libcuda

echo "# places"
PREFIX=/usr DESTDIR=$work/deb "$install" backend tools libcuda guest dkms
check "install below DESTDIR" $?
for file in usr/bin/vgpu usr/lib/vgpu/vgpu-backend usr/lib/vgpu/vgpu-worker usr/lib/vgpu/libcuda/libcuda.so.1 \
    usr/lib/vgpu/libcuda/libnvidia-ml.so.1 etc/ld.so.conf.d/zz-vgpu.conf \
    usr/lib/systemd/system/vgpu-backend@.service usr/lib/systemd/system/vgpu-backend@.socket \
    usr/lib/sysusers.d/vgpu-backend.conf usr/lib/tmpfiles.d/vgpu-backend.conf \
    usr/share/qemu/vhost-user/50-vgpu.json "usr/src/vgpu-$version/dkms.conf" "usr/src/vgpu-$version/vgpu_main.c" \
    usr/lib/udev/rules.d/60-vgpu.rules usr/lib/vgpu/guest/driver/Kbuild usr/share/man/man1/vgpu.1 \
    usr/share/man/man1/vgpu-doctor.1 usr/share/man/man8/vgpu-backend.8 usr/share/bash-completion/completions/vgpu \
    usr/share/bash-completion/completions/vgpu-backend \
    usr/share/doc/vgpu-tools/troubleshooting.md usr/lib/vgpu/ptxas/bin/ptxas usr/lib/vgpu/jit/libvgpu-jit.so; do
    [ -s "$work/deb/$file" ]
    check "there is $file" $?
done
[ -z "$(find "$work/deb" -name '*_test.c' -o -name '*fake*')" ]
check "the driver's source comes without its tests" $? "$(find "$work/deb" -name '*_test.c')"
! grep -rlE "@(LIB|PREFIX|SYSCONFDIR|VERSION)@|$work|$top" "$work/deb/etc" "$work/deb/usr/lib/systemd" "$work/deb/usr/share" \
    "$work/deb/usr/src"
check "no template is left unfilled, none names DESTDIR or the build tree" $?
listed=$(PREFIX=/usr DESTDIR=$work/deb "$install" --list backend tools libcuda guest dkms | sort)
there=$(cd "$work/deb" && find . ! -type d | sed 's/^\.//' | sort)
[ "$listed" = "$there" ]
check "--list names what is installed" $? "$(diff <(echo "$listed") <(echo "$there"))"
PREFIX=/usr DESTDIR=$work/deb "$install" backend tools libcuda guest dkms
check "install once more over it" $?
[ -z "$(find "$work/deb" -name '*.new')" ]
check "no temporary file is left" $?
touch "$work/deb/usr/bin/other"
PREFIX=/usr DESTDIR=$work/deb "$install" --uninstall backend tools libcuda guest dkms
check "uninstall" $?
[ "$(find "$work/deb" -mindepth 1 ! -type d)" = "$work/deb/usr/bin/other" ] && [ ! -e "$work/deb/usr/lib" ]
check "uninstall leaves what others put there, and no empty folder" $? "$(find "$work/deb" | head -n 5)"
PREFIX=/usr DESTDIR=$work/deb "$install" --uninstall
check "uninstall once more" $?

echo "# another prefix, moved, with the build tree out of reach"
env -u O -u MAKEFLAGS -u MAKEOVERRIDES make -C "$top" --no-print-directory install PREFIX="$work/prefix" PARTS="backend tools libcuda softgpu dkms" > "$work/log" 2>&1
check "make install PREFIX=" $? "$(cat "$work/log")"
mv "$work/prefix" "$work/moved"
cat > "$work/probe.sh" <<SH
# In a mount namespace without the build tree and the sources.
mount -t tmpfs none "$top" || exit 77
exec "$work/moved/bin/vgpu" run --gpu soft "$work/program"
SH
cp "$build/demo/programs/vector_add-static" "$work/program"
if unshare -rm true 2> /dev/null || unshare -m true 2> /dev/null; then
    own=$([ "$(id -u)" = 0 ] || echo -r)
    text=$(cd / && env -u VGPU_BUILD timeout 120 unshare $own -m bash "$work/probe.sh" 2>&1)
    check "an installed tree runs a CUDA program" $? "$text"
    text=$(cd / && timeout 120 unshare $own -m bash -c "mount -t tmpfs none '$top' && '$work/moved/bin/vgpu' smi --gpu soft -L" 2>&1)
    grep -q "^GPU 0: " <<< "$text"
    check "vgpu smi finds the installed libnvidia-ml" $? "$text"
else
    skip "an installed tree runs a CUDA program" "no mount namespace can be made"
fi
mv "$work/moved" "$work/prefix"
env -u O -u MAKEFLAGS -u MAKEOVERRIDES make -C "$top" --no-print-directory uninstall PREFIX="$work/prefix" > "$work/log" 2>&1
check "make uninstall" $? "$(cat "$work/log")"
[ ! -e "$work/prefix" ]
check "make uninstall leaves nothing" $? "$(find "$work/prefix" 2> /dev/null | head)"

. "$here/words_test.sh"
. "$here/nvidia_smi_test.sh"
. "$here/files_test.sh"
. "$here/system_test.sh"
. "$top/qemu-device/tests/launcher_test.sh"
text=$("$here/own_guest_page_test.py" 2>&1)
check "docs/own-guest.md is what its test takes it for" $? "$(grep -v '^ok' <<< "$text")"

echo "packaging: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
