#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD TOP_BUILD: creates each fault in turn; vgpu doctor must name it.
set -u
out=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
vgpu=$build/userspace/vgpu/vgpu
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-doctor.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
unset VGPU_SOCKET VGPU_TRACE VGPU_TRACE_JSON VGPU_FAULT VGPU_DRIVER_VERSION LD_LIBRARY_PATH
unset XDG_RUNTIME_DIR CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER

ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }

# Prints references to the source tree: make targets and folders, which no package contains.
words_of_tree()
{
    grep -E '`make |make -C|README|insmod|CONFIG_|(^|[^/a-z-])docs/|(^|[ `(])(userspace|kernel|host|tests|packaging|build)/' <<< "$1"
}

# verdict NAME CAUSE STATUS PATTERN COMMAND...: doctor's verdict, exit status and a pattern of its text
verdict()
{
    local name=$1 cause=$2 want=$3 pattern=$4 text rc
    shift 4
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    rc=$?
    if [ "$rc" != "$want" ]; then
        bad "$name" "exit status $rc instead of $want: $text"
    elif ! grep -q "^verdict: $cause[ :]" <<< "$text"; then
        bad "$name" "no verdict $cause: $text"
    elif ! grep -qE -- "$pattern" <<< "$text"; then
        bad "$name" "no '$pattern' in: $text"
    elif words_of_tree "$text" > /dev/null; then
        bad "$name" "words of the source tree: $(words_of_tree "$text")"
    else
        ok "$name"
    fi
}

missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 host/backend/vgpu-backend \
    host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$file" ] || missing="$missing $file"
done
if [ -n "$missing" ]; then
    echo "not run: doctor: not built:$missing"
    echo "doctor: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
# Installed as by the packages: doctor's advice must apply there, too.
tree=$vgpu
vgpu=$work/installed/usr/bin/vgpu
mkdir -p "$work"/installed/usr/{bin,lib/vgpu/guest,lib/vgpu/jit,share/doc}
cp "$tree" "$vgpu"
ln -s "$build"/host/backend/vgpu-{backend,worker} "$build/host/softgpu/libcuda-soft.so.1" "$work/installed/usr/lib/vgpu/"
ln -s "$build/userspace/libcuda/libcuda.so.1" "$build/userspace/libnvidia-ml/libnvidia-ml.so.1" "$work/installed/usr/lib/vgpu/guest/"
ln -s "$build/userspace/vgpu/jit/libvgpu-jit.so" "$work/installed/usr/lib/vgpu/jit/"
ln -s "$here/../../../docs" "$work/installed/usr/share/doc/vgpu-tools"
doctor="$vgpu doctor --gpu soft"

echo "# all well"
verdict "no program" ok 0 "our libcuda" $doctor
verdict "the layers of the sandbox" ok 0 "sandbox of the worker: .*seccomp" $doctor
verdict "a program that works" ok 0 "our libcuda" $doctor "$out/client"
verdict "the same with a dynamic libcudart" ok 0 "our libcuda" $doctor "$out/client_dynamic"

# fault NAME CAUSE STATUS PATTERN VGPU_FAULT: with both forms of the runtime
fault()
{
    verdict "$1 (static runtime)" "$2" "$3" "$4" env VGPU_FAULT="$5" $doctor "$out/client"
    verdict "$1 (dynamic runtime)" "$2" "$3" "$4" env VGPU_FAULT="$5" $doctor "$out/client_dynamic"
}
echo "# signatures of NVIDIA's runtime at its start"
fault "cuGetExportTable not offered" entry-point-missing 31 "needs cuGetExportTable" hide.cuGetExportTable=1
fault "cuGetExportTable answers 500" export-table-refused 32 "CUDART_INTERFACE" table=500
fault "cuGetExportTable answers 801" export-table-refused 32 "CUDART_INTERFACE" table=801
fault "cuGetExportTable answers 3" export-table-refused 32 "CUDART_INTERFACE" table=3
fault "a table that is left unset" export-table-incomplete 33 "signal 11" table.6bd5fb6c=unset
fault "table 2 refused" export-table-refused 32 "TOOLS_RUNTIME_CALLBACK_HOOKS" table.a094798c=1
fault "cuModuleGetLoadingMode fails" start-up-call-failed 34 "cuModuleGetLoadingMode" call.cuModuleGetLoadingMode=999
fault "an attribute fails" start-up-call-failed 34 "attribute 40" attribute.40=1
fault "the last attribute fails" start-up-call-failed 34 "attribute 143" attribute.143=3
fault "cuDeviceGetUuid missing" entry-point-missing 31 "needs cuDeviceGetUuid" hide.cuDeviceGetUuid=1
fault "cuDeviceGetUuid fails" start-up-call-failed 34 "cuDeviceGetUuid" call.cuDeviceGetUuid=999
fault "table TOOLS_TLS refused" export-table-refused 32 "TOOLS_TLS" table.42d85a81=1
fault "table CONTEXT_LOCAL_STORAGE refused" export-table-refused 32 "CONTEXT_LOCAL_STORAGE" table.c693336e=1
fault "table CONTEXT_CHECKS refused" export-table-refused 32 "CONTEXT_CHECKS" table.263e8860=1
fault "table INTEGRITY_CHECK refused" export-table-refused 32 "INTEGRITY_CHECK" table.d4082055=1
fault "validity check fails" validity-check 35 "validity check" integrity=999
fault "validity check answers wrong" validity-check 35 "103" integrity=wrong
fault "no devices" no-devices 36 "no device" devices=0
verdict "no devices: CUDA_VISIBLE_DEVICES" no-devices 36 "CUDA_VISIBLE_DEVICES=7 hides all 1 devices" \
    env CUDA_VISIBLE_DEVICES=7 $doctor "$out/client"
