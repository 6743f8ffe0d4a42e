# SPDX-License-Identifier: GPL-2.0-or-later
"""Resets, bad rings, a broker that dies, falls silent or comes back, hot plug, the end."""

import os
import random
import re
import resource
import time

from vgputest import DEVICE, Driver, MIB, S_DRIVER_OK, S_NEEDS_RESET, expect, test


def another_broker(env, b, q):
    """Ends a broker; returns the one that the device is connected to next."""
    b.ask("die")
    q.wait_for("connected", False)
    b = env.broker()
    b.wait("config ")
    q.wait_for("connected", True)
    return b


@test
def reset_stops_every_queue_first(env):
    """With the first broker and with each that comes after it."""
    b, q, d = env.driver(device=DEVICE + ",clients=4")
    for life in range(3):
        if life:
            b = another_broker(env, b, q)
            d.start()
            b.wait("started 5")
        expect(d.reset() == 0, "life %d: status" % life)
        expect(not q.get("started"), "life %d: still started" % life)
        # The broker has seen all stops by the time that the guest could read the status.
        b.ask("messages")
        stopped = {l for l in b.lines if l.startswith("stopped")}
        expect(stopped == {"stopped %d" % n for n in range(6)}, "life %d: %s" % (life, stopped))
        b.lines.clear()
        d.start()
        b.wait("started 5")
        d.doorbell(5)
        b.wait("kick 5")


@test
def reset_many_times(env):
    b, q, d = env.driver(device=DEVICE + ",clients=4")
    fds = q.fds()
    for _ in range(20):
        d.start()
    d.doorbell(3)
    b.wait("kick 3")
    expect(q.fds() == fds, "%d descriptors, before %d" % (q.fds(), fds))


@test
def system_reset_stops_the_service(env):
    b, q, _ = env.driver(device=DEVICE + ",clients=2")
    q.qmp("system_reset")
    b.wait("stopped 3")
    q.wait_for("started", False)
    d = Driver(q)
    d.start()
    b.wait("started 3")


@test
def some_queues_not_set_up(env):
    b, q, d = env.driver(queues=3)
    d.doorbell(2)
    b.wait("kick 2")
    d.doorbell(9)
    expect(d.reset() == 0, "status")
    expect(q.get("connected"), "broker lost")


@test
def rings_that_cannot_be_served(env):
    b, q, d = env.driver()
    # No memory; the device's own registers; the end of the address space.
    for rings in (0xf0000000, d.MODERN, 0xffffffffffff0000):
        d.RINGS = rings
        d.start()
        end = time.monotonic() + 10
        while not d.status() & S_NEEDS_RESET:
            expect(time.monotonic() < end, "the driver is not told")
        expect(q.get("connected") and not q.get("started"), "wrong state")
    del d.RINGS
    d.start()
    b.lines.clear()
    d.doorbell(6)
    b.wait("kick 6")


@test
def rings_over_the_end_of_memory(env):
    """Each part of a ring begins in the guest's memory and ends behind it."""
    b = env.broker()
    q = env.vm(DEVICE + ",clients=4").start()
    d = Driver(q)
    for part in (0x80, 0x1000 + 0x40, 0x2000 + 0x40):  # descriptors, available ring, used ring
        d.RINGS = 128 * MIB - part
        d.start(queues=1)
        end = time.monotonic() + 10
        while not d.status() & S_NEEDS_RESET:
            expect(time.monotonic() < end, "the driver is not told")
        expect(q.get("connected") and not q.get("started"), "wrong state")
    del d.RINGS
    d.start()
    b.wait("started 5")


@test
def each_part_of_a_ring_alone(env):
    """One part at a limit, the other two in ordinary memory: the guest's last byte is the part's last one and is served,
    one unit further is not, nor is the first MiB, nor an address without memory."""
    env.broker()
    q = env.vm(DEVICE + ",clients=4").start()
    d = Driver(q)
    d.start()
    size = d.sizes[0]
    parts = (("descriptors", 16 * size, 16), ("available", 4 + 2 * size, 2), ("used", 4 + 8 * size, 4))
    for part, (name, length, unit) in enumerate(parts):
        last = 128 * MIB - length
        for address, served in ((last, True), (last + unit, False), (0x10000, False), (1 * MIB, True), (0xf0000000, False)):
            d.ring = lambda n: tuple(address if n == 0 and i == part else a for i, a in enumerate(Driver.ring(d, n)))
            d.start(queues=1)
            told = bool(d.status() & S_NEEDS_RESET)
            expect(told != served, "%s at 0x%x: %s" % (name, address, "refused" if told else "not refused"))
            expect(q.get("connected") and q.get("started") == served, "%s at 0x%x: wrong state" % (name, address))
    del d.ring


