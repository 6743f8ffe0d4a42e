# SPDX-License-Identifier: MIT
# GCC's OpenMP offloading: the libgomp plugin uses libcuda directly and links PTX with cuLink. Sourced by run.sh.

# offload NAME CASE: runs a region of offload_client.c.
offload()
{
    local gcc=$host/usr/lib/gcc/x86_64-linux-gnu/12 text

    # The toolkit is not in the path, since its assembler no longer knows the GPUs that this GCC targets.
    if ! here_ env PATH="$host/usr/bin:/usr/bin:/bin" LIBRARY_PATH="$gcc:$libs" \
        COMPILER_PATH="$gcc:/usr/lib/gcc/x86_64-linux-gnu/12:$host/usr/bin" \
        gcc-12 -B"$gcc" -O2 -fopenmp -foffload=nvptx-none "-DCASE=$2" -o "$out/work/offload" "$here/offload_client.c" \
        -lm > "$log" 2>&1; then
        not_run "OpenMP offloading: $1" "GCC does not compile it on this machine: $(grep -m 1 error "$log")"
        return
    fi
    text=$(on 300 "$out/work/offload" 2>&1)
    if [ "${text##*[, ]}" = right ]; then
        ok "OpenMP offloading: $1"
    else
        bad "OpenMP offloading: $1" "$(tr '\n' ' ' <<< "$text")"
    fi
}

if ! command -v gcc-12 > /dev/null; then
    not_run "OpenMP offloading" "there is no gcc-12"
elif have "OpenMP offloading" offload; then
    offload "on the GPU" 1
    offload "teams distribute parallel for" 2
    offload reduction 3
    offload atomics 4
    offload "twelve regions in one program" 5
fi
