# SPDX-License-Identifier: MIT
# vgpu metrics. Sourced by vgpu_test.sh while a script plays a backend (pid $pid) with hostile words.

echo "# vgpu metrics"
says "metrics --help" 0 "--listen" "$vgpu" metrics --help
says "metrics: unknown argument" 2 "not understood" "$vgpu" metrics fly
"$vgpu" metrics > "$work/metrics.txt"
promtool=$(command -v promtool || true)
if [ -n "$promtool" ]; then
    # dcgm-exporter's label modelName is not as promtool likes labels.
    says "metrics: promtool understands the text" 0 "^good$" sh -c \
        "'$promtool' check metrics < '$work/metrics.txt' 2>&1 | grep -v \"'snake_case' not 'camelCase'\" || echo good"
fi
# Every line by the format's grammar, every family typed once and in one piece, no series twice.
cat > "$work/metrics.py" <<'END'
import re, sys
pid, text = sys.argv[1], sys.stdin.read()
label = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
sample = re.compile(rf'([a-zA-Z_:][\w:]*)(?:\{{({label}(?:,{label})*)\}})? (-?\d+(?:\.\d+)?)')
types, done, family, values = {}, set(), None, {}
assert text.endswith("\n")
for line in text.splitlines():
    m = re.fullmatch(r"# (HELP|TYPE) (\S+) (.+)", line)
    if m:
        if m[2] != family:
            assert m[2] not in done, line
            done.add(m[2])
        family = m[2]
        if m[1] == "TYPE":
            assert family not in types and m[3] in ("gauge", "counter"), line
            assert family.endswith("_total") == (m[3] == "counter"), line
            types[family] = m[3]
        continue
    m = sample.fullmatch(line)
    assert m and m[1] == family and family in types, line
    assert (m[1], m[2]) not in values, line
    values[m[1], m[2]] = m[3]
own = {(n, re.sub(r'Hostname="[^"]*"', "", l)): v for (n, l), v in values.items() if l and f'backend="{pid}"' in l}
vm = f'vm="{pid}",backend="{pid}"'
for name, want in (("vgpu_up", "1"), ("vgpu_clients", "2"), ("vgpu_calls_total", "70"), ("vgpu_waits_total", "7"),
                   ("vgpu_call_errors_total", "1"), ("vgpu_copied_bytes_total", "4096"), ("vgpu_cpu_seconds_total", "1.500"),
                   ("vgpu_throttled_seconds_total", "0.250")):
    assert own[name, vm] == want, (name, own.get((name, vm)))
assert own["vgpu_limit", vm + ',limit="weight"'] == "300"
who = vm + ',worker="22",guest_pid="4712",process="a%s%n\\"\\\\b"'
assert own["vgpu_client_memory_bytes", who] == "0", own
gpu = 'gpu="0",modelName="A \\"GPU\\" \\\\",,' + vm
assert own["DCGM_FI_DEV_FB_USED", gpu] == "5" and own["DCGM_FI_DEV_FB_FREE", gpu] == "3"
assert own["DCGM_FI_DEV_GPU_UTIL", gpu] == "0"
print("good")
END
says "metrics: names, values, hostile words" 0 "^good$" bash -c "/usr/bin/python3 '$work/metrics.py' $pid < '$work/metrics.txt'"
# One client says that it has everything: the sum does not begin again at 0.
sed 's/client 21 4711 5242880/client 21 4711 18446744073709551615/; s/client 22 4712 0/client 22 4712 5242880/' \
    "$work/status.py" > "$work/liar.py"
mkfifo "$work/liar.fifo"
/usr/bin/python3 "$work/liar.py" > "$work/liar.fifo" &
liar=$!
read -r liar_pid < "$work/liar.fifo"
same "metrics: a sum that does not wrap" "17592186044415 0" "$("$vgpu" metrics | grep "backend=\"$liar_pid\"" |
    sed -n 's/^DCGM_FI_DEV_FB_\(USED\|FREE\){.*} //p' | xargs)"
same "smi --host: a sum that does not wrap" "17592186044415MiB" \
    "$("$vgpu" smi --host | grep "/run/$liar_pid.sock" | grep -o '[0-9]*MiB' | head -n 1)"
kill $liar
wait $liar 2> /dev/null
# Seconds keep the zeroes behind the point.
sed 's/cpu-ms 1500 throttled-ms 250/cpu-ms 1007 throttled-ms 60040/; s/use 21 calls 60 waits 6 cpu-ms 1500/use 21 calls 60 waits 6 cpu-ms 9/' \
    "$work/status.py" > "$work/digits.py"
mkfifo "$work/digits.fifo"
/usr/bin/python3 "$work/digits.py" > "$work/digits.fifo" &
digits=$!
read -r digits_pid < "$work/digits.fifo"
same "metrics: seconds of few milliseconds" "1.007 60.040" "$("$vgpu" metrics | grep "{vm=\"$digits_pid\",backend=\"$digits_pid\"}" |
    sed -n 's/^vgpu_\(cpu\|throttled\)_seconds_total{.*} //p' | xargs)"
