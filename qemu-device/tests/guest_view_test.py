# SPDX-License-Identifier: GPL-2.0-or-later
"""What broker and guest see of a device that works: configuration, windows, queues, doorbells."""

import os
import re
import struct
import time

from vgputest import DEVICE, Driver, MIB, SecondDriver, expect, test


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


class HighDriver(Driver):
    """A BAR of any size is aligned here."""

    WINDOW = 64 << 30


@test
def sizes_of_the_windows(env):
    """BAR, capability and memory have one size: the next power of two, also where it does not fit into 32 bits."""
    for clients, window, size in ((1, 4, 4), (3, 4, 16), (254, 16, 4096), (3, 1024, 4096), (5, 1024, 8192), (33, 1024, 65536)):
        b = env.broker(window=window * MIB)
        q = env.vm(DEVICE + ",clients=%d,window-size=%dM" % (clients, window)).start()
        d = HighDriver(q)
        said = "%d clients of %d MiB: " % (clients, window)
        expect(d.bar_size(4) == size * MIB, said + "BAR of %d" % d.bar_size(4))
        expect(d.shm == (1, 4, 0, size * MIB), said + str(d.shm))
        expect(d.config()[4] == window * MIB, said + "window of %d" % d.config()[4])
        d.start(1)
        b.wait("window ")
        expect(b.field("window ")["size"] == size * MIB, said + b.lines[-1])
        q.quit()


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
def features_of_a_broker_that_has_every_one(env):
    """The guest gets those that the device can pass on: not the reset of a single queue, nor any that it does not know."""
    b = env.broker(adds=(1 << 64) - 1)
    d = Driver(env.vm().start())
    b.wait("config ")
    f = d.features()
    passed_on = {0, 1, 28, 29, 32}  # PIN, PING, INDIRECT_DESC, EVENT_IDX, VERSION_1
    may_be = {24, 27}  # NOTIFY_ON_EMPTY, ANY_LAYOUT: QEMU's own, without effect for such a device
    have = {n for n in range(64) if f >> n & 1}
    expect(passed_on <= have, "not offered: %s" % sorted(passed_on - have))
    expect(have <= passed_on | may_be, "offered: %s" % sorted(have - passed_on - may_be))


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
def doorbells_through_qemu(env):
    """x-trap-doorbells: they arrive as without it, also after resets and a restart of the service, and QEMU traces each."""
    trace = os.path.join(env.dir, "trace")
    b, q, d = env.driver(device=DEVICE + ",clients=4,x-trap-doorbells=on", options=("-trace", "virtio_queue_notify", "-D", trace))
    for n in (2, 3, 3, 5):
        d.doorbell(n)
        expect(b.wait("kick") == "kick %d" % n, b.lines[-1])
    fds = q.fds()
    for _ in range(5):
        d.start()
    d.doorbell(4)
    b.wait("kick 4")
    expect(q.fds() == fds, "%d descriptors, before %d" % (q.fds(), fds))
    with open(trace, encoding="utf-8") as file:
        seen = re.findall(r"virtio_queue_notify .* n (\d+)", file.read())
    expect(seen == ["2", "3", "3", "5", "4"], "traced: %s" % seen)


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


def two_devices(env):
    """Both drivers are up; the windows are of 128 MiB and 512 MiB."""
    brokers = env.broker(), env.broker_at("other")
    second = ("-chardev", "socket,id=d,path=%s" % brokers[1].path,
              "-device", "vgpu-cuda,id=gpu2,addr=6,chardev=d,clients=20")
    q = env.vm(DEVICE + ",clients=5", options=second).start()
    drivers = Driver(q), SecondDriver(q)
    for b, d in zip(brokers, drivers):
        d.start()
        b.wait("kick %d" % (d.nqueues() - 1))
    return brokers, q, drivers


def only_own_windows(brokers):
    for b, size in zip(brokers, (128 * MIB, 512 * MIB)):
        seen = [l for l in b.lines if l.startswith("window ")]
        expect(seen and all("size=%d " % size in l for l in seen), "%s: %s" % (b.path, seen))


@test
def two_devices_have_their_own_windows(env):
    brokers, q, drivers = two_devices(env)
    only_own_windows(brokers)
    for i, (b, d) in enumerate(zip(brokers, drivers)):
        q.write(d.WINDOW + 4711, bytes([0x50 + i]))
        d.doorbell(2)
        expect(b.wait("kick") == "kick 2", b.lines[-1])
    for i, b in enumerate(brokers):
        expect(b.number("peek 4711") == 0x50 + i, "the windows are exchanged")
    # A change of the map of one device reaches the other broker, without that device's windows.
    drivers[1].cfg_write(0x24, 0xa)
    brokers[1].wait("window ")
    for b in brokers:
        b.messages()
    only_own_windows(brokers)


@test
def two_devices_lose_their_brokers_alone(env):
    brokers, q, drivers = two_devices(env)
    brokers[1].ask("die")
    q.wait_for("started", True)
    expect(q.get("started"), "the first device has stopped")
    q.write(drivers[0].WINDOW + 1, b"\x11")
    expect(brokers[0].number("peek 1") == 0x11, "the first broker is lost")
    again = env.broker_at("other")
    again.wait("config ")
    drivers[1].start()
    again.wait("kick %d" % (drivers[1].nqueues() - 1))
    only_own_windows((brokers[0], again))