@test
def rings_in_the_device_itself(env):
    """Queues whose rings are the device's windows, doorbells, configuration or interrupt table: no access of
    the device to itself, the broker lives, and the next driver is served."""
    b, q, d = env.driver(device=DEVICE + ",clients=4", chardev="socket,id=c,path=%s,reconnect=1")
    own = (d.WINDOW, d.WINDOW + d.shm[2], d.WINDOW + d.bar_size(4) - 4096, d.caps[2] & ~0xfff, d.common & ~0xfff,
           d.caps[4] & ~0xfff, d.MSIX)
    for rings in own:
        d.RINGS = rings
        d.start()
        for queue in range(4):
            d.doorbell(queue)
        d.reset()
    del d.RINGS
    q.wait_for("connected", True)
    d.start()
    q.wait_for("started", True)
    b.lines.clear()
    d.doorbell(3)
    b.wait("kick 3")
    expect(b.proc.poll() is None, "the broker has ended")


@test
def rings_in_a_window_that_is_covered(env):
    """A ring whose second half disappears behind another BAR: vhost would abort QEMU."""
    b, q, d = env.driver(device=DEVICE + ",clients=4")
    size = d.bar_size(2)
    d.RINGS = d.WINDOW + size - 512
    d.start()
    d.cfg_write(0x18, (d.WINDOW + size) & 0xffffffff)
    d.cfg_write(0x1c, (d.WINDOW + size) >> 32)
    expect(q.qmp("query-status")["running"], "not running")
    d.cfg_write(0x18, d.MODERN)
    d.cfg_write(0x1c, 0)
    del d.RINGS
    d.start()
    q.wait_for("started", True)
    b.lines.clear()
    d.doorbell(3)
    b.wait("kick 3")


class Chipset:
    """Registers of q35's host bridge, which the guest writes."""

    PAM, SMRAM, ESMRAMC = 0x90, 0x9d, 0x9e
    G_SMRAME, T_EN = 1 << 3, 1 << 0

    def __init__(self, qemu):
        self.q = qemu

    def write(self, reg, value):
        self.q.io("outl", "0xcf8", hex(0x80000000 | reg & 0xfc))
        self.q.io("outb", hex(0xcfc + reg % 4), hex(value))

    def pam(self, value):
        """The pieces from 0xc0000 to 0xfffff; 0x33: RAM, 0: not."""
        for i in range(7):
            self.write(self.PAM + i, value)


@test
def programs_that_qemu_starts_get_no_descriptor(env):
    """Neither of a connection nor of what it brings: all are closed on exec."""
    b, q, d = env.driver(chardev="socket,id=c,path=%s,reconnect=1")
    for again in range(2):
        kept = []
        for fd in os.listdir("/proc/%d/fd" % q.proc.pid):
            try:
                name = os.readlink("/proc/%d/fd/%s" % (q.proc.pid, fd))
                with open("/proc/%d/fdinfo/%s" % (q.proc.pid, fd)) as f:
                    flags = int(re.search(r"^flags:\s*([0-7]+)", f.read(), re.M)[1], 8)
            except OSError:
                continue  # closed meanwhile
            ours = name.startswith(("socket:", "anon_inode:[eventfd]", "/memfd:"))
            if int(fd) > 2 and ours and not flags & os.O_CLOEXEC:
                kept.append("%s %s" % (fd, name))
        expect(not kept, "kept: %s" % kept)
        if not again:
            b = another_broker(env, b, q)
            d.start()
            b.wait("started 33")


@test
def every_failure_is_told_to_the_driver(env):
    """Also those for which the log has no line any more."""
    env.broker()
    q = env.vm(DEVICE + ",clients=4").start()
    d = Driver(q)
    d.RINGS = 0x10000
    for i in range(14):  # two messages each, more than are printed
        d.start(queues=1)
        end = time.monotonic() + 10
        while not d.status() & S_NEEDS_RESET:  # a start that failed often is put off
            expect(time.monotonic() < end, "start %d: the driver is not told" % i)
        expect(d.isr() & 2, "start %d: no configuration interrupt" % i)
    q.quit()
    expect(len(q.output().splitlines()) < 30, "too many words: %s" % q.output())


