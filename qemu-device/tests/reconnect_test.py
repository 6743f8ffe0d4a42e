# SPDX-License-Identifier: GPL-2.0-or-later
"""A broker that stays away, or accepts nothing: QEMU goes on meanwhile, and the device connects again."""

import os
import socket
import time

from vgputest import Broker, DEVICE, MIB, PortDriver, S_NEEDS_RESET, TIMEOUT, expect, major, test

ATTEMPTS = 3


def traced(env):
    """The options that trace the device's attempts to connect."""
    return ("-trace", "vgc_connect_try", "-D", os.path.join(env.dir, "trace"))


def attempts(env):
    with open(os.path.join(env.dir, "trace"), encoding="utf-8") as file:
        return file.read().count("vgc_connect_try")


def wait_attempts(env, q, more):
    """QEMU answers while the device makes so many more attempts."""
    end = time.monotonic() + TIMEOUT
    most = attempts(env) + more
    while attempts(env) < most:
        expect(time.monotonic() < end, "%d attempts, not %d" % (attempts(env), most))
        expect(q.qmp("query-status")["running"], "not running")
        time.sleep(0.1)


def lose(b, q):
    b.ask("die")
    q.wait_for("connected", False)


def serves(env, q, d):
    """A broker comes, and serves the driver that resets the device."""
    b = env.broker()
    b.wait("config ")
    q.wait_for("connected", True)
    expect(d.status() & S_NEEDS_RESET, "status 0x%x" % d.status())
    d.start()
    b.wait("started 33")
    b.lines.clear()
    d.doorbell(5)
    b.wait("kick 5")
    return b


@test
def broker_stays_away(env):
    b, q, d = env.driver(options=traced(env))
    fds = q.fds()
    for _ in range(2):
        lose(b, q)
        wait_attempts(env, q, ATTEMPTS)
        b = serves(env, q, d)
    expect(q.fds() == fds, "%d descriptors, before %d" % (q.fds(), fds))
    # It looks for nobody while it has a broker.
    before = attempts(env)
    time.sleep(1.5)
    expect(attempts(env) == before, "%d attempts while connected" % (attempts(env) - before))


@test
def broker_of_a_chardev_with_reconnect_stays_away(env):
    b, q, d = env.driver(chardev="socket,id=c,path=%s,reconnect=1", options=traced(env))
    lose(b, q)
    if major(env.qemu) >= 11:
        wait_attempts(env, q, ATTEMPTS)
    else:
        time.sleep(ATTEMPTS)  # the chardev's own
        expect(attempts(env) == 0, "the device connects, too")
    b = serves(env, q, d)


@test
def broker_at_an_abstract_name_stays_away(env):
    name = "vgpu-test-%d" % os.getpid()
    for prefix, tight in (("@", ""), ("@@", ",tight=off")):
        b = Broker(env, prefix + name)
        q = env.vm(chardev="socket,id=c,path=%s,abstract=on%s" % (name, tight), options=traced(env)).start()
        b.wait("config ")
        lose(b, q)
        wait_attempts(env, q, 1)
        b = Broker(env, prefix + name)
        b.wait("config ")
        q.wait_for("connected", True)
        q.quit()
        b.wait("disconnected")


def full(env):
    """A socket whose backlog is full, in place of the broker's, and what fills it."""
    os.unlink(env.socket)
    deaf = socket.socket(socket.AF_UNIX)
    deaf.bind(env.socket)
    deaf.listen(0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(env.socket)
    return deaf, first


@test
def broker_accepts_nothing(env):
    """No attempt waits for it."""
    b, q, d = env.driver(options=traced(env))
    lose(b, q)
    sockets = full(env)
    wait_attempts(env, q, ATTEMPTS)
    for s in sockets:
        s.close()
    serves(env, q, d)


@test
def broker_accepts_nothing_when_the_device_is_plugged(env):
    b = env.broker()
    q = env.vm(None, options=("-device", "pcie-root-port,id=rp,slot=1")).start()
    b.ask("die")
    end = time.monotonic() + TIMEOUT
    while not any("disconnected" in c["filename"] for c in q.qmp("query-chardev") if c["label"] == "c"):
        expect(time.monotonic() < end, "QEMU does not notice that the broker is gone")
        time.sleep(0.05)
    sockets = full(env)
    error = q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="c", bus="rp", check=False)
    expect("not connected" in error.get("desc", ""), str(error))
    for s in sockets:
        s.close()
    b = env.broker()
    q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="c", bus="rp")
    b.wait("config ")


@test
def device_is_unplugged_while_its_broker_is_away(env):
    b = env.broker()
    q = env.vm(None, options=("-device", "pcie-root-port,id=rp,slot=1") + traced(env)).start()
    q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="c", bus="rp")
    b.wait("config ")
    lose(b, q)
    wait_attempts(env, q, 1)
    q.qmp("device_del", id="gpu")
    q.eject()
    end = time.monotonic() + TIMEOUT
    while "is busy" in q.qmp("chardev-remove", id="c", check=False).get("desc", ""):
        expect(time.monotonic() < end, "the device does not go")
        time.sleep(0.05)
    before = attempts(env)
    time.sleep(1.5)
    expect(attempts(env) == before, "an attempt without the device")
    expect(q.qmp("query-status")["running"], "not running")


