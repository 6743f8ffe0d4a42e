#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD check|all|table: NVIDIA's libraries of runtimes.txt, over the socket.
#
# check: every runtime in three ways; NVRTC of three series. all: every part of every series, and three in a guest.
# table: the same as all, and writes docs/results/runtimes.md.
set -u
out=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
mode=$3
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
vgpu=$build/userspace/vgpu/vgpu
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-runtimes.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION LD_LIBRARY_PATH
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING CUDA_LAUNCH_BLOCKING
unset VGPU_SOFT_CC VGPU_SOFT_LIBRARY_CC
few='11.8 12.6 13.0 13.5' # series of which check tries NVRTC, and all a guest

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }
not_run() { skipped=$((skipped + 1)); echo "not run: $1: $2"; }

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 host/backend/vgpu-backend \
    host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    echo "not run: runtimes: not built:$missing"
    echo "runtimes: 0 passed, 0 failed, 1 skipped"
    exit 0
fi

# library SERIES PART: prints the path of the package's library, downloading it if necessary; on failure sets why.
library()
{
    local spec hash bytes place
    read -r spec hash bytes < <(awk -v s="$1" -v p="$2" '$1 == s && $2 == p { print $3, $4, $5 }' "$here/runtimes.txt")
    place=$(bash "$here/fetch.sh" "$spec" "$hash" "$bytes" 2> "$work/why") || return 1
    find "$place" -name "lib$2.so.1*" ! -name '*.alt.*' | head -n 1
}

# cells FILE: prints each part named in FILE with its result, separated by tabs.
cells()
{
    awk -F ': ' '$1 ~ /^(ok|FAIL) / { part = $1; sub(/^[a-zA-Z]* /, "", part); if (!(part in was)) order[++n] = part; was[part] }
        $1 ~ /^FAIL / && !(part in why) { why[part] = $0; sub(/^[^:]*: /, "", why[part]) }
        END { for (i = 1; i <= n; i++) print order[i] "\t" (order[i] in why ? why[order[i]] : "right") }' "$1"
}

# tried NAME SERIES WHERE TRACE STATUS OUTPUT: counts a run, and keeps its cells for the table.
tried()
{
    local refused
    refused=$(grep -m 3 -h 'is not served\|refused\|has no PTX' "$4" 2> /dev/null | paste -sd ';')
    cells "$6" | sed "s/^/$2\t$3\t/" >> "$work/cells"
    if [ "$5" != 0 ] || ! grep -q '^all steps passed' "$6"; then
        bad "$1" "status $5: $(grep -v '^ok' "$6" | paste -sd ';') $refused"
    elif grep -q 'is not served' "$4" 2> /dev/null; then
        bad "$1" "$refused"
    else
        ok "$1: $(grep -h '^runtime\|^nvrtc\|^cublas' "$6" | head -n 1)"
    fi
}

# over_socket NAME SERIES COMMAND...: a run of the client over the socket.
over_socket()
{
    local name=$1 series=$2 rc
    shift 2
    rm -f "$work/trace"
    timeout 300 env VGPU_TRACE="$work/trace" "$vgpu" run --gpu soft "$@" > "$work/output" 2>&1 < /dev/null
    rc=$?
    tried "$name" "$series" socket "$work/trace" $rc "$work/output"
}

# in_guest SERIES: the runtime, NVRTC and cuBLAS in a virtual machine with access to the cache.
in_guest()
{
    local series=$1 rc
    if [ ! -x "$build/qemu/bin/qemu-system-x86_64" ]; then
        not_run "$series in a guest" "no QEMU in $build/qemu"
        return
    fi
    {
        echo "set -e"
        echo "LD_LIBRARY_PATH=${cublas%/*}:\$LD_LIBRARY_PATH $out/library $cudart cublas $cublas"
        echo "LD_LIBRARY_PATH=${nvrtc%/*}:\$LD_LIBRARY_PATH $out/library $cudart nvrtc $nvrtc /tmp/advance.ptx"
        echo "$out/client $cudart /tmp/advance.ptx"
    } > "$work/guest.sh"
    (cd "$work" && timeout 900 "$vgpu" vm run --gpu soft /bin/bash "$work/guest.sh") > "$work/output" 2>&1 < /dev/null
    rc=$?
    tried "$series in a guest" "$series" guest /dev/null $rc "$work/output"
}

for series in $(awk '$2 == "cudart" { print $1 }' "$here/runtimes.txt"); do
    if ! cudart=$(library "$series" cudart); then
        not_run "libcudart $series" "$(tail -n 1 "$work/why")"
        continue
    fi
    ptx=
    if [ "$mode" != check ] || [[ " $few " = *" $series "* ]]; then
        if nvrtc=$(library "$series" nvrtc); then
            ptx=$work/advance-$series.ptx
            LD_LIBRARY_PATH=${nvrtc%/*} \
                over_socket "NVRTC $series" "$series" "$out/library" "$cudart" nvrtc "$nvrtc" "$ptx"
            [ -s "$ptx" ] || ptx=
        else
            not_run "NVRTC $series" "$(tail -n 1 "$work/why")"
        fi
    fi
    over_socket "libcudart $series" "$series" "$out/client" "$cudart" ${ptx:+"$ptx"}
    grep -h '^ptx' "$work/output" | sed "s/^ptx /$series\tptx\tisa\t/" >> "$work/cells"
    CUDA_MODULE_LOADING=EAGER over_socket "libcudart $series, eager loading" - "$out/client" "$cudart" ${ptx:+"$ptx"}
    # A driver serves every runtime of its own or an older major version.
    VGPU_DRIVER_VERSION=$((${series%.*} * 1000)) \
        over_socket "libcudart $series, driver ${series%.*}.0" - "$out/client" "$cudart" ${ptx:+"$ptx"}
    [ "$mode" = check ] && continue
    if ! cublas=$(library "$series" cublas); then
        not_run "cuBLAS $series" "$(tail -n 1 "$work/why")"
        continue
    fi
    LD_LIBRARY_PATH=${cublas%/*} over_socket "cuBLAS $series" "$series" "$out/library" "$cudart" cublas "$cublas"
    [[ " $few " = *" $series "* ]] && [ -n "$ptx" ] && in_guest "$series"
done

if [ "$mode" = table ]; then
    awk -F '\t' -v date="$("$top/scripts/results.py" stamp)" -f "$here/table.awk" "$here/runtimes.txt" "$work/cells" > "$work/table" &&
        cp "$work/table" "$top/docs/results/runtimes.md" && echo "written: docs/results/runtimes.md"
fi
echo "runtimes: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
