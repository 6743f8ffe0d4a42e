# SPDX-License-Identifier: MIT
# Ports, the network, disks and the list of machines: the part of vm_test.sh that it reads in turn.

mkdir "$work/net"
cd "$work/net" || exit 1
# Below the ports that the kernel gives to outgoing connections.
free_port()
{
    /usr/bin/python3 -c 'import random, socket
while True:
    port = random.randrange(20000, 32000)
    try:
        socket.socket().bind(("127.0.0.1", port))
        break
    except OSError:
        pass
print(port)'
}
# A listener of this machine, for guests that try to reach it.
cat > listen.py <<'PY'
import socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(8)
print(s.getsockname()[1], flush=True)
while True:
    c = s.accept()[0]
    c.sendall(b"from the host")
    c.close()
PY
cat > connect.py <<'PY'
import socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
    s.settimeout(5)
    print(s.recv(100).decode(), flush=True)
except OSError as e:
    print("no", flush=True)
PY
cat > serve.py <<'PY'
import socket
s = socket.socket()
s.bind(("", 7007))
s.listen(8)
print("up", flush=True)
while True:
    c = s.accept()[0]
    c.sendall(b"from the guest")
    c.close()
PY
printf 'contents of a disk' > disk.raw
truncate -s 1M disk.raw
/usr/bin/python3 listen.py > listening &
listener=$!
appears listening
port=$(free_port)
$vm --name one.a --port "$port:7007" --disk disk.raw sh -c "
    command -v vgpu
    head -c 18 /dev/vda; echo
    printf written | dd of=/dev/vda bs=512 seek=1 conv=notrunc 2> /dev/null
    sync
    /usr/bin/python3 connect.py 10.0.2.2 $(cat listening)
    exec /usr/bin/python3 serve.py" > guest.out 2> guest.err & launcher=$!
for _ in $(seq 600); do
    grep -q '^up' guest.out && break
    kill -0 $launcher 2> /dev/null || break
    sleep 0.1
done
same "vm: vgpu is in the guest's PATH" "$vgpu" "$(sed -n 1p guest.out)"
same "vm --disk: the guest reads it" "contents of a disk" "$(sed -n 2p guest.out)"
same "vm --port: the guest reaches nothing of this machine" "no" "$(sed -n 3p guest.out)"
same "vm --port: this machine reaches the guest's port" "from the guest" "$(/usr/bin/python3 connect.py 127.0.0.1 "$port")"
same "vm list: the machine and its port" "one.a $launcher none $port:7007" "$("$vgpu" vm list | awk 'NR == 2 { print $1, $2, $3, $6 }')"
says "vm: a name is given once" 125 "a machine of that name runs" $vm --name one.a true
says "vm: a port that is taken" 125 "[Cc]ould not set up host forwarding rule" $vm --port "$port:1" true
qemu=$(cat "/proc/$launcher/task/$launcher/children")
says "vm stop NAME" 0 "" "$vgpu" vm stop one.a
wait $launcher 2> /dev/null
same "vm stop: the launcher's status" 143 $?
for p in $qemu; do gone "$p" "vm stop: no process is left"; done
same "vm list: it is gone" 1 "$("$vgpu" vm list | wc -l)"
same "vm --disk: the guest's writing is there" "written" "$(dd if=disk.raw bs=512 skip=1 count=1 2> /dev/null | head -c 7)"

$vm --net sh -c "/usr/bin/python3 connect.py 10.0.2.2 $(cat listening); grep -c nameserver /etc/resolv.conf" > guest.out 2> guest.err
same "vm --net: the guest reaches this machine, and has a resolver" "from the host 1" "$(echo $(cat guest.out))"
kill $listener
wait $listener 2> /dev/null