@test
def rings_in_memory_that_is_switched_off(env):
    """Rings over a border of the chipset's pieces of RAM: vhost would abort QEMU when one is switched off."""
    b = env.broker()
    q = env.vm(DEVICE + ",clients=4").start()
    chipset = Chipset(q)
    chipset.pam(0x33)
    d = Driver(q)
    for rings in (0xc4000 - 0x80, 0xc4000 - 0x1080, 0xc4000 - 0x2040):  # descriptors, available ring, used ring
        d.RINGS = rings
        d.start(queues=1)
        chipset.write(Chipset.PAM + 1, 0x03)  # what follows 0xc4000
        expect(q.qmp("query-status")["running"], "not running")
        expect(d.status() & S_NEEDS_RESET, "the driver is not told")
        expect(q.get("connected") and not q.get("started"), "wrong state")
        chipset.pam(0x33)
    del d.RINGS
    d.start()
    q.wait_for("started", True)
    b.lines.clear()
    d.doorbell(3)
    b.wait("kick 3")
    q.quit()
    expect("into the first MiB" in q.output(), "not said")


@test
def rings_where_the_guest_makes_a_hole(env):
    """The same with the memory that the chipset takes from the end of RAM (TSEG)."""
    _, q, d = env.driver(device=DEVICE + ",clients=4", chardev="socket,id=c,path=%s,reconnect=1")
    chipset = Chipset(q)
    d.RINGS = 127 * MIB - 0x80
    d.start()
    q.wait_for("started", True)
    chipset.write(Chipset.SMRAM, Chipset.G_SMRAME)
    chipset.write(Chipset.ESMRAMC, Chipset.T_EN)
    expect(q.qmp("query-status")["running"], "not running")
    chipset.write(Chipset.ESMRAMC, 0)
    b = env.broker()  # libvhost-user gives up when rings lose their memory
    q.wait_for("connected", True)
    del d.RINGS
    d.start()
    q.wait_for("started", True)
    d.doorbell(3)
    b.wait("kick 3")


@test
def random_register_accesses(env):
    """A guest that does anything in any order: QEMU lives, and serves a sane driver afterwards."""
    rng = random.Random(4711)
    b, q, d = env.driver(device=DEVICE + ",clients=4", chardev="socket,id=c,path=%s,reconnect=1")
    values = (0, 1, 2, 5, 6, 7, 0xf, 0x4f, 0x40, 0x80, 0xffff, 0x1000000, 0xe1000000, 0xffffffff)
    areas = ((d.common, 64), (d.caps[2], 8 * 4096), (d.caps[3], 8), (d.caps[4], 128),
             (d.MSIX, 128))
    for i in range(3000):
        base, size = rng.choice(areas)
        width = rng.choice("bwlq")
        addr = base + rng.randrange(size)
        if rng.random() < 0.2:
            q.io("read" + width, hex(addr))
        else:
            q.io("write" + width, hex(addr), hex(rng.choice(values)))
        if i % 300 == 299:
            d.start()
    q.wait_for("connected", True)
    d.start()
    q.wait_for("started", True)
    expect(b.proc.poll() is None, "the broker has ended")


@test
def pause_keeps_the_service(env):
    b, q, d = env.driver()
    before = b.messages()
    q.qmp("stop")
    q.qmp("cont")
    expect(b.messages() == before, "the broker was told")
    d.doorbell(4)
    b.wait("kick 4")


@test
def broker_dies(env):
    b, q, d = env.driver()
    d.isr()
    b.ask("die")
    q.wait_for("connected", False)
    expect(d.status() & S_NEEDS_RESET, "status 0x%x" % d.status())
    expect(d.isr() & 2, "no configuration interrupt")
    d.doorbell(0)
    d.doorbell(2)
    d.config()
    expect(q.qmp("query-status")["running"], "not running")
    expect(d.reset() == 0, "status after reset")
    q.qmp("system_reset")
    q.quit()
    said = q.output().splitlines()
    expect(len(said) < 6, "too many words: %s" % said)
    expect(any("the connection to the broker is lost" in l for l in said), str(said))