verdict "some devices are hidden" ok 0 "CUDA_VISIBLE_DEVICES=1 shows 1 of 2 devices" \
    env VGPU_SOFT_CC=8.0,9.0 CUDA_VISIBLE_DEVICES=1 $doctor "$out/client"
fault "cuInit fails" does-not-serve 14 "CUDA_ERROR_NO_DEVICE" call.cuInit=100
verdict "an old driver version" driver-version 30 "12090 is too old" \
    env VGPU_DRIVER_VERSION=12090 $doctor "$out/client"
verdict "an old driver version (dynamic runtime)" driver-version 30 "12090 is too old" \
    env VGPU_DRIVER_VERSION=12090 $doctor "$out/client_dynamic"
verdict "a name that libcuda does not export" entry-point-missing 31 "cuNoSuchEntryPoint" $doctor "$out/missing"
verdict "a slot of a table that is not served" export-table-incomplete 33 \
    "slot 5 of the export table 6bd5fb6c \(CUDART_INTERFACE\)" $doctor "$out/missing" slot
verdict "a library that the program does without" library-missing 23 "looked for libcudart.so.99" \
    $doctor "$out/missing" without

echo "# after the start"
verdict "machine code only" no-usable-code 40 "PTX" $doctor "$out/client_sass"
verdict "PTX for a newer GPU" no-usable-code 40 "do: +set VGPU_SOFT_CC=9.0 for the backend" $doctor "$out/client_newer"
verdict "out of device memory" out-of-memory 43 "cuMemAlloc" $doctor "$out/client" oom
verdict "out of memory, and the program goes on" ok 0 "went on" $doctor "$out/client" fallback
verdict "pinned memory beyond the limit" ok 0 "pinned memory beyond the limit is staged" \
    env VGPU_FAULT=pinned=8388608 $doctor "$out/client" pinned
verdict "mapped memory beyond the limit" pinned-memory-limit 47 "pin_limit_mib" \
    env VGPU_FAULT=pinned=8388608 $doctor "$out/client" mapped
verdict "a call that is not served" call-refused 42 "cuGraphicsUnregisterResource" $doctor "$out/client" refused
verdict "a kernel that writes out of bounds" kernel-failed 44 "ILLEGAL_ADDRESS" $doctor "$out/client" kernel
verdict "the same, with the line of its source" kernel-failed 44 "client.cu:$(grep -n "^    \*p = 42;" "$here/client.cu" | cut -d: -f1)\$" \
    $doctor "$out/client" kernel
verdict "the program fails by itself" program-failed 50 "status 7" $doctor "$out/client" fails
verdict "no CUDA in it" libcuda-not-asked-for 22 "never asked" $doctor "$out/client" nothing
verdict "a program that is not there" program-not-started 51 "cannot be run" $doctor /nowhere/program

echo "# surroundings"
verdict "neither device nor backend" no-device 10 "neither" "$vgpu" doctor
verdict "a socket with nobody behind it" backend-not-reachable 13 "No such file" \
    env VGPU_SOCKET="$work/nothing.sock" "$vgpu" doctor
verdict "no libcuda.so.1" libcuda-not-found 20 "finds no libcuda" "$vgpu" run --gpu soft \
    env -u LD_LIBRARY_PATH "$vgpu" doctor "$out/client"
verdict "another libcuda first in LD_LIBRARY_PATH" other-libcuda 21 "LD_LIBRARY_PATH" "$vgpu" run --gpu soft \
    env LD_LIBRARY_PATH="$out/other:$build/userspace/libcuda" "$vgpu" doctor "$out/client"
verdict "another libcuda by DT_RPATH" other-libcuda 21 "RPATH" $doctor "$out/client_rpath"
verdict "under vgpu run" ok 0 "a backend listens" "$vgpu" run --gpu soft "$vgpu" doctor "$out/client"
# With an outdated host, libcuda refuses the calls that the host lacks, naming both versions; the rest work.
"$build/host/backend/vgpu-backend" --gpu soft --listen "$work/older.sock" --protocol-minor 0 --ready-fd 3 \
    3> "$work/older.ready" 2> "$work/older.log" &
older=$!
until [ -s "$work/older.ready" ] || ! kill -0 $older 2> /dev/null; do sleep 0.1; done
verdict "an older host, nothing new asked" ok 0 "our libcuda" env VGPU_SOCKET="$work/older.sock" \
    LD_LIBRARY_PATH="$build/userspace/libcuda" "$vgpu" doctor "$out/client"
