# SPDX-License-Identifier: MIT
"""One backend of a test's own, the programs that talk to it, and what /proc says of them."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runner"))
import books  # noqa: E402


def find(top, name, executable=True):
    for folder, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if d not in ("qemu", "guest", "kernel", "kunit", "soft")]
        if name in files:
            path = os.path.join(folder, name)
            if not executable or os.access(path, os.X_OK):
                return path
    return None


def children(pid):
    """Living child processes: pid -> name. Without the mappers, one for each worker, which end with it."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as f:
                text = f.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        rest = text[text.rindex(")") + 2:].split()
        if int(rest[1]) == pid and rest[0] != "Z" and name != "vgpu-mapper":
            found[int(entry)] = name
    return found


def fd_count(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


class Fault(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Fault(text)


class Setup:
    """One backend, and programs that talk to it."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.socket = os.path.join(folder, "backend.sock")
        self.log = open(os.path.join(folder, "backend.log"), "ab")
        self.backend = None
        self.env = {}  # of the backend, beside ours
        self.started = []

    def start(self, *options):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        r, w = os.pipe()
        # Workers of a pool that grows with the clients would count as leaked.
        self.backend = subprocess.Popen(
            [self.args.backend, "--listen", self.socket, "--gpu", "soft", "--pool-max", "0",
             "--ready-fd", str(w), *options],
            pass_fds=[w], stdout=self.log, stderr=self.log, env=dict(os.environ, **self.env))
        os.close(w)
        ready = os.read(r, 1)
        os.close(r)
        need(ready, "the backend did not start")
        self.started.append(self.backend)
        self.settle()
        self.baseline = self.workers()

    def settle(self):
        """Until the number of workers has not changed for a while."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < 0.5:
            now = self.workers()
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.02)

    def workers(self):
        return len(children(self.backend.pid))

    def environment(self):
        env = dict(os.environ, VGPU_SOCKET=self.socket)
        env["LD_LIBRARY_PATH"] = self.args.libcuda
        env.pop("VGPU_TRACE", None)
        return env

    def run(self, *command, timeout=60):
        """Runs a program to its end: (status, output)."""
        done = subprocess.run(command, env=self.environment(), timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode(errors="replace")

    def popen(self, *command):
        p = subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        self.started.append(p)
        return p

    def alive(self):
        need(self.backend.poll() is None, "the backend is dead")

    def works(self):
        """The next process finds everything in order."""
        status, text = self.run(self.args.victim, "once")
        need(status == 0, "the next process fails: %s" % text.strip())

    def back_to_baseline(self, seconds=5):
        ok = wait_until(lambda: self.workers() == self.baseline, seconds)
        need(ok, "%d workers, %d before" % (self.workers(), self.baseline))

    def restart(self, *options):
        self.backend.terminate()
        self.backend.wait()
        self.start(*options)

    def stop(self):
        """Ends all that was started. None, or what the broker's accounts show when its last client has gone."""
        for p in self.started:
            if p is not self.backend:
                if p.poll() is None:
                    p.kill()
                p.wait()
        alive = self.backend in self.started and self.backend.poll() is None
        why = books.wrong(self.backend.pid, empty=True) if alive else None
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait()
        self.started = []
        return why and "the broker's accounts: " + why


def ends(process, seconds):
    """(status, output) of a process that has to end in time."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        raise Fault("does not return in %d s: %s" % (seconds, out.decode(errors="replace")))
    return process.returncode, out.decode(errors="replace")


def until_waiting(process):
    line = process.stdout.readline().decode(errors="replace")
    need(line == "victim: waiting\n", "it says: %s" % line)
    time.sleep(0.3)
