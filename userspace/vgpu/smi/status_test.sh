# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: which status sockets vgpu smi --host asks, and which it believes.

# No process has so high a number. Names of abstract sockets are the machine's: another run of this test has others.
export ghost=$((4194305 + $$ % 100000)) # also for what runs in a namespace of its own

cat > "$work/asked.py" <<'END'
# asked.py READY NAME PID WHERE [UID]: answers everybody who connects, as user UID; @NAME is abstract. PID: own, or a number.
import array, os, signal, socket, struct, sys
ready, name, pid, where = sys.argv[1:5]
# With a message comes a descriptor whose last close waits for an hour; a second such message is not read.
def send_lingering(to, text):
    if os.fork():
        return
    signal.alarm(90)
    taker = socket.create_server(("127.0.0.1", 0))
    sent = []
    for _ in range(2):
        s = socket.create_connection(taker.getsockname())
        sent.append((s, taker.accept()))
        s.setblocking(False)
        try:
            while True:
                s.send(bytes(65536))
        except BlockingIOError:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    try:
        for s, _ in sent:
            to.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()]))])
            os.close(s.detach())
        while to.recv(4096): # until the reader is gone
            pass
    finally:
        os._exit(0)
out = open(ready, "w")
if len(sys.argv) > 5:
    os.setgroups([])
    os.setresgid(*[int(sys.argv[5])] * 3)
    os.setresuid(*[int(sys.argv[5])] * 3)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(name.replace("@", "\0", 1))
s.listen(8)
out.write("ready")
out.close()
pid = os.getpid() if pid == "own" else int(pid)
while True:
    c, _ = s.accept()
    try:
        more = os.environ.get("more", "").replace(",", "\n").replace("MANY", "other 1 " * 100)
        more = "".join(f"client {i} 1 1 a\n" for i in range(1, 5000)) if more == "CLIENTS" else more
        text = f"backend {pid} {where}\nname {os.environ.get('named', '-')}\nlimit weight 300\nvm calls 1\n{more}".encode()
        if "lingers" in os.environ:
            send_lingering(c, text)
        else:
            c.send(text)
    except OSError:
        pass # it did not want to know
    c.close()
END

# asked NAME PID WHERE [UID]: what smi --host says of such a socket: the name of the backend, or why it is not believed
asked()
{
    rm -f "$work/asked.ready"
    /usr/bin/python3 "$work/asked.py" "$work/asked.ready" "$@" &
    appears "$work/asked.ready"
    ${then:-true}
    if [ -n "${named:-}" ] && [ -z "${table:-}" ]; then
        timeout 60 "$vgpu" smi --host --json | sed -n "s/.*\"pid\": \($ghost\|$!\), \"name\": \"\([^\"]*\)\".*/\2/p"
    else
        timeout 30 "$vgpu" smi --host > "$work/table"
        sed -n "s/^| \([^ ]*\)  *\($ghost\|$!\) .*/\1/p; /^not believed: / { /one\|status\.a*4[12]/ p }" "$work/table"
    fi
    kill $!
    wait $! 2> /dev/null
}
same "smi --host: an abstract socket" /run/a.sock "$(asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
same "smi --host: the name that a backend gives its machine" vm1 "$(named=vm1 asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
same "smi --host: without one it is the socket's" a "$(named=- asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
same "smi --host: the table has the name" vm1 "$(table=1; named=vm1 asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
name=virtual-machine-of-a-long-name-on-the-third-host
same "smi --host: a name of ${#name} characters" "48 ...me-on-the-third-host" \
    "${#name} $(table=1; named=$name asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
same "smi --host: and the table has 80 columns" 80 "$(awk '/^[|+]/ { print length }' "$work/table" | sort -u | xargs)"
same "smi --host: an abstract socket of another name" "" "$(asked "@vgpu-backend.stat.$ghost" own /run/a.sock)"
# Together with the zero in front of it and one behind it the name does not fit.
same "smi --host: a name that fills the address" "" "$(asked "@vgpu-backend.status.$(printf '%087d' 0)" own /run/a.sock)"
same "smi --host: the longest name" /run/a.sock "$(asked "@vgpu-backend.status.$(printf '%086d' 0)" own /run/a.sock)"
same "smi --host: a socket that gives another process's id is not believed" \
    "not believed: vgpu-backend.status.$ghost: it gives another process's id" "$(asked "@vgpu-backend.status.$ghost" $ghost /run/a.sock)"
same "smi --host: a descriptor whose close waits comes with a status" a "$(export lingers=1; named=- asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
# The same at a socket that is named to a command: what the command prints of it.
lingers_at()
{
    rm -f "$work/asked.ready" "$work/lingers.sock"
    lingers=1 /usr/bin/python3 "$work/asked.py" "$work/asked.ready" "$work/lingers.sock" own - &
    appears "$work/asked.ready"
    timeout 30 "$@" 2>&1 < /dev/null | grep -o "a backend listens on\|vgpu: backend"
    kill $!
    wait $! 2> /dev/null
}
same "ctl: a descriptor whose close waits comes with the answer" "vgpu: backend" \
    "$(lingers_at "$vgpu" ctl --socket "$work/lingers.sock" get)"
