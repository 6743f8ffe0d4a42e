# SPDX-License-Identifier: MIT
"""Rows that need a guest: its driver taken away, processes that share a file, QEMU killed or stopped.

One guest runs guest.sh for all of them; rows that stop or kill QEMU boot one of their own.
"""
import os
import re
import signal
import subprocess
import threading
import time

from bench import Bench, row
from faults import is_running
from rig import need, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
BOOT_S = 1500  # an emulated processor on a loaded machine


class Guest:
    """A `vgpu vm run` with its lines."""

    def __init__(self, args, *command):
        self.lines = []
        self.process = subprocess.Popen(
            [args.vgpu, "vm", "run", "--gpu", "soft", "--accel", args.accel, "--timeout", str(BOOT_S), *command],
            cwd=args.scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))
            print("  guest: " + self.lines[-1], flush=True)

    def until(self, text, count=1, seconds=BOOT_S):
        def seen():
            return sum(text in l for l in self.lines) >= count
        wait_until(lambda: seen() or self.process.poll() is not None, seconds)
        need(seen(), "the guest does not say '%s': %s" % (text, " | ".join(self.lines[-6:])))

    def members(self):
        """Descendants: pid -> name of the program."""
        parents = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open("/proc/%s/stat" % entry) as f:
                        text = f.read()
                    parents[int(entry)] = int(text[text.rindex(")") + 2:].split()[1])
                except OSError:
                    continue
        found, grew = {self.process.pid}, True
        while grew:
            new = {p for p, parent in parents.items() if parent in found} - found
            found |= new
            grew = bool(new)
        names = {}
        for pid in found - {self.process.pid}:
            try:
                names[pid] = os.path.basename(os.readlink("/proc/%d/exe" % pid))
            except OSError:
                pass
        return names

    def of(self, name):
        return [p for p, n in self.members().items() if n.startswith(name)]

    def end(self, seconds=BOOT_S):
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        return self.process.returncode


def missing(args):
    """What a guest needs and is not built."""
    parts = {"vgpu": os.path.join(args.top_build, "userspace/vgpu/vgpu"),
             "vgpu_drv.ko": os.path.join(args.top_build, "kernel/vgpu_drv.ko"),
             "QEMU": os.path.join(args.top_build, "qemu/bin/qemu-system-x86_64"),
             "the guest's initramfs": os.path.join(args.top_build, "guest/initrd.cpio"),
             "boot_tool": boot_tool(args)}
    args.vgpu = parts["vgpu"]
    return [name for name, path in parts.items() if not os.path.exists(path)]


def boot_tool(args):
    return os.path.join(args.top_build, "tests/system/boot/boot_tool")


def no_guest(x, names):
    """In the short form, and without the parts: tests/system/boot is named. True when there is no guest."""
    if x.short or x.args.guest == "no":
        x.exists("tests", names)
        x.leave_out("%s: tests/system/boot shows %s" % ("short form" if x.short else "--guest no", ", ".join(names)))
        return True
    if missing(x.args):
        x.leave_out("a guest: not built: " + ", ".join(missing(x.args)))
        return True
    return False


BY_ROW = {19: ["rmmod_while_open"], 20: ["unbind_while_waiting"], 22: ["driver_in_and_out"], 23: ["forked_client"],
          24: ["forked_client", "two_clients"], 30: ["conform"]}


def guest(x):
    """The row's part of guest.sh; the guest is booted for the first row that asks."""
    if no_guest(x, BY_ROW[x.row.number]):
        return
    if "guest" not in x.args.memo:
        g = Guest(x.args, "sh", os.path.join(HERE, "guest.sh"), x.args.build, boot_tool(x.args),
                  os.path.join(x.args.top_build, "kernel/vgpu_drv.ko"), str(x.args.cycles))
        code = g.end()
        x.args.memo["guest"] = code, g.lines
    code, lines = x.args.memo["guest"]
    mine = [l for l in lines if l.startswith("row %02d: " % x.row.number)]
    need(mine, "the guest did not come to this row: status %d: %s" % (code, " | ".join(lines[-6:])))
    for line in mine:
        got = re.match(r"row \d\d: ok, (\d+) cycles(.*)", line)
        need(got, "in the guest: " + line)
        x.did(int(got.group(1)), "in a guest: " + line)
    clean = [l for l in lines if l.startswith("kernel log: ")]
    need(clean == ["kernel log: clean"], "the guest's kernel complains: %s" % (clean or lines[-5:]))


