# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: what happens to program and backends while vgpu run waits.

# Backends that say where their process ids are.
sed "s|^echo .*backend.pid.*|echo \$\$ >> '$work/backends.pid'|" "$work/backend" > "$work/several"
chmod +x "$work/several"
for which in 1 2 3; do
    rm -f "$work/backends.pid"
    same "run --gpus 3: backend $which ends while the program runs" "1 said" \
        "$($run --gpus 3 --backend "$work/several" sh -c "kill \$(sed -n ${which}p '$work/backends.pid'); sleep 1; echo said" 2>&1 |
            awk '/the backend has ended while/ { n++ } /^said/ { print n, $0 }')"
done
same "run --gpus 3: no backend is left" 0 "$(xargs -n 1 < "$work/backends.pid" | while read -r id; do kill -0 "$id" 2> /dev/null && echo "$id"; done | wc -l)"

# What a terminal sends to all reaches the program from the kernel alone; what vgpu alone gets reaches it, too: a signal that
# is sent to it, and the hangup of the terminal whose first process it is.
cat > "$work/terminal.py" << 'END'
import os, pty, signal, sys, time
how, out, run = sys.argv[1], sys.argv[2], sys.argv[3:]
program = """import signal, sys, time
watched = {signal.SIGINT, signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, watched)
print("ready", flush=True)
end, seen = time.monotonic() + 2, []
while time.monotonic() < end:
    s = signal.sigtimedwait(watched, 0.1)
    seen += [signal.Signals(s.si_signo).name + (" from vgpu" if s.si_pid else " from the kernel")] if s else []
open(sys.argv[1], "w").write(", ".join(sorted(set(seen))))
"""
pid, fd = pty.fork()
if pid == 0:
    os.execvp(run[0], run + ["/usr/bin/python3", "-c", program, out])
text = b""
while b"ready\r\n" not in text:
    text += os.read(fd, 4096)
if how == "key": # several: two signals that wait at a time are one
    for _ in range(5):
        os.write(fd, b"\x03")
        time.sleep(0.2)
elif how == "hangup":
    os.close(fd)
else:
    os.kill(pid, signal.SIGINT)
os.waitpid(pid, 0)
END
while read -r how want; do
    for command in run trace; do
        rm -f "$work/arrived"
        timeout 60 /usr/bin/python3 "$work/terminal.py" "$how" "$work/arrived" "$vgpu" $command --gpu soft
        same "$command: signals that arrive: $how" "$want" "$(cat "$work/arrived" 2> /dev/null)"
    done
done << 'END'
key SIGINT from the kernel
hangup SIGHUP from vgpu
kill SIGINT from vgpu
END