same "doctor: a descriptor whose close waits comes from the socket" "a backend listens on" \
    "$(lingers_at env VGPU_SOCKET="$work/lingers.sock" "$vgpu" doctor)"
# counted LINES: what the JSON of --host has of a backend whose report has these lines more
counted()
{
    rm -f "$work/asked.ready"
    more=$1 /usr/bin/python3 "$work/asked.py" "$work/asked.ready" "@vgpu-backend.status.$ghost" own /run/a.sock &
    appears "$work/asked.ready"
    timeout 30 "$vgpu" smi --host --json | /usr/bin/python3 -c 'import json, sys
b = [b for b in json.load(sys.stdin)["backends"] if b["pid"] == int(sys.argv[1])][0]
print(len(b["clients"]), b["calls"])' $!
    kill $!
    wait $! 2> /dev/null
}
same "smi --host: lines of a report" "1 7" "$(counted "client 5 1 1 a,vm other 1 calls 7")"
same "smi --host: no more clients than a backend may have" "256 1" "$(counted CLIENTS)"
same "smi --host: no line is read without an end" "0 1" "$(counted "vm MANYcalls 7")"
# Sockets at which a program listens and says nothing, half of them with full queues: not the wait for one, times their number.
cat > "$work/mute.py" <<'END'
import signal, socket, sys
kept = []
for i in range(300):
    name = f"\0vgpu-backend.status.{5000000 + i}"
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    kept[-1].bind(name)
    kept[-1].listen(0 if i % 2 else 8)
    if i % 2:
        kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        kept[-1].connect(name)
open(sys.argv[1], "w").write("ready")
signal.pause()
END
among_mute()
{
    /usr/bin/python3 "$work/mute.py" "$work/mute.ready" &
    local mute=$!
    appears "$work/mute.ready"
    asked "@vgpu-backend.status.$ghost" own /run/a.sock
    kill $mute
    wait $mute 2> /dev/null
}
same "smi --host: many sockets that say nothing" /run/a.sock "$(among_mute)"
# A backend that is stopped beside others: it is named, the others are shown, and nobody waits long; then with a full queue.
# What decides is below the wait that there was, 10 s for a look.
rm -f "$work/asked.ready"
bash -c 'exec /usr/bin/python3 "$0" "$1" "@vgpu-backend.status.$$" own /run/stopped.sock' "$work/asked.py" "$work/asked.ready" &
stopped=$!
appears "$work/asked.ready"
same "smi --host: a backend before it is stopped" 1 "$("$vgpu" smi --host | grep -c "^| /run/stopped.sock  *$stopped ")"
kill -STOP $stopped
no_answer()
{
    same "$1: no answer" "no answer" "$(timeout 9 "$vgpu" smi --host | sed -n "s/^| -  *$stopped  *\(no answer\) *|$/\1/p")"
    same "$1: the table has 80 columns" 80 "$("$vgpu" smi --host | awk '/^[|+]/ { print length }' | sort -u | xargs)"
    says "$1: with -q" 0 "^Backend $stopped$" timeout 9 "$vgpu" smi --host -q
    same "$1: --json" True "$(timeout 9 "$vgpu" smi --host --json | /usr/bin/python3 -c 'import json, sys
print(int(sys.argv[1]) in [b["pid"] for b in json.load(sys.stdin)["no_answer"]])' "$stopped")"
    same "$1: vgpu_up" "vgpu_up{vm=\"-\",backend=\"$stopped\"} 0" "$(timeout 9 "$vgpu" metrics | grep "^vgpu_up.*\"$stopped\"")"
    same "$1: the others are shown" /run/a.sock "$(asked "@vgpu-backend.status.$ghost" own /run/a.sock)"
}
no_answer "smi --host: a stopped backend"
/usr/bin/python3 -c 'import socket, sys, time
kept = []
for i in range(64):
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
    try:
        kept[-1].connect("\0vgpu-backend.status." + sys.argv[1])
    except BlockingIOError:
        break
print("ready", flush=True)
time.sleep(600)' $stopped > "$work/filled.ready" & filler=$!
appears "$work/filled.ready"
no_answer "smi --host: a stopped backend with a full queue"
kill $filler
kill -CONT $stopped
# The loop knows its name from the look before, and shows it again when it goes on.
"$vgpu" smi --host -l 1 > "$work/looped" & looper=$!
# On a busy machine the first looks may find that it has not gone on yet.
for _ in $(seq 600); do grep -q "^| /run/stopped.sock" "$work/looped" && break || sleep 0.1; done
lines=$(wc -l < "$work/looped")
kill -STOP $stopped
for _ in $(seq 600); do tail -n "+$((lines + 1))" "$work/looped" | grep -q "no answer.*|$" && break || sleep 0.1; done
same "smi --host -l: a backend that is stopped keeps its name" stopped \
    "$(tail -n "+$((lines + 1))" "$work/looped" | sed -n "s/^| \([^ ]*\)  *$stopped  *no answer.*/\1/p" | head -n 1)"
