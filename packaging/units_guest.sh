#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The checks of units_test.sh, in the machine that it boots: two virtual machines' backends by systemd's units, their
# users and sockets, CUDA over each, shares, restart, journal, metrics, stop; then every option (units_options.sh).

set -u
passed=0 failed=0 skipped=0
program=/test/vector_add-static
backend=/usr/lib/vgpu/vgpu-backend

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

# same NAME WANT HAVE
same()
{
    [ "$2" = "$3" ]
    check "$1" $? "$3 instead of $2"
}

# prop UNIT NAME: a property
prop()
{
    systemctl show -P "$2" "$1"
}

pid_of()
{
    prop "vgpu-backend@$1.service" MainPID
}

# waits COMMAND...: until it succeeds; a bound against hanging only
waits()
{
    local i

    for i in $(seq 600); do
        "$@" > /dev/null 2>&1 && return 0
        sleep 0.1
    done
    return 1
}

# cuda VM [COMMAND...]: a CUDA program of this machine, over the socket of programs of that instance
cuda()
{
    local vm=$1

    shift
    LD_LIBRARY_PATH=/usr/lib/vgpu/libcuda VGPU_SOCKET=/run/vgpu/$vm.programs timeout 300 "${@:-$program}" 2>&1
}

# connects USER PATH: whether that user may connect to it
connects()
{
    setpriv --reuid="$1" --regid="$(id -g "$1")" --init-groups perl -MIO::Socket::UNIX -e \
        'exit !IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $ARGV[0])' "$2"
}

# In namespaces it was read-only while systemd started; workers mount a /proc of their own, which needs all of it.
! mountpoint -q /proc/sys || umount -l /proc/sys
echo "# $(systemctl --version | head -n 1), Linux $(uname -r)"
# What is for QEMU is in the unit; a second socket is for CUDA programs of this machine, which stand for a guest's.
mkdir -p /etc/systemd/system/vgpu-backend@.socket.d
printf '[Socket]\nListenSequentialPacket=/run/vgpu/%%i.programs\n' > /etc/systemd/system/vgpu-backend@.socket.d/programs.conf
for vm in vm1 vm2; do
    printf 'GPU=soft\nOPTIONS=--log-format journal --vram-quota 256M --arbiter /run/vgpu-arbiter/host --weight %s\n' \
        "$([ $vm = vm1 ] && echo 300 || echo 100)" > /etc/vgpu/$vm.conf
done
systemctl daemon-reload

echo "# sockets and users"
for vm in vm1 vm2; do
    text=$(systemctl start vgpu-backend@$vm.socket 2>&1)
    check "the socket of $vm starts" $? "$text"
    same "the socket of $vm: owner, group, mode" "root vgpu-$vm 660" "$(stat -c '%U %G %a' /run/vgpu/$vm.sock)"
    same "$vm is not started before somebody connects" inactive "$(prop vgpu-backend@$vm.service ActiveState)"
    useradd -r -M -G vgpu-$vm qemu-$vm
done
inode=$(stat -c %i /run/vgpu/vm1.sock)
connects qemu-vm1 /run/vgpu/vm1.sock
check "the user of vm1's QEMU connects to vm1" $?
! connects qemu-vm1 /run/vgpu/vm2.sock && ! connects qemu-vm2 /run/vgpu/vm1.sock && ! connects nobody /run/vgpu/vm1.sock
check "and neither to vm2, nor the other way, nor anybody else" $?
waits systemctl is-active vgpu-backend@vm1.service
check "the connection has started vm1's backend" $? "$(journalctl -u vgpu-backend@vm1 -n 5 -o cat)"
for vm in vm1 vm2; do
    text=$(cuda $vm)
    check "a CUDA program over the socket of $vm" $? "$text; $(journalctl -u vgpu-backend@$vm -n 5 -o cat)"
