# SPDX-License-Identifier: GPL-2.0-or-later
"""Harness of the device tests: a QEMU without a guest, a fake broker, and a virtio driver that acts
through QEMU's qtest protocol. Standard library only."""

import functools
import json
import os
import queue
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time

TIMEOUT = 30  # seconds for any single answer: generous, machines are busy

DEVICE = "vgpu-cuda,id=gpu,addr=5,chardev=c"
MIB = 1 << 20

S_ACKNOWLEDGE, S_DRIVER, S_DRIVER_OK, S_FEATURES_OK, S_NEEDS_RESET = 1, 2, 4, 8, 0x40


class Failure(Exception):
    """A test's expectation is not met."""


class NotRun(Exception):
    """Nothing can be said about the device with this QEMU."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


TESTS = []  # in the order of their definition


def test(fn):
    TESTS.append(fn)
    return fn


class Broker:
    """The fake broker: its output lines are collected in order."""

    def __init__(self, env, path, **fields):
        if os.path.exists(path):
            os.unlink(path)
        self.path = path
        args = [env.fake_broker, path] + ["%s=%s" % f for f in fields.items()]
        self.proc = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self._queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        env.processes.append(self.proc)
        self.wait("listening")

    def _read(self):
        for line in self.proc.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait(self, prefix, timeout=TIMEOUT):
        """The next line that starts with prefix; the lines before it stay in self.lines."""
        end = time.monotonic() + timeout
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise Failure("the broker did not report '%s'; it said %s" %
                              (prefix, self.lines[-5:]))
            if line is None:
                self._queue.put(None)
                raise Failure("the broker ended before '%s'; it said %s" %
                              (prefix, self.lines[-5:]))
            self.lines.append(line)
            if line.startswith(prefix):
                return line

    def ask(self, command):
        self.proc.stdin.write(command + "\n")
        self.proc.stdin.flush()
        if command != "die":
            return self.wait(command.split()[0])
        self.proc.wait(TIMEOUT)
        return None

    def number(self, command):
        return int(self.ask(command).split()[-1])

    def messages(self):
        """The number of vhost-user messages, when no more of them arrive."""
        last = -1
        while True:
            count = self.number("messages")
            if count == last:
                return count
            last = count
            time.sleep(0.1)

    def field(self, prefix):
        """{name: value} of the last line with that prefix."""
        line = [l for l in self.lines if l.startswith(prefix)][-1]
        return {k: int(v, 0) for k, v in (w.split("=") for w in line.split()[1:])}


@functools.cache
def major(qemu):
    """The first number of its version."""
    return int(re.search(r"version (\d+)", subprocess.run([qemu, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout)[1])


def reconnecting(qemu, chardev):
    """QEMU 11 has `reconnect-ms` alone, QEMU before 9.2 `reconnect` alone."""
    return chardev.replace(",reconnect=1", ",reconnect-ms=1000") if major(qemu) >= 11 else chardev


class Qemu:
    """One QEMU. With device=None there is no vgpu-cuda; options are extra arguments,
    fds descriptors that it inherits, environment: its own, if it is another one."""

    def __init__(self, env, device, chardev="socket,id=c,path=%s", memory="share=on", options=(),
                 nofile=None, fds=(), environment=None):
        self.env = env
        self.dir = env.dir
        self.qtest_sock = self._listen("qtest")
        args = [env.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-accel", "qtest",
                "-m", "128M", "-qtest", "unix:%s/qtest" % self.dir, "-qtest-log", "/dev/null",
                "-qmp", "unix:%s/qmp,server=on,wait=off" % self.dir]
        if memory:
            args += ["-machine", "q35,memory-backend=mem", "-object",
                     "memory-backend-memfd,id=mem,size=128M,%s" % memory]
        else:
            args += ["-machine", "q35"]
        if chardev:
            args += ["-chardev", reconnecting(env.qemu, chardev).replace("%s", env.socket)]
        if device:
            args += ["-device", device]
        if nofile:  # both limits: QEMU 9 and newer raise the soft one
            args = ["prlimit", "--nofile=%d:%d" % (nofile, nofile)] + args
        self.proc = subprocess.Popen(args + list(options), stdin=subprocess.DEVNULL, pass_fds=fds, env=environment,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        env.processes.append(self.proc)
        self.qtest = self.qmp_file = self.said = None

    def _listen(self, name):
        path = os.path.join(self.dir, name)
        if os.path.exists(path):
            os.unlink(path)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(path)
        sock.listen(1)
        sock.settimeout(TIMEOUT)
        return sock

    def output(self):
        """Everything QEMU printed, when it has ended by itself."""
        try:
            if self.said is None:
                self.said = self.proc.communicate(timeout=TIMEOUT)[0]
            return self.said
        except subprocess.TimeoutExpired:
            self.proc.kill()
            raise Failure("QEMU did not end; it said: %s" % self.proc.communicate()[0])

    def refuses(self, *words):
        """QEMU must have ended with an error that contains all the words."""
        text = self.output()
        expect(self.proc.returncode == 1, "exit status %s: %s" % (self.proc.returncode, text))
        for word in words:
            expect(word in text, "no '%s' in: %s" % (word, text.strip()))
        return text

    def start(self):
        try:
            conn = self.qtest_sock.accept()[0]
        except socket.timeout:
            self.proc.kill()
            raise Failure("QEMU did not start: %s" % self.proc.communicate()[0])
        conn.settimeout(TIMEOUT)
        self.qtest = conn.makefile("rw")
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(TIMEOUT)
        end = time.monotonic() + TIMEOUT
        while True:
            try:
                sock.connect(os.path.join(self.dir, "qmp"))
                break
            except OSError:
                if self.proc.poll() is not None or time.monotonic() > end:
                    raise Failure("QEMU ended: %s" % self.output())
                time.sleep(0.05)
        self.qmp_file = sock.makefile("rw")
        self.qmp_file.readline()
        self.qmp("qmp_capabilities")
        return self

    def qmp(self, command, check=True, **arguments):
        message = {"execute": command}
        if arguments:
            message["arguments"] = {k.replace("_", "-"): v for k, v in arguments.items()}
        self.qmp_file.write(json.dumps(message) + "\n")
        self.qmp_file.flush()
        while True:
            line = self.qmp_file.readline()
            if not line:
                self.gone(command)
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                expect(not check, "%s: %s" % (command, answer["error"]["desc"]))
                return answer["error"]

    def hmp(self, command):
        return self.qmp("human-monitor-command", command_line=command)

    def migration_blockers(self):
        return self.qmp("query-migrate").get("blocked-reasons", [])

    def get(self, prop, path="/machine/peripheral/gpu/virtio-backend"):
        return self.qmp("qom-get", path=path, property=prop)

    def wait_for(self, prop, value):
        end = time.monotonic() + TIMEOUT
        while self.get(prop) != value:
            expect(time.monotonic() < end, "%s is not %s" % (prop, value))
            time.sleep(0.05)

    def io(self, *words):
        """One qtest command; the value it answers with, if any."""
        self.qtest.write(" ".join(str(w) for w in words) + "\n")
        self.qtest.flush()
        while True:
            answer = self.qtest.readline()
            if not answer:
                self.gone(words)
            fields = answer.split()
            if fields[0] == "OK":
                return fields[1] if len(fields) > 1 else None
            expect(fields[0] in ("IRQ",), "qtest: %s" % answer)

    def num(self, *words):
        return int(self.io(*words), 0)

    def write(self, addr, data):
        self.io("write", hex(addr), hex(len(data)), "0x" + data.hex())

    def read(self, addr, size):
        return bytes.fromhex(self.io("read", hex(addr), hex(size))[2:])

    def eject(self):
        """What a guest does through ACPI when the only hot-pluggable device is to go."""
        for bsel in range(4):
            self.io("outl", "0xcd0", bsel)
            self.io("outl", "0xcc8", 1)

    def gone(self, what):
        self.proc.kill()
        raise Failure("QEMU is gone after %s: %s" % (what, self.proc.communicate()[0][-500:]))

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.proc.pid))

    def quit(self):
        self.qmp("quit")
        self.proc.wait(TIMEOUT)


class Driver:
    """What the guest driver does up to the first request, at PCI slot 5 of bus 0."""

    SLOT = 5
    MSIX, MODERN, WINDOW = 0xe0000000, 0xe1000000, 0x400000000
    RINGS = 0x1000000  # guest memory for rings and buffers

    def __init__(self, qemu):
        self.q = qemu
        self.caps = {}
        self.shm = None
        self.msix = None
        self.multiplier = None
        for bar, addr in ((1, self.MSIX), (2, self.MODERN), (4, self.WINDOW)):
            self.cfg_write(0x10 + 4 * bar, addr & 0xffffffff)
            if bar != 1:
                self.cfg_write(0x14 + 4 * bar, addr >> 32)
        self.cfg_write(4, 0x6)  # memory, bus master
        self._capabilities()

    def select(self, reg):
        self.q.io("outl", "0xcf8", hex(0x80000000 | self.SLOT << 11 | reg))

    def cfg_read(self, reg):
        self.select(reg & 0xfc)
        return self.q.num("inl", "0xcfc")

    def cfg_write(self, reg, value):
        self.select(reg)
        self.q.io("outl", "0xcfc", hex(value))

    def bar_size(self, bar):
        """Size of a 64-bit BAR, the way firmware finds it."""
        reg = 0x10 + 4 * bar
        old = self.cfg_read(reg), self.cfg_read(reg + 4)
        self.cfg_write(reg, 0xffffffff)
        self.cfg_write(reg + 4, 0xffffffff)
        mask = self.cfg_read(reg + 4) << 32 | self.cfg_read(reg) & ~0xf
        self.cfg_write(reg, old[0])
        self.cfg_write(reg + 4, old[1])
        return (1 << 64) - mask

    def _capabilities(self):
        pos = self.cfg_read(0x34) & 0xff
        while pos:
            head = self.cfg_read(pos)
            if head & 0xff == 0x11:
                self.msix = pos
            if head & 0xff == 9:  # vendor: virtio
                kind, bar = head >> 24, self.cfg_read(pos + 4) & 0xff
                offset, length = self.cfg_read(pos + 8), self.cfg_read(pos + 12)
                if kind == 8:
                    length |= self.cfg_read(pos + 20) << 32
                    ident = self.cfg_read(pos + 4) >> 8 & 0xff
                    self.shm = (ident, bar, offset, length)
                elif kind != 5:
                    expect(bar == 2, "virtio capability %d is in BAR %d" % (kind, bar))
                    self.caps[kind] = self.MODERN + offset
                    if kind == 2:
                        self.multiplier = self.cfg_read(pos + 16)
            pos = head >> 8 & 0xff

    @property
    def common(self):
        return self.caps[1]

    def status(self):
        return self.q.num("readb", hex(self.common + 20))

    def set_status(self, value):
        self.q.io("writeb", hex(self.common + 20), hex(value))

    def isr(self):
        return self.q.num("readb", hex(self.caps[3]))

    def config(self):
        return struct.unpack("<IIIIQQQ24x", self.q.read(self.caps[4], 64))

    def nqueues(self):
        return self.q.num("readw", hex(self.common + 18))

    def features(self):
        value = 0
        for half in (0, 1):
            self.q.io("writel", hex(self.common), half)
            value |= self.q.num("readl", hex(self.common + 4)) << 32 * half
        return value

    def set_features(self, value):
        for half in (0, 1):
            self.q.io("writel", hex(self.common + 8), half)
            self.q.io("writel", hex(self.common + 12), hex(value >> 32 * half & 0xffffffff))

    def ring(self, n):
        """Addresses of the descriptors, the available and the used ring of queue n."""
        base = self.RINGS + n * 0x4000
        return base, base + 0x1000, base + 0x2000

    def reset(self):
        self.set_status(0)
        return self.status()

    def mask(self, vector, on):
        """Masks or unmasks an entry of the MSI-X table."""
        self.q.io("writel", hex(self.MSIX + 16 * vector + 12), int(on))

    def start(self, queues=None, vectors=False):
        """Reset, negotiate, set up all queues, DRIVER_OK. vectors: with an interrupt of MSI-X for queues 0 and 1."""
        self.reset()
        if vectors:
            self.cfg_write(self.msix, self.cfg_read(self.msix) | 1 << 31)
            for vector in range(3):
                self.mask(vector, False)
        self.set_status(S_ACKNOWLEDGE | S_DRIVER)
        self.set_features(1 << 32 | 1)
        self.set_status(S_ACKNOWLEDGE | S_DRIVER | S_FEATURES_OK)
        expect(self.status() & S_FEATURES_OK, "features are not accepted")
        self.sizes = []
        self.avail_idx = {}
        for n in range(self.nqueues() if queues is None else queues):
            desc, avail, used = self.ring(n)
            self.q.io("writew", hex(self.common + 22), n)
            self.sizes.append(self.q.num("readw", hex(self.common + 24)))
            if self.RINGS == Driver.RINGS:
                self.q.write(avail, bytes(64))
                self.q.write(used, bytes(64))
            if vectors and n < 2:
                self.q.io("writew", hex(self.common + 26), n + 1)
            for off, addr in ((32, desc), (40, avail), (48, used)):
                self.q.io("writel", hex(self.common + off), hex(addr & 0xffffffff))
                self.q.io("writel", hex(self.common + off + 4), hex(addr >> 32))
            self.q.io("writew", hex(self.common + 28), 1)
            self.avail_idx[n] = 0
        self.set_status(S_ACKNOWLEDGE | S_DRIVER | S_FEATURES_OK | S_DRIVER_OK)

    def offer(self, n, buffers):
        """Makes one chain available; buffers: [(address, length, device writes)]."""
        desc, avail, _ = self.ring(n)
        first = self.avail_idx[n] * 2 % self.sizes[n]
        for i, (addr, length, writable) in enumerate(buffers):
            last = i == len(buffers) - 1
            flags = (0 if last else 1) | (2 if writable else 0)
            self.q.write(desc + 16 * (first + i),
                         struct.pack("<QIHH", addr, length, flags, 0 if last else first + i + 1))
        self.q.write(avail + 4 + 2 * (self.avail_idx[n] % self.sizes[n]), struct.pack("<H", first))
        self.avail_idx[n] += 1
        self.q.write(avail + 2, struct.pack("<H", self.avail_idx[n] & 0xffff))

    def doorbell(self, n, offset=0, width="w"):
        self.q.io("write" + width, hex(self.caps[2] + n * self.multiplier + offset), n)

    def wait_used(self, n, count):
        _, _, used = self.ring(n)
        end = time.monotonic() + TIMEOUT
        while struct.unpack("<H", self.q.read(used + 2, 2))[0] != count & 0xffff:
            expect(time.monotonic() < end, "queue %d is not served" % n)
            time.sleep(0.01)


class SecondDriver(Driver):
    """The driver of a second device, at slot 6."""

    SLOT = 6
    MSIX, MODERN, WINDOW = 0xe2000000, 0xe3000000, 0x800000000
    RINGS = 0x2000000


class PortDriver(Driver):
    """The driver of a device below the root port at slot 3, from where it can be unplugged."""

    PORT = ("-device", "pcie-root-port,id=rp,slot=1,addr=3")

    def __init__(self, qemu):
        self.q = qemu
        port = (0x18, 0x00010100), (0x20, 0xeff0e000), (0x24, 0x3ff10001), (0x28, 4), (0x2c, 4), (4, 0x6)
        for reg, value in port:  # buses, memory, prefetchable memory from WINDOW on
            self.q.io("outl", "0xcf8", hex(0x80000000 | 3 << 11 | reg))
            self.q.io("outl", "0xcfc", hex(value))
        super().__init__(qemu)

    def select(self, reg):
        self.q.io("outl", "0xcf8", hex(0x80000000 | 1 << 16 | reg))


class Env:
    """Paths and processes of one test."""

    def __init__(self, build):
        self.qemu = os.path.join(build, "bin/qemu-system-x86_64")
        self.fake_broker = os.path.join(build, "tests/fake-broker")
        self.inject = os.path.join(build, "tests/inject.so")
        self.dir = tempfile.mkdtemp(prefix="vgpu-")
        self.socket = os.path.join(self.dir, "broker")
        self.processes = []

    def broker(self, **fields):
        return Broker(self, self.socket, **fields)

    def broker_at(self, name, **fields):
        """A further broker, on a socket of that name."""
        return Broker(self, os.path.join(self.dir, name), **fields)

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
