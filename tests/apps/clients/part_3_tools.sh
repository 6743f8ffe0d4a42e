# SPDX-License-Identifier: MIT
# FFmpeg's filters, hashcat. Sourced by run.sh.

# psnr FILE FILE: prints the lowest value of all frames in dB, "inf" for equal files.
psnr()
{
    here_ "$host/usr/bin/ffmpeg" -nostdin -hide_banner -i "$1" -i "$2" -lavfi psnr -f null - 2>&1 |
        sed -n 's/.*PSNR.* min:\([^ ]*\).*/\1/p'
}

# filter NAME LEAST GPU_FILTERS CPU_FILTERS: four frames through both; LEAST: minimum PSNR, dB (inf: equal).
filter()
{
    local gpu=$out/work/gpu.y4m cpu=$out/work/cpu.y4m alike
    local f=("$host/usr/bin/ffmpeg" -nostdin -hide_banner -loglevel error -y)
    local source=(-f lavfi -i testsrc2=size=320x240)

    rm -f "$gpu" "$cpu"
    on 120 "${f[@]}" -init_hw_device cuda=c -filter_hw_device c "${source[@]}" -filter_complex "[0:v]$3" -frames:v 4 "$gpu" \
        > "$log" 2>&1
    here_ "${f[@]}" "${source[@]}" -filter_complex "[0:v]$4" -frames:v 4 "$cpu" >> "$log" 2>&1
    [ ! -s "$log" ] || { bad "ffmpeg: $1" "$(head -n 2 "$log" | tr '\n' ' ')"; return; }
    alike=$(psnr "$gpu" "$cpu")
    if [ "$alike" = inf ] || { [ "$2" != inf ] && [ "${alike%.*}" -ge "$2" ] 2> /dev/null; }; then
        ok "ffmpeg: $1: $alike dB"
    else
        bad "ffmpeg: $1" "$alike dB between GPU and CPU, $2 expected"
    fi
}

ffmpeg_filters()
{
    local up=format=yuv420p,hwupload down=hwdownload,format=yuv420p

    have ffmpeg ffmpeg && starts ffmpeg "$host/usr/bin/ffmpeg" -version || return
    filter "hwupload, hwdownload" inf "$up,$down" format=yuv420p
    filter "scale_cuda nearest" inf "$up,scale_cuda=640:480:interp_algo=nearest,$down" format=yuv420p,scale=640:480:flags=neighbor
    filter "scale_cuda bilinear" 30 "$up,scale_cuda=160:120:interp_algo=bilinear,$down" format=yuv420p,scale=160:120:flags=bilinear
    filter "scale_cuda bicubic" 38 "$up,scale_cuda=640:480:interp_algo=bicubic,$down" format=yuv420p,scale=640:480:flags=bicubic
    filter "scale_cuda format" inf "$up,scale_cuda=format=nv12,hwdownload,format=nv12,format=yuv420p" format=yuv420p
    filter yadif_cuda 45 "$up,yadif_cuda=0,$down" format=yuv420p,yadif=0
    filter thumbnail_cuda inf "format=nv12,hwupload,thumbnail_cuda=n=2,hwdownload,format=nv12,format=yuv420p" \
        format=nv12,thumbnail=n=2,format=yuv420p
    filter overlay_cuda inf \
        "format=yuv420p,split[a][b];[b]scale=64:64[c];[a]hwupload[d];[c]hwupload[e];[d][e]overlay_cuda=32:40,$down" \
        "format=yuv420p,split[a][b];[b]scale=64:64[c];[a][c]overlay=32:40,format=yuv420p"
}
ffmpeg_filters

# hashcat looks for its files beside its program, and compiles kernels with NVRTC at its start.
hashcat_client()
{
    local word=abz7 hash text place=$out/hashcat

    have hashcat hashcat || return
    if [ ! -e "$place/hashcat" ]; then
        mkdir -p "$place"
        ln -sfn "$host"/usr/share/hashcat/* "$host"/usr/lib/hashcat/* "$place/"
        cp "$host/usr/bin/hashcat" "$place/"
    fi
    starts hashcat "$place/hashcat" --version || return
    hash=$(printf %s "$word" | md5sum | cut -d ' ' -f 1)
    text=$(on 400 "$place/hashcat" -m 0 -a 3 "$hash" '?l?l?l?d' -n 1 -u 64 -T 32 --potfile-disable --force 2>&1 < /dev/null)
    if grep -q "^$hash:$word" <<< "${text//$'\r'/$'\n'}"; then
        ok "hashcat: MD5 of a word found"
    else
        bad hashcat "$(tail -n 3 <<< "$text" | tr '\n' ' ')"
    fi
}
if [ -e "$CUDA_HOME/lib64/libnvrtc.so" ]; then
    hashcat_client
else
    not_run hashcat "there is no NVRTC in $CUDA_HOME"
fi