done
u1=$(stat -c %u /proc/"$(pid_of vm1)") u2=$(stat -c %u /proc/"$(pid_of vm2)")
[ "$u1" -ge 61184 ] && [ "$u1" -le 65519 ] && [ "$u2" -ge 61184 ] && [ "$u2" -le 65519 ] && [ "$u1" != "$u2" ]
check "each backend is a dynamic user of its own" $? "$u1, $u2"
text=$(sed -n 's/^Groups:\t//p' /proc/"$(pid_of vm1)"/status)
for group in $text; do getent group "$group" | cut -d: -f1; done | grep -vxE 'render|vgpu_arbiter|vgb-vm1' > /tmp/groups
[ ! -s /tmp/groups ]
check "and in no group but render and vgpu_arbiter" $? "$(cat /tmp/groups)"
text=$(sed -n 's/^\(CapEff\|CapBnd\|NoNewPrivs\|Seccomp\):\t//p' /proc/"$(pid_of vm1)"/status | xargs)
same "without capabilities, with a system call filter" "0000000000000000 0000000000000000 1 2" "$text"

# limit VM WORDS: of /proc/PID/limits, soft and hard
limit()
{
    sed -n "s/^$2  *\([^ ]*\)  *\([^ ]*\) .*/\1 \2/p" /proc/"$(pid_of "$1")"/limits
}
# Guest memory is pinned without a limit of the kernel's (--pin-quota is the backend's), each guest process has descriptors,
# and no core dump may have a guest's memory.
same "locked memory and open files, as systemd reads the unit" "infinity 65536" \
    "$(prop vgpu-backend@vm1.service LimitMEMLOCK) $(prop vgpu-backend@vm1.service LimitNOFILE)"
if (ulimit -l unlimited && ulimit -n 65536) 2> /dev/null; then
    same "locked memory is not limited" "unlimited unlimited" "$(limit vm1 "Max locked memory")"
    same "open files" "65536 65536" "$(limit vm1 "Max open files")"
else
    skip "locked memory and open files of the process" "the limits of this machine cannot be raised from here"
fi
same "no core dumps" "0 0" "$(limit vm1 "Max core file size")"
same "files that it makes are its own" 0077 "$(sed -n 's/^Umask:\t//p' /proc/"$(pid_of vm1)"/status)"
same "the watchdog is on, and what hangs is started again" "30s on-failure" "$(prop vgpu-backend@vm1.service WatchdogUSec) $(prop vgpu-backend@vm1.service Restart)"

echo "# QEMU itself"
if [ -x /usr/lib/vgpu/qemu/bin/qemu-system-x86_64 ]; then
    # With its CPU stopped: the device has spoken with the backend before.
    start_qemu()
    {
        rm -f /tmp/qmp
        setpriv --reuid="qemu-$1" --regid="qemu-$1" --init-groups /usr/lib/vgpu/qemu/bin/qemu-system-x86_64 -S -nodefaults -no-user-config \
            -machine q35,accel=tcg,memory-backend=mem -m 64M -object memory-backend-memfd,id=mem,size=64M,share=on -display none \
            -chardev socket,id=c,path=/run/vgpu/$2.sock -device vgpu-cuda,chardev=c > /tmp/qemu.log 2>&1 &
        qemu=$!
    }
    served()
    {
        journalctl -q VGPU_VM="$1" -o cat | grep -c 'QEMU has connected'
    }
    more_than()
    {
        [ "$(served vm1)" -gt "$1" ]
    }
    before=$(served vm1)
    start_qemu vm1 vm1
    waits more_than "$before" && kill -0 $qemu
    check "QEMU as vm1's user has its GPU" $? "$(cat /tmp/qemu.log; journalctl -u vgpu-backend@vm1 -n 5 -o cat)"
else
    qemu=
    skip "QEMU itself" "it was not built"
fi

