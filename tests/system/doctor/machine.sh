# SPDX-License-Identifier: MIT
# Part of run.sh: several backends, device nodes and PCI devices, simulated without a guest (machine.c).
echo "# machines"

# said yes|no NAME PATTERN COMMAND...: doctor gives some verdict, whose text matches PATTERN (yes) or does not (no)
said()
{
    local want=$1 name=$2 pattern=$3 text is=no
    shift 3
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    grep -qE -- "$pattern" <<< "$text" && is=yes
    if grep -q "^verdict: " <<< "$text" && [ $is = "$want" ]; then
        ok "$name"
    else
        bad "$name" "no verdict, or '$pattern' is not as it should be in: $text"
    fi
}
said no "one backend is not counted" "backends are here" "$vgpu" run --gpu soft "$vgpu" doctor
verdict "two backends are" ok 0 "^ *ok +2 backends are here" "$vgpu" run --gpu soft \
    sh -c 'VGPU_SOCKET=$VGPU_SOCKET:$VGPU_SOCKET exec "$0" doctor' "$vgpu"

# pci NAME VENDOR DEVICE: adds a device to the simulated bus
pci()
{
    mkdir -p "$work/bus/$1"
    echo "$2" > "$work/bus/$1/vendor"
    echo "$3" > "$work/bus/$1/device"
}
pci 0000:00:01.0 0x1af4 0x1041
pci 0000:00:02.0 0x10de 0x107f
machine="env LD_PRELOAD=$out/machine.so VGPU_TEST_BUS=$work/bus"
verdict "another virtio device, another vendor's" no-device 10 "neither a vgpu-cuda device nor" $machine "$vgpu" doctor
pci 0000:00:03.0 0x1af4 0x107f
verdict "a device, and no driver" driver-not-loaded 11 "seen: the module vgpu_drv is not loaded" $machine "$vgpu" doctor
said no "as many nodes as devices" "are on the bus" $machine VGPU_TEST_NODES=1 "$vgpu" doctor
said yes "what the kernel says of a node" "seen: .*vgpu_drv virtio1: /dev/vgpu1: the first" \
    $machine VGPU_TEST_NODES=1 "$vgpu" doctor
said yes "a node whose name begins with that of another" \
    "seen: .*vgpu_drv virtio2: /dev/vgpu10: the second" $machine VGPU_TEST_NODES=2 "$vgpu" doctor
pci 0000:00:04.0 0x1af4 0x1066 # as a generic vhost-user device has it
said yes "more devices than nodes" "2 vgpu-cuda devices are on the bus, and 1 can be seen" \
    $machine VGPU_TEST_NODES=1 "$vgpu" doctor