@test
def greater_broker_comes_back(env):
    """More of any limit than before, or no limit: the configuration stays, as the guest has read it."""
    first = {"clients": 40, "runs": 64, "window": 8 * MIB, "vram": 3 << 30, "pin": 1 << 30}
    b, q, d = env.driver(broker=first)
    before = b.field("config "), d.config()
    more = [{name: 2 * value} for name, value in first.items()] + [{"vram": 0}, {"pin": 0}]
    for fields in more:
        lose(b, q)
        b = env.broker(**{**first, **fields})
        b.wait("config ")
        q.wait_for("connected", True)
        expect((b.field("config "), d.config()) == before, "%s: %s, %s" % (fields, b.field("config "), d.config()))
    d.start()
    b.wait("started 33")


@test
def broker_with_fewer_features_comes_back(env):
    """A driver that uses a feature is served by no broker without it, and told so; by the next one it is."""
    b, q, d = env.driver()  # it uses PIN, and not PING
    for lacks in (1, 3):
        lose(b, q)
        b = env.broker(lacks=lacks)
        b.wait("config ")
        q.wait_for("connected", True)
        d.start()
        end = time.monotonic() + TIMEOUT
        while not d.status() & S_NEEDS_RESET:
            expect(time.monotonic() < end, "the driver is not told that the broker lacks 0x%x" % lacks)
        expect(not q.get("started"), "started without feature 0x%x" % lacks)
        lose(b, q)
        b = serves(env, q, d)
    q.quit()
    said = [l for l in q.output().splitlines() if "lacks features 0x1 " in l]
    expect(len(said) == 2, "%d times: %s" % (len(said), q.output()))


@test
def refusal_is_said_again(env):
    """A refusal that lasts is said once; after a broker that was accepted it is news."""
    b, q, _ = env.driver()
    for _ in range(2):
        lose(b, q)
        for _ in range(2):
            bad = env.broker(abi=2)
            bad.wait("disconnected")
        b = env.broker()
        b.wait("config ")
        q.wait_for("connected", True)
    q.quit()
    said = [l for l in q.output().splitlines() if "ABI version 2" in l]
    expect(len(said) == 2, "%d times: %s" % (len(said), said))


@test
def left_out_messages_are_counted(env):
    """Each count of messages that were left out is of those since the latest message."""
    b, q, d = env.driver(device=DEVICE + ",clients=4")
    period, burst = 10, 20
    lose(b, q)
    starts = (burst + 30, 15, 0)
    for count in starts:  # without a broker each start is one message, printed or left out
        for _ in range(count + 1):
            d.start(queues=1)
            end = time.monotonic() + TIMEOUT
            while not d.status() & S_NEEDS_RESET:
                expect(time.monotonic() < end, "the driver is not told")
        if count:
            time.sleep(period + 0.5)
    q.quit()
    lines = q.output().splitlines()
    said = [int(l.split("vgpu-cuda: ")[1].split()[0]) for l in lines if "were dropped" in l]
    printed = sum("fail until vgpu-backend is back" in l for l in lines)
    # Each start, and the loss: printed or counted once. When a message is let through again depends on the time.
    expect(len(said) >= 2 and printed + sum(said) == sum(starts) + len(starts) + 1,
           "left out: %s, printed: %d" % (said, printed))


def broken(b, d):
    """A start has failed."""
    d.RINGS = d.WINDOW
    d.start()


def deferred(b, d):
    """So many have that the next one waits for a timer."""
    for _ in range(12):
        broken(b, d)


@test
def device_is_unplugged_in_any_state(env):
    """Nothing stays behind, and nothing of it runs later on."""
    states = {"new": None, "served": lambda b, d: d.start(), "broken": broken, "deferred": deferred,
              "reset": lambda b, d: (d.start(), d.reset()), "lost": lambda b, d: (d.start(), b.ask("die")),
              "silent": lambda b, d: (d.start(), b.ask("deaf"))}
    # Freed memory is overwritten: a timer or a bottom half of the device would end QEMU.
    q = env.vm(None, chardev=None, options=PortDriver.PORT, environment=dict(os.environ, MALLOC_PERTURB_="85")).start()
    before = q.fds()
    for name, bring in states.items():
        b = env.broker()
        q.qmp("chardev-add", id="d", backend={"type": "socket", "data": {
            "addr": {"type": "unix", "data": {"path": env.socket}}, "server": False}})
        q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="d", bus="rp", clients=4, answer_timeout=500)
        b.wait("config ")
        if bring:
            bring(b, PortDriver(q))
        q.qmp("device_del", id="gpu")
        q.eject()
        end = time.monotonic() + TIMEOUT
        while "is busy" in q.qmp("chardev-remove", id="d", check=False).get("desc", "") or q.fds() != before:
            expect(time.monotonic() < end, "%s: %d descriptors, before %d" % (name, q.fds(), before))
            time.sleep(0.05)
        expect(not q.migration_blockers(), "%s: still blocked: %s" % (name, q.migration_blockers()))
        b.proc.kill()
    time.sleep(2.5)  # longer than its timers
    expect(q.qmp("query-status")["running"], "not running")
