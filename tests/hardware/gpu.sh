#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gpu.sh BUILD: run by `make gpu` after the build, on a machine with an NVIDIA GPU: stages 1 to 3 of the kit's contact.sh,
# then recordings made on the software GPU replayed on the NVIDIA GPU, and vice versa. Results go to
# docs/results/nvidia/DATE-GPU. gpu.sh --driver: exit status 0 with a driver; 1 and the reason without.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)

if [ ! -e /dev/nvidiactl ] && [ ! -e /proc/driver/nvidia/version ]; then
    echo "not run: gpu: no NVIDIA driver"
    echo "gpu: 0 passed, 0 failed, 1 skipped"
    exit 1
fi
[ "${1:?}" != --driver ] || exit 0
build=$(cd "$1" && pwd) || exit 2
name=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1)
place=$top/docs/results/nvidia/$(date -u +%Y-%m-%d)-$(echo "${name:-unknown}" | tr -c 'A-Za-z0-9.\n' - | tr -s -)
mkdir -p "$place"
bash "$build/tests/hardware/kit/contact.sh" --gpu nvidia --out "$build/gpu" 1 2 3
bash "$top/tests/system/replay/gpu.sh" "$build/tests/system/replay" "$build" > "$build/gpu/replay.log" 2>&1
echo "replay: $(tail -n 1 "$build/gpu/replay.log")" | tee -a "$build/gpu/summary.txt"
for file in summary.txt 1-facts.log 1-native.log 1-enforce.log 2-conform.log 3-bench.log replay.log; do
    [ ! -e "$build/gpu/$file" ] || sed "s|$top|.|g" "$build/gpu/$file" > "$place/$file"
done
echo "written: ${place#"$top"/}"
failed=$(grep -cE '^[1-4]-[^ ]+ +(LATE|[1-9][0-9]*) ' "$build/gpu/summary.txt")
echo "gpu: $(grep -cE '^[1-4]-[^ ]+ +0 ' "$build/gpu/summary.txt") passed, $failed failed, $(grep -c '^not run' "$build/gpu/summary.txt") skipped"
[ "$failed" = 0 ]
