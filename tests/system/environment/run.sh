#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: NVIDIA's environment variables (docs/environment.md) over the socket.
set -u
out=$1
build=$2
vgpu=$build/userspace/vgpu/vgpu
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-environment.XXXXXX")
passed=0 failed=0 skipped=0
server=
trap '[ -z "$server" ] || kill $server; rm -rf "$work"' EXIT
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION LD_LIBRARY_PATH
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING CUDA_LAUNCH_BLOCKING VGPU_SOFT_CC

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }

# says NAME WANT COMMAND...: the command's output must match WANT, a pattern of bash
says()
{
    local name=$1 want=$2 text
    shift 2
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    # shellcheck disable=SC2053
    if [[ $text == $want ]]; then ok "$name"; else bad "$name" "'$text' instead of '$want'"; fi
}

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 \
    host/backend/vgpu-backend host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    echo "not run: environment: not built:$missing"
    echo "environment: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
soft=(env VGPU_SOFT_CC=9.0,12.0,7.5)
run=("$vgpu" run --gpu soft "$out/client")

echo "# CUDA_VISIBLE_DEVICES"
says "not set" "init 0: 9.0:32 12.0:24 7.5:16" "${soft[@]}" "${run[@]}" devices
says "empty" "init 100:" "${soft[@]}" CUDA_VISIBLE_DEVICES= "${run[@]}" devices
says "one" "init 0: 12.0:24" "${soft[@]}" CUDA_VISIBLE_DEVICES=1 "${run[@]}" devices
says "another order" "init 0: 7.5:16 9.0:32" "${soft[@]}" CUDA_VISIBLE_DEVICES=2,0 "${run[@]}" devices
says "ends at -1" "init 0: 9.0:32 7.5:16" "${soft[@]}" CUDA_VISIBLE_DEVICES=0,2,-1,1 "${run[@]}" devices
says "-1" "init 100:" "${soft[@]}" CUDA_VISIBLE_DEVICES=-1 "${run[@]}" devices
says "ends at the first number of no device" "init 0: 12.0:24" \
    "${soft[@]}" CUDA_VISIBLE_DEVICES=1,3,0 "${run[@]}" devices
says "one named twice" "init 100:" "${soft[@]}" CUDA_VISIBLE_DEVICES=1,1 "${run[@]}" devices
mapfile -t uuid < <("${soft[@]}" "${run[@]}" uuids)
says "UUIDs" "init 0: 7.5:16 12.0:24" \
    "${soft[@]}" CUDA_VISIBLE_DEVICES="${uuid[2]},${uuid[1]}" "${run[@]}" devices
says "a UUID of no device" "init 100:" "${soft[@]}" CUDA_VISIBLE_DEVICES=GPU-ffffffff "${run[@]}" devices
says "CUDA_DEVICE_ORDER" "init 0: 12.0:24" \
    "${soft[@]}" CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 "${run[@]}" devices
says "hidden devices are out of reach" "own 0, create 1, pool access 1, peer 1" \
    "${soft[@]}" CUDA_VISIBLE_DEVICES=2 "${run[@]}" hidden

echo "# launches and modules"
says "launches do not block" "launch 0 query *, captured 0, fault 0, then 700" "${run[@]}" blocking
says "CUDA_LAUNCH_BLOCKING=1" "launch 0 query 0, captured 0, fault 700, then 700" \
    env CUDA_LAUNCH_BLOCKING=1 "${run[@]}" blocking
says "CUDA_LAUNCH_BLOCKING=0" "launch 0 query *, captured 0, fault 0, then 700" \
    env CUDA_LAUNCH_BLOCKING=0 "${run[@]}" blocking
says "CUDA_MODULE_LOADING not set" "loading 2" "${run[@]}" loading
says "CUDA_MODULE_LOADING=EAGER" "loading 1" env CUDA_MODULE_LOADING=EAGER "${run[@]}" loading
says "CUDA_MODULE_LOADING=DEFAULT" "loading 2" env CUDA_MODULE_LOADING=DEFAULT "${run[@]}" loading

