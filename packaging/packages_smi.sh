# SPDX-License-Identifier: MIT
# Part of packages_test.sh: NVIDIA's own nvidia-smi, out of Debian's non-free, beside libcuda1-vgpu by get-nvidia-smi.
say "NVIDIA's nvidia-smi"
overlay smi "$work/tools/up:$root"
mkdir -p "$work/smi/root/test"
for name in libcuda1-vgpu vgpu-backend vgpu-softgpu vgpu-tools; do
    cp "$out"/first/"${name}"_*.deb "$work/smi/root/test/"
done
text=$(within smi bash -c 'dpkg -i /test/*.deb' 2>&1)
check "nvidia-smi: our packages" $? "$(tail -n 5 <<< "$text")"
text=$(within smi /usr/lib/vgpu/get-nvidia-smi 2>&1)
[ $? = 1 ] && grep -q 'add the component non-free' <<< "$text" && [ ! -e "$work/smi/root/usr/local/bin/nvidia-smi" ]
check "get-nvidia-smi without non-free says what to add" $? "$text"
cp /etc/resolv.conf "$work/smi/root/etc/resolv.conf" 2> /dev/null
sed 's/ main$/ non-free/; t; d' "$work/smi/root/etc/apt/sources.list" > "$work/smi/root/etc/apt/sources.list.d/non-free.list"
if ! text=$(within smi bash -c 'apt-get -qq update && apt-cache policy nvidia-smi' 2>&1) || ! grep -q 'Candidate: [0-9]' <<< "$text"; then
    echo "not run: packages: NVIDIA's nvidia-smi: the archive does not give non-free: $(tail -n 1 <<< "$text")"
    skipped=$((skipped + 1))
else
    # What the script is for.
    text=$(within smi apt-get -s install nvidia-smi libcuda1-vgpu 2>&1)
    [ $? != 0 ] || grep -q '^Remv libcuda1-vgpu' <<< "$text"
    check "apt does not install NVIDIA's nvidia-smi beside libcuda1-vgpu" $? "$(tail -n 5 <<< "$text")"
    text=$(within smi /usr/lib/vgpu/get-nvidia-smi 2>&1)
    [ $? = 0 ] && grep -q '^/usr/local/bin/nvidia-smi: of nvidia-smi [0-9]' <<< "$text"
    check "get-nvidia-smi places the program of Debian's package" $? "$text"
    text=$(within smi vgpu run --gpu soft /usr/local/bin/nvidia-smi -L 2>&1)
    [ $? = 0 ] && grep -q '^GPU 0: ' <<< "$text"
    check "NVIDIA's nvidia-smi -L shows the GPU" $? "$text"
    text=$(within smi vgpu run --gpu soft /usr/local/bin/nvidia-smi 2>&1)
    [ $? = 0 ] && grep -q '| NVIDIA-SMI ' <<< "$text"
    check "NVIDIA's nvidia-smi shows its table" $? "$text"
    text=$(within smi /usr/lib/vgpu/get-nvidia-smi --remove 2>&1)
    [ $? = 0 ] && [ ! -e "$work/smi/root/usr/local/bin/nvidia-smi" ] && within smi dpkg -s libcuda1-vgpu > /dev/null
    check "get-nvidia-smi --remove leaves our package" $? "$text"
fi
