# SPDX-License-Identifier: MIT
"""Memory and events that two guest processes share: whoever ends first, and strangers."""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from rig import Setup, children, ends, fd_count, need, wait_until


def shared(pid):
    """Memory that the backend keeps for workers that share it."""
    found = 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            found += "vgpu-share" in os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            pass
    return found


def sharer(s, *arguments, env=None):
    p = subprocess.Popen([s.args.sharer, *arguments], env=env or s.environment(),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    s.started.append(p)
    return p


def says(process, want):
    line = process.stdout.readline().decode(errors="replace").strip()
    need(line == want, "it says: %s" % line)


def nothing_shared(s, before):
    s.back_to_baseline(10)
    need(wait_until(lambda: shared(s.backend.pid) == 0, 5),
         "%d pieces of shared memory are left" % shared(s.backend.pid))
    need(wait_until(lambda: fd_count(s.backend.pid) <= before, 5), "%d descriptors, %d before"
         % (fd_count(s.backend.pid), before))


def test_shared_ends(s):
    """Two processes share memory and events; each may end first, in any way."""
    before = fd_count(s.backend.pid)
    path = os.path.join(s.folder, "handles")
    for who in ("maker", "maker's worker", "opener", "opener's worker", "both"):
        maker = sharer(s, "make", path, "6")
        says(maker, "sharer: ready")
        of_maker = [p for p in children(s.backend.pid) if is_busy(p)] # now: the opener gets a spare one
        s.settle()
        opener = sharer(s, "open", path)
        says(opener, "sharer: ready 10 of 10")
        need(shared(s.backend.pid) == 10, "%d pieces are shared, not 10" % shared(s.backend.pid))
        if who.startswith("maker"):
            need(len(of_maker) == 1, "%d workers are busy, not the maker's alone" % len(of_maker))
            os.kill(maker.pid if who == "maker" else of_maker[0], signal.SIGKILL)
            if who != "maker":
                maker.kill()
            maker.wait()
            opener.stdin.close()
            code, out = opener.wait(20), opener.stdout.read().decode(errors="replace")
            need(code == 0 and "all there" in out, "the opener: status %d, %s" % (code, out))
        elif who == "both":
            maker.kill()
            opener.kill()
        else:
            opener.kill()
            opener.wait()
            again = sharer(s, "open", path)
            says(again, "sharer: ready 10 of 10")
            again.kill()
            again.wait()
            maker.kill()
        maker.wait()
        opener.wait()
        nothing_shared(s, before)
    s.works()


def is_busy(pid):
    """Has a client's window mapped: it is not one of the spare workers."""
    try:
        with open("/proc/%d/maps" % pid) as f:
            return "vgpu-window" in f.read()
    except OSError:
        return False


def test_shared_strangers(s):
    """Handles of another backend, and of one that was restarted, mean nothing."""
    path = os.path.join(s.folder, "handles")
    maker = sharer(s, "make", path, "3")
    says(maker, "sharer: ready")
    other = Setup(s.args, tempfile.mkdtemp(prefix="vgpu-faults-"))
    try:
        other.start()
        opener = sharer(other, "open", path)
        says(opener, "sharer: ready 0 of 7")
        need(opener.wait(10) == 0, "the opener fails")
        need(shared(other.backend.pid) == 0, "something is shared")
        other.works()
    finally:
        kept = other.stop()
        other.log.close()
        shutil.rmtree(other.folder, ignore_errors=True)
    need(not kept, kept)
    s.restart()
    maker.kill()
    opener = sharer(s, "open", path)
    says(opener, "sharer: ready 0 of 7")
    need(opener.wait(10) == 0, "the opener fails")
    s.back_to_baseline()


def test_shared_random_kills(s):
    """Makers and openers killed at any point; nothing is left, and the next ones work."""
    rng = random.Random(23)
    before = fd_count(s.backend.pid)
    path = os.path.join(s.folder, "handles")
    for round_ in range(12):
        maker = sharer(s, "make", path, "20")
        if round_ % 3:
            says(maker, "sharer: ready")
        users = [sharer(s, "churn", path) for _ in range(3)] if os.path.exists(path) else []
        for p in rng.sample(users + [maker], len(users) + 1):
            time.sleep(rng.random() * 0.15)
            if p.poll() is not None:
                need(p is not maker and p.returncode != 1, p.stdout.read().decode())
            p.kill()
            p.wait()
    nothing_shared(s, before)
    s.works()


def test_shared_quota(s):
    """Memory that outlives its maker counts: makers that come and go get no more than the quota."""
    s.restart("--vram-quota", "24M")
    path = os.path.join(s.folder, "handles")
    openers = []
    for _ in range(2):
        maker = sharer(s, "make", path, "10")
        says(maker, "sharer: ready")
        openers.append(sharer(s, "open", path))
        says(openers[-1], "sharer: ready 14 of 14")
        maker.kill()
        maker.wait()
    s.settle()
    maker = sharer(s, "make", path, "10")
    code, out = ends(maker, 20)
    need(code == 1 and "returns 2" in out, "the third one: status %d, %s" % (code, out))
    openers[0].stdin.close()
    need(openers[0].wait(20) == 0, "the first opener fails")
    s.settle()
    maker = sharer(s, "make", path, "10")
    says(maker, "sharer: ready")
    maker.kill()
    openers[1].stdin.close()
    need(openers[1].wait(20) == 0, "the second opener fails")
    maker.wait()
    s.back_to_baseline(10)