lines=$(wc -l < "$work/looped")
kill -CONT $stopped
for _ in $(seq 600); do tail -n "+$((lines + 1))" "$work/looped" | grep -q "^| /run/stopped.sock" && break || sleep 0.1; done
same "smi --host -l: and is shown when it goes on" 0 $?
kill $looper $stopped
wait $looper $stopped 2> /dev/null
if [ "$(id -u)" = 0 ]; then
    same "smi --host: another user's backend does not choose the name of a unit" uid-4242 \
        "$(asked "@vgpu-backend.status.$ghost" own /run/vgpu/one.sock 4242)"
    same "smi --host: nor that of what is no socket of its" uid-4242 "$(asked "@vgpu-backend.status.$ghost" own /etc/passwd 4242)"
    /usr/bin/python3 -c 'import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chown(sys.argv[1], 4242, 4242)' /tmp/vgpu-asked.$$
    same "smi --host: but that of its socket" /tmp/vgpu-asked.$$ "$(asked "@vgpu-backend.status.$ghost" own /tmp/vgpu-asked.$$ 4242)"
    rm -f /tmp/vgpu-asked.$$
    same "smi --host: nor does it give its machine a name" uid-4242 "$(named=vm1 asked "@vgpu-backend.status.$ghost" own /run/a.sock 4242)"
    # For an ordinary user others' sockets are hidden, whatever they say.
    rm -f "$work/asked.ready"
    /usr/bin/python3 "$work/asked.py" "$work/asked.ready" @vgpu-backend.status.$ghost own /run/a.sock 4242 &
    appears "$work/asked.ready"
    text=$(cp "$vgpu" /tmp/vgpu-asked.$$ && setpriv --reuid=4343 --regid=4343 --clear-groups timeout 60 /tmp/vgpu-asked.$$ smi --host --json)
    rm -f /tmp/vgpu-asked.$$
    kill $!
    wait $! 2> /dev/null
    same "smi --host: a user is not shown what another user says" "[] yes" \
        "$(/usr/bin/python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["backends"], "yes" if s["hidden"] else "no")' <<< "$text")"
else
    skipped=$((skipped + 1))
    echo "not run: smi --host, sockets of other users: needs root"
fi
# A /run of its own, as the units of systemd leave it.
export -f asked appears
export work vgpu
for namespace in "unshare --mount" "unshare --map-root-user --mount"; do
    $namespace mount -t tmpfs none /run 2> /dev/null && break
    namespace=
done
# of_unit SCRIPT [UID]: the status of the unit "one" after that script; the folder is of the unit's user
of_unit()
{
    $namespace bash -c "mount -t tmpfs -o mode=755 none /run; mkdir -p /run/vgpu-backend/one; $1
        asked /run/vgpu-backend/one/status own /run/vgpu/\${name:-one}.sock ${2-}"
}
if [ -n "$namespace" ]; then
    refused="not believed: /run/vgpu-backend/one/status:"
    same "smi --host: a socket of a unit" one "$(of_unit true)"
    same "smi --host: a unit's backend does not choose the name of another" one "$(of_unit name=two)"
    same "smi --host: the machine of a unit has the folder's name" one "$(export named=two; of_unit true)"
    same "smi --host: a unit's folder that others may write to" "$refused its folder is not of one user alone" \
        "$(of_unit "chmod 777 /run/vgpu-backend/one")"
    same "smi --host: a folder of units that others may write to" "$refused the folder of the units is not root's alone" \
        "$(of_unit "chmod 1777 /run/vgpu-backend")"
    same "smi --host: a unit's folder that is a link" "$refused its folder is not of one user alone" \
        "$(of_unit "mv /run/vgpu-backend/one /run/two; ln -s /run/two /run/vgpu-backend/one")"
    if [ "$(id -u)" = 0 ]; then
        same "smi --host: a unit with a user of its own" one "$(of_unit "chown 4242 /run/vgpu-backend/one" 4242)"
        # Neither can be made by anybody but root; a listener that was there before is what it looks like.
        same "smi --host: a socket of another user in a unit's folder" "$refused it is not a socket of its folder's user" \
            "$(of_unit "chown 4242 /run/vgpu-backend/one; then='chown 4343 /run/vgpu-backend/one/status'" 4242)"
        same "smi --host: a socket at which another user listens" "$refused its folder's user does not listen there" \
            "$(of_unit "chown 4242 /run/vgpu-backend/one; then='chown -R 4343 /run/vgpu-backend/one'" 4242)"
    fi
else
    skipped=$((skipped + 1))
    echo "not run: smi --host, a socket of a unit: no mount namespace may be made here"
fi
