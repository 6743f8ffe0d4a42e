#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the commands of docs/own-guest.md: own_guest_test.py BUILD.

An indented line that begins with host#, host$, guest# or qemu) is a command, each is run, in the page's order. What is
put in another's place stands in Page and in own_guest_libvirt.py. Needs root, debootstrap, the packages of `make deb` and the network or the caches of
`make check-packages`. What cannot be had is named by a line "not run: NAME: REASON".
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import own_guest_libvirt
from checks import end, report, skip

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
CACHE = os.environ.get("VGPU_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vgpu-cuda")
BOOT, ANSWER = 3600, 900  # seconds, against hanging: the CPU is emulated, and others may use this machine
# What differs from the page's command in the virtual machine that is tested, and in the second one, which is refused.
QEMU_SUBSTITUTES = (("console=ttyS0'", "console=ttyS0 no_timer_check loglevel=4 systemd.default_timeout_start_sec=900'"),
                    ("-serial mon:stdio", "-serial unix:serial,server=on,wait=off -qmp unix:qmp,server=on,wait=off"))
SECOND_SUBSTITUTES = (("127.0.0.1:2222-", "127.0.0.1:0-"), ("-serial mon:stdio", "-S"),
                      ("file=guest.qcow2,format=qcow2", "file=second.raw,format=raw"))
TOOLS = "openssh-client qemu-utils"  # of Debian, where this machine lacks a program of the page


def commands():
    """(section, place, command) of each command of the page."""
    section, found, lines = "", [], iter(open(os.path.join(TOP, "docs/own-guest.md")).read().split("\n"))
    for line in lines:
        if line.startswith("## "):
            section = line[3:]
        match = re.match(r"    (host#|host\$|guest#|qemu\)) (.*)", line)
        if match:
            text = match.group(2)
            while text.endswith("\\"):
                text = text[:-1] + next(lines).strip()
            if "<<'END'" in text:  # a file from here: its lines begin with what the shell prints
                line = ""
                while line != "END":
                    line = next(lines).strip().removeprefix(">").removeprefix(" ")
                    text += "\n" + line
            found.append((section, match.group(1), text))
    return found


