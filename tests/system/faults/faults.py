#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Faults over the socket transport: who must notice, and who must not.

usage: faults.py --top-build DIR --build DIR [--seeds N] [test...]

Starts backends of its own in a temporary folder, attacks or kills parts of the system, and looks at
/proc for what is left. Ends only processes that it started. The last line counts the tests.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time


from bereft import test_bereft_broker, test_bereft_killed, test_bereft_stopped
from rig import Fault, Setup, children, ends, fd_count, find, need, rss_kib, until_waiting, wait_until
from shared import (test_shared_ends, test_shared_quota, test_shared_random_kills,
                    test_shared_strangers)


# ---- tests; each runs with a fresh Setup and a running backend ----

def test_fuzz(s):
    """Malformed records of every kind while another process works."""
    victim = s.popen(s.args.victim, "work", "20")
    status, text = s.run(s.args.fuzz, s.socket, "--seeds", str(s.args.seeds), timeout=280 + 4 * s.args.seeds)
    with open(os.path.join(s.args.build, "fuzz.log"), "w") as f:
        f.write(text)
    for line in text.splitlines():
        if " FAIL " in line:
            print("  " + line)
    print("  " + text.strip().splitlines()[-1])
    s.alive()
    code, out = ends(victim, 60)
    print("  " + out.strip())
    need(code == 0, "the other process saw it: %s" % out)
    need(status == 0, "fuzz failed")
    s.works()
    s.back_to_baseline(10)


def test_out_of_bounds(s):
    """A process whose kernel writes out of bounds; another one stays right to the last bit."""
    victim = s.popen(s.args.victim, "work", "4")
    for _ in range(5):
        status, text = s.run(s.args.victim, "oob")
        need(status == 0, text)
    code, out = ends(victim, 60)
    print("  " + out.strip())
    need(code == 0, "the other process saw it: %s" % out)
    s.works()
    s.back_to_baseline()


def test_process_killed(s):
    """SIGKILL with a kernel running that never ends: its worker goes, nothing stays."""
    victim = s.popen(s.args.victim, "work", "4")
    for _ in range(3):
        p = s.popen(s.args.victim, "busy")
        until_waiting(p)
        p.send_signal(signal.SIGKILL)
        p.wait()
    code, out = ends(victim, 60)
    need(code == 0, "the other process saw it: %s" % out)
    s.back_to_baseline()
    s.works()
    s.alive()


def test_worker_killed(s):
    """Every worker killed: the waiting call returns an error, at once and for ever."""
    p = s.popen(s.args.victim, "wait")
    until_waiting(p)
    began = time.monotonic()
    for pid in children(s.backend.pid):
        os.kill(pid, signal.SIGKILL)
    code, out = ends(p, 5)
    print("  after %.2f s, %s" % (time.monotonic() - began, out.strip()))
    need(code == 0, "no error: %s" % out)
    s.alive()
    s.works()
    s.back_to_baseline()


def test_backend_killed(s):
    """The backend killed: waiting calls return an error, no worker is left."""
    p = s.popen(s.args.victim, "wait")
    until_waiting(p)
    before = list(children(s.backend.pid))
    began = time.monotonic()
    s.backend.kill()
    s.backend.wait()
    code, out = ends(p, 5)
    print("  after %.2f s, %s" % (time.monotonic() - began, out.strip()))
    need(code == 0, "no error: %s" % out)

    def gone():
        return not any(is_running(pid) for pid in before)
    need(wait_until(gone, 5), "orphans: %s" % [pid for pid in before if is_running(pid)])
    status, text = s.run(s.args.victim, "once")
    need(status == 1 and "cuInit" in text, "without a backend: %s" % text)
    s.start()
    s.works()


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            text = f.read()
    except OSError:
        return False
    return text[text.rindex(")") + 2] != "Z"


def test_churn(s):
    """Thirty processes one after another, a third of them killed: the backend is as before."""
    s.works()
    s.settle()
    before = fd_count(s.backend.pid), s.workers(), rss_kib(s.backend.pid)
    for i in range(30):
        if i % 3 == 2:
            p = s.popen(s.args.victim, "busy")
            until_waiting(p)
            p.kill()
            p.wait()
        else:
            s.works()
    wait_until(lambda: (fd_count(s.backend.pid), s.workers()) == before[:2], 5)
    after = fd_count(s.backend.pid), s.workers(), rss_kib(s.backend.pid)
    print("  descriptors, workers, KiB: %s before, %s after" % (before, after))
    need(after[:2] == before[:2], "something is left")
    need(after[2] - before[2] <= 1024, "the backend grew by %d KiB" % (after[2] - before[2]))


