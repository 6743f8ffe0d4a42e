# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: which status sockets vgpu smi --host asks.
cat > "$work/asked.py" <<'END'
# asked.py READY NAME TEXT: answers everybody who connects; @NAME is abstract.
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[2].replace("@", "\0", 1))
s.listen(8)
open(sys.argv[1], "w").write("ready")
while True:
    c, _ = s.accept()
    c.send(sys.argv[3].encode())
    c.close()
END

# asked NAME PID: the lines about that backend in smi --host while a socket of that name tells of it
asked()
{
    rm -f "$work/asked.ready"
    /usr/bin/python3 "$work/asked.py" "$work/asked.ready" "$1" "$(printf 'backend %s /run/%s.sock\nlimit weight 300\nvm calls 1' "$2" "$2")" &
    appears "$work/asked.ready"
    timeout 60 "$vgpu" smi --host | grep -c "^| /run/$2\.sock  *$2 "
    kill $!
    wait $! 2> /dev/null
}
same "smi --host: an abstract socket" 1 "$(asked "@vgpu-backend.status.4194305" 4194305)"
same "smi --host: an abstract socket of another name" 0 "$(asked "@vgpu-backend.stat.4194305" 4194305)"
# Together with the zero in front of it and one behind it the name does not fit.
same "smi --host: a name that fills the address" 0 "$(asked "@vgpu-backend.status.$(printf '%087d' 0)" 4194305)"
same "smi --host: the longest name" 1 "$(asked "@vgpu-backend.status.$(printf '%086d' 0)" 4194305)"
# A /run of its own, as the units of systemd leave it.
export -f asked appears
export work vgpu
for namespace in "unshare --mount" "unshare --map-root-user --mount"; do
    $namespace mount -t tmpfs none /run 2> /dev/null && break
    namespace=
done
if [ -n "$namespace" ]; then
    same "smi --host: a socket of a unit" 1 "$($namespace bash -c 'mount -t tmpfs none /run
        mkdir -p /run/vgpu-backend/one && asked /run/vgpu-backend/one/status 4194305')"
else
    skipped=$((skipped + 1))
    echo "not run: smi --host, a socket of a unit: no mount namespace may be made here"
fi
