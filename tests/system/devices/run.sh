#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: programs that see several backends, over the socket and in a guest with two devices.
# The guest prints the same lines, under different names.
set -u
out=$1
build=$2
client=$out/client
vgpu=$build/userspace/vgpu/vgpu
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-devices.XXXXXX")
passed=0 failed=0 skipped=0
trap 'rm -rf "$work"' EXIT
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION LD_LIBRARY_PATH VGPU_RECORD
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER VGPU_SOFT_CC

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }

# compare NAME WANT TEXT: TEXT must match WANT, a pattern of bash
compare()
{
    # shellcheck disable=SC2053
    if [[ $3 == $2 ]]; then ok "$1"; else bad "$1" "'$3' instead of '$2'"; fi
}

# says NAME WANT COMMAND...
says()
{
    local name=$1 want=$2
    shift 2
    compare "$name" "$want" "$(timeout 120 "$@" 2>&1 < /dev/null)"
}

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 userspace/libnvidia-ml/libnvidia-ml.so.1 \
    host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    echo "not run: devices: not built:$missing"
    echo "devices: 0 passed, 0 failed, 1 skipped"
    exit 0
fi

# Two backends with a software GPU each; the UUIDs spell "vgpu-cuda-soft00" and "...10".
stem=GPU-76677075-2d63-7564-612d-736f6674
first="${stem}3030 0000:F0:00.0"
second="${stem}3130 0001:F0:00.0"
nvml="${stem}3030 00000000:F0:00.0 peer of the first: 1"$'\n'"${stem}3130 00000001:F0:00.0 peer of the first: 0"
none="retain 101 attribute 101 peer 101 copy 201 context 201"
two=("$vgpu" run --gpu soft --gpus 2 "$client")

echo "# over the socket"
says "a process has the devices of the first" "init 0"$'\n'"$first" "${two[@]}" cuda
says "CUDA_VISIBLE_DEVICES=0" "init 0"$'\n'"$first" env CUDA_VISIBLE_DEVICES=0 "${two[@]}" cuda
says "CUDA_VISIBLE_DEVICES=1: the second" "init 0"$'\n'"$second" env CUDA_VISIBLE_DEVICES=1 "${two[@]}" cuda
says "a UUID of the second" "init 0"$'\n'"$second" env CUDA_VISIBLE_DEVICES="${stem}31" "${two[@]}" cuda
says "set after the version was asked for" "init 0"$'\n'"$second" "${two[@]}" late
says "CUDA_DEVICE_ORDER" "init 0"$'\n'"$second" \
    env CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 "${two[@]}" cuda
says "the number of no device" "init 100" env CUDA_VISIBLE_DEVICES=2 "${two[@]}" cuda
says "none" "init 100" env CUDA_VISIBLE_DEVICES= "${two[@]}" cuda
says "one named twice" "init 100" env CUDA_VISIBLE_DEVICES=1,1 "${two[@]}" cuda
says "NVML has all" "$nvml" "${two[@]}" nvml
says "NVML has all, whatever CUDA shows" "$nvml" env CUDA_VISIBLE_DEVICES=1 "${two[@]}" nvml
says "NVML in a child" "before 2 child 2" "${two[@]}" forked
says "work on the first is the first's" "0:1:used 1:0:free" "${two[@]}" use
says "work on the second is the second's" "0:0:free 1:1:used" env CUDA_VISIBLE_DEVICES=1 "${two[@]}" use
says "nothing of the other is in reach" "devices 1 $none" "${two[@]}" beyond
says "nothing of the first is in reach" "devices 1 $none" env CUDA_VISIBLE_DEVICES=1 "${two[@]}" beyond
# The list ends at a device of another backend, and the trace says so.
text=$(CUDA_VISIBLE_DEVICES=1,0 "$vgpu" run --gpu soft --gpus 2 --trace "$client" cuda 2>&1 < /dev/null)
compare "a list over both: those of the first that it names" "init 0"$'\n'"$second" "$(grep -v '^vgpu\[' <<< "$text")"
compare "a list over both: the reason" "*shows 1 of 2 devices: it ends at a device of another backend than the first*" "$text"
compare "the trace names the backend" "*2 backends are here; this process uses */backend1.sock: CUDA_VISIBLE_DEVICES chooses*" \
    "$text"
# Four devices at two backends.
pairs=(env VGPU_SOFT_CC=8.0,9.0)
says "several of the second, in another order" \
    "init 0"$'\n'"${stem}3131 0001:F0:01.0"$'\n'"${stem}3130 0001:F0:00.0" "${pairs[@]}" CUDA_VISIBLE_DEVICES=3,2 "${two[@]}" cuda
# A missing backend has no devices, so the second's device is number 0.
gone=(sh -c "VGPU_SOCKET=$work/none.sock:\$VGPU_SOCKET exec \"\$@\"" sh)
says "a backend that is gone" "init 0"$'\n'"$second" "$vgpu" run --gpu soft "${gone[@]}" "$client" cuda
says "a backend that is gone, a number" "init 0"$'\n'"$second" \
    env CUDA_VISIBLE_DEVICES=0 "$vgpu" run --gpu soft "${gone[@]}" "$client" cuda