@test
def broker_falls_silent(env):
    # The reset waits for the broker under the big lock: it must not wait for ever.
    b, q, d = env.driver(device=DEVICE + ",clients=4,answer-timeout=500",
                         chardev="socket,id=c,path=%s,reconnect=1")
    b.ask("deaf")
    expect(d.reset() == 0, "status after reset")
    q.wait_for("connected", False)
    expect(q.qmp("query-status")["running"], "not running")
    d.start()
    end = time.monotonic() + 10
    while not d.status() & S_NEEDS_RESET:
        expect(time.monotonic() < end, "the driver is not told")
    b.proc.kill()
    b = env.broker()
    b.wait("config ")
    q.wait_for("connected", True)
    d.start()
    b.wait("started 5")
    q.quit()
    said = q.output().splitlines()
    expect(any("has not answered for 500 ms" in l for l in said), str(said))
    expect(len(said) < 9, "too many words: %s" % said)


@test
def broker_falls_silent_before_the_memory_map_changes(env):
    # The guest moves the windows, and the broker has to confirm the new map.
    b, q, d = env.driver(device=DEVICE + ",clients=4,answer-timeout=500")
    b.ask("deaf")
    d.cfg_write(0x20, 0x80000000)
    q.wait_for("connected", False)
    expect(d.status() & S_NEEDS_RESET, "status 0x%x" % d.status())
    expect(q.qmp("query-status")["running"], "not running")
    d.cfg_write(0x20, 0x90000000)
    expect(d.reset() == 0, "status after reset")
    q.quit()
    said = q.output().splitlines()
    expect(any("has not answered for 500 ms" in l for l in said), str(said))
    expect(len(said) < 9, "too many words: %s" % said)


def mask_until_told(q, d):
    """Masks a vector again and again: the driver is told of the broker's silence, and QEMU goes on."""
    for i in range(3000):
        d.mask(1, i % 2 == 0)
        if d.status() & S_NEEDS_RESET:
            break
    expect(d.status() & S_NEEDS_RESET, "the driver is not told")
    expect(q.qmp("query-status")["running"], "not running")
    expect(d.reset() == 0, "status after reset")
    q.quit()
    said = q.output().splitlines()
    expect(any("has not answered for 500 ms" in l for l in said), str(said))


@test
def broker_falls_silent_while_interrupts_are_masked(env):
    # Each mask is a message, and a broker that reads none of them lets its socket fill up.
    b, q, d = env.driver(device=DEVICE + ",clients=4,answer-timeout=500")
    d.start(vectors=True)
    b.ask("deaf")
    mask_until_told(q, d)


@test
def broker_falls_silent_without_a_descriptor_left(env):
    # The request that the broker does not answer ends, also where QEMU can open nothing more.
    b, q, d = env.driver(device=DEVICE + ",clients=4,answer-timeout=500")
    d.start(vectors=True)
    b.ask("deaf")
    used = {int(n) for n in os.listdir("/proc/%d/fd" % q.proc.pid)}
    free = min(set(range(len(used) + 1)) - used)
    resource.prlimit(q.proc.pid, resource.RLIMIT_NOFILE, (free, free))
    mask_until_told(q, d)


@test
def guest_fills_no_log(env):
    """A driver that fails at starting again and again: QEMU prints some of it, says how much it left out, and serves
    a driver that does not fail."""
    b, q, d = env.driver(device=DEVICE + ",clients=4", chardev="socket,id=c,path=%s,reconnect=1")
    for _ in range(300):
        d.RINGS = d.WINDOW
        d.start()
    del d.RINGS
    q.wait_for("connected", True)
    d.start()
    q.wait_for("started", True)
    b.lines.clear()
    d.doorbell(3)
    b.wait("kick 3")
    b.ask("die")
    q.wait_for("connected", False)
    for _ in range(300):
        d.start()
    q.quit()
    said = [l for l in q.output().splitlines() if "vgpu-cuda" in l or "vhost" in l]
    expect(len(said) < 200, "%d lines: %s" % (len(said), said[:20]))


@test
def answer_timeout_has_a_range(env):
    for ms in (0, 99, 3600001):
        env.broker()
        env.vm(device=DEVICE + ",answer-timeout=%d" % ms).refuses("answer-timeout=%d" % ms, "100 to")


@test
def broker_dies_before_the_driver(env):
    b = env.broker()
    q = env.vm().start()
    b.wait("config ")
    b.ask("die")
    q.wait_for("connected", False)
    d = Driver(q)
    d.start()
    end = time.monotonic() + 10
    while not d.status() & S_NEEDS_RESET:
        expect(time.monotonic() < end, "the driver is not told")
    expect(not q.get("started"), "started without a broker")