class Console:
    """A root shell on the guest's serial port."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.seen = b""

    @classmethod
    def of(cls, sock):
        console = cls.__new__(cls)
        console.sock, console.seen = sock, b""
        return console

    def until(self, pattern, seconds):
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end():]
                return match
            self.sock.settimeout(max(0.1, end - time.monotonic()))
            try:
                data = self.sock.recv(65536)
            except socket.timeout:
                data = None
            if not data:
                raise TimeoutError("no %r; the end of the console: %s" % (pattern, self.seen[-800:].decode(errors="replace")))
            self.seen += data

    def drain(self, seconds):
        """Takes what comes until the other side closes: a guest whose console nobody reads stops."""
        self.sock.settimeout(seconds)
        try:
            while self.sock.recv(65536):
                pass
        except OSError:
            pass

    def login(self):
        self.until(rb"login: ", BOOT)
        self.sock.sendall(b"root\n")
        self.until(rb"assword: ", ANSWER)
        self.sock.sendall(b"vgpu\n")
        self.until(rb"# ", ANSWER)
        # No echo, no wrapping, no kernel messages between.
        self.sock.sendall(b"stty -echo; dmesg -n 1; PS1=; bind 'set enable-bracketed-paste off'; echo SHELL'-UP'\n")
        self.until(rb"SHELL-UP\r?\n", ANSWER)

    def run(self, command):
        """(status, output)"""
        self.sock.sendall(command.encode() + b"; echo 'END''-'$?'-'\n")
        match = self.until(rb"(?s)(.*)END-(\d+)-", ANSWER)
        return int(match.group(2)), match.group(1).decode(errors="replace")


class Monitor:
    def __init__(self, path):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        sock.settimeout(ANSWER)
        self.file = sock.makefile("rw")
        self.file.readline()
        self.ask("qmp_capabilities")

    def ask(self, execute, **arguments):
        self.file.write(json.dumps({"execute": execute, "arguments": {k.replace("_", "-"): v for k, v in arguments.items()}}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "return" in answer or "error" in answer:
                return answer.get("return", answer)

    def human(self, line):
        return self.ask("human-monitor-command", command_line=line)


class Page:
    def __init__(self, build, work):
        self.build, self.work = build, work
        self.backend = self.qemu = self.console = self.monitor = None
        with socket.socket() as free:  # the page's port may be another one's here
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.env = dict(os.environ, PATH=":".join(
            [os.path.join(build, p) for p in ("host/backend", "qemu/bin", "userspace/vgpu")] + ["/usr/sbin:/usr/bin:/sbin:/bin"]),
            LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive")

    def shell(self, command, seconds=1800):
        done = subprocess.run(command, shell=True, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        return done.returncode, done.stdout.decode(errors="replace")

    def debootstrap(self, command):
        """The root that check-packages has made by the same command is copied."""
        root = os.path.join(CACHE, "roots/bookworm")
        status, out = self.shell("cp -a %s guest" % root) if os.path.exists(root + "/usr/bin/dpkg") else self.shell(command)
        debs = os.path.join(CACHE, "roots/debs")
        os.makedirs(debs + "/partial", exist_ok=True)
        if status == 0:
            self.shell("cp /etc/resolv.conf guest/etc/; mount --bind %s guest/var/cache/apt/archives" % debs)
        return status, out

    def start_backend(self, command):
        self.backend = subprocess.Popen("exec " + command.rstrip("& "), shell=True, cwd=self.work, env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(self.work + "/backend.log", "a"))
        end = time.monotonic() + ANSWER
        while time.monotonic() < end and self.backend.poll() is None and not self.listens():
            time.sleep(0.1)
        return (0 if self.backend.poll() is None else 1), open(self.work + "/backend.log").read()

    def listens(self):
        """Without connecting, which would be taken for QEMU."""
        with open("/proc/net/unix") as f:
            return any(re.search(r" 00010000 .*vgpu\.sock$", line) for line in f)

    def stop_backend(self):
        self.backend.terminate()
        self.backend.wait(60)
        return 0, ""

    def start_qemu(self, command):
        self.command = command
        command = self.substitute(command, QEMU_SUBSTITUTES + (("127.0.0.1:2222-", "127.0.0.1:%s-" % self.port),))
        self.qemu = subprocess.Popen("exec " + command, shell=True, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL,
                                     stdout=open(self.work + "/qemu.log", "w"), stderr=subprocess.STDOUT)
        end = time.monotonic() + ANSWER
        while (not (os.path.exists(self.work + "/qmp") and os.path.exists(self.work + "/serial"))
               and time.monotonic() < end and self.qemu.poll() is None):
            time.sleep(0.1)
        if self.qemu.poll() is not None:
            return 1, open(self.work + "/qemu.log").read()
        self.console = Console(self.work + "/serial")
        self.monitor = Monitor(self.work + "/qmp")
        return 0, ""

    @staticmethod
    def substitute(command, pairs):
        for old, new in pairs:
            assert old in command, old
            command = command.replace(old, new)
        return command

    def second_vm(self):
        """The same command once more: what QEMU says of a backend that serves another one."""
        with open(self.work + "/second.raw", "wb") as f:
            f.truncate(1 << 20)
        status, out = self.shell(self.substitute(self.command, SECOND_SUBSTITUTES), ANSWER)
        report("a second virtual machine on one backend is told", status == 1 and "It serves one virtual machine" in out, out)

    def monitor_command(self, command):
        out = self.monitor.human(command)
        if command.startswith(("migrate", "savevm")):
            return (0 if "state of its GPU work is in host processes" in str(out) else 1), str(out)
        end = time.monotonic() + ANSWER
        while command.startswith("device_add") and "is in use" in str(out) and time.monotonic() < end:
            time.sleep(1)  # as the page says: until the guest has switched the slot off
            out = self.monitor.human(command)
        return (0 if out == "" else 1), str(out)

    def run(self, place, command):
        if place == "guest#":
            return self.console.run(command)
        if place == "qemu)":
            return self.monitor_command(command)
        if command.startswith("debootstrap"):
            return self.debootstrap(command)
        if command.startswith("vgpu-backend"):
            return self.start_backend(command)
        if command.startswith("kill"):
            return self.stop_backend()
        if command.startswith("qemu-system"):
            return self.start_qemu(command)
        if command.startswith("umount"):
            self.shell("umount guest/var/cache/apt/archives")
        command = command.replace("build/deb/", self.build + "/deb/").replace("build/demo/", self.build + "/demo/")
        if command.split()[0] in ("ssh-keygen", "scp", "qemu-img"):
            return self.tool(command.replace("-P 2222", "-P " + self.port))
        status, out = self.shell(command)
        if command == "sh try-accel" and status == 0:
            # KVM that starts may not run a guest; and with it this test would be another one on each machine.
            with open(self.work + "/accel", encoding="utf-8") as f:
                print("  the page would take here: " + f.read().strip())
            status, out = self.shell("echo tcg -cpu max > accel")
        return status, out

    def tool(self, command):
        """A program that a host may lack: that of Debian in a root of its own then. scp waits for the guest's ssh server."""
        program = command.split()[0]
        if not shutil.which(program, path=self.env["PATH"]):
            status, out = self.make_tools()
            if status != 0:
                return status, out
            command = "chroot tools/root sh -c 'cd %s && %s'" % (self.work, command.replace("'", "'\\''"))
        end = time.monotonic() + ANSWER
        while True:
            status, out = self.shell(command)
            if status == 0 or program != "scp" or time.monotonic() > end:
                return status, out
            time.sleep(2)

    def make_tools(self):
        """The root with TOOLS, in which this folder and the build's have their names."""
        if os.path.exists(self.work + "/tools/root/dev/null"):
            return 0, ""
        return self.shell(
            "mkdir -p tools/up tools/work tools/root && "
            "mount -t overlay overlay -o lowerdir={cache}/bookworm,upperdir=tools/up,workdir=tools/work tools/root && "
            "mount --rbind /dev tools/root/dev && mkdir -p tools/root/var/cache/apt/archives && "
            "mount --bind {cache}/debs tools/root/var/cache/apt/archives && rm -f tools/root/etc/apt/apt.conf.d/docker-clean && "
            "cp /etc/resolv.conf tools/root/etc/ && chroot tools/root apt-get -qq update && "
            "chroot tools/root apt-get -qq -y --no-install-recommends install {tools} && "
            "for dir in {work} {build}; do mkdir -p tools/root$dir && mount --bind $dir tools/root$dir || exit 1; done".format(
                cache=os.path.join(CACHE, "roots"), tools=TOOLS, work=self.work, build=self.build))


