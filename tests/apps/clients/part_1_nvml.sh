# SPDX-License-Identifier: MIT
# Programs that monitor GPUs. Sourced by run.sh.

nvml_clients()
{
    have "NVML clients" nvml || return
    starts python3-pynvml /usr/bin/python3 -c 'import pynvml' && pynvml_client
    starts gpustat "$host/usr/bin/gpustat" --version && gpustat_client
    starts lstopo "$host/usr/bin/lstopo-no-graphics" --version && lstopo_client
    starts nvtop "$host/usr/bin/nvtop" --version && nvtop_client
}

pynvml_client()
{
    local text

    text=$(on 120 /usr/bin/python3 "$here/nvml_client.py" 2>&1)
    same "python3-pynvml: count" "count 1" "$(grep '^count' <<< "$text")"
    same "python3-pynvml: name" "name $name" "$(grep '^name' <<< "$text")"
    same "python3-pynvml: uuid" "uuid $uuid" "$(grep '^uuid' <<< "$text")"
    same "python3-pynvml: memory" "total $memory" "$(grep '^total' <<< "$text")"
    same "python3-pynvml: sums" "consistent True" "$(grep '^consistent' <<< "$text")"
    same "python3-pynvml: driver" "driver $driver" "$(grep '^driver' <<< "$text")"
    same "python3-pynvml: capability" "capability $capability" "$(grep '^capability' <<< "$text")"
    same "python3-pynvml: by UUID" "by_uuid 0" "$(grep '^by_uuid' <<< "$text")"
    same "python3-pynvml: no such index" "index_77 refused" "$(grep '^index_77' <<< "$text")"
    same "python3-pynvml: after shutdown" "after_shutdown refused" "$(grep '^after' <<< "$text")"
}

gpustat_client()
{
    local text json

    json=$(on 120 "$host/usr/bin/gpustat" --json 2> "$log")
    text=$(/usr/bin/python3 -c 'import json, sys
g = json.load(sys.stdin)["gpus"]
print(len(g), g[0]["name"], g[0]["uuid"], g[0]["memory.total"], g[0]["temperature.gpu"])' <<< "$json" 2>> "$log")
    same "gpustat" "1 $name $uuid $memory None" "$text"
}

lstopo_client()
{
    on 120 "$host/usr/bin/lstopo-no-graphics" --of console -v > "$out/work/lstopo" 2> "$log"
    same "lstopo: CUDA" "CUDAGlobalMemorySize=$((memory * 1024))" \
        "$(grep -o 'CUDAGlobalMemorySize=[0-9]*' "$out/work/lstopo" | head -n 1)"
    same "lstopo: NVML" "NVIDIAUUID=$uuid" "$(grep -o 'NVIDIAUUID=[-A-Za-z0-9]*' "$out/work/lstopo" | head -n 1)"
}

nvtop_client()
{
    if on 180 /usr/bin/python3 "$here/screen.py" 'q' 'Device 0' "${name%% (*}" "MEM *\\[[^]]*/$((memory / 1024)).000Gi" -- \
        "$host/usr/bin/nvtop" -p > "$log" 2>&1; then
        ok "nvtop: device, name and memory on the screen"
    else
        bad nvtop "$(tail -c 300 "$log" | tr -d '\033\r' | tr '\n' ' ')"
    fi
}
nvml_clients

# NVIDIA's nvidia-smi, of a release older than the reported driver, while the client holds a context.
nvidia_smi()
{
    local group release smi text rc

    for group in smi smi550 smi555; do
        have "nvidia-smi ($group)" $group || continue
        smi=$host
        [ $group = smi ] || smi=$out/$group
        smi=$(find "$smi/usr/lib/nvidia" -name nvidia-smi -type f | head -n 1)
        starts "nvidia-smi ($group)" "$smi" --help || continue
        release=$("$smi" --help | sed -n 's/^NVIDIA System Management Interface -- v//p')
        text=$(on 300 /usr/bin/python3 "$here/smi_client.py" "$smi" "$name" "$uuid" "$memory" 2> "$log")
        rc=$?
        lines "nvidia-smi $release" "$text" $rc
        [ $rc = 0 ] || tail -n 40 "$log"
    done
}
nvidia_smi

# Prometheus' checker reads the output of `vgpu metrics`; it dislikes dcgm-exporter's label modelName.
promtool()
{
    local checker=$out/prom/usr/bin/promtool text

    have promtool prom || return
    starts promtool "$checker" --version || return
    text=$(on 120 sh -c '"$1" metrics > "$2" && "$3" check metrics < "$2"' sh "$vgpu" "$out/metrics" "$checker" 2>&1)
    same "promtool: vgpu metrics" "nothing wrong" "$(grep -v "'snake_case' not 'camelCase'" <<< "$text" || echo nothing wrong)"
    same "promtool: there were metrics" "gauge" "$(sed -n 's/^# TYPE DCGM_FI_DEV_GPU_UTIL //p' "$out/metrics")"
}
promtool
