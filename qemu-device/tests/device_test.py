# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of -device vgpu-cuda with a fake broker and no guest: device_test.py O [NAME...]"""

import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from vgputest import (Broker, Driver, Failure, Qemu, S_DRIVER_OK, S_NEEDS_RESET, expect)

START_BROKER = "vgpu-backend --vhost-user PATH"
DEVICE = "vgpu-cuda,id=gpu,addr=5,chardev=c"
MIB = 1 << 20
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


class Env:
    """Paths and processes of one test."""

    def __init__(self, build):
        self.qemu = os.path.join(build, "bin/qemu-system-x86_64")
        self.fake_broker = os.path.join(build, "tests/fake-broker")
        self.dir = tempfile.mkdtemp(prefix="vgpu-")
        self.socket = os.path.join(self.dir, "broker")
        self.processes = []

    def broker(self, **fields):
        return Broker(self, self.socket, **fields)

    def vm(self, device=DEVICE, **kwargs):
        return Qemu(self, device, **kwargs)

    def driver(self, queues=None, device=DEVICE, broker=None, **kwargs):
        """A broker, a QEMU, and a driver that is up."""
        b = self.broker(**(broker or {}))
        q = self.vm(device, **kwargs).start()
        d = Driver(q)
        d.start(queues)
        b.wait("kick %d" % ((queues or d.nqueues()) - 1))  # libvhost-user kicks each queue once
        return b, q, d

    def close(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
            for f in (p.stdin, p.stdout):
                if f:
                    f.close()
        shutil.rmtree(self.dir, ignore_errors=True)


# What the user sees before the guest starts.

@test
def help_describes_every_property(env):
    out = subprocess.run([env.qemu, "-device", "vgpu-cuda,help"], text=True, stdout=subprocess.PIPE,
                         timeout=30).stdout
    for name in ("chardev", "clients", "window-size", "vram-quota", "pin-quota"):
        expect(re.search(r"^  %s=<\w+> +- \w.{20,}" % name, out, re.M), "%s: %s" % (name, out))


@test
def chardev_is_missing(env):
    env.vm("vgpu-cuda", chardev=None).refuses("chardev is not set", START_BROKER,
                                              "-chardev socket,id=ID,path=PATH")


@test
def chardev_is_not_a_socket(env):
    env.vm(chardev="null,id=c").refuses("is not a socket", START_BROKER)


@test
def chardev_is_a_server_without_a_peer(env):
    env.vm(chardev="socket,id=c,path=%s,server=on,wait=off").refuses("nobody has connected",
                                                                    START_BROKER)


@test
def broker_is_absent(env):
    env.vm().refuses("Failed to connect", env.socket)


@test
def broker_is_absent_with_reconnect(env):
    env.vm(chardev="socket,id=c,path=%s,reconnect=1").refuses(
        "not connected", START_BROKER)


@test
def broker_is_present_with_reconnect(env):
    b = env.broker()
    q = env.vm(chardev="socket,id=c,path=%s,reconnect=1").start()
    b.wait("config ")
    expect(q.get("connected"), "not connected")


@test
def memory_is_not_shared(env):
    for memory in (None, "share=off"):
        env.broker()
        env.vm(memory=memory).refuses(
            "is not shared", "-object memory-backend-memfd,id=mem,size=128M,share=on",
            "-machine memory-backend=mem")


@test
def memory_is_numa_nodes(env):
    numa = ("-machine", "q35", "-numa", "node,memdev=a", "-numa", "node,memdev=b")
    shared = "memory-backend-memfd,id=%s,size=64M,share=on"
    private = "memory-backend-ram,id=%s,size=64M"
    env.broker()
    env.vm(memory=None, options=numa + ("-object", shared % "a", "-object", private % "b")).refuses(
        "'b'", "is not shared")
    b = env.broker()
    env.vm(memory=None, options=numa + ("-object", shared % "a", "-object", shared % "b")).start()
    b.wait("config ")


@test
def broker_has_wrong_magic(env):
    env.broker(magic=0x12345678)
    env.vm().refuses("is not a vgpu broker", "0x12345678")


@test
def broker_is_newer(env):
    env.broker(abi=2)
    env.vm().refuses("speaks device ABI version 2", "this QEMU speaks version 1",
                     "update QEMU's vgpu-cuda device")


@test
def broker_is_older(env):
    env.broker(abi=0)
    env.vm().refuses("speaks device ABI version 0", "update vgpu-backend")


@test
def broker_offers_nonsense(env):
    for field, value, name in (
            ("clients", 0, "max_clients"), ("clients", 257, "max_clients"),
            ("runs", 0, "max_pin_runs"), ("runs", 4097, "max_pin_runs"),
            ("window", 2 * MIB, "window_size"), ("window", 6 * MIB, "window_size"),
            ("window", 0, "window_size"), ("reserved", 1, "reserved")):
        env.broker(**{field: value})
        env.vm().refuses("malformed (%s)" % name)


@test
def broker_offers_fewer_clients(env):
    env.broker(clients=16)
    env.vm().refuses("serves 16 clients", "clients=16")


@test
def broker_hangs_up_during_start(env):
    path = env.socket
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen(1)
    threading.Thread(target=lambda: s.accept()[0].close(), daemon=True).start()
    env.vm().refuses("does not answer as a vhost-user back end")


@test
def properties_at_their_limits(env):
    for props, words in (
            ("clients=0", ("clients=0 is out of range", "1 to 254")),
            ("clients=255", ("clients=255 is out of range",)),
            ("window-size=2M", ("window-size=2097152 is not a power of two",)),
            ("window-size=6M", ("window-size=6291456 is not a power of two",)),
            ("window-size=1G,clients=65", ("is more than",))):
        env.broker()
        env.vm(DEVICE + "," + props).refuses(*words)
    for props, broker in (("clients=1", {"clients": 1}), ("window-size=4M", {"window": 4 * MIB}),
                          ("window-size=1G,clients=64", {"window": 1 << 30})):
        b = env.broker(**broker)
        q = env.vm(DEVICE + "," + props).start()
        b.wait("config ")
        q.quit()


@test
def file_descriptor_limit(env):
    env.broker()
    env.vm(DEVICE + ",clients=254", nofile=4 * 256 + 95).refuses(
        "clients=254 needs 1120 file descriptors", "ulimit -n 1120")
    _, q, d = env.driver(device=DEVICE + ",clients=254,window-size=4M", nofile=4 * 256 + 96)
    expect(d.nqueues() == 256, "%d queues" % d.nqueues())
    expect(q.get("started"), "not started")


@test
def only_one_device(env):
    env.broker()
    second = ("-chardev", "null,id=d", "-device", "vgpu-cuda,chardev=d")
    env.vm(options=second).refuses("only one per VM")


@test
def core_without_pci_is_refused(env):
    env.vm("vgpu-cuda-device", chardev=None).refuses("expects a pluggable device type")


@test
def qtree_shows_the_device(env):
    env.broker()
    q = env.vm(DEVICE + ",vram-quota=1G").start()
    tree = q.hmp("info qtree")
    for text in ("dev: vgpu-cuda, id \"gpu\"", "dev: vgpu-cuda-device", "chardev = \"c\"",
                 "clients = 32", "window-size = 16777216", "vram-quota = 1073741824",
                 "pin-quota = 0"):
        expect(text in tree, "no %s in %s" % (text, tree))
    expect("1af4:107f" in q.hmp("info pci"), "wrong PCI ids")


@test
def migration_is_blocked(env):
    env.broker()
    q = env.vm().start()
    error = q.qmp("migrate", uri="exec:cat > /dev/null", check=False)
    expect("state of its GPU work is in host processes" in error.get("desc", ""), str(error))
    expect("GPU work" in q.hmp("savevm x"), "savevm")
    env.broker()
    env.vm(options=("-only-migratable",)).refuses("only-migratable")


# What broker and guest see.

@test
def limits_reach_the_broker_and_the_guest(env):
    b = env.broker(clients=100, runs=64, window=8 * MIB, vram=3 << 30, pin=0)
    q = env.vm(DEVICE + ",clients=20,vram-quota=5G,pin-quota=1G").start()
    b.wait("config ")
    c = b.field("config ")
    expect(c == {"clients": 20, "runs": 64, "window": 8 * MIB, "vram": 3 << 30, "pin": 1 << 30},
           str(c))
    guest = Driver(q).config()
    expect(guest == (0x55504756, 1, 20, 64, 8 * MIB, 3 << 30, 1 << 30), str(guest))


@test
def config_reads_cost_the_broker_nothing(env):
    b = env.broker()
    d = Driver(env.vm().start())
    b.wait("config ")
    before = b.messages()
    for _ in range(10):
        d.config()
    expect(b.messages() == before, "messages were sent")


@test
def config_is_read_only(env):
    env.broker()
    q = env.vm().start()
    d = Driver(q)
    before = d.config()
    q.write(d.caps[4], b"\xff" * 64)
    expect(d.config() == before, "the guest changed it")


@test
def pci_layout(env):
    env.broker()
    q = env.vm(DEVICE + ",clients=20,page-per-vq=off").start()
    d = Driver(q)
    expect(d.cfg_read(0) == 0x107f1af4, hex(d.cfg_read(0)))
    expect(d.cfg_read(8) >> 16 == 0x1200, hex(d.cfg_read(8)))
    expect(d.multiplier == 4096, "multiplier %s" % d.multiplier)
    expect(d.nqueues() == 22, "%d queues" % d.nqueues())
    expect(d.bar_size(4) == 512 * MIB, "BAR of %d" % d.bar_size(4))
    expect(d.shm == (1, 4, 0, 512 * MIB), str(d.shm))
    expect(d.cfg_read(0x20) & 0xf == 0xc, "BAR 4 is not 64 bit, prefetchable")


@test
def features_are_those_of_the_broker(env):
    env.broker()
    f = Driver(env.vm().start()).features()
    expect(f & 1, "VGPU_F_PIN")
    expect(f & 2, "VGPU_F_PING")
    expect(f >> 32 & 1, "VERSION_1")
    expect(not f >> 40 & 1, "RING_RESET")
    expect(not f >> 33 & 1, "IOMMU_PLATFORM")


@test
def windows_are_a_sealed_memfd(env):
    b, q, d = env.driver(device=DEVICE + ",clients=5")
    w = b.field("window ")
    expect(w == {"size": 128 * MIB, "region": 128 * MIB, "seals": 7}, str(w))
    last = 128 * MIB - 1
    q.write(d.WINDOW + 4711, b"\x5a")
    expect(b.number("peek 4711") == 0x5a, "the broker does not see the guest's write")
    b.ask("poke %d 165" % last)
    expect(q.read(d.WINDOW + last, 1) == b"\xa5", "the guest does not see the broker's write")


@test
def windows_follow_the_bar(env):
    b, q, d = env.driver()
    q.write(d.WINDOW, b"\x77")
    b.lines.clear()
    d.cfg_write(0x20, 0x80000000)
    b.wait("window ")
    expect(q.read(d.WINDOW + 0x80000000, 1) == b"\x77", "content lost")


@test
def requests_are_answered(env):
    b, q, d = env.driver()
    buf = d.RINGS - 0x10000
    for i in range(70):
        q.write(buf, struct.pack("<IIII", 1, 0, i, 0) + b"\xff" * 16)
        d.offer(0, [(buf, 16, False), (buf + 16, 8, True)])
        d.doorbell(0)
        d.wait_used(0, i + 1)
        expect(q.read(buf + 16, 8) == bytes(8), "wrong response")
    expect("request type=1 client=69" in b.lines or b.wait("request type=1 client=69"), "lost")
    expect(d.isr() & 1, "no interrupt")


@test
def events_reach_the_guest(env):
    b, q, d = env.driver()
    buf = d.RINGS - 0x10000
    expect(b.number("event 1 3") == 0, "an event without a buffer")
    d.offer(1, [(buf, 16, True)])
    expect(b.number("event 1 3") == 16, "not sent")
    d.wait_used(1, 1)
    expect(struct.unpack("<IIII", q.read(buf, 16)) == (1, 3, 0, 0), "wrong event")
    end = time.monotonic() + 10
    while not d.isr() & 1:
        expect(time.monotonic() < end, "no interrupt")


@test
def doorbells_reach_the_broker(env):
    b, _, d = env.driver()
    for n in (2, 3, 33):
        d.doorbell(n)
        expect(b.wait("kick") == "kick %d" % n, b.lines[-1])
    # A process can write anywhere in its page, in any width: still its own doorbell.
    for offset, width in ((0, "l"), (4090, "w"), (17, "b"), (4088, "q")):
        d.doorbell(7, offset, width)
        expect(b.wait("kick") == "kick 7", b.lines[-1])


@test
def doorbell_of_no_queue_is_inert(env):
    b, _, d = env.driver(device=DEVICE + ",clients=2")
    for n in (4, 100, 1023):
        d.doorbell(n)
    d.doorbell(2)
    expect(b.wait("kick") == "kick 2", b.lines[-1])


@test
def queue_sizes(env):
    _, _, d = env.driver(device=DEVICE + ",clients=3")
    # QEMU's stable branches up to 11.0 offer the maximum for every queue of every device.
    expect(d.sizes in ([64, 64, 4, 4, 4], [1024] * 5), str(d.sizes))


# Life cycle.

@test
def reset_stops_every_queue_first(env):
    b, q, d = env.driver(device=DEVICE + ",clients=4")
    expect(d.reset() == 0, "status")
    expect(not q.get("started"), "still started")
    # The broker has seen all stops by the time that the guest could read the status.
    b.ask("messages")
    stopped = {l for l in b.lines if l.startswith("stopped")}
    expect(stopped == {"stopped %d" % n for n in range(6)}, str(stopped))
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
        b.ask("die")
        q.wait_for("connected", False)
        b = env.broker()
        b.wait("config ")
        q.wait_for("connected", True)
        expect(d.status() & S_NEEDS_RESET, "status 0x%x" % d.status())
        expect(not q.get("started"), "started without the driver's reset")
        d.start()
        b.wait("started 33")
        expect(d.status() & (S_NEEDS_RESET | S_DRIVER_OK) == S_DRIVER_OK, "status")
        d.doorbell(5)
        b.wait("kick 5")
    expect(q.fds() == fds, "%d descriptors, before %d" % (q.fds(), fds))


@test
def lesser_broker_comes_back(env):
    b, q, d = env.driver(chardev="socket,id=c,path=%s,reconnect=1")
    for fields in ({"clients": 16}, {"window": 8 * MIB}, {"runs": 5}, {"vram": 5}, {"abi": 2}):
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
        q.qmp("chardev-remove", id="d")
        b.wait("disconnected")
    expect(q.fds() == before, "%d descriptors, before %d" % (q.fds(), before))
    b = env.broker()
    q.qmp("chardev-add", id="d", backend={"type": "socket", "data": {
        "addr": {"type": "unix", "data": {"path": env.socket}}, "server": False}})
    q.qmp("device_add", driver="vgpu-cuda", id="gpu", chardev="d", bus="rp")
    b.wait("config ")
    expect(q.get("connected"), "not connected")
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


@test
def qemu_ends_with_a_driver_up(env):
    b, q, _ = env.driver()
    q.quit()
    expect(q.proc.returncode == 0, "exit status %s" % q.proc.returncode)
    b.wait("disconnected")


def run(env_path, names):
    passed = failed = 0
    for fn in TESTS:
        if names and fn.__name__ not in names:
            continue
        env = Env(env_path)
        start = time.monotonic()
        try:
            fn(env)
            passed += 1
            print("ok      %-45s %5.1f s" % (fn.__name__, time.monotonic() - start), flush=True)
        except (Failure, subprocess.SubprocessError, OSError, ValueError, KeyError,
                IndexError) as e:
            failed += 1
            print("FAILED  %s: %s: %s" % (fn.__name__, type(e).__name__, e), flush=True)
        finally:
            env.close()
    return passed, failed


def main():
    if len(sys.argv) < 2:
        print("usage: device_test.py O [NAME...]", file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(build, "bin/qemu-system-x86_64")):
        print("not run: all: %s/bin/qemu-system-x86_64 is not built (make -C qemu-device)" % build)
        print("qemu-device: 0 passed, 0 failed, %d skipped" % len(TESTS))
        return 0
    passed, failed = run(build, sys.argv[2:])
    print("qemu-device: %d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
