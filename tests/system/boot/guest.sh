#!/bin/sh
# SPDX-License-Identifier: MIT
#
# guest.sh BUILD DRIVER [MODULES]: the checks inside the guest, all in one boot. BUILD holds the test programs, DRIVER is
# vgpu_drv.ko, MODULES the kernel's modules. BOOT_NO_SUITES: skips the conformance suite. Prints a line per check and the
# count at the end; the conformance suite writes to the working directory, which the host shares.
build=$1
driver=$2
passed=0
failed=0
skipped=0

check() { # NAME COMMAND...: passes with status 0
    name=$1
    shift
    said=$("$@" 2>&1)
    if [ $? -eq 0 ]; then
        passed=$((passed + 1))
        echo "boot.$name ok"
    else
        failed=$((failed + 1))
        echo "FAIL: boot.$name: $said"
    fi
}
tool() {
    "$build/system/boot/boot_tool" "$@"
}
# A variable, not a function: the pid of a background job must be the program's own.
victim=$build/system/faults/victim

check device_node test -c /dev/vgpu0
check driver_loaded grep -q '^vgpu_drv ' /proc/modules
check log_line sh -c 'dmesg | grep -q vgpu'
check rmmod_while_open tool held
check rmmod tool rmmod
check no_device_node test ! -e /dev/vgpu0
check insmod tool insmod "$driver"
wait_node() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -c /dev/vgpu0 ] && return 0
        sleep 0.2
    done
    return 1
}
check device_node_again wait_node
check two_clients tool clients
check forked_client tool fork
check all_slots tool many
selftest=${driver%/*}/selftest
if [ -x "$selftest" ]; then
    "$selftest" >selftest.log 2>&1
    rc=$?
    check driver_selftest test $rc -eq 0
    [ $rc -eq 0 ] || tail -n 5 selftest.log
else
    skipped=$((skipped + 1))
    echo "not run: boot driver_selftest: kernel/vgpu_drv has no built selftest program"
fi

check program "$victim" once
two_at_once() {
    "$victim" work 3 >one.log 2>&1 &
    one=$!
    "$victim" work 3 >two.log 2>&1
    two=$?
    wait $one && [ $two -eq 0 ] || { cat one.log two.log; return 1; }
}
check two_processes two_at_once
killed_busy() {
    rm -f busy.log
    "$victim" busy >busy.log 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        grep -q waiting busy.log && break
        sleep 0.1
    done
    grep -q waiting busy.log || { cat busy.log; kill -9 $pid; return 1; }
    kill -9 $pid
    wait $pid 2>/dev/null
    return 0
}
check process_killed killed_busy
check after_kill "$victim" once
out_of_bounds() {
    "$victim" work 4 >steady.log 2>&1 &
    steady=$!
    "$victim" oob || return 1
    "$victim" oob || return 1
    wait $steady || { cat steady.log; return 1; }
}
check out_of_bounds out_of_bounds
storm() {
    pids=
    for i in 1 2 3 4 5 6 7 8 9 10; do
        "$victim" once >"storm.$i.log" 2>&1 &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || { cat storm.*.log; return 1; }
    done
    rm -f storm.*.log
}
check ten_at_once storm
killed_anywhere() {
    for delay in 0 0.02 0.05 0.1 0.15 0.2 0.25 0.3 0.4 0.5; do
        "$victim" work 5 >killed.log 2>&1 &
        pid=$!
        sleep $delay
        kill -9 $pid
        wait $pid 2>/dev/null
    done
    "$victim" once
}
check killed_anywhere killed_anywhere
malformed_rings() {
    "$victim" work 30 >beside.log 2>&1 &
    pid=$!
    "$build/system/faults/fuzz" /dev/vgpu0 --seeds 8 >fuzz.log 2>&1 || { grep FAIL fuzz.log | head -n 10; kill $pid; return 1; }
    wait $pid || { cat beside.log; return 1; }
}
check malformed_rings malformed_rings
# Random ioctls and mappings: the kernel's log stays clean, and the next program works.
any_ioctls() {
    splat='BUG:|WARNING:|Oops|general protection|refcount_t|UBSAN|KASAN|INFO: task'
    before=$(dmesg | grep -cE "$splat")
    for seed in 1 2 3; do
        "$build/system/boot/ioctl_fuzz" $seed 1500 >ioctl_fuzz.log 2>&1 || { echo "seed $seed: status $?"; cat ioctl_fuzz.log; return 1; }
    done
    after=$(dmesg | grep -cE "$splat")
    [ "$before" = "$after" ] || { dmesg | grep -E "$splat" | tail -n 3; return 1; }
    "$victim" once
}
check any_ioctls any_ioctls
check part_of_pages "$victim" partial
if tool user /bin/cat "$victim" >/dev/null 2>&1 && tool user /bin/cat "$build/system/boot/boot_tool" >/dev/null 2>&1; then
    check as_user tool user "$victim" once
    limit=/sys/module/vgpu_drv/parameters/pin_limit_mib
    user_pins() { # MIB COMMAND...: with that much for each user
        before=$(cat $limit)
        echo "$1" >$limit
        shift
        tool user "$@"
        status=$?
        echo "$before" >$limit
        return $status
    }
    check as_user_pin_limit user_pins 1 "$victim" pin 4
    says_limit() { dmesg | grep -q 'user 65534 may not pin .* (pin_limit_mib of vgpu_drv)'; }
    check pin_limit_said says_limit
else
    skipped=$((skipped + 3))
    echo "not run: boot as_user: other users cannot read the build folder"
    echo "not run: boot as_user_pin_limit: other users cannot read the build folder"
    echo "not run: boot pin_limit_said: other users cannot read the build folder"
fi

# Unbinds the device from the driver while a program waits, as on an unplug.
waiting() { # LOG: starts a program that waits; its pid in $pid
    rm -f "$1"
    "$victim" wait >"$1" 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        grep -q waiting "$1" && return 0
        sleep 0.1
    done
    cat "$1"
    kill -9 $pid
    return 1
}
unbound() {
    device=$(basename /sys/bus/virtio/drivers/vgpu_drv/virtio*)
    waiting unbound.log || return 1
    sleep 0.5
    echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/unbind || { kill -9 $pid; return 1; }
    for _ in $(seq 100); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 $pid 2>/dev/null; then
        kill -9 $pid
        echo "the program still waits after 10 s"
        return 1
    fi
    wait $pid || { cat unbound.log; return 1; }
    [ ! -e /dev/vgpu0 ] || { echo "the node is still there"; return 1; }
    "$victim" once >gone.log 2>&1 && { echo "a program runs without the device"; return 1; }
    echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/bind && wait_node && "$victim" once
}
check unbind_while_waiting unbound
in_and_out() {
    for _ in 1 2 3 4 5; do
        tool rmmod || return 1
        tool insmod "$driver" && wait_node && "$victim" once || return 1
    done
}
check driver_in_and_out in_and_out
check rmmod_after_all tool rmmod
check insmod_after_all tool insmod "$driver"
check device_node_at_last wait_node

if [ -z "${BOOT_NO_SUITES:-}" ]; then
CONFORM_LIMIT=${CONFORM_LIMIT:-300}
export CONFORM_LIMIT
suite() { # NAME PROGRAM...
    name=$1
    shift
    "$@" >"$name.guest" 2>"$name.guest.err"
    [ $? -le 1 ] || { tail -n 3 "$name.guest.err"; return 1; }
    tail -n 1 "$name.guest" | grep -q ' 0 failed' || { grep ' FAIL' "$name.guest" | head -n 20; return 1; }
}
check conform suite conform "$build/conformance/driver/conform"
check conform_rt_dynamic suite rt_dynamic "$build/conformance/driver/conform_rt_dynamic"
check conform_rt_static suite rt_static "$build/conformance/driver/conform_rt_static"
check conform_rt_ptds suite rt_ptds "$build/conformance/driver/conform_rt_ptds"
check conform_rt_sem suite rt_sem "$build/conformance/driver/conform_rt_sem"
check conform_rt_sticky suite rt_sticky "$build/conformance/driver/conform_rt_dynamic" --sticky
check conform_rt_busy suite rt_busy_dynamic "$build/conformance/driver/conform_rt_dynamic" --busy
check conform_dlclose suite dlclose "$build/conformance/driver/conform_dl"
fi
# A stream that waits for a fence of the guest's kernel, made by vgem.
if said=$(sh "${0%/*}/drm_module.sh" "$build/system/boot/boot_tool" "${3:-none}" vgem/vgem 2>&1); then
    said=$("$build/conformance/driver/conform_fence" 2>&1)
    case $? in
    77)
        skipped=$((skipped + 1))
        echo "not run: boot fence: ${said#not run: }"
        ;;
    *) check fence test "$said" = "fence ok" ;;
    esac
else
    skipped=$((skipped + 1))
    echo "not run: boot fence: the guest's kernel has no vgem: $said"
fi
# dma-bufs: after the fence check, which has loaded vgem.
sh "${0%/*}/dmabuf.sh" "$build" "$driver" >dmabuf.log 2>&1
grep -v "^dmabuf: " dmabuf.log
if grep -q "^dmabuf: " dmabuf.log; then
    set -- $(sed -n "s/^dmabuf: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped/\1 \2 \3/p" dmabuf.log)
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
else
    check dmabuf false
fi
# The workers' control group, with a backend inside the guest.
if sh "${0%/*}/cgroup.sh" "$build/.." >cgroup.log 2>&1 || grep -q "^cgroup: " cgroup.log; then
    grep -v "^cgroup: " cgroup.log
    set -- $(sed -n "s/^cgroup: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped/\1 \2 \3/p" cgroup.log)
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
else
    check cgroup sh -c 'cat cgroup.log; false'
fi
# No program is left, so the driver must have released all of its pins.
pins_released() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        set -- $(sed -n 's/^nr_foll_pin_[a-z]* //p' /proc/vmstat)
        [ $# -eq 2 ] && [ "$1" -gt 0 ] && [ "$1" = "$2" ] && return 0
        sleep 0.5
    done
    grep nr_foll_pin /proc/vmstat
    return 1
}
check pins_released pins_released
# debug_guest.sh judges KCSAN's data races, ignoring those outside the driver.
oops() {
    ! dmesg | grep -v 'BUG: KCSAN: data-race' | grep -E 'BUG:|Oops|WARNING:|general protection|refcount_t|hung task'
}
check kernel_log_clean oops
sleep 1
echo "settled"
sleep 3 # the host looks at the accounts of the backend
echo "guest: $passed passed, $failed failed, $skipped skipped"