def test_many(s):
    """Eight processes at once."""
    many = [s.popen(s.args.victim, "work", "1") for _ in range(8)]
    for p in many:
        code, out = ends(p, 90)
        need(code == 0, out)
    s.back_to_baseline(10)


def test_random_kills(s):
    """Forty processes killed at any point of their life, beside one that works."""
    rng = random.Random(7)
    victim = s.popen(s.args.victim, "work", "6")
    before = fd_count(s.backend.pid)
    for _ in range(40):
        p = s.popen(s.args.victim, "work", "5")
        time.sleep(rng.random() * 0.15)
        p.kill()
        p.wait()
    code, out = ends(victim, 60)
    need(code == 0, "the other process saw it: %s" % out)
    s.back_to_baseline()
    wait_until(lambda: fd_count(s.backend.pid) <= before, 5)
    need(fd_count(s.backend.pid) <= before, "%d descriptors, %d before"
         % (fd_count(s.backend.pid), before))
    s.works()


def test_random_worker_kills(s):
    """The workers killed at any point of a program: it ends with an error, soon."""
    rng = random.Random(11)
    longest = 0
    for _ in range(15):
        p = s.popen(s.args.victim, "work", "8")
        time.sleep(rng.random() * 0.2)
        for pid in children(s.backend.pid):
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        code, out = ends(p, 10)
        if code == 0:  # its worker was not among them yet: it has to be right then
            need("every bit right" in out, out)
            continue
        longest = max(longest, time.monotonic() - began)
        need(code == 1 and "returns" in out, "status %d: %s" % (code, out))
    print("  the slowest end: %.2f s" % longest)
    s.alive()
    s.works()
    s.back_to_baseline()


def test_worker_stopped(s):
    """Workers stopped for a while: late, but right."""
    p = s.popen(s.args.victim, "work", "3")
    time.sleep(0.5)
    for _ in range(3):
        stopped = list(children(s.backend.pid))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.4)
        for pid in stopped:
            if is_running(pid):
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.1)
    code, out = ends(p, 30)
    print("  " + out.strip())
    need(code == 0, out)
    s.back_to_baseline()


def test_memory_quota(s):
    """The quota of device memory: out of memory at the limit, for all clients together, and back."""
    s.restart("--vram-quota", "256M")
    status, text = s.run(s.args.victim, "hoard", "500")
    print("  " + text.strip())
    need(status == 0, text)
    got = int(text.split()[1])
    need(250 <= got <= 256, "%d MB with a quota of 256" % got)
    # A program's quota is available to the next program as soon as it has exited.
    status, text = s.run(s.args.victim, "modules", "500")  # variables and cuMemCreate count as well
    print("  " + text.strip())
    need(status == 0 and 245 <= int(text.split()[1]) <= 256, text)
    # A graph is charged with its largest concurrent allocation.
    for shape, want in (("chain", 0), ("branches", 2)):
        status, text = s.run(s.args.victim, shape, "100")
        need(status == 0 and "launch returns %d\n" % want in text, "%s: %s" % (shape, text))
    hog = s.popen(s.args.victim, "secret")  # 32 MB and stays; workers reserve a 64th of the quota at a time
    until_waiting(hog)
    status, text = s.run(s.args.victim, "hoard", "500")
    need(status == 0 and 216 <= int(text.split()[1]) <= 224, "beside 32 MB: %s" % text)
    hog.kill()
    hog.wait()
    status, text = s.run(s.args.victim, "hoard", "500")
    need(status == 0 and int(text.split()[1]) == got, "after its death: %s" % text)


def test_client_limit(s):
    """More clients than allowed: the next one is refused with an error, and let in later."""
    s.restart("--max-clients", "2")
    two = [s.popen(s.args.victim, "busy") for _ in range(2)]
    for p in two:
        until_waiting(p)
    status, text = s.run(s.args.victim, "once")
    print("  " + text.strip().splitlines()[-1])
    need(status == 1 and "cuInit(0) returns 808" in text, text)  # MPS_MAX_CLIENTS_REACHED
    two[0].kill()
    two[0].wait()
    status, text = s.run(s.args.victim, "once")
    need(status == 0, "not let in later: " + text)


def test_residue(s):
    """Device memory of a dead process, and of a living one, never shows in another's."""
    for kill in (True, False):
        p = s.popen(s.args.victim, "secret")
        until_waiting(p)
        if kill:
            p.kill()
            p.wait()
        status, text = s.run(s.args.victim, "search")
        need(status == 0, text)


