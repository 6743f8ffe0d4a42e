#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cgroup.sh BUILD (of the whole tree): the workers' control group (--cgroup*) on a real cgroup v2. Runs as root in an
# otherwise idle guest: a backend there serves programs over a socket, and its workers reach memory.max, pids.max and
# cpu.max. Prints a line per check and the count at the end.
build=$1
root=/sys/fs/cgroup
parent=$root/vgpu-test
dir=$(mktemp -d)
victim=$build/tests/system/faults/victim
broker=
passed=0
failed=0

result() { # NAME STATUS TEXT
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "boot.cgroup_$1 ok"
    else
        failed=$((failed + 1))
        echo "FAIL: boot.cgroup_$1: $3"
    fi
}
finish() {
    rmdir $parent 2> /dev/null
    rm -rf "$dir"
    echo "cgroup: $passed passed, $failed failed, $1 skipped"
    [ $failed -eq 0 ]
    exit
}
not_run() {
    echo "not run: boot cgroup: $1"
    finish 1
}

# Uses the mounted hierarchy, or mounts one.
[ "$(stat -f -c %T $root 2> /dev/null)" = cgroup2fs ] || mount -t cgroup2 none $root 2> /dev/null ||
    not_run "this kernel has no unified control groups"
for c in memory pids cpu; do
    grep -qw $c $root/cgroup.controllers || not_run "this kernel has no controller $c"
done
echo '+memory +pids +cpu' > $root/cgroup.subtree_control || not_run "controllers cannot be passed on"
mkdir -p $parent
echo +memory > $parent/cgroup.subtree_control

start() { # OPTION...: a broker with these; its group in $group
    rm -f "$dir/sock"
    "$build/host/backend/vgpu-backend" --listen "$dir/sock" --gpu soft --cgroup $parent "$@" > "$dir/log" 2>&1 &
    broker=$!
    group=$parent/vgpu-workers.$broker
    for _ in $(seq 300); do
        [ -S "$dir/sock" ] && return 0
        kill -0 $broker 2> /dev/null || return 1
        sleep 0.1
    done
    return 1
}
stop() {
    kill $broker 2> /dev/null
    wait $broker
    broker=
}
program() { # the victim as a client of that broker
    VGPU_SOCKET=$dir/sock LD_LIBRARY_PATH=$build/userspace/libcuda timeout 120 "$victim" "$@"
}
field() { # FILE NAME: a number out of a file of the group
    sed -n "s/^$2 //p" "$group/$1"
}

start
result starts $? "$(cat "$dir/log")"
said=$(program once)
result program $? "$said"
[ "$(wc -l < "$group/cgroup.procs")" -gt 0 ]
result workers_are_in_it $? "nobody is in the group"
! grep -qx $broker "$group/cgroup.procs"
result broker_is_not $? "the broker is in it, too"
memory=$(cat "$group/memory.peak" 2> /dev/null || cat "$group/memory.current")
stop
[ ! -e "$group" ]
result goes_with_the_broker $? "$(ls "$parent")"

# The limit fits a program, but not a program with as much data as the limit.
limit=$((memory + (24 << 20)))
start --cgroup-memory $limit
[ "$(cat "$group/memory.max")" -le $limit ] && [ "$(cat "$group/memory.max")" -gt $((limit - 65536)) ]
result memory_is_set $? "memory.max is $(cat "$group/memory.max"), not $limit"
said=$(program once)
result memory_suffices $? "$said"
was=$(field memory.events oom_kill)
said=$(program secret $((limit >> 20)) < /dev/null)
[ "$(field memory.events oom_kill)" -gt "$was" ]
result memory_in_force $? "$(tr '\n' ' ' < "$group/memory.events"): $said"
kill -0 $broker
result memory_spares_the_broker $? "it has ended: $(tail -n 3 "$dir/log")"
# A worker that was still starting may have ended with it.
for _ in $(seq 30); do
    said=$(program once) && break
    sleep 1
done
test "${said##*, }" = "every bit right"
result memory_next_program $? "$said"
stop

start --cgroup-cpu 20
[ "$(cat "$group/cpu.max")" = "20000 100000" ]
result cpu_is_set $? "cpu.max is $(cat "$group/cpu.max")"
used=$(field cpu.stat usage_usec)
at=$(awk '{ printf "%d", $1 * 1000000 }' /proc/uptime)
# The result is ignored: with so little processor time a program may not start in time.
program work 4 > /dev/null
used=$(($(field cpu.stat usage_usec) - used))
at=$(($(awk '{ printf "%d", $1 * 1000000 }' /proc/uptime) - at))
[ "$(field cpu.stat nr_throttled)" -gt 0 ] && [ $((used * 100)) -le $((at * 30)) ]
result cpu_in_force $? "$used of $at us: $(tr '\n' ' ' < "$group/cpu.stat")"
stop

# The kernel lets idle workers move into the group beyond pids.max, but refuses their new threads.
start --cgroup-pids 3
[ "$(cat "$group/pids.max")" = 3 ]
result pids_is_set $? "pids.max is $(cat "$group/pids.max")"
said=$(program work 1)
rc=$?
[ "$(field pids.events max)" -gt 0 ]
result pids_in_force $? "status $rc: $said: $(cat "$group/pids.events") $(cat "$group/pids.current")"
[ $rc -ne 124 ]
result pids_no_hang $? "a program without threads for its worker does not end"
stop

"$build/host/backend/vgpu-backend" --listen "$dir/sock" --gpu soft --cgroup $root/none --cgroup-memory 1G > "$dir/log" 2>&1
[ $? -ne 0 ] && grep -q cgroup "$dir/log"
result refused_without $? "a broker starts without the limit that was asked for: $(cat "$dir/log")"
finish 0