Bench.guest = guest


def paused_guest(x):
    """QEMU, broker and workers of a guest stopped in turn while it counts launches."""
    if no_guest(x, ["pause_keeps_the_service"]):
        return
    n = x.n(1, 2)
    g = Guest(x.args, x.args.victim, "count", "4000")
    try:
        g.until("victim: working")
        for _ in range(n):
            for name in ("qemu-system", "vgpu-backend", "vgpu-worker"):
                for pid in g.of(name):
                    try:
                        os.kill(pid, signal.SIGSTOP)
                        time.sleep(4)
                        os.kill(pid, signal.SIGCONT)
                    except ProcessLookupError:
                        pass  # a worker that has done its work
        code = g.end()
        need(code == 0, "status %d: %s" % (code, " | ".join(g.lines[-4:])))
    finally:
        if g.process.poll() is None:
            g.process.terminate()
            g.end(30)
    x.did(n * 3, "in a guest: " + g.lines[-1])


Bench.paused_guest = paused_guest


@row(13, "QEMU killed", "broker and workers of the VM end")
def qemu_killed(x):
    """kill -9 of QEMU while a program of its guest waits, beside a victim of this host: the processes of the VM are
    gone; vhost_test: the broker's side of it."""
    x.unit("host/backend/tests/tests", "vhost_test", "test_qemu_ends_and_returns", times=x.n(1, 10))
    if no_guest(x, ["qemu_killed", "qemu_killed_no_orphans"]):
        return
    n = x.n(1, 2)
    with x.rig():
        for _ in range(n):
            g = Guest(x.args, x.args.victim, "wait")
            try:
                g.until("victim: waiting")
                members = g.members()
                for pid in g.of("qemu-system"):
                    os.kill(pid, signal.SIGKILL)
                code = g.end(60)
                need(code == 125, "vgpu ends with %d: %s" % (code, " | ".join(g.lines[-4:])))
                need(wait_until(lambda: not any(is_running(p) for p in members), 20), "processes are left: %s"
                     % {p: name for p, name in members.items() if is_running(p)})
            finally:
                if g.process.poll() is None:
                    g.process.terminate()
                    g.end(30)
    x.did(n, "QEMU killed in %d guests" % n)


@row(19, "module unload with open files", "refused while a file is open, possible after the last close")
def unload(x):
    """In a guest: rmmod again and again while 100 processes have the device open and a victim computes; after the last
    close it is unloaded, loaded and works."""
    x.guest()


@row(20, "the device is taken away while busy", "ENODEV, waiters woken, the last close frees, the next bind works")
def taken_away(x):
    """In a guest: unbind through sysfs, and removal and rescan of the PCI device, with programs that wait and that
    compute; qtest: device_del of a driver that is up; KUnit: removal with open files."""
    if not x.short:
        x.qtest("device_can_be_plugged")
    else:
        x.exists("qemu-device/tests", ["device_can_be_plugged"])
    x.guest()
    x.kunit("vgpu_dev_remove_with_open_files", "vgpu_guard_destroy_removed")


@row(24, "the file passed to another process", "it belongs to the address space that opened it")
def passed_on(x):
    """In a guest: children and strangers with the descriptor use ioctl and mmap and are refused (boot_tool fork, the
    driver's selftest), beside a victim; KUnit: a client ends with its address space."""
    x.guest()
    x.kunit("vgpu_guard_mm_gone", "vgpu_guard_mm_gone_late")
