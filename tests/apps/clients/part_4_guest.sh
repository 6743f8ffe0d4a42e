# SPDX-License-Identifier: MIT
# Some of the clients in a guest, in a single boot. Sourced by run.sh.

# frame FILTERS OPTIONS: prints the command that checksums a filtered frame.
frame()
{
    echo "$host/usr/bin/ffmpeg -nostdin -hide_banner -loglevel error $2 -f lavfi -i testsrc2=size=160x120" \
        "-vf format=yuv420p,$1,format=yuv420p -frames:v 1 -f md5 -"
}

guest_clients()
{
    local text want

    if [ ! -e "$build/guest/initrd.cpio" ] || [ ! -e "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}" ] ||
        [ ! -e "${VGPU_DRIVER:-$build/kernel/vgpu_drv.ko}" ]; then
        not_run "clients in a guest" "QEMU, the guest's kernel or the driver is not built"
        return
    fi
    have "clients in a guest" nvml && have "clients in a guest" ffmpeg || return
    starts "clients in a guest" sh -c "'$host/usr/bin/ffmpeg' -version && '$host/usr/bin/lstopo-no-graphics' --version &&
        /usr/bin/python3 -c 'import pynvml'" || return
    want=$(here_ sh -c "$(frame scale=320:240:flags=neighbor '')" 2> "$log")
    text=$(here_ timeout 500 "$vgpu" vm run --gpu soft --timeout 480 sh -c "
        /usr/bin/python3 -B '$here/nvml_client.py'
        '$host/usr/bin/lstopo-no-graphics' --of console -v | grep CUDAGlobal
        $(frame hwupload,scale_cuda=320:240:interp_algo=nearest,hwdownload \
            '-init_hw_device cuda=c -filter_hw_device c')" 2>> "$log")
    same "guest: python3-pynvml" "name $name" "$(grep '^name' <<< "$text")"
    same "guest: python3-pynvml: memory" "total $memory" "$(grep '^total' <<< "$text")"
    same "guest: lstopo" "CUDAGlobalMemorySize=$((memory * 1024))" \
        "$(grep -o 'CUDAGlobalMemorySize=[0-9]*' <<< "$text" | head -n 1)"
    same "guest: ffmpeg: scale_cuda" "$want" "$(grep '^MD5' <<< "$text")"
}
guest_clients
