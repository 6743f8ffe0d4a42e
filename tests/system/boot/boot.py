#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Boots guests through `vgpu vm run` and checks what only a whole system shows.

usage: boot.py --top-build DIR --build DIR [--accel auto|tcg|kvm] [--guest DIR] [boot...]

Boots: guest (checks in one guest, then the conformance suite, compared with the socket's output),
virtgpu (a guest that has virtio-gpu, too), killed (workers, QEMU and the backend are killed while
the guest waits). The last line counts. --guest: another kernel, its initramfs and driver.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../runner"))
import books  # noqa: E402

passed = failed = skipped = 0


def report(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
        print("boot.%s ok" % name, flush=True)
    else:
        failed += 1
        print("FAIL: boot.%s: %s" % (name, detail), flush=True)


def processes():
    """pid -> (parent, name) of every living process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry) as f:
                    text = f.read()
            except OSError:
                continue
            rest = text[text.rindex(")") + 2:].split()
            name = text[text.index("(") + 1:text.rindex(")")]
            if name != "vgpu-mapper":  # of a worker, whose program it runs
                try:  # a program started through a descriptor has another name in stat
                    name = os.path.basename(os.readlink("/proc/%s/exe" % entry))
                except OSError:
                    pass
            if rest[0] != "Z":
                found[int(entry)] = (int(rest[1]), name)
    return found


def family(root):
    """Descendants of root: pid -> name."""
    every = processes()
    found, grew = {root: ""}, True
    while grew:
        grew = False
        for pid, (parent, name) in every.items():
            if parent in found and pid not in found:
                found[pid] = name
                grew = True
    del found[root]
    return found


def running(pid):
    return pid in processes()


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


class Guest:
    """A `vgpu vm run` with its output line by line."""

    def __init__(self, args, *command, options=()):
        self.lines = []
        self.process = subprocess.Popen(
            [args.vgpu, "vm", "run", "--gpu", "soft", "--accel", args.accel, "--keep-log",
             os.path.join(args.build, "kernel.log"), "--timeout", str(args.timeout),
             "--kernel", args.kernel, "--initrd", args.initrd, "--driver", args.driver] + list(options) + list(command),
            cwd=args.out, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def until(self, text, count, seconds):
        """Until `text` was printed count times; False when the guest ended or time is over."""
        def seen():
            return sum(text in l for l in self.lines) >= count
        wait_until(lambda: seen() or self.process.poll() is not None, seconds)
        return seen()

    def of(self, name):
        return [p for p, n in family(self.process.pid).items() if n.startswith(name)]

    def end(self, seconds):
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        return self.process.returncode

    def tail(self):
        return " | ".join(self.lines[-6:])


def take_count(guest, name):
    """Adds the count in the guest's last line; False when there is none."""
    global passed, failed, skipped
    count = re.match(name + r": (\d+) passed, (\d+) failed, (\d+) skipped", (guest.lines or [""])[-1])
    if count:
        passed += int(count.group(1))
        failed += int(count.group(2))
        skipped += int(count.group(3))
    return count is not None


def modules(args):
    """The modules of the guest's kernel: the folder exists where it comes from Debian's packages."""
    release = ""
    if os.path.exists(os.path.join(args.guest, "release")):
        with open(os.path.join(args.guest, "release")) as f:
            release = f.read().strip()
    return os.path.join(args.guest, "root/lib/modules", release)


def boot_virtgpu(args):
    """Another device of the guest, which `vgpu vm` does not offer: QEMU gets it through a program in front."""
    front = os.path.join(args.build, "qemu-with-virtio-gpu")
    with open(front, "w") as f:
        f.write('#!/bin/sh\nexec "%s" "$@" -device virtio-gpu-pci\n' % args.qemu)
    os.chmod(front, 0o755)
    began = time.monotonic()
    guest = Guest(args, "sh", os.path.join(HERE, "virtgpu.sh"), args.tests, args.driver, modules(args), options=("--qemu", front))
    code = guest.end(args.timeout + 30)
    for line in guest.lines:
        if not line.startswith("virtgpu: "):
            print(line)
    print("  one boot and its checks: %.0f s" % (time.monotonic() - began))
    report("virtgpu_status", take_count(guest, "virtgpu") and code == 0, "status %d: %s" % (code, guest.tail()))


def boot_guest(args):
    guest = Guest(args, "sh", os.path.join(HERE, "guest.sh"), args.tests, args.driver, modules(args))
    began = time.monotonic()
    settled = guest.until("settled", 1, args.timeout)
    workers = len(guest.of("vgpu-worker"))
    kept = [books.wrong(pid, empty=True) or "even" for pid in guest.of("vgpu-backend")]
    code = guest.end(args.timeout + 30)
    for line in guest.lines:
        if line != "settled" and not line.startswith("guest: "):  # the count goes into ours
            print(line)
    print("  one boot and its checks: %.0f s" % (time.monotonic() - began))
    count = take_count(guest, "guest")
    report("guest_status", code == 0 and count, "status %d: %s" % (code, guest.tail()))
    # The backend keeps two idle workers ready; no worker may remain for an ended process.
    report("no_workers_left", settled and workers <= 2, "%d workers" % workers)
    report("books_even", settled and kept == ["even"], str(kept))
    compare(args, "conform", "conform")
    compare(args, "rt_dynamic", "conform_rt_dynamic")
    compare(args, "rt_static", "conform_rt_static")
    compare(args, "rt_ptds", "conform_rt_ptds")
    compare(args, "rt_sem", "conform_rt_sem")
    compare(args, "rt_sticky", "conform_rt_dynamic", "--sticky")
    compare(args, "rt_busy_dynamic", "conform_rt_dynamic", "--busy")
    compare(args, "dlclose", "conform_dl")


def compare(args, name, program, *arguments):
    """The guest's output of a suite equals the one of the same program over the socket."""
    global skipped
    mine = os.path.join(args.out, name + ".guest")
    if not os.path.exists(mine):
        skipped += 1
        print("not run: boot same_%s: no output of the guest" % name)
        return
    done = subprocess.run([args.vgpu, "run", "--gpu", "soft", os.path.join(args.tests, "conformance/driver", program), *arguments],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=600)
    with open(mine, errors="replace") as f:
        b = f.read()
    # Compares checks only: the device's own messages have no fixed place among them.
    a, b = ([l for l in text.splitlines() if re.match(r"[a-z0-9_]+\.[^ ]+ ", l)]
            for text in (done.stdout.decode(errors="replace"), b))
    report("same_" + name, a == b, "the guest's output (>) differs from the socket's (<)")
    if a != b:
        only_a, only_b = set(a) - set(b), set(b) - set(a)
        for l in [x for x in a if x in only_a][:15]:
            print("  < " + l)
        for l in [x for x in b if x in only_b][:15]:
            print("  > " + l)


def boot_killed(args):
    """Workers killed, then the backend killed, while the guest waits and another process holds a dma-buf of pinned memory,
    and started again; then QEMU in a second boot."""
    victim = os.path.join(args.tests, "system/faults", "victim")
    dmabuf = os.path.join(args.tests, "conformance/driver", "conform_dmabuf")
    script = ("hold() {{ {1} hold > held 2>&1 & pid=$!; until grep -q holding held || ! kill -0 $pid; do sleep 0.1; done; }}; "
              "release() {{ kill -USR1 $pid; wait $pid; echo dma-buf after $1: $?; }}; "
              "hold; {0} wait; echo first: $?; release worker; {0} once; echo next: $?; "
              "hold; {0} wait; echo second: $?; release backend; "
              "{0} once; echo without: $?; vgpu doctor; echo doctor: $?; "
              "for i in $(seq 200); do {0} once > again 2>&1 && break; sleep 0.3; done; tail -n 1 again; "
              "echo back: $?; {0} once; echo works: $?; {1} export; echo dma-buf again: $?; "
              "dmesg | grep -cE 'BUG:|Oops|WARNING:'").format(victim, dmabuf)
    guest = Guest(args, "sh", "-c", script)
    if not guest.until("victim: waiting", 1, 240):
        guest.process.terminate()
        guest.end(10)
        report("worker_killed", False, "the guest does not get to waiting: " + guest.tail())
        return
    time.sleep(1)
    for pid in guest.of("vgpu-worker"):
        os.kill(pid, signal.SIGKILL)
    ok = guest.until("first: ", 1, 30)
    report("worker_killed", ok and "first: 0" in guest.lines, guest.tail())
    guest.until("next: ", 1, 60)
    report("dmabuf_worker_killed", "dma-buf after worker: 0" in guest.lines, guest.tail())
    report("next_process", "next: 0" in guest.lines, guest.tail())
    if guest.until("victim: waiting", 2, 60):
        time.sleep(1)
        workers = guest.of("vgpu-worker")
        command = []
        for pid in guest.of("vgpu-backend"):
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                command = f.read().decode().split("\0")
            os.kill(pid, signal.SIGKILL)
        ok = guest.until("second: ", 1, 30)
        report("backend_killed", ok and "second: 0" in guest.lines, guest.tail())
        guest.until("without: ", 1, 60)
        report("dmabuf_backend_killed", "dma-buf after backend: 0" in guest.lines, guest.tail())
        report("backend_killed_no_orphans",
               wait_until(lambda: not any(running(p) for p in workers), 5), str(workers))
        report("without_backend", "without: 1" in guest.lines, guest.tail())
        guest.until("doctor: ", 1, 60)
        said = "\n".join(guest.lines)
        report("doctor_names_the_lost_backend", "doctor: 14" in guest.lines and "QEMU has lost the backend" in said and
               "the device is lost: it asks for a reset" in said, guest.tail())
        # QEMU was started without reconnect=; the device reconnects regardless.
        again = subprocess.Popen([args.backend, "--vhost-user", command[command.index("--vhost-user") + 1], "--gpu", "soft"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        guest.until("dma-buf again: ", 1, 120)
        report("backend_comes_back", "works: 0" in guest.lines, guest.tail())
        report("dmabuf_again", "dma-buf again: 0" in guest.lines, guest.tail())
        code = guest.end(60)
        again.terminate()
        try:
            again.wait(timeout=20)
        except subprocess.TimeoutExpired:
            again.kill()
            again.wait()
        report("guest_lives_on", guest.lines and guest.lines[-1] == "0",
               "status %d: %s" % (code, guest.tail()))
    else:
        report("backend_killed", False, guest.tail())
        guest.process.terminate()
        guest.end(10)

    guest = Guest(args, victim, "wait")
    if not guest.until("victim: waiting", 1, 240):
        guest.process.terminate()
        guest.end(10)
        report("qemu_killed", False, guest.tail())
        return
    members = family(guest.process.pid)
    for pid in guest.of("qemu-system"):
        os.kill(pid, signal.SIGKILL)
    code = guest.end(20)
    report("qemu_killed", code == 125, "vgpu ends with %d: %s" % (code, guest.tail()))
    report("qemu_killed_no_orphans",
           wait_until(lambda: not any(running(p) for p in members), 5),
           str({p: n for p, n in members.items() if running(p)}))


def exists(path):
    return path if os.path.exists(path) else None


def find(top, name):
    for folder, dirs, files in os.walk(top):
        if name in files:
            return os.path.join(folder, name)
    return None


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--top-build", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--accel", default="auto")
    parser.add_argument("--guest", help="folder of guest-kernel.sh with initrd.cpio and vgpu_drv.ko (default: guest of --top-build)")
    parser.add_argument("--timeout", type=int, default=1200, help="seconds for one boot")
    parser.add_argument("boot", nargs="*")
    args = parser.parse_args()
    top = args.top_build
    args.tests = os.path.join(top, "tests")
    args.out = os.path.join(args.build, "out")
    os.makedirs(args.out, exist_ok=True)
    driver = os.path.join(args.guest, "vgpu_drv.ko") if args.guest else os.path.join(top, "kernel", "vgpu_drv.ko")
    args.guest = args.guest or os.path.join(top, "guest")
    parts = {
        "the vgpu command": find(os.path.join(top, "userspace"), "vgpu"),
        "libcuda.so.1": find(os.path.join(top, "userspace"), "libcuda.so.1"),
        "vgpu-backend": find(os.path.join(top, "host"), "vgpu-backend"),
        "vgpu_drv.ko": exists(driver),
        "QEMU with vgpu-cuda": exists(os.path.join(top, "qemu", "bin", "qemu-system-x86_64")),
        "the guest's kernel": exists(os.path.join(args.guest, "vmlinux")) or exists(os.path.join(args.guest, "vmlinuz")),
        "the guest's initramfs": exists(os.path.join(args.guest, "initrd.cpio")),
        "tests/system/faults": find(os.path.join(args.tests, "system/faults"), "victim"),
        "tests/conformance/driver": find(os.path.join(args.tests, "conformance/driver"), "conform"),
    }
    args.vgpu = parts["the vgpu command"]
    args.driver = parts["vgpu_drv.ko"]
    args.qemu = parts["QEMU with vgpu-cuda"]
    args.kernel = parts["the guest's kernel"]
    args.initrd = parts["the guest's initramfs"]
    args.backend = parts["vgpu-backend"]
    boots = {"guest": boot_guest, "virtgpu": boot_virtgpu, "killed": boot_killed}
    chosen = args.boot or list(boots)
    missing = [name for name, path in parts.items() if not path]
    for name in chosen:
        if missing:
            skipped += 1
            print("not run: boot %s: not built: %s" % (name, ", ".join(missing)))
        else:
            boots[name](args)
    print("boot: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