kill $digits
wait $digits 2> /dev/null
# Each family that the dashboard asks for exists.
says "metrics: a dashboard asks for what there is" 0 "^good$" /usr/bin/python3 -c '
import json, re, sys
have = set(re.findall(r"^# TYPE (\S+)", open(sys.argv[1]).read(), re.M))
board = json.load(open(sys.argv[2]))
asked = set()
for panel in board["panels"]:
    for target in panel.get("targets", []):
        asked |= set(re.findall(r"\b(?:vgpu_|DCGM_)\w+", target["expr"]))
assert asked and asked <= have, asked - have
print("good")' "$work/metrics.txt" "$(dirname "$0")/../../packaging/grafana-dashboard.json"

if grep -q libmicrohttpd.so "$vgpu"; then
    # serves NAME WHERE: $at is what it says that it serves, $server its process
    serves()
    {
        mkfifo "$work/$1.fifo"
        "$vgpu" metrics --listen "$2" > "$work/$1.fifo" &
        server=$!
        read -r at < "$work/$1.fifo"
    }
    serves port 127.0.0.1:0
    cat > "$work/ask.py" <<'END'
import http.client, socket, sys, time
at, pid = sys.argv[1:3]
host = at.split("/")[2] if at.startswith("http") else None
def connect():
    if host:
        return http.client.HTTPConnection(host, timeout=60)
    c = http.client.HTTPConnection("localhost", timeout=60)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.settimeout(60)
    c.sock.connect(at)
    return c
def ask(method, path, body=None):
    c = connect()
    c.request(method, path, body)
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    return r.status, r.getheader("Content-Type"), text
status, kind, text = ask("GET", "/metrics")
assert status == 200 and kind.startswith("text/plain; version=0.0.4") and f'vgpu_up{{vm="{pid}"' in text
assert [l for l in text.splitlines() if l.startswith("DCGM_FI_DEV_GPU_UTIL{") and f'backend="{pid}"' in l], "no utilisation at first"
assert ask("HEAD", "/metrics")[0] == 200 and ask("GET", "/")[0] == 404
assert ask("DELETE", "/metrics")[0] == 405
def raw(data):
    c = connect()
    c.connect() if host else None
    try:
        c.sock.sendall(data)
        c.sock.shutdown(socket.SHUT_WR)
        while c.sock.recv(4096):
            pass
    except OSError:
        pass
    c.close()
for data in (b"", b"\0" * 100, b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
             b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\nx", b"\r\n" * 5000,
             b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n"):
    raw(data)
hold = []
for _ in range(40): # more than it serves at a time, none of which says anything
    try:
        c = connect()
        c.connect() if host else None
        hold.append(c)
    except OSError:
        break
for c in hold:
    c.close()
for _ in range(600): # those that were refused for the crowd are refused no more
    try:
        assert ask("GET", "/metrics")[0] == 200
        break
    except (OSError, http.client.HTTPException):
        time.sleep(0.1)
else:
    raise SystemExit("it does not serve any more")
hold = []
for _ in range(16): # as many as it serves at a time: the oldest makes room, and the others do not have to time out for it
    hold.append(connect())
    hold[-1].connect() if host else None
assert ask("GET", "/metrics")[0] == 200
closed = []
for c in hold:
    c.sock.setblocking(False)
    try:
        closed.append(not c.sock.recv(1))
    except ConnectionResetError:
        closed.append(True)
    except BlockingIOError:
        closed.append(False)
    c.close()
if closed != sorted(closed, reverse=True) or not closed[0]:
    raise SystemExit("others than the oldest made room: %s" % closed)
if any(closed[8:]):
    raise SystemExit("those that say nothing keep the others out until they time out")
print("good")
END
    says "metrics --listen: a port and hostile requests" 0 "^good$" /usr/bin/python3 "$work/ask.py" "$at" "$pid"
    kill -TERM $server
    wait $server
    same "metrics --listen: ends by SIGTERM" 0 $?
    serves path "$work/metrics.sock"
    same "metrics --listen: what it serves" "$work/metrics.sock" "$at"
    same "metrics --listen: the socket's mode" 660 "$(stat -c %a "$work/metrics.sock")"
    says "metrics --listen: a socket, and hostile requests" 0 "^good$" /usr/bin/python3 "$work/ask.py" "$at" "$pid"
    kill -TERM $server
    wait $server
    same "metrics --listen: no socket is left" "" "$(ls "$work/metrics.sock" 2> /dev/null)"
    says "metrics --listen: not beyond the loopback" 2 "127.x.y.z:PORT" "$vgpu" metrics --listen 0.0.0.0:9400
    says "metrics --listen: a relative path" 2 "neither the path of a socket" "$vgpu" metrics --listen metrics.sock
    says "metrics --listen: a path that is too long" 2 "too long" "$vgpu" metrics --listen "/$(printf '%0200d' 0)"
    says "metrics --listen: no port" 2 "not a number" "$vgpu" metrics --listen 127.0.0.1:http
else
    skipped=$((skipped + 1))
    echo "not run: metrics --listen: built without libmicrohttpd"
fi
