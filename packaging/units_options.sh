# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Part of units_guest.sh: every option of the backend in /etc/vgpu/vm3.conf, as docs/options.md has them. Each works,
# that is the unit is active, a CUDA program runs, and what the option promises is there; or the unit fails at
# once, is not started again and again, and the journal says why.

run=/run/vgpu-backend/vm3
soft=/usr/lib/vgpu/libcuda-soft.so.1
slice=/sys/fs/cgroup/vgpu.slice/vgpu-backend@vm3.service

# The workers' control group has this value in that file.
group_has()
{
    grep -qxF "$2" $slice/vgpu-workers.*/"$1"
}

log_says()
{
    journalctl -q -b --since="@$since" -u vgpu-backend@vm3 -o cat | grep -q -- "$1"
}

answers()
{
    vgpu ctl --socket "$1" get vram-quota | grep -q '^vram-quota'
}

# works OPTIONS [COMMAND...]: and the command succeeds then
# refused OPTIONS PATTERN: with that sentence
begin()
{
    since=$(date +%s.%N)
    printf 'GPU=soft\nOPTIONS=%s\n' "$1" > /etc/vgpu/vm3.conf
    tried="$tried $1"
    systemctl reset-failed vgpu-backend@vm3.service 2> /dev/null
    systemctl restart vgpu-backend@vm3.service > /dev/null 2>&1
}

last_lines()
{
    journalctl -q -b --since="@$since" -u vgpu-backend@vm3 -o cat -n 8 | tr '\n' '~'
}

works()
{
    local options=$1 text=

    shift
    begin "$options" && text=$(cuda vm3) && { [ $# = 0 ] || text=$("$@" 2>&1); }
    check "option: $options" $? "$text; $(last_lines)"
    systemctl stop vgpu-backend@vm3.service 2> /dev/null
}

refused()
{
    ! begin "$1" && log_says "$2" && [ "$(prop vgpu-backend@vm3.service NRestarts)" = 0 ] &&
        [ "$(prop vgpu-backend@vm3.service SubState)" = failed ]
    check "option refused, with the reason: $1" $? \
        "$(prop vgpu-backend@vm3.service NRestarts) restarts, $(prop vgpu-backend@vm3.service SubState); $(last_lines)"
    systemctl stop vgpu-backend@vm3.service 2> /dev/null
}

echo "# every option"
tried=
systemctl start vgpu-backend@vm3.socket
works ""
works "--name other" sh -c 'vgpu smi --host --json | grep -q "\"name\": \"vm3\""'
refused "--name a/b" "--name a/b: 1 to 48 letters"
refused "--vhost-user $run/other" "QEMU's socket is inherited"
refused "--socket-path $run/other" "QEMU's socket is inherited"
refused "--listen $run/programs" "the socket of programs is inherited"
refused "--fd 3" "there is a SOCK_STREAM socket already"
works "--peer-uid qemu-vm1" connects qemu-vm1 /run/vgpu/vm1.sock
refused "--peer-uid nobody-of-that-name" "--peer-uid nobody-of-that-name: no such user"
works "--peer-gid vgpu-vm3"
works "--gpu soft"
refused "--gpu nvidia" "no NVIDIA GPU"
works "--provider $soft"
works "--worker /usr/lib/vgpu/vgpu-worker"
works "--vram-quota 64M" sh -c 'vgpu smi --host -q | grep -q "vram-quota *: 64 MiB"'
install -m 660 -g vgpu_arbiter /dev/null /run/vgpu-arbiter/other
works "--memory-policy promise --vram-quota 64M --arbiter /run/vgpu-arbiter/other" test -s /run/vgpu-arbiter/other
works "--memory-policy ceiling --vram-quota 64M --arbiter /run/vgpu-arbiter/other --memory-wait 1"
for option in "--pin-quota 64M" "--max-clients 2" "--start-rate 5" "--long-call 10" "--blob-quota 64M" "--image-cache 64M" "--client-memory 4G" \
    "--client-threads 200" "--client-streams 50" "--client-handles 10000" "--client-printf 1M" "--client-image 16M" \
    "--client-compile-time 60" "--client-queue 100" "--client-time-limit 60" "--weight 50" "--cap 90" "--client-weight 50" \
    "--client-cap 90" "--client-priority 1" "--pace" "--pacing stop" "--pacing ring" "--window-size 4M" "--pool 1" "--pool-max 2" \
    "--protocol-minor 0" "--log-level debug" "--allow-hmm"; do
    works "$option"
done
works "--arbiter /run/vgpu-arbiter/host" sh -c 'vgpu smi --host -q | grep -q "Shares *: enforced"'
refused "--arbiter /var/lib/shares" "--arbiter /var/lib/shares: Read-only file system"
works "--control $run/control" answers $run/control
refused "--control /run/vm3.ctl" "--control /run/vm3.ctl: .*/run/vgpu-backend/"
works "--status $run/second" test -S $run/second
refused "--status /run/status" "--status /run/status: .*/run/vgpu-backend/"
works "--status-user root"
works "--ready-fd 1"
works "--log /var/log/vgpu-backend/vm3/log" grep -q ready /var/log/vgpu-backend/vm3/log
refused "--log /var/log/vm3" "/var/log/vm3: .*/var/log/vgpu-backend/"
works "--log-format text" log_says ready
works "--log-format json" log_says '"vm":"vm3".*"ready"'
works "--log-format journal" sh -c 'journalctl -q VGPU_VM=vm3 -o cat | grep -q ready'
works "--sandbox log"
works "--sandbox enforce"
works "--sandbox off"
works "--no-sandbox"
works "--provider $soft --jit-cache 16M"
works "--provider $soft --jit-cache 16M --jit-cache-dir /var/cache/vgpu-backend/vm3"
works "--provider $soft --jit-cache 16M --jit-cache-path fd"
works "--provider $soft --jit-cache 16M --jit-cache-path shm"
works "--cgroup off" sh -c "! ls -d $slice/vgpu-workers.*"
refused "--cgroup /sys/fs/cgroup/other" "cgroup of the workers: none: "
if grep -q memory /sys/fs/cgroup/cgroup.controllers; then
    works "--cgroup auto" sh -c "ls -d $slice/vgpu-workers.*"
    works "--cgroup-memory 1G" group_has memory.max 1073741824
    works "--cgroup-cpu 150" group_has cpu.max "150000 100000"
    works "--cgroup-weight 50" group_has cpu.weight 50
    works "--cgroup-pids 500" group_has pids.max 500
else
    # The kernel's controllers are elsewhere: then each is refused, in one sentence.
    skip "limits of all workers together" "this machine's controllers are those of cgroup v1"
    for option in "--cgroup-memory 1G" "--cgroup-cpu 150" "--cgroup-weight 50"; do
        refused "$option" "cgroup of the workers: none: its controllers cannot be passed on"
    done
    works "--cgroup-pids 500"
fi
refused "--no-such-option" "no-such-option"

# The list is complete: what --help has and the table above has not. These three print and end.
text=$($backend --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | grep -vxE -- '--(print-capabilities|help|version)' |
    while read -r option; do grep -qE -- "(^| )$option( |$)" <<< "$tried" || echo "$option"; done)
[ -z "$text" ]
check "every option of --help was tried" $? "$text"
systemctl reset-failed 'vgpu-backend@*' 2> /dev/null
systemctl stop vgpu-backend@vm3.socket
rm -f /etc/vgpu/vm3.conf /run/vgpu-arbiter/other
