#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Makes the Debian packages and installs, upgrades, removes and purges them in a Debian root.
#
#   packages_test.sh O      O: a folder beside what was built
#
# The root is made by debootstrap once and kept in the cache; VGPU_DEBIAN_ROOT names one that is there. It is not
# changed: each run has an overlay over it, in a mount namespace that ends with the run. Needs root.
# What cannot be had is named by a line "not run: NAME: REASON".

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=$(cd "$out/.." && pwd)
suite=bookworm
root=${VGPU_DEBIAN_ROOT:-$CACHE/roots/$suite}

not_run()
{
    echo "not run: packages: $*"
    echo "packages: 0 passed, 0 failed, 1 skipped"
    exit 0
}

if [ -z "${VGPU_PACKAGES_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] || not_run "root is needed"
    # Private mounts, and processes that end with the first one.
    unshare -m --propagation private -p -f --kill-child true || not_run "no mount namespace can be made"
    VGPU_PACKAGES_INSIDE=1 exec unshare -m --propagation private -p -f --kill-child "$0" "$@"
fi

work=$(mktemp -d /var/tmp/vgpu-packages.XXXXXX)
trap 'umount -R -l "$work" 2> /dev/null; rm -rf "$work"' EXIT
mount -t tmpfs -o size=6G none "$work" || not_run "no tmpfs can be mounted"
passed=0 failed=0 skipped=0
# The overlays' own files are memory; what is downloaded for them is kept.
debs=$CACHE/roots/debs

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

why=$(debian_root "$root" $suite "$out/debootstrap.log") || not_run "$why; VGPU_DEBIAN_ROOT names a root that is there"

# overlay NAME LOWER...: a root of its own over others, with /proc and /dev.
overlay()
{
    local at=$work/$1

    mkdir -p "$at"/{up,work,root}
    mount -t overlay overlay -o "lowerdir=$2,upperdir=$at/up,workdir=$at/work" "$at/root" || not_run "overlayfs cannot be mounted"
    mount -t proc proc "$at/root/proc"
    mount --rbind /dev "$at/root/dev"
}

# within NAME COMMAND...: in that root, without the network's and the calling shell's settings.
within()
{
    local at=$work/$1

    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        SYSTEMD_OFFLINE=1 timeout 1200 chroot "$at/root" "$@"
}

# The tools that make and check packages, and what the packages depend on: from the archive, once a run.
overlay tools "$root"
cp /etc/resolv.conf "$work/tools/root/etc/resolv.conf" 2> /dev/null
mkdir -p "$debs/partial" "$work/tools/root/var/cache/apt/archives"
mount --bind "$debs" "$work/tools/root/var/cache/apt/archives"
say "installing the tools in the root"
rm -f "$work/tools/root/etc/apt/apt.conf.d/docker-clean"
within tools bash -c 'apt-get -qq update && apt-get -qq -y --no-install-recommends install debhelper dh-dkms lintian dkms \
    linux-headers-amd64 systemd udev libseccomp2 libglib2.0-0 libpixman-1-0 libslirp0 libfdt1 liblz4-1 libzstd1 git' > "$out/apt.log" 2>&1 ||
    not_run "the archive does not give what is needed, see $out/apt.log"
umount "$work/tools/root/var/cache/apt/archives"

say "making the packages"
for version in first second; do
    overlay $version "$work/tools/up:$root"
    mkdir -p "$work/$version/root/src" "$work/$version/root/build"
    mount --bind "$TOP" "$work/$version/root/src"
    # The packages are made beside what was built, which is only read.
    mount -t overlay overlay -o "lowerdir=$build,upperdir=$(mkdir -p "$work/$version/b" && echo "$work/$version/b"),workdir=$(
        mkdir -p "$work/$version/bw" && echo "$work/$version/bw")" "$work/$version/root/build"
    within $version git config --global --add safe.directory /src
    within $version env $([ $version = first ] || echo VGPU_DEB_VERSION=0.1.1) /src/packaging/deb.sh /build > "$out/deb-$version.log" 2>&1
    check "make deb ($version version)" $? "$(tail -n 5 "$out/deb-$version.log")"
    mkdir -p "$out/$version"
    rm -f "$out/$version"/*
    cp "$work/$version/b/deb"/* "$out/$version/"
done
names="libcuda1-vgpu vgpu-backend vgpu-dkms vgpu-qemu vgpu-softgpu vgpu-tools vgpu-vm"
[ "$(cd "$out/first" && ls *.deb | sed 's/_.*//' | sort | tr '\n' ' ')" = "$names " ]
check "seven packages" $? "$(ls "$out/first")"