echo "# names"
text=$(journalctl -q VGPU_VM=vm1 -o json --output-fields=MESSAGE,_SYSTEMD_UNIT | grep -c 'vgpu-backend@vm1.service')
[ "$text" -gt 0 ] && [ -z "$(journalctl -q -u vgpu-backend@vm1 -o json | grep '"VGPU_VM":"[^"]*"' | grep -v '"VGPU_VM":"vm1"')" ]
check "the journal has VGPU_VM=vm1" $? "$text lines; $(journalctl -q -u vgpu-backend@vm1 -n 1 -o verbose | grep VGPU)"
text=$(vgpu smi --host --json)
grep -q '"name": "vm1", "socket": "/run/vgpu/vm1.sock"' <<< "$text" && grep -q '"name": "vm2"' <<< "$text"
check "vgpu smi --host shows vm1 and vm2" $? "$text"
text=$(vgpu smi --host)
grep -q '^| vm1 ' <<< "$text" && grep -q '^| vm2 ' <<< "$text"
check "and its table" $? "$text"
systemctl start vgpu-metrics.service
check "vgpu-metrics starts" $? "$(journalctl -u vgpu-metrics -n 5 -o cat)"
# scrape [PORT]
scrape()
{
    perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or exit 1;
        print $s "GET /metrics HTTP/1.0\r\n\r\n"; print while <$s>' "${1:-9401}" > /tmp/metrics && grep -q 'vgpu_up{vm="vm2"' /tmp/metrics
}
waits scrape
grep -q '^vgpu_up{vm="vm1",' /tmp/metrics && ! grep -q 'vm="-"' /tmp/metrics
check "the metrics have vm=\"vm1\"" $? "$(grep vgpu_up /tmp/metrics)"
echo LISTEN=127.0.0.1:9555 > /etc/vgpu/metrics.conf
systemctl restart vgpu-metrics.service
waits scrape 9555 && ! scrape
check "LISTEN= in metrics.conf: there, and nowhere else" $? "$(journalctl -u vgpu-metrics -n 5 -o cat)"
echo LISTEN=127.0.0.1:fly > /etc/vgpu/metrics.conf
systemctl restart vgpu-metrics.service
failed_once()
{
    [ "$(prop vgpu-metrics.service SubState)/$(prop vgpu-metrics.service NRestarts)" = failed/0 ]
}
waits failed_once && journalctl -q -u vgpu-metrics -n 5 -o cat | grep -q "'fly' is not a number"
check "LISTEN= that cannot be: failed once, with the reason" $? "$(prop vgpu-metrics.service NRestarts) restarts; $(journalctl -u vgpu-metrics -n 5 -o cat)"
rm /etc/vgpu/metrics.conf
systemctl reset-failed vgpu-metrics.service
systemctl restart vgpu-metrics.service
waits scrape
check "without metrics.conf: as before" $? "$(journalctl -u vgpu-metrics -n 5 -o cat)"

echo "# shares"
text=$(vgpu smi --host -q | grep -c 'Shares *: enforced')
same "both enforce shares" 2 "$text"
same "the arbiter's file" "root vgpu_arbiter 660" "$(stat -c '%U %G %a' /run/vgpu-arbiter/host)"
# 300:100, by processor time that the kernel has counted, while both have work.
cpu_of()
{
    vgpu smi --host --json | perl -0777 -ne "print \$1 if /\"name\": \"$1\".*?\"cpu_ms\": (\d+)/s"
}
if [ -x /test/busy ]; then
    loops=
    for vm in vm1 vm2; do
        cuda $vm /test/busy <<< "greedy 60000" > /tmp/busy.$vm &
        loops="$loops $!"
    done
    waits sh -c '[ "$(vgpu smi --host --json | grep -o "\"worker\"" | wc -l)" -ge 2 ]'
    sleep 3
    a1=$(cpu_of vm1) a2=$(cpu_of vm2)
    sleep 10
    e1=$(cpu_of vm1) e2=$(cpu_of vm2)
    kill $loops
    wait $loops 2> /dev/null
    ratio=$(((e1 - a1) * 100 / (e2 - a2 > 0 ? e2 - a2 : 1)))
    [ $ratio -ge 200 ] && [ $ratio -le 400 ]
    check "weights 300:100 between the two" $? "$((e1 - a1)) ms to $((e2 - a2)) ms; $(cat /tmp/busy.*)"
else
    skip "weights 300:100" "tests/perf was not built"
fi

echo "# restart"
old=$(pid_of vm1)
connected=$(served vm1 2> /dev/null || echo 0)
text=$(systemctl restart vgpu-backend@vm1.service 2>&1)
check "systemctl restart" $? "$text"
[ "$(pid_of vm1)" != "$old" ]
check "another process serves" $?
same "the socket is the one that was there" "$inode" "$(stat -c %i /run/vgpu/vm1.sock)"
same "reload is not offered" no "$(prop vgpu-backend@vm1.service CanReload)"
text=$(cuda vm1)
check "a CUDA program after the restart" $? "$text"
if [ -n "$qemu" ]; then
    waits more_than "$connected" && kill -0 "$qemu"
    check "QEMU has come back to the new backend" $? "$(cat /tmp/qemu.log; journalctl -u vgpu-backend@vm1 -n 5 -o cat)"
fi
kill -9 "$(pid_of vm1)"
back()
{
    [ "$(pid_of vm1)" != 0 ] && [ "$(prop vgpu-backend@vm1.service ActiveState)" = active ] && cuda vm1
}
waits back
check "a backend that was killed is started again" $? "$(journalctl -u vgpu-backend@vm1 -n 8 -o cat)"

echo "# what is open in the units"
# 0 is closed, 100 is open. What is left open is named in the unit, with the reason.
for unit in vgpu-backend@vm1:30 vgpu-metrics:20 vgpu-cdi:20; do
    text=$(systemd-analyze security --no-pager --threshold="${unit#*:}" "${unit%:*}.service" 2>&1)
    check "systemd-analyze security ${unit%:*}: at most ${unit#*:}" $? "$text"
    grep -o 'Overall exposure.*: [0-9.]* [A-Z]*' <<< "$text" | sed 's/^/    /'
done

echo "# the description for containers"
text=$(mknod /dev/vgpu0 c 10 250 2>&1)
check "a device's file for it" $? "$text"
text=$(systemctl start vgpu-cdi.service 2>&1)
check "vgpu-cdi starts" $? "$text; $(journalctl -u vgpu-cdi -n 5 -o cat)"
grep -qs '/dev/vgpu0' /run/cdi/vgpu.json && grep -q 'libcuda.so.1' /run/cdi/vgpu.json
check "and has described the device" $? "$(cat /run/cdi/vgpu.json; ls -la /run/cdi /dev/vgpu0; journalctl -u vgpu-cdi -n 5 -o cat)"
same "for everybody to read" "root 644" "$(stat -c '%U %a' /run/cdi/vgpu.json 2>&1)"
rm /dev/vgpu0
systemctl start vgpu-cdi.service
check "vgpu-cdi without a device is no failure" $? "$(journalctl -u vgpu-cdi -n 5 -o cat)"

. /test/units_options.sh

echo "# stop"
[ -z "$qemu" ] || kill "$qemu"
group=/sys/fs/cgroup$(prop vgpu-backend@vm1.service ControlGroup)
systemctl stop vgpu-backend@vm1.socket vgpu-backend@vm1.service vgpu-backend@vm2.socket vgpu-backend@vm2.service vgpu-metrics
check "systemctl stop" $?
text=$(grep -l '^vgpu-' /proc/[0-9]*/comm 2> /dev/null; ls -d /run/vgpu/*.sock /run/vgpu/*.programs /run/vgpu-backend/* "$group" /run/vgpu-metrics 2> /dev/null)
[ -z "$text" ]
check "no process, socket, folder or control group is left" $? "$text"
text=$(systemctl --failed --no-legend | grep vgpu)
[ -z "$text" ]
check "no unit has failed" $? "$text"
text=$(getent passwd | awk -F: '$3 >= 61184 && $3 <= 65519')
[ -z "$text" ]
check "the dynamic users are gone" $? "$text"

echo "units: $passed passed, $failed failed, $skipped skipped"
