# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: each number of a backend's status is shown under its own name, in its unit. No two numbers are the same.
cat > "$work/figures.py" <<'END'
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(f"\0vgpu-backend.status.{os.getpid()}")
s.listen(8)
print(os.getpid(), flush=True)
now = 1000
while True:
    c, _ = s.accept()
    text = (f"backend {os.getpid()} /run/{os.getpid()}.sock\nlimit weight 301\nlimit cap 51\nlimit max-clients 9\nlimit pin-quota 68157440\n"
            "limit blob-quota 69206016\nlimit client-memory 70254592\nlimit client-printf 4097\nlimit client-image 71303168\nlimit start-rate 11\n"
            "limit client-threads 12\nlimit client-streams 13\nlimit client-handles 14\nlimit client-compile-time 15\nlimit client-queue 16\n"
            "limit client-time-limit 0\n"
            f"vm calls 1001 waits 1002 errors 1003 copied 1004 cpu-ms {5000 + now // 10} throttled-ms 1006\n"
            f"vm now-ms {now} gpu-memory 85899345920 vram-used 5242881 pin-used 6291457 blob-used 7340033 soft 1 paced 1\n"
            "vm clients-started 1010 clients-refused 1011 memory-refused 1012 workers-lost 1013\n"
            "vm image-kept 1014 image-count 1 image-hits 1015 image-hit-bytes 1016 image-misses 2 image-stored 3 image-evicted 4 image-refused 1017\n"
            "vm pool-ready 1018 pool-target 1019 pool-misses 1020\n"
            "device D\nclient 31 4711 9437184 a\nshare 31 201 52 1\n"
            f"use 31 calls 1021 waits 1022 errors 1023 copied 1024 cpu-ms {7000 + now // 4} throttled-ms 1026\n")
    try:
        c.send(text.encode())
    except OSError:
        pass  # of another program that looks at every backend, and has left
    now += 1000
    c.close()