say "lintian"
text=$(within first bash -c 'cd /build/deb && lintian --allow-root --fail-on error,warning *.changes' 2>&1)
check "lintian: no error, no warning" $? "$text"

say "installing"
overlay use "$work/tools/up:$root"
# What is there, without what dpkg, caches and logs keep about every package.
listing()
{
    (cd "$work/use/root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./run -o -path ./var/lib/dpkg -o -path ./var/cache \
        -o -path ./var/log -o -path ./var/lib/systemd -o -path ./tmp -o -path ./test -o -path ./etc/ld.so.cache \
        -o -path ./var/lib/dkms -o -path '*/modules.*' \) -prune -o -print | sort)
}
# depmod's and DKMS's own files are there before, too, and the user, who stays by Debian's policy.
within use bash -c 'k=$(ls /lib/modules | head -n 1); depmod $k 2> /dev/null; getent group kvm > /dev/null || groupadd -r kvm
    groupadd -rf render; useradd -r -U -s /usr/sbin/nologin vgpu'
listing > "$work/before"
mkdir -p "$work/use/root/test"
cp "$build/demo/programs/vector_add-static" "$work/use/root/test/program"
cp "$out"/first/*.deb "$work/use/root/test/"
text=$(within use bash -c 'dpkg -i /test/*.deb' 2>&1)
check "dpkg -i" $? "$(tail -n 5 <<< "$text")"
# As libtorch-cuda-2.6, nvidia-cuda-dev, libnvidia-ml-dev and gpu-burn of Debian 13 depend on the driver. A release that is
# too new must not be promised: then apt takes NVIDIA's own, which it may.
needs() # NAME DEPENDS: installs a package with them, beside ours
{
    local folder=$work/use/root/test/needs

    rm -rf "$folder"
    mkdir -p "$folder/DEBIAN"
    printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: none <none@localhost>\nDescription: depends\nDepends: %s\n' "$1" "$2" \
        > "$folder/DEBIAN/control"
    within use bash -c "dpkg-deb -b /test/needs /test/$1.deb && dpkg -i /test/$1.deb" 2>&1
}
text=$(needs needs-driver 'libcuda1 (>= 550) | nothing-else (>= 550), nothing-else | libcuda.so.1 (>= 525), libcuda-12.4-1, libcuda-11.8-1, libcuda1-any, libcuda1,
 libnvidia-ml1 (>= 550), libnvidia-ml.so.1 (>= 470)')
check "what depends on NVIDIA's driver of some release installs beside libcuda1-vgpu" $? "$text"
within use dpkg -r needs-driver > /dev/null 2>&1
text=$(needs needs-newer 'libcuda1 (>= 600)')
[ $? != 0 ] && grep -q 'libcuda1 (>= 600)' <<< "$text"
check "what depends on a newer release does not" $? "$text"
within use dpkg -r needs-newer > /dev/null 2>&1
within use rm -rf /test/needs /test/needs-driver.deb /test/needs-newer.deb
text=$(within use dkms status)
grep -q '^vgpu/0.1.0.*: installed' <<< "$text"
check "DKMS has built the module for the root's kernel" $? "$text"
text=$(within use bash -c 'modinfo -F alias /lib/modules/*/updates/dkms/vgpu_drv.ko*')
grep -q '^virtio:d0000003Fv' <<< "$text"
check "the module has the device's alias" $? "$text"
text=$(within use bash -c 'id vgpu; ldconfig -p | grep -F "libcuda.so.1 "; /usr/lib/vgpu/vgpu-backend --print-capabilities')
! grep -qE 'render|\(kvm\)' <<< "$text" && grep -q '^uid=.*(vgpu)' <<< "$text"
check "the user vgpu is in no group of devices" $? "$text"
grep -q '=> /usr/lib/vgpu/libcuda/libcuda.so.1' <<< "$text"
check "the loader finds libcuda.so.1" $? "$text"
text=$(within use bash -c "systemd-tmpfiles --create vgpu-backend.conf; stat -c '%a %U %G %s' /run/vgpu-arbiter/host" 2>&1)
[ "$text" = "660 root vgpu_arbiter 0" ]
check "the arbiter's file is root's, and its group's to write" $? "$text"
text=$(within use vgpu run --gpu soft /test/program 2>&1)
check "vgpu run runs a CUDA program" $? "$text"
# Whether KVM works is kept in the cache of the user, whose it stays.
text=$(within use env XDG_CACHE_HOME=/test/cache vgpu vm run --gpu soft --timeout 300 /test/program 2>&1)
check "vgpu vm run boots a guest and runs a CUDA program in it" $? "$text"
text=$(within use bash -c 'for page in /usr/share/man/man?/vgpu*; do zcat "$page" | head -n 2 | grep -q "^.TH" || echo "$page"; done; ls /usr/share/doc/vgpu-tools/troubleshooting.md' 2>&1)
[ "$text" = /usr/share/doc/vgpu-tools/troubleshooting.md ]
check "manual pages and pages are where vgpu says" $? "$text"
text=$(within use bash -c 'systemd-analyze verify --man=no /usr/lib/systemd/system/vgpu-backend@.socket 2>&1 | grep vgpu')
[ -z "$text" ]
check "systemd-analyze verify" $? "$text"

text=$(within use vgpu-qemu --vgpu-which 2>&1)
[ $? = 125 ] && grep -q 'qemu-system-x86_64: No such file' <<< "$text"
check "vgpu-qemu without Debian's QEMU says so" $? "$text"
[ -n "$(find "$work/use/root/usr/lib/vgpu/qemu" -name 'vgpu-cuda-*.so')" ]
check "vgpu-qemu has the device for builds of Debian's QEMU" $?
text=$(within use /usr/lib/vgpu/qemu/bin/qemu-system-x86_64 -device help 2>&1)
grep -q '^name "vgpu-cuda", bus PCI' <<< "$text"
check "the QEMU with the device runs" $? "$text"

say "a guest's bundle"
overlay bundle "$work/tools/up:$root"
k=$(ls "$work/bundle/root/lib/modules" | head -n 1)
text=$("$build/userspace/vgpu/vgpu" guest-bundle --out "$work/bundle/root/opt/b" 2>&1)
check "vgpu guest-bundle --out DIR" $? "$text"
"$work/bundle/root/opt/b/bin/vgpu" --version | grep -q '^vgpu '
check "the bundle has the vgpu command" $?
bundle_listing()
{
    (cd "$work/bundle/root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./run -o -path ./var -o -path ./etc/ld.so.cache \
        -o -path ./tmp -o -path '*/modules.*' \) -prune -o -print | sort)
}
bundle_listing > "$work/bundle.before"
# With DKMS, then without it.
for how in dkms headers; do
    [ $how = dkms ] || mv "$work/bundle/root/usr/sbin/dkms" "$work/bundle/dkms"
    text=$(within bundle sh /opt/b/install.sh --kernel "$k" 2>&1)
    check "install.sh ($how)" $? "$(tail -n 5 <<< "$text")"
    text=$(within bundle bash -c "modinfo -k $k -F alias vgpu_drv; ldconfig -p | grep -F libcuda.so.1; /usr/local/bin/vgpu --version" 2>&1)
    grep -q '^virtio:d0000003F' <<< "$text" && grep -q '/usr/local/lib/vgpu/libcuda/libcuda.so.1' <<< "$text" && grep -q '^vgpu ' <<< "$text"
    check "install.sh ($how): module, libraries and command are found" $? "$text"
    within bundle sh /opt/b/install.sh --uninstall --kernel "$k" > "$work/log" 2>&1
    check "install.sh --uninstall ($how)" $? "$(tail -n 5 "$work/log")"
    [ $how = dkms ] || mv "$work/bundle/dkms" "$work/bundle/root/usr/sbin/dkms"
    bundle_listing > "$work/bundle.after"
    text=$(diff "$work/bundle.before" "$work/bundle.after" | grep '^[<>]' | grep -vE '^> \./(etc/(udev|modprobe\.d|modules-load\.d|security)|lib/modules/[^/]*/updates|usr/lib/modules/[^/]*/updates|usr/local/lib/vgpu)(/[a-z.]*)?$')
    [ -z "$text" ]
    check "install.sh --uninstall ($how): no file is left" $? "$text"
done
text=$(within bundle sh /opt/b/install.sh --kernel none 2>&1)
[ $? = 1 ] && grep -q 'headers of the kernel none are not there.*apt install' <<< "$text"
check "install.sh without headers says what to install" $? "$text"

say "upgrading"
cat > "$work/use/root/test/upgrade" <<'SH'
/usr/lib/vgpu/vgpu-backend --listen /test/sock --gpu soft --log /test/log --ready-fd 7 7> /test/ready &
backend=$!
for _ in $(seq 300); do [ -s /test/ready ] && break; sleep 0.1; done
dpkg -i /test/*.deb > /test/upgrade.log 2>&1 || { tail -n 5 /test/upgrade.log; exit 1; }
# The old backend serves on, with new workers of either version.
VGPU_SOCKET=/test/sock /test/program || { echo "the program failed"; cat /test/log; exit 1; }
kill -0 $backend || { echo "the backend has ended"; exit 1; }
kill $backend; wait $backend
SH
rm "$work/use/root/test"/*.deb
cp "$out"/second/*.deb "$work/use/root/test/"
text=$(within use bash /test/upgrade 2>&1)
check "an upgrade leaves a backend that runs alone, and it serves the next program" $? "$text"
text=$(within use dkms status)
grep -q '^vgpu/0.1.1.*: installed' <<< "$text" && ! grep -q '^vgpu/0.1.0' <<< "$text"
check "DKMS has the new module, and the old one no more" $? "$text"

# NVIDIA's package by name only.
mkdir -p "$work/fake/DEBIAN"
printf 'Package: libcuda1\nVersion: 535.1\nArchitecture: amd64\nMaintainer: none <none@example.org>\nDescription: stands in\n' \
    > "$work/fake/DEBIAN/control"
dpkg-deb -b "$work/fake" "$work/use/root/test/libcuda1.deb" > /dev/null
text=$(within use dpkg -i /test/libcuda1.deb 2>&1)
[ $? != 0 ] && grep -q 'libcuda1-vgpu conflicts with libcuda1' <<< "$text"
check "NVIDIA's package is refused beside ours, by name" $? "$text"

. "$here/packages_smi.sh"

say "removing"
mkdir -p "$work/use/root/etc/vgpu"
echo GPU=soft > "$work/use/root/etc/vgpu/vm1.conf"
text=$(within use bash -c "dpkg -r $names" 2>&1)
check "dpkg -r" $? "$(tail -n 5 <<< "$text")"
[ ! -e "$work/use/root/usr/lib/vgpu" ] && [ -z "$(within use dkms status)" ] &&
    [ -z "$(find "$work/use/root/lib/modules/" -name 'vgpu_drv*')" ] && [ -e "$work/use/root/etc/vgpu/vm1.conf" ]
check "removed: no program, no module; configuration stays" $?
text=$(within use bash -c "dpkg -P $names" 2>&1)
check "dpkg -P" $? "$(tail -n 5 <<< "$text")"
listing > "$work/after"
text=$(diff "$work/before" "$work/after" | grep '^[<>]')
[ -z "$text" ]
check "purged: nothing is left" $? "$text"
[ -z "$(within use dpkg -l 2> /dev/null | grep vgpu)" ]
check "purged: dpkg knows no more of it" $?

echo "packages: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
