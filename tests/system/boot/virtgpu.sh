#!/bin/sh
# SPDX-License-Identifier: MIT
#
# virtgpu.sh BUILD DRIVER MODULES: a guest with virtio-gpu beside our device: virtio-gpu's buffers as external memory
# (conform_dmabuf), its syncobjs as external semaphores (conform_syncobj), and their release when a program is killed or a
# device is removed. BUILD holds the test programs, DRIVER is vgpu_drv.ko, MODULES the guest kernel's. A line per check; the
# last line is "virtgpu: N passed, M failed, K skipped".
build=$1
driver=$2
modules=$3
tool=$build/system/boot/boot_tool
dmabuf=$build/conformance/driver/conform_dmabuf
syncobj=$build/conformance/driver/conform_syncobj
passed=0
failed=0
skipped=0

result() { # NAME STATUS OUTPUT
    case $2 in
    0)
        passed=$((passed + 1))
        echo "boot.virtgpu_$1 ok"
        ;;
    77)
        skipped=$((skipped + 1))
        echo "not run: boot virtgpu_$1: ${3#not run: }"
        ;;
    *)
        failed=$((failed + 1))
        echo "FAIL: boot.virtgpu_$1: status $2: $3"
        ;;
    esac
}
check() { # NAME COMMAND...
    name=$1
    shift
    said=$("$@" 2>&1)
    result "$name" $? "$said"
}

uname -r
# vgem first, so that the first render node lacks syncobjs.
check vgem sh "${0%/*}/drm_module.sh" "$tool" "$modules" vgem/vgem
check module sh "${0%/*}/drm_module.sh" "$tool" "$modules" virtio/virtio-gpu
idle=$(cat /sys/module/virtio_gpu/refcnt)

for name in $("$dmabuf" list virtio_gpu); do
    check "${name#virtio_gpu_}" "$dmabuf" "$name"
done
said=$("$syncobj" binary_signal 2>&1)
status=$?
if [ $status -eq 77 ]; then
    result syncobjs $status "$said"
    syncobjs=
else
    result binary_signal $status "$said"
    syncobjs=yes
    for name in $("$syncobj" list | grep -vx binary_signal); do
        check "$name" "$syncobj" "$name"
    done
fi

hold() { # PROGRAM TEST: starts a program that says "holding"; its pid in $pid
    rm -f hold.log
    "$1" "$2" >hold.log 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        grep -q holding hold.log && return 0
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    kill -9 $pid 2>/dev/null
    wait $pid
    status=$?
    cat hold.log
    grep -q '^not run: ' hold.log && return $status
    return 1
}
# The module's use count is as before the tests: no buffer or syncobj is left.
released() {
    for _ in $(seq 100); do
        [ "$(cat /sys/module/virtio_gpu/refcnt)" = "$idle" ] && return 0
        sleep 0.1
    done
    echo "virtio_gpu has $(cat /sys/module/virtio_gpu/refcnt) users, $idle before"
    return 1
}
killed() { # PROGRAM TEST
    for _ in 1 2; do
        hold "$@" || return
        [ "$(cat /sys/module/virtio_gpu/refcnt)" -gt "$idle" ] || { echo "the program has nothing of virtio-gpu"; return 1; }
        kill -9 $pid
        wait $pid 2>/dev/null
    done
    released
}
check released released
check killed_import killed "$dmabuf" virtio_gpu_hold
[ -z "$syncobjs" ] || check killed_wait killed "$syncobj" hold

wait_node() {
    for _ in $(seq 50); do
        [ -c /dev/vgpu0 ] && return 0
        sleep 0.2
    done
    return 1
}
# Our device is removed while it holds a buffer of virtio-gpu: it drops the buffer, which the program keeps.
device_gone() {
    device=$(basename /sys/bus/virtio/drivers/vgpu_drv/virtio*)
    hold "$dmabuf" virtio_gpu_hold || return
    echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/unbind || return 1
    [ ! -e /dev/vgpu0 ] || { echo "the node is still there"; return 1; }
    kill -USR1 $pid
    wait $pid && grep -q '^held$' hold.log || { cat hold.log; return 1; }
    released || return 1
    "$tool" rmmod && "$tool" insmod "$driver" && wait_node && "$dmabuf" virtio_gpu_import
}
check device_gone device_gone
# virtio-gpu is removed: the imported buffer stays usable, the wait for a syncobj fails.
virtio_gpu_gone() { # PROGRAM TEST
    device=$(basename /sys/bus/virtio/drivers/virtio_gpu/virtio*)
    hold "$@" || return
    echo "$device" >/sys/bus/virtio/drivers/virtio_gpu/unbind || return 1
    [ "$1" = "$syncobj" ] || kill -USR1 $pid
    wait $pid && grep -q '^held$' hold.log || { cat hold.log; return 1; }
    released || return 1
    echo "$device" >/sys/bus/virtio/drivers/virtio_gpu/bind && "$dmabuf" virtio_gpu_import
}
check gone_under_import virtio_gpu_gone "$dmabuf" virtio_gpu_hold
[ -z "$syncobjs" ] || check gone_under_wait virtio_gpu_gone "$syncobj" hold
# Ignores drm_mm_takedown: Linux's virtio-gpu frees a buffer only on its device's answer, so a buffer dropped after the
# device's removal stays in its table, with or without CUDA.
log_clean() {
    ! dmesg | grep -E 'BUG:|Oops|WARNING:|general protection|refcount_t|hung task' | grep -v ' drm_mm_takedown'
}
check kernel_log_clean log_clean
echo "virtgpu: $passed passed, $failed failed, $skipped skipped"
