# SPDX-License-Identifier: MIT
# Part of install_test.sh: get-nvidia-smi, with packages of its own in place of NVIDIA's, and apt's place taken.
echo "# get-nvidia-smi"
get=$here/get-nvidia-smi.sh
mkdir -p "$work/smi/DEBIAN" "$work/smi/usr/lib/nvidia/current" "$work/apt" "$work/none/DEBIAN"
printf '#!/bin/sh\necho smi\n' > "$work/smi/usr/lib/nvidia/current/nvidia-smi"
chmod +x "$work/smi/usr/lib/nvidia/current/nvidia-smi"
# Debian's package has other files of that name, in any order.
for folder in usr/share/lintian/overrides usr/lib/nvidia/aaa; do
    mkdir -p "$work/smi/$folder"
    echo overrides > "$work/smi/$folder/nvidia-smi"
done
printf 'Package: nvidia-smi\nVersion: 535.1-1\nArchitecture: amd64\nMaintainer: none <none@example.org>\nDepends: libnvidia-ml1 (= 535.1-1)\nDescription: stands in\n' \
    | tee "$work/smi/DEBIAN/control" > "$work/none/DEBIAN/control"
if ! dpkg-deb -b "$work/smi" "$work/apt/nvidia-smi_535.1-1_amd64.deb" > /dev/null 2>&1; then
    skip "get-nvidia-smi" "no dpkg-deb"
    return 0
fi
dpkg-deb -b "$work/none" "$work/none.deb" > /dev/null
printf '#!/bin/sh\n[ "$2 $3" = "download nvidia-smi" ] && cp "%s"/*.deb .\n' "$work/apt" > "$work/apt/apt-get"
chmod +x "$work/apt/apt-get"
export PREFIX=$work/local
says "get-nvidia-smi: by apt" 0 "local/bin/nvidia-smi: of nvidia-smi 535.1-1" env PATH="$work/apt:$PATH" "$get"
says "get-nvidia-smi: the program runs" 0 "^smi$" "$work/local/bin/nvidia-smi"
says "get-nvidia-smi: once more, of a file" 0 "535.1-1" "$get" "$work/apt/nvidia-smi_535.1-1_amd64.deb"
says "get-nvidia-smi: a package without it" 1 "there is no program nvidia-smi in it" "$get" "$work/none.deb"
says "get-nvidia-smi: no package" 1 "no package of Debian's" "$get" "$work/smi/DEBIAN/control"
says "get-nvidia-smi: nothing" 1 "no such file" "$get" "$work/nothing.deb"
says "get-nvidia-smi: wrong use" 2 "get-nvidia-smi \[--remove\]" "$get" --fly
says "get-nvidia-smi: --remove" 0 "" "$get" --remove
[ -z "$(find "$work/local" -type f)" ]
check "get-nvidia-smi --remove leaves nothing" $? "$(find "$work/local" -type f)"
: > "$work/local/bin/nvidia-smi"
says "get-nvidia-smi: a program of somebody else's stays" 1 "has not placed it" "$get" "$work/apt/nvidia-smi_535.1-1_amd64.deb"
says "get-nvidia-smi --remove: likewise" 1 "is not what this script has placed" "$get" --remove
printf '#!/bin/sh\necho "E: Unable to locate package" >&2\nexit 100\n' > "$work/apt/apt-get"
rm "$work/local/bin/nvidia-smi"
says "get-nvidia-smi: apt has none" 1 "component non-free" env PATH="$work/apt:$PATH" "$get"
unset PREFIX
