# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: output about a real backend and its clients. $work/v and $work/c are its sockets, $daemon its process.
served=(env "VGPU_SOCKET=$work/v" "VGPU_NVML_DIR=$build/userspace/libnvidia-ml")
mkfifo "$work/client.fifo"
# Its name has CSI, as a byte and in UTF-8, and turns text around.
VGPU_SOCKET=$work/v bash -c 'exec -a "$0" /usr/bin/python3 "$@"' $'client\x9b31m\xc2\x9b31m\xe2\x80\xaeend' -c '
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
print("up", flush=True)
time.sleep(300)' "$build/userspace/libcuda/libcuda.so.1" > "$work/client.fifo" &
client=$!
read -r _ < "$work/client.fifo"
worker=$("$vgpu" smi --host --json | /usr/bin/python3 -c '
import json, sys
print(*[c["worker"] for b in json.load(sys.stdin)["backends"] if b["pid"] == int(sys.argv[1]) for c in b["clients"]])' $daemon)
says "ctl set for all clients" 0 "^client-weight 70 (was 100)$" "$vgpu" ctl -s "$work/c" set client-weight 70
says "ctl set for one client says what that one had" 0 "^client-weight 55 (was 70)$" "$vgpu" ctl -s "$work/c" set client-weight 55 client "$worker"
says "ctl set for one client again" 0 "^client-weight 56 (was 55)$" "$vgpu" ctl -s "$work/c" set client-weight 56 client "$worker"
says "ctl get for one client" 0 "^client-weight 56$" "$vgpu" ctl -s "$work/c" get client-weight client "$worker"
says "ctl get for all is as it was" 0 "^client-weight 70$" "$vgpu" ctl -s "$work/c" get client-weight
text=$(timeout 120 "${served[@]}" "$vgpu" smi 2> /dev/null)
same "smi: the table begins with date and time" 1 \
    "$(head -n 1 <<< "$text" | grep -cE '^[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} 20[0-9]{2}$')"
text=$(timeout 120 "${served[@]}" "$vgpu" smi --query-gpu=index,count --format=csv -l 1 2> /dev/null | head -n 4)
same "smi --query-gpu -l: one heading, then values" "index, count/0, 1/0, 1/0, 1/" "$(tr '\n' / <<< "$text")"
text=$(timeout 120 "${served[@]}" "$vgpu" smi --query-compute-apps=pid,used_memory --format=csv,noheader 2> /dev/null)
same "smi --query-compute-apps: less than a MiB is 0, not unknown" "$client, 0 MiB" "$(grep "^$client," <<< "$text")"
for form in "" "-q" "--query-compute-apps=pid,process_name --format=csv"; do
    # shellcheck disable=SC2086
    timeout 120 "${served[@]}" "$vgpu" smi $form > "$work/name.txt" 2> /dev/null
    same "smi $form: a process's name is text" "client?31m??31m???end" \
        "$(grep "$client" -A 2 "$work/name.txt" | grep -o "client.*end" | head -n 1)"
done
kill $client
wait $client 2> /dev/null

# Names from hostile clients and backends: every byte value.
mkfifo "$work/bytes.fifo"
/usr/bin/python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(f"\0vgpu-backend.status.{os.getpid()}")
s.listen(8)
print(os.getpid(), flush=True)
every = [bytes(b for b in range(n, n + 32) if b != 10) for n in range(0, 256, 32)]
while True:
    c, _ = s.accept()
    text = f"backend {os.getpid()} /run/{os.getpid()}.sock\nvm now-ms 1000 soft 1\ndevice D".encode() + every[4] + b"\n"
    for n, name in enumerate(every):
        text += f"client {n + 1} {n + 1} 0 n".encode() + name + b"\n"
    c.send(text)
    c.close()' > "$work/bytes.fifo" &
bytes=$!
read -r _ < "$work/bytes.fifo"
for way in "smi --host" "smi --host -q" "smi --host --json" metrics; do
    # shellcheck disable=SC2086
    timeout 120 "$vgpu" $way > "$work/bytes.txt" 2>&1
    same "$way: words of others are text" "yes " \
        "$(grep -q "/run/$bytes.sock\|\"$bytes\"" "$work/bytes.txt" && echo yes) $(tr -d '\n -~' < "$work/bytes.txt" | od -An -c)"
done
kill $bytes
wait $bytes 2> /dev/null