says "a backend that is gone, NVML" "${stem}3130 00000001:F0:00.0 peer of the first: 1" \
    "$vgpu" run --gpu soft "${gone[@]}" "$client" nvml
says "all backends are gone" "init 100" \
    env VGPU_SOCKET="$work/a.sock:$work/b.sock" LD_LIBRARY_PATH="$build/userspace/libcuda" "$client" cuda
# A backend at its limit of clients is an error, so that device numbers do not depend on other programs.
printf '#!/bin/sh\nexec "%s" --max-clients 1 "$@"\n' "$build/host/backend/vgpu-backend" > "$work/narrow"
chmod +x "$work/narrow"
says "a backend that is full" "*init 808"$'\n'"init 808" "$vgpu" run --gpu soft --gpus 2 --backend "$work/narrow" \
    /usr/bin/python3 "$(dirname "$0")/full.py" "$client"

echo "# the vgpu command"
compare "smi lists all" "GPU 0: *3030)"$'\n'"GPU 1: *3130)" "$("$vgpu" run --gpu soft --gpus 2 "$vgpu" smi -L 2>&1)"
text=$("$vgpu" run --gpu soft --gpus 2 "$vgpu" doctor 2>&1)
compare "doctor looks at all" "*/backend.sock*/backend1.sock*2 backends are here*verdict: ok*" "$text"
text=$("$vgpu" run --gpu soft --gpus 2 env CUDA_VISIBLE_DEVICES=1 "$vgpu" doctor 2>&1)
compare "doctor of a program that chose" "*verdict: ok*" "$text"
text=$("$vgpu" run --gpu soft "${gone[@]}" "$vgpu" doctor 2>&1)
compare "doctor names the one that is gone" "*no backend listens on $work/none.sock*a backend listens on*" "$text"
for n in 0 9 x; do
    says "run --gpus $n" "*--gpus*" "$vgpu" run --gpus $n true
done

echo "# in a guest"
missing=
for file in "$build/guest/initrd.cpio" "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}" \
    "${VGPU_DRIVER:-$build/kernel/vgpu_drv.ko}"; do
    [ -e "$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    skipped=$((skipped + 1))
    echo "not run: devices in a guest: not built:$missing"
else
    # Lines with a case's name enclose its answer.
    cat > "$work/in_guest" <<END
#!/bin/bash
ask() { echo "case \$1"; shift; "\$@" 2>&1; }
ask nodes sh -c 'ls /dev/vgpu*'
ask first "$client" cuda
ask second env CUDA_VISIBLE_DEVICES=1 "$client" cuda
ask nvml "$client" nvml
ask use "$client" use
ask use_second env CUDA_VISIBLE_DEVICES=1 "$client" use
ask beyond env CUDA_VISIBLE_DEVICES=1 "$client" beyond
ask doctor "$vgpu" doctor
ask cdi sh -c '"$vgpu" cdi generate | grep -o "/dev/vgpu[0-9]*" | sort -u'
if [ "\$(id -u)" = 0 ]; then
    chmod 600 /dev/vgpu0
    ask permission setpriv --reuid 65534 --clear-groups "$client" cuda
    ask kernel sh -c 'dmesg | grep -cE "BUG:|Oops|WARNING:"'
fi
ask end true
END
    chmod 755 "$work" "$work/in_guest"
    guest=$(cd "$work" && timeout 400 "$vgpu" vm run --gpu soft --gpus 2 --timeout 380 ./in_guest 2>&1)
    # answer NAME: prints a case's lines
    answer() { sed -n "/^case $1\$/,/^case /{/^case /d;p}" <<< "$guest"; }
    compare "in a guest: two nodes" /dev/vgpu0$'\n'/dev/vgpu1 "$(answer nodes)"
    compare "in a guest: the first" "init 0"$'\n'"$first" "$(answer first)"
    compare "in a guest: CUDA_VISIBLE_DEVICES=1" "init 0"$'\n'"$second" "$(answer second)"
    compare "in a guest: NVML has all" "$nvml" "$(answer nvml)"
    compare "in a guest: work on the first" "0:1:used 1:0:free" "$(answer use)"
    compare "in a guest: work on the second" "0:0:free 1:1:used" "$(answer use_second)"
    compare "in a guest: nothing of the other is in reach" "devices 1 $none" "$(answer beyond)"
    compare "in a guest: doctor" "*/dev/vgpu0 is there*/dev/vgpu1 is there*verdict: ok*" "$(answer doctor)"
    compare "in a guest: CDI has both" /dev/vgpu0$'\n'/dev/vgpu1 "$(answer cdi)"
    if [ "$(id -u)" = 0 ]; then
        compare "in a guest: a user who may not open the first" "init 0"$'\n'"$second" "$(answer permission)"
        compare "in a guest: the kernel's log" 0 "$(answer kernel)"
    else
        skipped=$((skipped + 1))
        echo "not run: permissions in a guest of two devices: the guest's root is needed"
    fi
    [ $failed = 0 ] || echo "$guest"
fi

echo "devices: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
