# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of QEMU that fail, one after the other, while the device comes and while its driver starts."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/system/inject"))
from page import Page
from vgputest import DEVICE, TIMEOUT, expect, test

# What fails, and how often at most: QEMU itself ends without memory (GLib), so that is not tried.
KINDS = ("mapping", "descriptor")
MOST = 40


def injected(env):
    """A page, and the environment of a QEMU that looks at it."""
    page = Page(env.dir)
    return page, dict(os.environ, **page.environment(env.inject))


def walk(page, kind, step):
    """Calls step(k, arm) with the k-th call of that kind failing, until none fails any more; how many did."""
    for k in range(1, MOST + 1):
        step(k, lambda k=k: page.arm(kind, k))
        if not page.fired():
            return k - 1
    return MOST


@test
def plugged_while_calls_fail(env):
    """device_add either works or says what failed; nothing stays behind, and the next one works."""
    page, environment = injected(env)
    q = env.vm(None, options=("-device", "pcie-root-port,id=rp,slot=1"), chardev=None, environment=environment).start()
    before = q.fds()
    failures = 0

    def chardev():
        q.qmp("chardev-add", id="d", backend={"type": "socket", "data": {
            "addr": {"type": "unix", "data": {"path": env.socket}}, "server": False}})

    def settled():
        """The chardev can go, all descriptors of the device are closed, and the VM can be migrated."""
        end = time.monotonic() + TIMEOUT
        while "is busy" in q.qmp("chardev-remove", id="d", check=False).get("desc", ""):
            expect(time.monotonic() < end, "the device does not go")
            time.sleep(0.05)
        while q.fds() != before:
            expect(time.monotonic() < end, "%d descriptors, before %d" % (q.fds(), before))
            time.sleep(0.05)
        expect(not q.migration_blockers(), "still blocked: %s" % q.migration_blockers())

    def step(k, arm):
        broker = env.broker()
        chardev()
        arm()
        error = q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="d", bus="rp", check=False)
        page.disarm()
        if "desc" in error:
            expect(page.fired(), "it fails of nothing: %s" % error["desc"])
            expect(error["desc"], "failure %d: no reason" % k)
        else:
            q.qmp("device_del", id="gpu")
            q.eject()
        settled()
        broker.proc.kill()

    for kind in KINDS:
        failures += walk(page, kind, step)
    expect(failures >= 2, "only %d calls failed" % failures)
    env.broker()
    chardev()
    q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="d", bus="rp")
    expect(q.get("connected"), "not connected")


@test
def started_while_calls_fail(env):
    """A driver starts with fewer descriptors than it needs: QEMU lives, the guest is told or served, the next start works."""
    page, environment = injected(env)
    b, q, d = env.driver(device=DEVICE + ",clients=2", chardev="socket,id=c,path=%s,reconnect=1", environment=environment)
    d.reset()
    before = q.fds()
    failures = 0

    def step(k, arm):
        arm()
        d.start()
        page.disarm()
        expect(q.qmp("query-status")["running"], "not running")
        d.reset()
        q.wait_for("connected", True)
        d.start()
        q.wait_for("started", True)
        b.lines.clear()
        d.doorbell(3)
        b.wait("kick 3")
        d.reset()
        expect(q.fds() <= before, "failure %d: %d descriptors, before %d" % (k, q.fds(), before))

    for kind in KINDS:
        failures += walk(page, kind, step)
    expect(failures >= 2, "only %d calls failed" % failures)
    expect(b.proc.poll() is None, "the broker has ended")
