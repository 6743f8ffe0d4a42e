# SPDX-License-Identifier: MIT
"""What a row of rows_*.py is given: backends with a victim, other folders' tests by name, cycles."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from rig import Fault, Setup, ends, fd_count, find, need, rss_kib, wait_until

ROWS = {}


class Row:
    def __init__(self, number, fault, required, function):
        self.number, self.fault, self.required, self.function = number, fault, required, function
        self.how = " ".join(function.__doc__.split())


def row(number, fault, required):
    def add(function):
        assert number not in ROWS
        ROWS[number] = Row(number, fault, required, function)
        return function
    return add


class NotRun(Exception):
    pass


class Bench:
    """One row's run."""

    def __init__(self, args, which):
        self.args, self.row = args, which
        self.short = args.short
        self.cycles = 0
        self.left_out, self.said, self.setups = [], [], []

    # ---- counting ----

    def n(self, short, long):
        """How often: in the short form, or in the long one times --cycles."""
        return short if self.short else max(1, int(long * self.args.cycles))

    def did(self, cycles, text=""):
        self.cycles += cycles
        if text:
            self.say(text)

    def say(self, text):
        self.said.append(text)
        print("  " + text, flush=True)

    def leave_out(self, text):
        self.left_out.append(text)
        print("not run: faults %02d: %s" % (self.row.number, text), flush=True)

    def needs_gpu(self, text):
        """The part of a row for which the software GPU cannot stand in."""
        self.leave_out("needs a GPU: " + text)

    # ---- backends ----

    @contextlib.contextmanager
    def rig(self, *options, victim=True, env=None, rss=1024, log=False):
        """A backend with a victim at work. At the end: the victim was right, the backend lives, serves
        the next program, and has the descriptors, the workers and, within `rss` KiB, the memory of before."""
        s = Setup(self.args, tempfile.mkdtemp(prefix="vgpu-row-", dir=self.args.scratch))
        self.setups.append(s)
        s.env = env or {}
        s.start(*options)
        s.works()
        s.settle()
        s.baseline = s.workers()
        before = fd_count(s.backend.pid), rss_kib(s.backend.pid)
        beside = self.victim(s) if victim else None
        yield s
        if beside:
            self.victim_ends(beside)
        s.alive()
        s.works()
        s.back_to_baseline(20)
        need(wait_until(lambda: fd_count(s.backend.pid) <= before[0], 20),
             "descriptors of the broker: %d before, %d after" % (before[0], fd_count(s.backend.pid)))
        grown = rss_kib(s.backend.pid) - before[1]
        need(grown <= rss, "the broker grew by %d KiB" % grown)
        kept = s.stop()
        need(not kept, kept)
        s.log.close()
        shutil.rmtree(s.folder, ignore_errors=True)
        self.setups.remove(s)

    def victim(self, s):
        p = subprocess.Popen([self.args.victim, "until"], env=s.environment(), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        s.started.append(p)
        line = p.stdout.readline().decode(errors="replace")
        need(line == "victim: working\n", "the victim does not begin: " + line)
        return p

    def victim_ends(self, p):
        need(p.poll() is None, "the victim ended early: " +
             (p.stdout.read().decode(errors="replace") if p.poll() is not None else ""))
        p.stdin.close()
        p.stdin = None
        code, out = ends(p, 120)
        need(code == 0 and "every bit right" in out, "the victim noticed: status %d: %s" % (code, out))

    def attack(self, s, *what, timeout=600):
        """attack.c or fuzz.c's attacks; the last line is what it says."""
        code, out = s.run(os.path.join(self.args.build, "attack"), s.socket, *map(str, what), timeout=timeout)
        last = out.strip().splitlines()[-1] if out.strip() else ""
        need(code == 0, "attack %s: status %d: %s" % (what[0], code, out.strip()[-600:]))
        self.say(last.replace("attack: ", ""))

    def fuzz(self, s, *what, seeds, timeout=3000):
        code, out = s.run(self.args.fuzz, s.socket, "--seeds", str(seeds), *what, timeout=timeout)
        bad = [l for l in out.splitlines() if " FAIL " in l]
        need(code == 0, "fuzz: status %d: %s" % (code, "; ".join(bad[:5]) or out[-300:]))
        self.say(out.strip().splitlines()[-1])

    def test(self, *names):
        """Tests of faults.py, each on a backend of its own."""
        for name in names:
            t = [t for t in self.args.all_tests if t.__name__ == "test_" + name]
            need(len(t) == 1, "faults.py has no test " + name)
            self.args.tests_run.add(name)
            why = self.args.run_test(self.args, t[0])
            need(not why, "%s: %s" % (name, why))
            self.did(1)

    # ---- tests of other folders ----

    def unit(self, folder, program, *names, times=1):
        """A cmocka program below build/FOLDER: each of these tests must be in it, run and pass."""
        path = find(os.path.join(self.args.top_build, folder), program)
        if not path:
            self.leave_out("%s of %s is not built" % (program, folder))
            return
        top = os.path.join(self.args.top_build, "host/backend")
        for _ in range(times):
            key = (path, 0 if times == 1 else object())
            if key not in self.args.memo:
                self.args.memo[key] = self.cmocka(path, dict(os.environ, BACKEND_DIR=top))
            code, out = self.args.memo[key]
            passed = set(re.findall(r"\[       OK \] (\w+)", out)) | set(re.findall(r"^ok \d+ - (\w+)", out, re.M))
            for name in names:
                need(name in passed, "%s: %s did not pass: %s" % (program, name, "; ".join(
                    l for l in out.splitlines() if "ERROR" in l or "LINE" in l or "FAILED" in l) or out[-300:])
                     + self.unfinished(code, out))
            self.did(1)
        self.say("%s: %s" % (program, ", ".join(names)))

    @staticmethod
    def unfinished(code, out):
        """Which test was at work when its program was ended, or ended by itself."""
        begun = re.findall(r"\[ RUN      \] (\w+)", out)
        ended = set(re.findall(r"\[ +(?:OK|FAILED|SKIPPED|ERROR) +\] (\w+)", out))
        left = [name for name in begun if name not in ended]
        return "; %s in %s" % (code, ", ".join(left)) if left else ""

    def cmocka(self, path, env):
        """(status, output). What a test that failed leaves behind is ended; it would hold a pipe open."""
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen([path], env=env, cwd=self.args.scratch, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            code = "no end after 300 s"
            for _ in range(300):  # seconds of our own: the clock of a virtual machine that was paused jumps
                try:
                    code = p.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    pass
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
            out.seek(0)
            return code, out.read().decode(errors="replace")

    def qtest(self, *names):
        """Tests of qemu-device by name: QEMU without a guest, a broker that misbehaves on request."""
        build = os.path.join(self.args.top_build, "qemu")
        script = os.path.join(self.args.top, "qemu-device/tests/device_test.py")
        if not os.path.exists(os.path.join(build, "bin/qemu-system-x86_64")):
            self.leave_out("QEMU is not built")
            return
        if not os.path.exists(os.path.join(build, "tests/fake-broker")):
            made = subprocess.run(["make", "-s", "-C", os.path.join(self.args.top, "qemu-device"), "O=" + build,
                                   build + "/tests/fake-broker"], env=clean(), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if made.returncode:
                self.leave_out("qemu-device/tests/fake-broker is not built")
                return
        self.exists("qemu-device/tests", names)
        done = subprocess.run(["/usr/bin/python3", "-B", script, build, *names], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=900)
        out = done.stdout.decode(errors="replace")
        count = re.search(r": (\d+) passed, (\d+) failed", out)
        need(done.returncode == 0 and count and int(count.group(1)) == len(names) and count.group(2) == "0",
             "qtest: " + out[-500:])
        self.did(len(names), "qtest: " + ", ".join(names))

    def kunit(self, *names):
        """Cases of the guest driver's KUnit suites, in a User-Mode-Linux kernel; one run for all rows."""
        if self.short:
            self.exists("kernel/vgpu_drv", names)
            self.leave_out("short form: kernel/vgpu_drv's check runs " + ", ".join(names))
            return
        if "kunit" not in self.args.memo:
            done = subprocess.run(["make", "-s", "-C", os.path.join(self.args.top, "kernel/vgpu_drv"), "check",
                                   "O=" + os.path.join(self.args.top_build, "kernel")], env=clean(), timeout=3600,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.args.memo["kunit"] = done.returncode, done.stdout.decode(errors="replace")
        code, out = self.args.memo["kunit"]
        if "not run: kunit" in out:
            self.leave_out(re.search(r"not run: (kunit.*)", out).group(1))
            return
        for name in names:
            need(re.search(r"\[PASSED\] %s\b" % name, out), "KUnit: %s did not pass: %s" % (name, out[-300:]))
        self.did(len(names), "KUnit: " + ", ".join(names))

    def exists(self, folder, names):
        """A test that is only named must be there."""
        text = ""
        for where, _, files in os.walk(os.path.join(self.args.top, folder)):
            for name in files:
                if name.endswith((".c", ".sh", ".py")):
                    with open(os.path.join(where, name), errors="replace") as f:
                        text += f.read()
        for name in names:
            need(re.search(r"\b%s\b" % re.escape(name), text), "%s has no test %s" % (folder, name))

    def program(self, *command, env=None, timeout=600):
        """A program of another folder that must end with 0."""
        done = subprocess.run(command, env=env, timeout=timeout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        out = done.stdout.decode(errors="replace")
        need(done.returncode == 0, "%s: status %d: %s" % (os.path.basename(command[0]), done.returncode, out[-500:]))
        return out

    def close(self, failed):
        for s in self.setups:
            s.stop()
            s.log.close()
            if failed:
                with open(os.path.join(s.folder, "backend.log"), errors="replace") as f:
                    for line in f.readlines()[-12:]:
                        print("  backend: " + line, end="")
            shutil.rmtree(s.folder, ignore_errors=True)
        self.setups = []


def clean():
    """The environment without what a make that calls us would hand down."""
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "O")}


def ticks(pid):
    """Processor time of a process, in ticks."""
    with open("/proc/%d/stat" % pid) as f:
        text = f.read()
    rest = text[text.rindex(")") + 2:].split()
    return int(rest[11]) + int(rest[12])


def peak_kib(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


__all__ = ["Bench", "Fault", "NotRun", "ROWS", "row", "ticks", "peak_kib", "clean", "time"]