def test_storm(s):
    """Thirty processes start at once: each works, or is told that it may not."""
    many = [s.popen(s.args.victim, "once") for _ in range(30)]
    refused = 0
    for p in many:
        code, out = ends(p, 120)
        refused += code != 0
        need(code == 0 or "cuInit" in out, out)
    print("  %d refused" % refused)
    need(refused == 0, "refused below the limit of 64 clients")
    s.back_to_baseline(10)


def test_stopped_backend(s):
    """SIGTERM ends the backend and its workers, and takes the socket away."""
    p = s.popen(s.args.victim, "wait")
    until_waiting(p)
    before = list(children(s.backend.pid))
    s.backend.terminate()
    need(wait_until(lambda: s.backend.poll() is not None, 5), "SIGTERM does not end it")
    code, out = ends(p, 5)
    need(code == 0, "no error: %s" % out)
    need(wait_until(lambda: not any(is_running(pid) for pid in before), 5), "workers are left")
    need(not os.path.exists(s.socket), "the socket is still there")


def test_lying_backend(s):
    """A backend that lies in every way: libcuda returns an error, without a crash or a hang."""
    lies = subprocess.run([s.args.hostile_backend, "--list"], stdout=subprocess.PIPE).stdout.decode().split()
    bad = []
    socket = s.socket + ".hostile"
    env = dict(s.environment(), VGPU_SOCKET=socket)
    for lie in lies:
        server = s.popen(s.args.hostile_backend, socket, lie)
        server.stdout.readline()
        began = time.monotonic()
        try:
            done = subprocess.run([s.args.victim, "once"], env=env, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 1 or b"returns" not in done.stdout:
                bad.append("%s: status %d: %s" % (lie, done.returncode, done.stdout[:200]))
        except subprocess.TimeoutExpired:
            bad.append("%s: no end after %.0f s" % (lie, time.monotonic() - began))
        server.kill()
        server.wait()
    for line in bad:
        print("  " + line)
    print("  %d lies" % len(lies))
    need(not bad, "%d lies were believed, or worse" % len(bad))


TESTS = [test_out_of_bounds, test_fuzz, test_process_killed, test_worker_killed, test_backend_killed,
         test_stopped_backend, test_churn, test_many, test_random_kills, test_random_worker_kills,
         test_worker_stopped, test_memory_quota, test_client_limit, test_residue, test_storm, test_lying_backend,
         test_shared_ends, test_shared_strangers, test_shared_random_kills, test_shared_quota,
         test_bereft_killed, test_bereft_stopped, test_bereft_broker]


def complete(args):
    """Where the programs are."""
    args.backend = find(os.path.join(args.top_build, "host"), "vgpu-backend")
    libcuda = find(os.path.join(args.top_build, "userspace"), "libcuda.so.1", False)
    args.libcuda = libcuda and os.path.dirname(libcuda)
    for name in ("victim", "fuzz", "sharer", "hostile_backend", "bereft"):
        setattr(args, name, os.path.join(args.build, name))
    args.all_tests, args.run_test = TESTS, run_test


def run_test(args, t):
    """One test on a backend of its own; None, or what went wrong."""
    folder = tempfile.mkdtemp(prefix="vgpu-faults-")
    s = Setup(args, folder)
    began = time.monotonic()
    why = None
    print("%s: %s" % (t.__name__[5:], t.__doc__), flush=True)
    try:
        s.start()
        t(s)
    except Fault as e:
        why = str(e)
    except subprocess.TimeoutExpired as e:
        why = "no end: %s" % e
    finally:
        kept = s.stop()
        why = why or kept
        s.log.close()
    if why:
        print("FAIL: faults.%s: %s" % (t.__name__[5:], why))
        with open(os.path.join(folder, "backend.log"), errors="replace") as f:
            sys.stdout.write("".join("  backend: " + l for l in f.readlines()[-8:]))
    else:
        print("%s ok (%.1f s)" % (t.__name__[5:], time.monotonic() - began), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--top-build", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("test", nargs="*")
    args = parser.parse_args()
    complete(args)
    names = [t.__name__[5:] for t in TESTS]
    for name in args.test:
        if name not in names:
            parser.error("there is no test " + name)
    chosen = [t for t in TESTS if not args.test or t.__name__[5:] in args.test]
    for what, part in (("vgpu-backend", args.backend), ("libcuda.so.1", args.libcuda)):
        if not part:
            for t in chosen:
                print("not run: faults %s: %s is not built" % (t.__name__[5:], what))
            print("faults: 0 passed, 0 failed, %d skipped" % len(chosen))
            return 0
    failed = sum(bool(run_test(args, t)) for t in chosen)
    print("faults: %d passed, %d failed, 0 skipped" % (len(chosen) - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
