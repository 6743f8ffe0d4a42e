# SPDX-License-Identifier: MIT
# The part of vgpu_test.sh on KVM that boots a guest only without arch-capabilities: QEMU and guest are one script.
cat > "$work/qemu-guest.py" <<'END'
# Ends like QEMU where KVM refuses an MSR, else speaks for a guest whose program has ended well.
import os, re, socket, struct, sys
args = " ".join(sys.argv)
if "-version" in args:
    sys.exit(1)
cpu = sys.argv[sys.argv.index("-cpu") + 1]
with open(os.environ["QEMU_CALLS"], "a") as calls:
    print(cpu, file=calls)
if "accel=kvm" in args and cpu not in os.environ["QEMU_CPUS"].split():
    sys.exit("qemu: error: failed to set MSR 0x10a")
channel = socket.socket(fileno=int(re.search(r"id=channel,fd=(\d+)", args)[1]))
channel.sendall(struct.pack("<III", 4, 1, 1)) # HELLO
channel.recv(1 << 16)
channel.sendall(struct.pack("<IIII", 8, 5, 0, 0)) # EXIT
while channel.recv(1 << 16):
    pass
END
printf '#!/bin/sh\nexec /usr/bin/python3 "%s" "$@"\n' "$work/qemu-guest.py" > "$work/qemu-guest"
chmod +x "$work/qemu-guest"
export QEMU_CALLS=$work/qemu-cpus
# boots CPUS NAME STATUS PATTERN CALLS [OPTIONS]: KVM boots with these; what is said; which were tried, one after the other
boots()
{
    local cpus=$1 name=$2 status=$3 pattern=$4 calls=$5
    shift 5
    : > "$QEMU_CALLS"
    says "$name" "$status" "$pattern" env QEMU_CPUS="$cpus" "$vgpu" vm run --gpu none --qemu "$work/qemu-guest" \
        --kernel "$work/backend" --initrd "$work/backend" "$@" true
    same "$name: what was tried" "$calls" "$(xargs < "$QEMU_CALLS")"
}
off=host,arch-capabilities=off
if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
    boots "$off" "vm: KVM without arch-capabilities" 0 "KVM boots a guest with -cpu $off" "host $off"
    boots "$off" "vm: and it is remembered" 0 "" "$off"
    boots "$off" "vm: also for --accel kvm" 0 "" "$off" --accel kvm
    boots "" "vm: KVM that fails both ways" 0 "the guest's CPU is emulated" "$off max"
    boots "host" "vm: KVM that has failed is not tried again" 0 "KVM does not work on this machine" "max"
    rm -r "$XDG_CACHE_HOME/vgpu"
    boots "$off" "vm: --accel kvm without arch-capabilities" 0 "tried again, with -cpu $off" "host $off" --accel kvm
    boots "" "vm: --accel kvm that fails both ways" 125 "failed to set MSR" "host $off" --accel kvm
    boots "" "vm: KVM that fails twice" 0 "the guest's CPU is emulated" "host $off max"
    rm -r "$XDG_CACHE_HOME/vgpu"
    boots "host $off" "vm: KVM that works" 0 "" "host"
    rm -r "$XDG_CACHE_HOME/vgpu"
else
    skipped=$((skipped + 1))
    echo "not run: KVM without arch-capabilities: /dev/kvm is not there or not ours"
fi
unset QEMU_CALLS
