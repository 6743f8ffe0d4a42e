# SPDX-License-Identifier: MIT
# Programs in Rust and Java: cudarc, JCuda. Sourced by run.sh all.

cache=${VGPU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vgpu-cuda}

# took NAME SECONDS COMMAND...: runs COMMAND on the GPU, counts the result lines of its tests.
took()
{
    local name=$1 limit=$2 line text

    shift 2
    text=$(on "$limit" "$@" 2>&1)
    grep -q '^\(ok - \|FAIL: \)' <<< "$text" || bad "$name" "$(tail -n 1 <<< "$text")"
    while read -r line; do
        case $line in
        "ok - "*) ok "$name: ${line#ok - }" ;;
        "FAIL: "*) bad "$name" "${line#FAIL: }" ;;
        esac
    done <<< "$text"
}

# crate NAME SECONDS: builds crates/NAME with its Cargo.lock and runs it.
crate()
{
    local name=$1 limit=$2
    local cargo=(cargo build --locked --release --manifest-path "$here/crates/$name/Cargo.toml" --target-dir "$out/crates/$name")

    if ! command -v cargo > /dev/null; then
        not_run "$name" "there is no cargo"
        return
    fi
    if [ ! -e "$CUDA_HOME/lib64/libcublas.so" ] || [ ! -e "$CUDA_HOME/lib64/libnvrtc.so" ]; then
        not_run "$name" "there is no cuBLAS or no NVRTC in $CUDA_HOME"
        return
    fi
    # The build must not query this machine's GPU, which may not exist.
    if ! CARGO_HOME=$cache/cargo CUDA_HOME=$CUDA_HOME CUDA_PATH=$CUDA_HOME CUDA_COMPUTE_CAP=80 \
        PATH=$CUDA_HOME/bin:$PATH timeout "$limit" "${cargo[@]}" > "$log" 2>&1; then
        not_run "$name" "cargo does not build it here: $(grep -m 1 '^error' "$log" || tail -n 1 "$log")"
        return
    fi
    took "$name" 600 "$out/crates/$name/release/$name-client"
}
crate cudarc 1800

# jar ARTIFACT SHA256 BYTES: prints the JAR's path; on failure the reason on standard error.
jar() { /usr/bin/python3 -B "$here/../../../scripts/maven.py" "org.jcuda:$1" "$2" "$3" "$cache/downloads"; }

# JCuda extracts its libraries from its JAR; the runtime's library contains NVIDIA's libcudart 12.6.
jcuda_client()
{
    local api natives

    if ! command -v javac > /dev/null || ! command -v java > /dev/null; then
        not_run JCuda "there is no JDK"
        return
    fi
    if ! api=$(jar jcuda:12.6.0 370c8d22172baabb3c76ef3a3685cfc4ace2145469b811ce3f227bbbcfa9fe42 226140 2> "$log") ||
        ! natives=$(jar jcuda-natives:12.6.0:linux-x86_64 \
            5f0e60b0de0f1415060445136517f4a97565ae62fc49f21582b433e6aa0f4469 9538465 2> "$log"); then
        not_run JCuda "$(tail -n 1 "$log")"
        return
    fi
    mkdir -p "$out/jcuda"
    if ! javac -cp "$api" -d "$out/jcuda" "$here/JCudaClient.java" > "$log" 2>&1; then
        bad JCuda "javac: $(head -n 1 "$log")"
        return
    fi
    took JCuda 300 java "-Djava.io.tmpdir=$out/jcuda" -cp "$api:$natives:$out/jcuda" JCudaClient
}
jcuda_client
