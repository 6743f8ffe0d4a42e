#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench_guest.sh COUNTERS: runs in the guest of bench_guest.py. Each line of standard input is a run: number, part, rounds
# and environment settings. Prints for each the line of VGPU_STATS, then `run NUMBER` with the guest kernel's counts of that
# run. Two marks in QEMU's trace enclose each run: three reads of the device's status.
counters=$1
trace=/sys/kernel/tracing
device=$(echo /sys/bus/virtio/drivers/vgpu_drv/virtio*)
interrupts=${device##*/}-

[ -e $trace/kprobe_events ] || mount -t tracefs none $trace || exit 1
echo 'p:vgpu_bench/ioctl vgpu_ioctl' >>$trace/kprobe_events && echo 1 >$trace/events/vgpu_bench/ioctl/enable || exit 1

ioctls() {
    awk '$1 == "ioctl" { n = $2 } END { print n + 0 }' $trace/kprobe_profile
}
# Sum over all queues and processors.
irqs() {
    awk -v name="$interrupts" 'index($NF, name) == 1 { for (i = 2; i < NF; i++) if ($i ~ /^[0-9]+$/) n += $i } END { print n + 0 }' /proc/interrupts
}
mark() {
    cat "$device/status" "$device/status" "$device/status" >/dev/null
}

mark
while read -r number part rounds settings; do
    i=$(ioctls) q=$(irqs)
    env $settings "$counters" "$part" "$rounds" </dev/null 2>&1
    echo "run $number $? $(($(ioctls) - i)) $(($(irqs) - q))"
    mark
done
echo "end"