@test
def broker_comes_back(env):
    b, q, d = env.driver(chardev="socket,id=c,path=%s,reconnect=1")
    fds = q.fds()
    for _ in range(3):
        b = another_broker(env, b, q)
        expect(d.status() & S_NEEDS_RESET, "status 0x%x" % d.status())
        expect(not q.get("started"), "started without the driver's reset")
        d.start()
        b.wait("started 33")
        expect(d.status() & (S_NEEDS_RESET | S_DRIVER_OK) == S_DRIVER_OK, "status")
        d.doorbell(5)
        b.wait("kick 5")
    expect(q.fds() == fds, "%d descriptors, before %d" % (q.fds(), fds))


@test
def broker_comes_back_without_reconnect(env):
    b, q, d = env.driver()
    for _ in range(2):
        b = another_broker(env, b, q)
        d.start()
        b.wait("started 33")
    # vhost adds a reason of its own with each connection: ours is told all the same.
    error = q.qmp("migrate", uri="exec:cat > /dev/null", check=False)
    expect("state of its GPU work is in host processes" in error.get("desc", ""), str(error))
    q.quit()
    said = q.output().splitlines()
    expect(len(said) < 14, "too many words: %s" % said)


@test
def other_broker_comes_back_again_and_again(env):
    """A refusal that is the same each second is said once."""
    b, q, _ = env.driver()
    b.ask("die")
    q.wait_for("connected", False)
    for _ in range(3):
        b = env.broker(abi=2)
        b.wait("disconnected")
        b.proc.kill()
    q.quit()
    said = [l for l in q.output().splitlines() if "ABI version 2" in l]
    expect(len(said) == 1, "%d times: %s" % (len(said), said))


@test
def lesser_broker_comes_back(env):
    b, q, d = env.driver(chardev="socket,id=c,path=%s,reconnect=1")
    for fields in ({"clients": 16}, {"window": 8 * MIB}, {"runs": 5}, {"vram": 5}, {"pin": 5}, {"abi": 2}):
        b.ask("die")
        q.wait_for("connected", False)
        b = env.broker(**fields)
        b.wait("disconnected")
        expect(not q.get("connected"), "connected to a broker with %s" % fields)
        b = env.broker()
        b.wait("config ")
        q.wait_for("connected", True)
    d.start()
    b.wait("started 33")


@test
def device_can_be_plugged(env):
    b = env.broker(abi=9)
    root = ("-device", "pcie-root-port,id=rp,slot=1")
    q = env.vm(None, options=root).start()
    q.qmp("device_add", driver="vgpu-cuda", id="x", chardev="c", bus="rp", check=False)
    b.ask("die")
    end = time.monotonic() + 10
    while not any(c["label"] == "c" and "disconnected" in c["filename"]
                  for c in q.qmp("query-chardev")):
        expect(time.monotonic() < end, "QEMU does not notice that the broker is gone")
        time.sleep(0.05)
    before = q.fds()
    for _ in range(5):
        b = env.broker(abi=9)
        q.qmp("chardev-add", id="d", backend={"type": "socket", "data": {
            "addr": {"type": "unix", "data": {"path": env.socket}}, "server": False}})
        error = q.qmp("device_add", driver="vgpu-cuda", id="x", chardev="d", bus="rp", check=False)
        expect("ABI version 9" in error.get("desc", ""), str(error))
        expect(not q.migration_blockers(), "still blocked: %s" % q.migration_blockers())
        q.qmp("chardev-remove", id="d")
        b.wait("disconnected")
    expect(q.fds() == before, "%d descriptors, before %d" % (q.fds(), before))
    b = env.broker()
    q.qmp("chardev-add", id="d", backend={"type": "socket", "data": {
        "addr": {"type": "unix", "data": {"path": env.socket}}, "server": False}})
    q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="d", bus="rp")
    b.wait("config ")
    expect(q.get("connected"), "not connected")
    expect(q.migration_blockers(), "not blocked")
    q.qmp("device_del", id="gpu")
    q.eject()
    b.ask("messages")
    end = time.monotonic() + 10
    while "is busy" in q.qmp("chardev-remove", id="d", check=False).get("desc", ""):
        expect(time.monotonic() < end, "the device does not go")
        time.sleep(0.1)
    while q.fds() != before:
        expect(time.monotonic() < end, "%d descriptors, before %d" % (q.fds(), before))
        time.sleep(0.1)
    expect(not q.migration_blockers(), "still blocked: %s" % q.migration_blockers())


@test
def qemu_ends_with_a_driver_up(env):
    b, q, _ = env.driver()
    q.quit()
    expect(q.proc.returncode == 0, "exit status %s" % q.proc.returncode)
    b.wait("disconnected")
