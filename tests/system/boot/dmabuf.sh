#!/bin/sh
# SPDX-License-Identifier: MIT
#
# dmabuf.sh BUILD DRIVER: dma-bufs in the guest, with conform_dmabuf: its tests, then buffers that outlive the device and the
# driver. BUILD holds the test programs, DRIVER is vgpu_drv.ko. vgem is loaded. A line per check; the last line is
# "dmabuf: N passed, M failed, K skipped".
build=$1
driver=$2
program=$build/conformance/driver/conform_dmabuf
tool=$build/system/boot/boot_tool
passed=0
failed=0
skipped=0

result() { # NAME STATUS OUTPUT
    case $2 in
    0)
        passed=$((passed + 1))
        echo "boot.dmabuf_$1 ok"
        ;;
    77)
        skipped=$((skipped + 1))
        echo "not run: boot dmabuf_$1: ${3#not run: }"
        ;;
    *)
        failed=$((failed + 1))
        echo "FAIL: boot.dmabuf_$1: status $2: $3"
        ;;
    esac
}
end() {
    echo "dmabuf: $passed passed, $failed failed, $skipped skipped"
    exit 0
}

for name in $("$program" list); do
    said=$("$program" "$name" 2>&1)
    result "$name" $? "$said"
done

hold() { # starts a program that holds a dma-buf; its pid in $pid
    rm -f hold.log
    "$program" hold >hold.log 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        grep -q holding hold.log && return 0
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    cat hold.log
    kill -9 $pid 2>/dev/null
    return 1
}
release() { # the program's bytes must be there
    kill -USR1 $pid
    wait $pid
    [ $? -eq 0 ] && grep -q '^held$' hold.log || { cat hold.log; return 1; }
}
wait_node() {
    for _ in $(seq 50); do
        [ -c /dev/vgpu0 ] && return 0
        sleep 0.2
    done
    return 1
}
# Removing the device ends its client but not the dma-buf, which keeps the driver in use.
device_gone() {
    device=$(basename /sys/bus/virtio/drivers/vgpu_drv/virtio*)
    hold || return 1
    echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/unbind || return 1
    [ ! -e /dev/vgpu0 ] || { echo "the node is still there"; return 1; }
    "$tool" rmmod >/dev/null 2>&1 && { echo "the driver was removed"; return 1; }
    release || return 1
    echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/bind && wait_node || return 1
    "$tool" rmmod && "$tool" insmod "$driver" && wait_node || return 1
    "$program" export
}
said=$(device_gone 2>&1)
result device_gone $? "$said"
# A program killed with buffers open leaves none behind, so the driver can be removed.
killed() {
    for _ in 1 2 3; do
        hold || return 1
        kill -9 $pid
        wait $pid 2>/dev/null
    done
    for _ in $(seq 100); do
        "$tool" rmmod >/dev/null 2>&1 && break
        sleep 0.1
    done
    [ ! -e /sys/module/vgpu_drv ] || { echo "the driver is in use"; return 1; }
    "$tool" insmod "$driver" && wait_node && "$program" export
}
said=$(killed 2>&1)
result killed $? "$said"
end