echo "# waits"
# counts NAME WHAT KEY WANT COMMAND...: KEY of VGPU_STATS, for each of ten more rounds of `client WHAT`
counts()
{
    local name=$1 what=$2 key=$3 want=$4 rounds n=() text
    shift 4
    for rounds in 10 20; do
        text=$(timeout 120 env VGPU_STATS=1 ROUNDS=$rounds "$@" "${run[@]}" "$what" 2>&1 < /dev/null)
        [[ $text == *right* ]] || { bad "$name" "$text"; return; }
        n+=("$(sed -n "s/^vgpu-stats:.* $key=\([0-9]*\).*/\1/p" <<< "$text")")
    done
    if [ $((n[1] - n[0])) -eq $((10 * want)) ]; then ok "$name"; else bad "$name" "$key: ${n[*]}"; fi
}
counts "a token waits once" tokens round_trips 1 env
counts "a token of ggml waits twice: for its inputs, which are in another stream, and for the result" \
    ggml-tokens round_trips 2 env
counts "VGPU_OWE_WAITS=0: once for each input, twice for the result" \
    tokens round_trips 15 env VGPU_OWE_WAITS=0
counts "a training step waits once, for the value" steps round_trips 1 env
counts "fills wait for nothing, only the value that is read back does" fills round_trips 1 env
counts "of what is complete only the stream is queried, once, beside the wait, which tells of the event" queries round_trips 2 env
counts "VGPU_ANSWER_QUERIES=0: each query is made" queries round_trips 201 env VGPU_ANSWER_QUERIES=0
counts "what is captured is not waited for, only the capture's begin and end" captures round_trips 3 env
counts "VGPU_POST_CAPTURED=0: each call is" captures round_trips 6 env VGPU_POST_CAPTURED=0
# polls NAME WANT COMMAND...: 40000 queries of incomplete work; WANT: few (one of each kind in 60 us), or all
polls()
{
    local name=$1 want=$2 text n
    shift 2
    text=$(timeout 120 env VGPU_STATS=1 "$@" "${run[@]}" polls 2>&1 < /dev/null)
    n=($(sed -n 's/^right \([0-9]* [0-9]*\)$/\1/p' <<< "$text"))
    n+=($(sed -n 's/^vgpu-stats:.* round_trips=\([0-9]*\).*/\1/p' <<< "$text"))
    if [ ${#n[@]} -ne 3 ]; then
        bad "$name" "$text"
    elif [ "$want" = few ] && [ "${n[2]}" -gt $((100 + n[1] / 30)) ]; then
        bad "$name" "${n[2]} round trips in ${n[1]} us"
    elif [ "$want" = all ] && [ "${n[2]}" -lt "${n[0]}" ]; then
        bad "$name" "${n[2]} round trips"
    else
        ok "$name"
    fi
}
polls "queries of what is not complete are made now and then" few env
polls "VGPU_ANSWER_QUERIES=0: all of them are made" all env VGPU_ANSWER_QUERIES=0
printf '#!/bin/sh\nexec "%s" --protocol-minor 2 "$@"\n' "$build/host/backend/vgpu-backend" > "$work/older"
chmod +x "$work/older"
today=("${run[@]}")
run=("$vgpu" run --gpu soft --backend "$work/older" "$out/client")
counts "a worker of the protocol before 1.3 answers each fill, and the wait behind one" \
    fills round_trips 4 env
counts "one before 1.7 answers what is captured" captures round_trips 6 env
run=("${today[@]}")
counts "a wait is made up for before work in another stream" others waits_made_up 1 env
counts "and never made up for when it was not owed" tokens waits_made_up 0 env

echo "# images cross once"
# images NAME SENT SPARED: image bytes that a program sends, and image bytes saved by the cache
images()
{
    local name=$1 want="images 42 sent $2 spared $3" text
    text=$(VGPU_STATS=1 VGPU_SOCKET="$work/images.sock" LD_LIBRARY_PATH="$build/userspace/libcuda" \
        timeout 120 "$out/client" images 2>&1 < /dev/null)
    text=$(sed -n 's/^vgpu-stats:.* image_bytes_sent=\([0-9]*\) image_bytes_spared=\([0-9]*\).*/sent \1 spared \2/p
        /^images/p' <<< "$text" | sort | tr '\n' ' ')
    if [ "$text" = "$want " ]; then ok "$name"; else bad "$name" "'$text' instead of '$want'"; fi
}
# with_images OPTION...: starts a backend
with_images()
{
    rm -f "$work/ready"
    "$build/host/backend/vgpu-backend" --listen "$work/images.sock" --gpu soft --ready-fd 3 "$@" \
        3> "$work/ready" 2> "$work/log" &
    server=$!
    until [ -s "$work/ready" ] || ! kill -0 $server 2> /dev/null; do sleep 0.05; done
}
stop_server()
{
    kill $server
    wait $server 2> /dev/null
    server=
}
# Waits until the backend has cached the image, which it checks possibly after the program's end.
kept()
{
    for _ in $(seq 600); do
        "$vgpu" metrics 2> /dev/null | grep -q "^vgpu_image_kept_bytes{.*} 1048576$" && return
        sleep 0.1
    done
}
with_images --image-cache 16M
images "the first program sends it" 1048576 0
kept
images "the second one sends no byte of it" 0 1048576
stop_server
with_images --image-cache 0
images "--image-cache 0: each program sends it" 1048576 0
stop_server
with_images --image-cache 16M --protocol-minor 6
images "a worker of the protocol before 1.7: each program sends it" 1048576 0
stop_server

echo "# the driver's version"
says "of the software GPU" "before 13050 child 0 after 13050" "${run[@]}" version
says "VGPU_DRIVER_VERSION" "before 12090 child 0 after 12090" env VGPU_DRIVER_VERSION=12090 "${run[@]}" version
# host VERSION WANT: starts a backend with a driver of VERSION
host()
{
    rm -f "$work/ready"
    VGPU_TEST_VERSION=$1 "$build/host/backend/vgpu-backend" --listen "$work/host.sock" --no-sandbox \
        --provider "$out/libtestprov.so" --ready-fd 3 3> "$work/ready" 2> "$work/log" &
    server=$!
    until [ -s "$work/ready" ] || ! kill -0 $server 2> /dev/null; do sleep 0.05; done
    says "a host driver of $1" "before $2 child 0 after $2" \
        env VGPU_SOCKET="$work/host.sock" LD_LIBRARY_PATH="$build/userspace/libcuda" "$out/client" version
    says "a host driver of $1, VGPU_DRIVER_VERSION" "before 12080 child 0 after 12080" \
        env VGPU_DRIVER_VERSION=12080 VGPU_SOCKET="$work/host.sock" \
        LD_LIBRARY_PATH="$build/userspace/libcuda" "$out/client" version
    kill $server
    wait $server 2> /dev/null
    server=
    rm -f "$work/host.sock"
}
host 12040 12040
host 13050 13050
host 14000 13050

echo "# the limit of pinned memory"
whole='copies right pointer 0 attribute 0 type 1 end 0 again 1'
staged='copies right pointer 801 attribute 1 type 1 end 0 again 1'
says "no limit" "large $whole"$'\n'"registered $whole"$'\n'"mapped 0 registered 0"$'\n'"small $whole" \
    "${run[@]}" pinned
says "the worker has the address in use: another one" "large $whole"$'\n'"registered $whole"$'\n'"mapped 0 registered 0"$'\n'"small $whole" \
    env VGPU_FAULT=elsewhere=3 "${run[@]}" pinned
says "the pointer is the device's too, at whatever address" "same, at other addresses" \
    env VGPU_FAULT=elsewhere=3 "${run[@]}" unified
for error in 105 12; do # ENOBUFS; ENOMEM of older drivers
    says "staged beyond a limit of 1 MiB, which the driver tells by error $error" \
        "large $staged"$'\n'"registered $staged"$'\n'"mapped 2 registered 2"$'\n'"small $whole" \
        env VGPU_FAULT=pinned=1048576,pinned.errno=$error "${run[@]}" pinned
done
says "another error of the driver is no limit" "FAIL cuMemHostAlloc 46" \
    env VGPU_FAULT=pinned=1048576,pinned.errno=19 "${run[@]}" pinned

echo "environment: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
