# SPDX-License-Identifier: GPL-2.0-or-later
"""What the user sees before the guest starts: properties, errors of the start, refusals."""

import re
import signal
import socket
import subprocess
import threading

from vgputest import DEVICE, MIB, NotRun, expect, test

START_BROKER = "vgpu-backend --vhost-user PATH"


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
    chardev = "socket,id=c,path=%s,reconnect=1"
    q = env.vm(chardev=chardev)
    text = q.output()
    if q.proc.returncode == -signal.SIGABRT:
        # QEMU 11.0: the chardev itself. Without the device such a QEMU ends, too; a sound one runs on.
        bare = env.vm(None, chardev=chardev)
        bare.output()
        expect(bare.proc.returncode == -signal.SIGABRT, "exit status %s without the device: %s" % (bare.proc.returncode, text))
        raise NotRun("this QEMU aborts without the device, too, when a chardev with reconnect finds nobody")
    q.refuses("not connected", START_BROKER)


@test
def broker_is_present_with_reconnect(env):
    b = env.broker()
    q = env.vm(chardev="socket,id=c,path=%s,reconnect=1").start()
    b.wait("config ")
    expect(q.get("connected"), "not connected")


@test
def broker_serves_another_vm(env):
    """As our broker does: it closes the connection of a second QEMU."""
    busy = socket.socket(socket.AF_UNIX)
    busy.bind(env.socket)
    busy.listen(4)

    def close_all():
        while True:
            try:
                busy.accept()[0].close()
            except OSError:
                return

    threading.Thread(target=close_all, daemon=True).start()
    words = ("It serves one virtual machine", "another one may be using it", "chardev 'c'")
    env.vm().refuses(*words)
    env.vm(chardev="socket,id=c,path=%s,reconnect=1").refuses(*words)
    # What libvirt sees of a device that is plugged in.
    q = env.vm(None, options=("-device", "pcie-root-port,id=rp,slot=1")).start()
    error = q.qmp("device_add", driver="vgpu-cuda", id="x", chardev="c", bus="rp", check=False)
    expect(all(w in error.get("desc", "") for w in words) or "not connected" in error.get("desc", ""), str(error))
    busy.close()


@test
def descriptor_cannot_connect_again(env):
    b = env.broker()
    link = socket.socket(socket.AF_UNIX)
    link.connect(env.socket)
    q = env.vm(chardev="socket,id=c,fd=%d" % link.fileno(), fds=(link.fileno(),)).start()
    link.close()
    b.wait("config ")
    q.quit()
    expect("chardev 'c' is a descriptor, which cannot connect again" in q.output(), "no warning")


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
def broker_falls_silent_during_start(env):
    """At each message of the start: QEMU waits for answer-timeout, says so and ends."""
    device = DEVICE + ",clients=2,answer-timeout=200"
    b = env.broker()
    q = env.vm(device).start()
    b.wait("config ")
    last = b.messages()
    q.quit()
    expect(last > 5, "only %d messages" % last)
    for read in range(1, last):
        env.broker(silent=read)
        env.vm(device).refuses("has not answered for 200 ms")
    b = env.broker(silent=last)
    env.vm(device).start().quit()


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
def second_device_needs_a_broker_of_its_own(env):
    env.broker()
    second = ("-chardev", "null,id=d", "-device", "vgpu-cuda,chardev=d")
    env.vm(options=second).refuses("chardev 'd' is not a socket")
    env.broker()
    env.vm(options=("-device", "vgpu-cuda,chardev=c")).refuses("'c'", "in use")


@test
def file_descriptor_limit_of_two_devices(env):
    env.broker()
    other = env.broker_at("other")
    second = ("-chardev", "socket,id=d,path=%s" % other.path, "-device", "vgpu-cuda,chardev=d,clients=8")
    env.vm(DEVICE + ",clients=4", options=second, nofile=4 * 16 + 95).refuses(
        "clients=8 needs 160 file descriptors", "ulimit -n 160")


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
