# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: the ranges of the options of `vgpu vm run`, and how often an option may be given. The options are read in
# turn, so that --help behind them ends a call whose options are right.
touch "$work/disk.img"
# repeated N WORD...: the words N times, with @ as the number of each
repeated()
{
    local n=$1
    shift
    for ((i = 1; i <= n; i++)); do printf '%s\n' "${@//@/$i}"; done
}
# vm_option NAME STATUS PATTERN WORD...
vm_option()
{
    says "vm options: $1" "$2" "$3" "$vgpu" vm run "${@:4}" --help
}
name40=abcdefghijklmnopqrstuvwxyzABCDEF.123_4-5
while read -r option low high; do
    vm_option "$option $low" 0 "usage: vgpu vm run" "$option" "$low"
    vm_option "$option $high" 0 "usage: vgpu vm run" "$option" "$high"
    vm_option "$option $((low - 1))" 2 "not a number from $low to $high" "$option" "$((low - 1))"
    vm_option "$option $((high + 1))" 2 "not a number from $low to $high" "$option" "$((high + 1))"
done <<'END'
--memory 256 1048576
--mem 256 1048576
--cpus 1 64
--timeout 1 1000000
END
for port in 1:1 65535:65535; do vm_option "--port $port" 0 "usage: vgpu vm run" --port $port; done
for port in 0:1 1:0 65536:1 1:65536 1: :1 1; do vm_option "--port $port" 2 "port" --port $port; done
mapfile -t words < <(repeated 32 --port @:@)
vm_option "32 ports" 0 "usage: vgpu vm run" "${words[@]}"
vm_option "33 ports" 2 "a guest has at most 32" "${words[@]}" --port 33:33
mapfile -t words < <(repeated 8 --disk "$work/disk.img")
vm_option "8 disks" 0 "usage: vgpu vm run" "${words[@]}"
vm_option "9 disks" 2 "a guest has at most 8" "${words[@]}" --disk "$work/disk.img"
vm_option "a name of one letter" 0 "usage: vgpu vm run" --name a
vm_option "a name of 40 characters" 0 "usage: vgpu vm run" --name $name40
vm_option "a name of 41 characters" 2 "at most 40 letters" --name a$name40
for name in "" -a 12 "a b" a/b; do vm_option "the name '$name'" 2 "is not a name" --name "$name"; done
