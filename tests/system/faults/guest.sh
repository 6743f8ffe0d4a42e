#!/bin/sh
# SPDX-License-Identifier: MIT
#
# guest.sh BUILD BOOT_TOOL DRIVER CYCLES: the rows of the table that need a guest's driver, all in one boot.
# Prints "row NN: ok, N cycles" or "row NN: FAIL why" for each, then the kernel's log.
build=$1
tool=$2
driver=$3
factor=$4
victim=$build/victim
n() { # COUNT: times the factor
    awk -v n="$1" -v f="$factor" 'BEGIN { n = int(n * f); print n < 1 ? 1 : n }'
}
ok() {
    echo "row $1: ok, $2 cycles"
}
fail() {
    row=$1
    shift
    echo "row $row: FAIL $*"
}

# A victim works until the pipe's other end is closed.
# The pipe lies outside the shared folder, which supports none.
fifo=/var/tmp/victim.$$
mkdir -p /var/tmp
mkfifo $fifo || exit 1
begin_victim() {
    "$victim" until <$fifo >victim.log 2>&1 &
    beside=$!
    exec 9>$fifo
    for _ in $(seq 600); do
        grep -q working victim.log && return 0
        sleep 0.1
    done
    return 1
}
end_victim() { # status 0 when it was right
    exec 9>&-
    wait $beside && grep -q 'every bit right' victim.log
}
wait_node() {
    for _ in $(seq 100); do
        [ -c /dev/vgpu0 ] && return 0
        sleep 0.1
    done
    return 1
}
waiting() { # starts a program that waits; its pid in $pid
    rm -f waiting.log
    "$victim" wait >waiting.log 2>&1 9>&- &
    pid=$!
    for _ in $(seq 300); do
        grep -q waiting waiting.log && return 0
        sleep 0.1
    done
    return 1
}
gone() { # PID: it ends within 20 s
    for _ in $(seq 200); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$1"
    return 1
}

row_19() {
    begin_victim || { fail 19 "no victim: $(cat victim.log)"; return; }
    pids=
    for _ in $(seq 100); do
        sleep 1000 3<>/dev/vgpu0 9>&- &
        pids="$pids $!"
    done
    sleep 1
    cycles=$(n 100)
    for i in $(seq "$cycles"); do
        if "$tool" rmmod >rmmod.log 2>&1; then
            fail 19 "unloaded with open files, round $i"
            return
        fi
    done
    kill $pids
    wait $pids 2>/dev/null
    end_victim || { fail 19 "the victim: $(cat victim.log)"; return; }
    "$tool" rmmod && "$tool" insmod "$driver" && wait_node && "$victim" once || { fail 19 "not unloaded after the last close"; return; }
    ok 19 "$cycles"
}

row_20() {
    cycles=$(n 4)
    for i in $(seq "$cycles"); do
        device=$(basename /sys/bus/virtio/drivers/vgpu_drv/virtio*)
        waiting || { fail 20 "no waiting program: $(cat waiting.log)"; return; }
        begin_victim || { fail 20 "no working program: $(cat victim.log)"; return; }
        echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/unbind || { fail 20 "unbind"; return; }
        gone $pid || { fail 20 "a waiting program still waits, round $i"; return; }
        wait $pid || { fail 20 "the waiting program: $(cat waiting.log)"; return; }
        gone $beside || { fail 20 "a working program does not end, round $i"; return; }
        exec 9>&-
        wait $beside && { fail 20 "a program works without the device"; return; }
        [ ! -e /dev/vgpu0 ] || { fail 20 "the node is there"; return; }
        echo "$device" >/sys/bus/virtio/drivers/vgpu_drv/bind && wait_node && "$victim" once ||
            { fail 20 "not there again after bind, round $i"; return; }
    done
    # Removes the PCI device behind the node, as a hot unplug with the guest's consent.
    pci=$(readlink -f /sys/bus/virtio/drivers/vgpu_drv/virtio*)
    pci=$(dirname "$pci")
    waiting || { fail 20 "no waiting program: $(cat waiting.log)"; return; }
    echo 1 >"$pci/remove"
    gone $pid || { fail 20 "a waiting program still waits after the removal"; return; }
    wait $pid || { fail 20 "removal: $(cat waiting.log)"; return; }
    echo 1 >/sys/bus/pci/rescan
    wait_node && "$victim" once || { fail 20 "not there again after a rescan"; return; }
    ok 20 $((cycles + 1))
}

row_22() {
    [ -w /sys/power/pm_test ] || { fail 22 "this kernel has no pm_test"; return; }
    echo freezer >/sys/power/pm_test
    [ -w /sys/module/suspend/parameters/pm_test_delay ] && echo 0 >/sys/module/suspend/parameters/pm_test_delay
    begin_victim || { fail 22 "no victim: $(cat victim.log)"; return; }
    waiting || { fail 22 "no waiting program: $(cat waiting.log)"; return; }
    cycles=$(n 10)
    for i in $(seq "$cycles"); do
        # Without S3, uses freeze: both freeze every process first.
        echo freeze >/sys/power/state 2>freeze.log || { fail 22 "processes cannot be frozen, round $i: $(cat freeze.log)"; return; }
    done
    echo none >/sys/power/pm_test
    kill -0 $pid || { fail 22 "the waiting program has ended: $(cat waiting.log)"; return; }
    kill -9 $pid
    wait $pid 2>/dev/null
    end_victim || { fail 22 "the victim: $(cat victim.log)"; return; }
    ok 22 "$cycles"
}

row_23() {
    cycles=$(n 256)
    begin_victim || { fail 23 "no victim: $(cat victim.log)"; return; }
    "$victim" fork "$cycles" >fork.log 2>&1 9>&- || { fail 23 "$(tail -n 2 fork.log)"; return; }
    end_victim || { fail 23 "the victim: $(cat victim.log)"; return; }
    ok 23 "$cycles"
}

row_24() {
    cycles=$(n 50)
    begin_victim || { fail 24 "no victim: $(cat victim.log)"; return; }
    for i in $(seq "$cycles"); do
        "$tool" fork >tool.log 2>&1 || { fail 24 "round $i: $(cat tool.log)"; return; }
    done
    selftest=${driver%/*}/selftest
    if [ -x "$selftest" ]; then
        "$selftest" >selftest.log 2>&1 || { fail 24 "selftest: $(tail -n 2 selftest.log)"; return; }
    fi
    end_victim || { fail 24 "the victim: $(cat victim.log)"; return; }
    ok 24 "$cycles"
}

row_30() {
    cycles=$(n 2000)
    begin_victim || { fail 30 "no victim: $(cat victim.log)"; return; }
    "$victim" count "$cycles" signals >count.log 2>&1 9>&- || { fail 30 "$(tail -n 1 count.log)"; return; }
    end_victim || { fail 30 "the victim: $(cat victim.log)"; return; }
    ok 30 "$cycles"
}

row_24
row_23
row_30
row_22
row_19
row_20
if dmesg | grep -E 'BUG:|Oops|WARNING:|general protection|refcount_t|hung task|KASAN|lockdep' >kernel.bad; then
    echo "kernel log: $(head -n 2 kernel.bad)"
else
    echo "kernel log: clean"
fi
