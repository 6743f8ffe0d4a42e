#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the systemd units under systemd: units_test.sh O, O: a folder beside what was built.
#
# A Debian root with what was built installed is started, systemd as its first process, and the checks, units_guest.sh, run
# there. VGPU_UNITS says where:
#   namespace   (default) in namespaces of this machine, with a control group below its own. This machine's files, processes,
#               users, network and settings are not seen from there. Needs cgroup v2; without its controllers the options
#               that limit all workers are not run
#   vm          in QEMU, by KVM or emulated (minutes to an hour): with a kernel and control groups of its own
# The root is made once and kept in the cache. Needs root, for vm a QEMU (the build's, VGPU_QEMU, or the system's), and the
# network or the caches. The output is in O/units. What cannot be had is named by a line "not run: NAME: REASON".

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=$(cd "$out/.." && pwd)
suite=bookworm
base=${VGPU_DEBIAN_ROOT:-$CACHE/roots/$suite}
root=$CACHE/roots/$suite-boot
limit=${VGPU_UNITS_LIMIT:-2400} # seconds, against hanging: the CPU may be emulated

not_run()
{
    echo "not run: units: $*"
    echo "units: 0 passed, 0 failed, 1 skipped"
    exit 0
}

if [ -z "${VGPU_UNITS_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] || not_run "root is needed"
    unshare -m --propagation private -p -f --kill-child true || not_run "no mount namespace can be made"
    VGPU_UNITS_INSIDE=1 exec unshare -m --propagation private -p -f --kill-child --mount-proc "$0" "$@"
fi

how=${VGPU_UNITS:-namespace}
qemu=${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}
[ $how = namespace ] || [ -x "$qemu" ] || qemu=$(command -v qemu-system-x86_64) || not_run "there is no QEMU: make qemu-device"
for part in host/backend/vgpu-backend userspace/vgpu/vgpu demo/programs/vector_add-static host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$part" ] || not_run "$part is not built"
done
work=$(mktemp -d /var/tmp/vgpu-units.XXXXXX)
trap 'umount -l "$work/root" 2> /dev/null; rm -rf --one-file-system "$work"' EXIT

why=$(debian_root "$base" $suite "$out/debootstrap.log") || not_run "$why; VGPU_DEBIAN_ROOT names a root that is there"
# With a kernel and systemd as its first process; made beside its name, so that what is there is whole.
packages="linux-image-amd64 systemd-sysv udev dbus kmod libseccomp2 libglib2.0-0 libpixman-1-0 libslirp0 libfdt1 liblz4-1 libzstd1 libmicrohttpd12"
if [ "$(cat "$root/boot/packages" 2> /dev/null)" != "$packages" ]; then
    say "making a root that boots in $root"
    new=$root.new.$$
    debs=$CACHE/roots/debs
    mkdir -p "$debs/partial" && cp -a "$base" "$new" && cp /etc/resolv.conf "$new/etc/" &&
        mount --bind "$debs" "$new/var/cache/apt/archives" && mount -t proc proc "$new/proc" || not_run "$new cannot be made"
    rm -f "$new/etc/apt/apt.conf.d/docker-clean"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive timeout 1800 chroot "$new" sh -c "
        apt-get -qq update && apt-get -qq -y --no-install-recommends install $packages" > "$out/units-apt.log" 2>&1
    rc=$?
    umount "$new/var/cache/apt/archives" "$new/proc"
    [ $rc = 0 ] && cp "$new"/boot/vmlinuz-* "$new/boot/vmlinuz" && cp "$new"/boot/initrd.img-* "$new/boot/initrd" &&
        echo "$packages" > "$new/boot/packages" && rm -rf --one-file-system "$root" && mv -T "$new" "$root" || { rm -rf --one-file-system "$new"; not_run "the archive does not give what is needed, see $out/units-apt.log"; }
fi

say "installing in the root"
mkdir -p "$work"/{up,work,root}
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/up,workdir=$work/work" "$work/root" || not_run "overlayfs cannot be mounted"
parts="backend tools libcuda softgpu"
[ ! -x "$build/qemu/bin/qemu-system-x86_64" ] || parts="$parts qemu"
BUILD=$build PREFIX=/usr DESTDIR=$work/root "$here/install.sh" $parts || { echo "FAIL: install.sh $parts"; exit 1; }
mkdir -p "$work/root/test" "$work/root/etc/vgpu"
install -m 755 "$here"/units_guest.sh "$here"/units_options.sh "$build/demo/programs/vector_add-static" "$work/root/test/"
[ ! -x "$build/tests/perf/tenant" ] || install -m 755 "$build/tests/perf/tenant" "$work/root/test/busy"
chroot "$work/root" ldconfig
# unit OUTPUT END: the checks are a service; the system ends with it.
unit()
{
    cat > "$work/root/etc/systemd/system/vgpu-units.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
Environment=HOME=/root LC_ALL=C.UTF-8
StandardOutput=file:$1
StandardError=file:$1
ExecStart=/test/units_guest.sh
ExecStopPost=$2
UNIT
    mkdir -p "$work/root/etc/systemd/system/default.target.wants"
    ln -s ../vgpu-units.service "$work/root/etc/systemd/system/default.target.wants/"
    rm -f "$work/root/etc/machine-id" && systemd-id128 new > "$work/root/etc/machine-id" 2> /dev/null ||
        tr -d - < /proc/sys/kernel/random/uuid > "$work/root/etc/machine-id"
}

# boot ACCELERATOR CPU KERNEL-OPTION: becomes QEMU.
boot()
{
    exec timeout --kill-after=10 "$limit" "$qemu" -nodefaults -no-user-config -no-reboot -machine "q35,accel=$1" -cpu "$2" -smp 2 -m 3G \
        -kernel "$root/boot/vmlinuz" -initrd "$root/boot/initrd" \
        -append "root=/dev/vda rw console=ttyS0 panic=-1 systemd.default_timeout_start_sec=900 $3" \
        -drive "if=none,id=disk,file=$work/disk.raw,format=raw,cache=unsafe" -device virtio-blk-pci,drive=disk -display none \
        -serial "file:$out/units/console" -serial "file:$out/units/checks" > "$out/units/qemu" 2>&1 < /dev/null
}

in_vm()
{
    unit /dev/ttyS1 "systemctl poweroff --no-block"
    echo "/dev/vda / ext4 defaults 0 1" > "$work/root/etc/fstab"
    truncate -s 4G "$work/disk.raw"
    mke2fs -q -t ext4 -d "$work/root" "$work/disk.raw" || not_run "no file system can be made"
    if [ -w /dev/kvm ]; then
        boot kvm max,arch-capabilities=off "" &
        # KVM may be there and not work, lack what QEMU takes for granted, or crawl: then the processor is emulated.
        for i in $(seq 60); do
            kill -0 $! 2> /dev/null && ! grep -qs 'Linux version' "$out/units/console" || break
            sleep 1
        done
        grep -qs 'Linux version' "$out/units/console" || kill $! 2> /dev/null
        wait $!
        rc=$?
    fi
    grep -qs 'Linux version' "$out/units/console" || { boot tcg max no_timer_check & wait $!; rc=$?; }
}

# systemd as the first process of namespaces. What it would set in the kernel at its start is read-only then.
in_namespace()
{
    local hierarchy group

    hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$hierarchy" ] || not_run "this machine has no cgroup v2; VGPU_UNITS=vm needs none"
    group=$hierarchy/vgpu-units.$$
    # What is the kernel's or a terminal's: neither is its own.
    for name in getty.target console-getty.service systemd-logind.service systemd-sysctl.service systemd-modules-load.service \
        systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-random-seed.service \
        sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount dev-hugepages.mount \
        proc-sys-fs-binfmt_misc.automount systemd-timesyncd.service systemd-remount-fs.service; do
        ln -sf /dev/null "$work/root/etc/systemd/system/$name"
    done
    unit /output/checks "systemctl --force poweroff"
    mkdir -p "$work/root/output" "$work/root/old"
    mount --bind "$out/units" "$work/root/output"
    mkdir "$group" || not_run "no control group can be made in $hierarchy"
    cat > "$work/start" <<'START'
echo $$ > "$GROUP/cgroup.procs" || exit 1
exec unshare -C -p -f --kill-child -m -u -i -n bash -euc '
    cd "$ROOT"
    mount -t proc proc proc && mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
    mount -t sysfs -o ro sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 none dev && mount -t tmpfs -o mode=755 none run && mount -t tmpfs none tmp
    mkdir dev/pts dev/shm && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && mount -t tmpfs none dev/shm
    for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 dev/${node%:*} c 1 ${node#*:}; done
    mknod -m 666 dev/tty c 5 0 && ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd && ln -s /dev/null dev/console
    mount --make-rprivate / && pivot_root . old && umount -l /old && mount --make-rshared /
    exec env -i container=vgpu-units PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=null'
START
    GROUP=$group ROOT=$work/root timeout --kill-after=10 "$limit" bash "$work/start" > "$out/units/console" 2>&1 < /dev/null
    rc=$?
    # What is left of it ends with its first process; its groups are removed from below.
    for i in $(seq 50); do
        find "$group" -depth -type d -exec rmdir {} + 2> /dev/null
        [ -d "$group" ] || break
        sleep 0.1
    done
    [ ! -d "$group" ] || echo "FAIL: $group is left"
}

say "starting systemd ($how)"
mkdir -p "$out/units"
rm -f "$out/units"/*
touch "$out/units/checks"
rc=1
case $how in
namespace) in_namespace ;;
vm) in_vm ;;
*) die "VGPU_UNITS=$how: namespace or vm" ;;
esac
tr -d '\r' < "$out/units/checks" > "$out/units/checks.txt"
sed -i '/^$/d' "$out/units/checks.txt"
cat "$out/units/checks.txt"
if ! grep -q '^units: [0-9]* passed' "$out/units/checks.txt"; then
    echo "FAIL: the machine did not come to its end (status $rc): $(tail -n 5 "$out/units"/* 2>&1)"
    echo "units: 0 passed, 1 failed, 0 skipped"
    exit 1
fi
grep -q '^units: [0-9]* passed, 0 failed' "$out/units/checks.txt"
