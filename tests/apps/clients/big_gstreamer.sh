# SPDX-License-Identifier: MIT
# GStreamer's nvcodec. Sourced by run.sh all. The plugin registers elements only beside NVIDIA's libnvcuvid or
# libnvidia-encode. libnvcuvid needs a table of the driver that our libcuda lacks, so only decoders are missing.

# gst LIBRARIES COMMAND...: runs COMMAND with these NVIDIA libraries in the path and a registry of its own.
gst()
(
    export GST_PLUGIN_SCANNER=$libs/gstreamer1.0/gstreamer-1.0/gst-plugin-scanner GST_REGISTRY_FORK=no
    export GST_PLUGIN_SYSTEM_PATH_1_0=$libs/gstreamer-1.0:/usr/lib/x86_64-linux-gnu/gstreamer-1.0
    export GST_REGISTRY=$out/home/gst-${1:+nvidia-}registry
    export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    shift
    "$@"
)

gstreamer_client()
{
    local cuvid=$out/cuvid/usr/lib/x86_64-linux-gnu/nvidia/current trace=$out/work/gst.trace text
    local source=(videotestsrc num-buffers=4 ! video/x-raw,format=RGBA,width=256,height=240 !)

    have GStreamer gstreamer && starts GStreamer "$host/usr/bin/gst-inspect-1.0" --version || return
    rm -f "$out"/home/gst-*registry "$out"/work/gst.*
    text=$(gst "" on 120 "$host/usr/bin/gst-inspect-1.0" nvcodec 2>&1)
    if grep -q "0 features" <<< "$text"; then
        ok "GStreamer: nvcodec without NVIDIA's video libraries: no element, and it goes on"
    else
        bad "GStreamer: nvcodec without NVIDIA's video libraries" "$(tail -n 1 <<< "$text")"
    fi
    have "GStreamer with libnvcuvid" cuvid || return
    text=$(gst "$cuvid" on 120 "$host/usr/bin/gst-inspect-1.0" nvcodec 2>&1)
    if grep -q "cudaupload:" <<< "$text" && grep -q "cudadownload:" <<< "$text" && ! grep -q "nv.*dec:" <<< "$text"; then
        ok "GStreamer: nvcodec with libnvcuvid: copies, no decoder"
    else
        bad "GStreamer: nvcodec with libnvcuvid" "$(tail -n 3 <<< "$text" | tr '\n' ' ')"
    fi
    gst "$cuvid" here_ "$host/usr/bin/gst-launch-1.0" -q "${source[@]}" filesink "location=$out/work/gst.cpu" > "$log" 2>&1
    gst "$cuvid" here_ timeout 120 "$vgpu" run --gpu soft --trace "$host/usr/bin/gst-launch-1.0" -q "${source[@]}" \
        cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudadownload ! filesink "location=$out/work/gst.gpu" > "$log" 2> "$trace"
    if [ -s "$out/work/gst.cpu" ] && cmp -s "$out/work/gst.cpu" "$out/work/gst.gpu" &&
        [ "$(grep -c 'cuMemcpy2D.*= CUDA_SUCCESS' "$trace")" -ge 8 ]; then
        ok "GStreamer: four frames to the GPU and back"
    else
        bad "GStreamer: four frames to the GPU and back" "$(tail -n 1 "$trace")"
    fi
}
gstreamer_client