def libvirt(page):
    with open(os.path.join(TOP, "docs/own-guest.md"), encoding="utf-8") as f:
        text = re.search(r"(?s)```xml\n(.*?)```", f.read()).group(1)
    part = own_guest_libvirt.Libvirt(sys.modules[__name__], page)
    try:
        part.run([command for section, _, command in commands() if section == "libvirt"], text)
    finally:
        part.end()


def main():
    if os.geteuid() != 0:
        skip("own guest", "root is needed")
    elif not glob.glob(sys.argv[1] + "/deb/vgpu-dkms_*.deb"):
        skip("own guest", "there are no packages: make deb")
    elif not shutil.which("debootstrap") and not os.path.exists(CACHE + "/roots/bookworm"):
        skip("own guest", "debootstrap is not installed")
    elif "VGPU_OWN_GUEST" not in os.environ:
        # Private mounts, and processes that end with the first one.
        os.environ["VGPU_OWN_GUEST"] = "1"
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", "-p", "-f", "--mount-proc", "--kill-child"] + sys.argv)
    else:
        work = tempfile.mkdtemp(prefix="vgpu-own-guest.", dir="/var/tmp")
        page = Page(os.path.abspath(sys.argv[1]), work)
        try:
            if walk(page):
                libvirt(page)
            else:
                skip("libvirt", "the guest did not come to its end")
        finally:
            for process in (page.qemu, page.backend):
                if process and process.poll() is None:
                    process.kill()
                    process.wait()
            subprocess.run("umount -l guest/proc guest/var/cache/apt/archives 2> /dev/null; umount -R -l tools/root 2> /dev/null",
                           shell=True, cwd=work)
            with open("/proc/self/mounts", encoding="utf-8") as f:
                is_mounted = any(work in line for line in f)
            if is_mounted:  # nothing of this machine's is removed through a mount that would not go
                print("own-guest: %s is left" % work)
            else:
                shutil.rmtree(work, ignore_errors=True)
    return end("own-guest")


def walk(page):
    began = time.monotonic()
    for section, place, command in commands():
        if section == "libvirt":
            continue
        try:
            status, out = page.run(place, command)
        except (TimeoutError, OSError, AssertionError, subprocess.TimeoutExpired, ValueError) as e:
            status, out = -1, repr(e)
        if command == "systemctl poweroff" and status != 0:
            status = page.qemu.wait(BOOT)  # the shell ends before it answers
        if not report("%s %s" % (place, command[:90]), status == 0, "status %s: %s" % (status, out)):
            return False  # what follows builds on it
        if command.startswith("qemu-system"):
            try:
                page.console.login()
            except (TimeoutError, OSError) as e:
                report("the guest boots", False, str(e))
                return False
            report("the guest boots", True)
            print("  %.0f s so far" % (time.monotonic() - began))
            page.second_vm()
        if command == "ls -l /dev/vgpu0":
            report("/dev/vgpu0 is of the group render", " root render " in out and out.strip().startswith("crw-rw----"), out)
        if command.startswith("podman run") and command.endswith("vector_add"):
            status, out = page.console.run(command.replace("--device nvidia.com/gpu=all ", ""))
            report("a container without the device has no GPU", status not in (0, 125, 126, 127), "status %d: %s" % (status, out))
        if command == "vgpu smi -L":
            report("vgpu smi shows the GPU", out.strip().startswith("GPU 0: "), out)
    if page.console:
        page.console.drain(ANSWER)
    end = page.qemu.wait(BOOT) if page.qemu else -1
    is_good = report("QEMU ends with the guest", end == 0, str(end))
    print("  %.0f s in all" % (time.monotonic() - began))
    return is_good


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
