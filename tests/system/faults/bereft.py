# SPDX-License-Identifier: MIT
"""What a program sees when its worker or its broker is killed, or is stopped first: bereft.c has the cases."""
import os
import signal
import subprocess
import time

from rig import Fault, children, need

PATIENCE = 20  # seconds in which a program must have been told everything; a slow machine's, not the library's


def bereaved(s, name, how):
    """One case in each of its own processes; None, or what went wrong."""
    p = s.popen(s.args.bereft, name)
    line = p.stdout.readline().decode(errors="replace")
    if line == "bereft: not run\n":
        print("not run: faults %s, %s: the software GPU's device lacks it" % (how, name))
    elif line != "bereft: ready\n":
        return None, "%s: it says: %s" % (name, line.strip())
    return p, None


def kill(s, workers, how):
    """Kills what `how` says; `workers` are all there were."""
    if how == "broker":
        s.backend.kill()
        s.backend.wait()
        return
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def round_of(s, how, names):
    bad, waiting = [], []
    for name in names:
        p, why = bereaved(s, name, how)
        if why:
            bad.append(why)
        else:
            waiting.append((name, p))
    workers = list(children(s.backend.pid))
    if how == "stopped":
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2)
        for name, p in waiting:
            if p.poll() is not None and name != "multicast":
                bad.append("%s: ended although its worker was only stopped: %s" % (name, p.stdout.read().decode()))
    else:
        time.sleep(0.5)
    kill(s, workers, how)
    end = time.monotonic() + PATIENCE
    for name, p in waiting:
        try:
            out, _ = p.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.kill()
            bad.append("%s: never told: %s" % (name, p.communicate()[0].decode(errors="replace").strip()))
            continue
        print("  %s %s: %s" % (how, name, out.decode(errors="replace").strip()))
        if p.returncode != 0:
            bad.append("%s: status %d: %s" % (name, p.returncode, out.decode(errors="replace").strip()))
    return bad


def bereft(s, how):
    listed = subprocess.run([s.args.bereft, "--list"], env=s.environment(), stdout=subprocess.PIPE)
    names = listed.stdout.decode().split()
    need(len(names) >= 20, "there are no cases")
    chosen = os.environ.get("BEREFT", " ".join(names)).split()
    bad = []
    for i in range(0, len(chosen), 6):
        bad += round_of(s, how, chosen[i:i + 6])
        if how == "broker":
            s.start()
    if bad:
        raise Fault("; ".join(bad))
    s.works()
    s.back_to_baseline(20)


def test_bereft_killed(s):
    """Workers killed: every call, callback and destructor ends with the error, once."""
    bereft(s, "killed")


def test_bereft_stopped(s):
    """Workers stopped, then killed: nothing is reported as done in between."""
    bereft(s, "stopped")


def test_bereft_broker(s):
    """The broker killed: the same, noticed by the connection alone."""
    bereft(s, "broker")