END
mkfifo "$work/figures.fifo"
/usr/bin/python3 "$work/figures.py" > "$work/figures.fifo" &
figures=$!
read -r pid_of_figures < "$work/figures.fifo"
cat > "$work/figures_check.py" <<'END'
import json, re, subprocess, sys
vgpu, pid = sys.argv[1:3]
def run(*words):
    return subprocess.run([vgpu, *words], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
def cpu(text, base, part):  # it grows from one look to the next
    assert base < float(text) * 1000 < base + 100000 // part, (text, base)
metrics = {re.sub(r'\{.*', "", line.split()[0]) + ("/client" if "guest_pid=" in line else ""): line.split()[-1]
           for line in run("metrics").splitlines() if f'backend="{pid}"' in line and not line.startswith("vgpu_limit")}
cpu(metrics.pop("vgpu_cpu_seconds_total"), 5000, 10)
cpu(metrics.pop("vgpu_client_cpu_seconds_total/client"), 7000, 4)
want = {"vgpu_up": "1", "vgpu_clients": "1", "vgpu_calls_total": "1001", "vgpu_waits_total": "1002", "vgpu_call_errors_total": "1003",
        "vgpu_copied_bytes_total": "1004", "vgpu_throttled_seconds_total": "1.006", "vgpu_clients_started_total": "1010",
        "vgpu_clients_refused_total": "1011", "vgpu_memory_refused_total": "1012", "vgpu_workers_lost_total": "1013",
        "vgpu_image_kept_bytes": "1014", "vgpu_image_hits_total": "1015", "vgpu_image_hit_bytes_total": "1016",
        "vgpu_image_refused_total": "1017", "vgpu_pool_ready": "1018", "vgpu_pool_target": "1019", "vgpu_pool_misses_total": "1020", "vgpu_reserved_bytes": "5242881", "vgpu_pinned_bytes": "6291457", "vgpu_images_bytes": "7340033",
        "vgpu_client_memory_bytes/client": "9437184", "vgpu_client_calls_total/client": "1021",
        "vgpu_client_throttled_seconds_total/client": "1.026", "DCGM_FI_DEV_GPU_UTIL": "10", "DCGM_FI_DEV_FB_USED": "9",
        "DCGM_FI_DEV_FB_FREE": str(80 * 1024 - 9)}
assert metrics == want, {k: (metrics.get(k), want.get(k)) for k in metrics.keys() | want.keys() if metrics.get(k) != want.get(k)}
b = [b for b in json.loads(run("smi", "--host", "--json"))["backends"] if b["pid"] == int(pid)][0]
c = b.pop("clients")[0]
cpu(b.pop("cpu_ms") / 1000, 5000, 10)
cpu(c.pop("cpu_ms") / 1000, 7000, 4)
want = {"pid": int(pid), "name": pid, "socket": f"/run/{pid}.sock", "device": "D", "software": True, "memory_total": 80 << 30,
        "vram_reserved": 5242881, "pinned": 6291457, "utilization": 10, "throttled_ms": 1006, "calls": 1001, "waits": 1002, "errors": 1003,
        "copied_bytes": 1004, "clients_started": 1010, "clients_refused": 1011, "memory_refused": 1012, "workers_lost": 1013, "shares": True,
        "limits": {"weight": 301, "cap": 51, "max-clients": 9, "pin-quota": 68157440, "blob-quota": 69206016, "client-memory": 70254592,
                   "client-printf": 4097, "client-image": 71303168, "start-rate": 11, "client-threads": 12, "client-streams": 13,
                   "client-handles": 14, "client-compile-time": 15, "client-queue": 16, "client-time-limit": 0}}
assert b == want, (b, want)
want = {"worker": 31, "guest_pid": 4711, "name": "a", "memory": 9437184, "utilization": 25, "weight": 201, "cap": 52, "throttled_ms": 1026,
        "calls": 1021, "waits": 1022, "errors": 1023, "copied_bytes": 1024}
assert c == want, (c, want)
text = re.search(rf"^Backend {pid}\n(.*?)(?=^Backend |\Z)", run("smi", "--host", "-q"), re.M | re.S)[1]
rows = [tuple(re.split(r" *: ", line.strip(), maxsplit=1)) for line in text.splitlines() if re.match(r" {4,}\S.*: ", line)]
cpus = [r[1] for r in rows if r[0] == "Processor time"]
cpu(cpus[0].split()[0], 5000, 10)
cpu(cpus[1].split()[0], 7000, 4)
want = [("Name", pid), ("Socket", f"/run/{pid}.sock"), ("Device", "D"), ("Memory", "9MiB / 81920MiB"), ("Utilization", "10%"),
        ("Pinned guest memory", "6 MiB"), ("Images on their way", "7 MiB"), ("Shares", "enforced"), ("Throttled", "1.006 s"), ("Calls", "1001"),
        ("Calls waited for", "1002"), ("Calls that failed", "1003"), ("Bytes copied", "1004"), ("Clients since start", "1010"),
        ("Clients refused", "1011"), ("Allocations refused", "1012"), ("Workers lost", "1013"), ("weight", "301"), ("cap", "51"),
        ("max-clients", "9"), ("pin-quota", "65 MiB"), ("blob-quota", "66 MiB"), ("client-memory", "67 MiB"), ("client-printf", "4097 bytes"),
        ("client-image", "68 MiB"), ("start-rate", "11"), ("client-threads", "12"), ("client-streams", "13"), ("client-handles", "14"),
        ("client-compile-time", "15"), ("client-queue", "16"), ("client-time-limit", "none"), ("Worker", "31"), ("Guest process", "4711"), ("Name", "a"), ("Memory", "9 MiB"),
        ("Utilization", "25%"), ("Weight", "201, cap 52%"), ("Throttled", "1.026 s"), ("Calls", "1021"), ("Calls waited for", "1022"),
        ("Calls that failed", "1023"), ("Bytes copied", "1024")]
rows = [r for r in rows if r[0] != "Processor time"]
assert rows == want, (rows, want)
print("good")
END
says "metrics, smi --host -q, --json: each number under its name, in its unit" 0 "^good$" \
    /usr/bin/python3 "$work/figures_check.py" "$vgpu" "$pid_of_figures"
kill $figures
wait $figures 2> /dev/null
# What -l takes: seconds, --loop-ms milliseconds; from 1 to a day.
for option in --loop=0 --loop=86401 --loop-ms=0 --loop-ms=86400001 --loop=1s --loop-ms=; do
    says "smi: $option" 2 "not a time above 0, up to a day" "$vgpu" smi --host $option
done
for option in --loop=86400 --loop-ms=86400000; do
    timeout 5 "$vgpu" smi --host $option > "$work/loop" 2>&1
    same "smi: $option waits for the next look" 124 $?
done
timeout 60 "$vgpu" smi --host --json --loop-ms=10 | head -n 20 > "$work/loop"
same "smi: --loop-ms is of milliseconds" 20 "$(wc -l < "$work/loop")"
