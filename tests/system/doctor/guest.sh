# SPDX-License-Identifier: MIT
# Part of run.sh: the same checks inside guests, in one boot with the device and one without.
echo "# in a guest"
missing=
for file in "$build/guest/initrd.cpio" "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}" \
    "${VGPU_DRIVER:-$build/kernel/vgpu_drv.ko}"; do
    [ -e "$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    skipped=$((skipped + 1))
    echo "not run: doctor in a guest: not built:$missing"
    return 0
fi
# Each line of the guest's report: NAME STATUS VERDICT; guest_case compares.
cat > "$work/in_guest" <<END
#!/bin/bash
ask() { # NAME COMMAND...
    name=\$1; shift
    text=\$("\$@" 2>&1); rc=\$?
    echo "case \$name \$rc \$(sed -n 's/^verdict: \([a-z-]*\).*/\1/p' <<< "\$text")"
    echo "\$text" | sed 's/^/  /'
}
ask works "$vgpu" doctor "$out/client"
ask table env VGPU_FAULT=table=500 "$vgpu" doctor "$out/client"
ask memory "$vgpu" doctor "$out/client" oom
echo "smi \$("$vgpu" smi --query-gpu=name,memory.total --format=csv,noheader)"
if [ "\$(id -u)" = 0 ]; then
    chmod 600 /dev/vgpu0
    ask permission setpriv --reuid 65534 --clear-groups "$vgpu" doctor
    rmmod vgpu_drv
    ask driver "$vgpu" doctor
fi
END
chmod 755 "$work" "$work/in_guest"
guest=$(cd "$work" && timeout 400 "$vgpu" vm run --gpu soft --timeout 380 ./in_guest 2>&1)

# guest_case NAME STATUS VERDICT
guest_case()
{
    if ! grep -q "^case $1 " <<< "$guest"; then
        bad "in a guest: $1" "no such case in: $guest"
    elif grep -q "^case $1 $2 $3\$" <<< "$guest"; then
        ok "in a guest: $1: $3"
    else
        bad "in a guest: $1" "$(grep -A 12 "^case $1 " <<< "$guest")"
    fi
}
guest_case works 0 ok
guest_case table 32 export-table-refused
guest_case memory 43 out-of-memory
if grep -q "^smi .*software GPU.*, [0-9]* MiB" <<< "$guest"; then
    ok "in a guest: vgpu smi"
else
    bad "in a guest: vgpu smi" "$(grep "^smi" <<< "$guest")"
fi
if [ "$(id -u)" = 0 ]; then
    guest_case permission 12 permission
    guest_case driver 11 driver-not-loaded
else
    skipped=$((skipped + 1))
    echo "not run: permission and driver in a guest: the guest's root is needed"
fi
# vgpu trace --vm leaves both traces of a program in a guest on the host, and returns the program's status.
(cd "$work" && timeout 400 "$vgpu" trace --vm --all --gpu soft --json vm.json --output vm.txt "$out/client" fails) \
    > "$work/vm.out" 2>&1
rc=$?
if [ $rc = 7 ] && grep -q '^42' "$work/vm.out" && totals "$work/vm.txt" && grep -qE "^cuLaunchKernel +1 +0 " "$work/vm.txt" &&
    grep -qE "^[0-9]+ records were sent to the worker" "$work/vm.txt" && /usr/bin/python3 - "$work/vm.json" <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
calls = [e for e in lines if e["type"] == "call"]
assert len(calls) > 500 and all(e["us"] >= 0 and e["tid"] > 0 for e in calls), len(calls)
assert [e["result"] for e in calls if e["call"] == "cuLaunchKernel"] == ["CUDA_SUCCESS"]
assert lines[-1]["type"] == "ring", lines[-1]
END
then
    ok "trace --vm: both traces, totals, exit status"
else
    bad "trace --vm" "status $rc: $(tail -n 40 "$work/vm.out"); $(tail -n 3 "$work/vm.txt")"
fi
verdict "a guest without the device" no-device 10 "neither" \
    timeout 300 "$vgpu" vm run --gpu none --timeout 280 "$vgpu" doctor