verdict "an older host, a graph" parts-do-not-match 15 "vgpGraphCreate came with protocol 1.1, the worker speaks 1.0" \
    env VGPU_SOCKET="$work/older.sock" LD_LIBRARY_PATH="$build/userspace/libcuda" "$vgpu" doctor "$out/client" graph
verdict "the same program, a host of today" ok 0 "our libcuda" $doctor "$out/client" graph
kill $older 2> /dev/null
wait $older 2> /dev/null
# A host with an endless answer: doctor prints a bounded part.
python3 - "$work/endless.sock" <<'END' &
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1]); s.listen()
while True:
    c = s.accept()[0]
    if c.recv(4096) == struct.pack("I", 7):
        c.send(struct.pack("II", 7, 0) + b"A" * 256)
    c.close()
END
server=$!
for _ in $(seq 100); do [ -S "$work/endless.sock" ] && break; sleep 0.1; done
said=$(env VGPU_SOCKET="$work/endless.sock" LD_LIBRARY_PATH="$build/userspace/libcuda" "$vgpu" doctor "$out/client" 2>&1 |
    grep -a 'sandbox of the worker' | head -n 1)
if [ "$said" = "${said%%A*}$(printf 'A%.0s' $(seq 255))" ]; then
    ok "a host whose answer has no end"
else
    bad "a host whose answer has no end" "$said"
fi
kill $server 2> /dev/null
wait $server 2> /dev/null
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    chmod 755 "$work"
    python3 - "$work/closed.sock" <<'END' &
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o600); s.listen(); time.sleep(60)
END
    server=$!
    for _ in $(seq 100); do [ -S "$work/closed.sock" ] && break; sleep 0.1; done
    verdict "a socket of another user" permission 12 "may not" \
        env VGPU_SOCKET="$work/closed.sock" setpriv --reuid 65534 --clear-groups "$vgpu" doctor
    kill $server 2> /dev/null
    wait $server 2> /dev/null
else
    skipped=$((skipped + 1))
    echo "not run: a socket of another user: needs root and setpriv"
fi

echo "# forms"
text=$(VGPU_FAULT=table=500 $doctor --json "$out/client" 2> /dev/null)
if python3 -c '
import json, sys
d = json.loads(sys.argv[1])
assert d["verdict"] == "export-table-refused" and d["status"] == 32, d
assert any("CUDART_INTERFACE" in f["what"] for f in d["findings"]), d' "$text"; then
    ok "--json"
else
    bad "--json" "$text"
fi
$vgpu trace --gpu soft --all --json "$work/t.json" --output "$work/t.txt" "$out/client" kernel > /dev/null 2>&1
rc=$?
if python3 - "$work/t.json" <<'END' && [ $rc = 1 ]; then
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
calls = [e for e in lines if e["type"] == "call"]
assert len(calls) > 500, len(calls)
for key in ("time", "pid", "tid", "call", "args", "result", "code", "us"):
    assert all(key in e for e in calls), key
assert any(e["result"] == "CUDA_ERROR_ILLEGAL_ADDRESS" for e in calls)
ring = [e for e in lines if e["type"] == "ring"]
assert len(ring) == 1 and int(ring[0]["text"].split("round_trips=")[1].split()[0]) > 0, ring
END
    ok "trace --json: every line is JSON with all its parts"
else
    bad "trace --json" "status $rc: $(tail -n 3 "$work/t.json")"
fi
# totals FILE: the totals of a readable trace must match its lines
totals()
{
    awk '/^call  +count /         { table = 1; next }
         /^all calls /            { all = $3; table = 0 }
         table && $2 ~ /^[0-9]+$/ { said[$1] = $2; sum += $2 }
         /^vgpu\[[0-9.]+\] [A-Za-z0-9_]+\(.* us$/ { name = $2; sub(/\(.*/, "", name); seen[name]++ }
         END { for (n in said) if (said[n] != seen[n] && n !~ /^validity/) { print n, said[n], seen[n]; bad = 1 }
               exit bad || !all || sum > all }' "$1"
}
if ! totals "$work/t.txt"; then
    bad "trace: totals" "are not those of the lines"
elif grep -q "cuLaunchKernel(.*) = CUDA_SUCCESS" "$work/t.txt" && grep -q "^all calls " "$work/t.txt" &&
    grep -qE "^cuMemcpyDtoH_v2 +1 +1 " "$work/t.txt"; then
    ok "trace --output: lines and totals"
else
    bad "trace --output" "$(tail -n 5 "$work/t.txt")"
fi
text=$($vgpu trace --totals --gpu soft sh -c "$out/client; kill -KILL \$\$" 2>&1)
if [ $? = 137 ] && grep -q "^all calls " <<< "$text"; then
    ok "trace: totals also of a program that is killed"
else
    bad "trace of a killed program" "$text"
fi

. "$here/setups.sh"
. "$here/machine.sh"
. "$here/smi.sh"
vgpu=$tree
. "$here/guest.sh"
echo "doctor: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
