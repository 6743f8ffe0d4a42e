# SPDX-License-Identifier: MIT
"""The section "libvirt" of docs/own-guest.md: its commands with Debian's libvirtd and QEMU and our packages, in a root of their own.

The root is an overlay over the one of check-packages. libvirtd has a process namespace whose first process reaps: it takes
a QEMU that it has ended and that nobody reaps for one that lives on.
"""
import glob
import os
import pty
import re
import select
import shutil
import subprocess
import time

PACKAGES = "libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients libxml2-utils qemu-system-x86"
OURS = "vgpu-qemu vgpu-backend vgpu-softgpu vgpu-tools"
STARTS, ENDS = 120, 600  # seconds, against hanging
# libvirtd as root without systemd, AppArmor and control groups of its own.
CONFIG = """user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
stdio_handler = "file"
"""
# What this machine has not: KVM, and libvirt's network, which needs dnsmasq and a firewall.
SUBSTITUTES = (("<domain type='kvm'", "<domain type='qemu'"), ("mode='host-passthrough'", "mode='maximum'"),
               ("console=ttyS0<", "console=ttyS0 no_timer_check loglevel=4 systemd.default_timeout_start_sec=900<"),
               ("<interface type='network'>\n      <source network='default'/>", "<interface type='user'>"))
NETWORK = "virsh net-start default"


class Pty:
    """What a Console wants of a socket, of a program on a terminal."""

    def __init__(self, command, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, env)
        self.timeout = None

    def settimeout(self, seconds):
        self.timeout = seconds

    def recv(self, size):
        if not select.select([self.fd], [], [], self.timeout)[0]:
            return b""
        try:
            return os.read(self.fd, size)
        except OSError:  # the program has ended
            return b""

    def sendall(self, data):
        while data:
            data = data[os.write(self.fd, data):]

    def end(self):
        """Its exit status."""
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Libvirt:
    """t: own_guest_test, with its report(), skip() and Console."""

    def __init__(self, t, page):
        self.t, self.page, self.process = t, page, None
        self.root = os.path.join(page.work, "libvirt/root")

    def within(self, command, seconds=STARTS):
        return self.page.shell("chroot %s env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "
                               "SYSTEMD_OFFLINE=1 sh -c '%s'" % (self.root, command.replace("'", "'\\''")), seconds)

    def make_root(self):
        """None, or why there is none."""
        cache = os.path.join(self.t.CACHE, "roots")
        status, out = self.page.shell(
            "mkdir -p libvirt/up libvirt/work libvirt/root && "
            "mount -t overlay overlay -o lowerdir=%s/bookworm,upperdir=libvirt/up,workdir=libvirt/work libvirt/root && cd libvirt/root && "
            "mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys && mkdir -p var/cache/apt/archives && "
            "mount --bind %s/debs var/cache/apt/archives && rm -f etc/apt/apt.conf.d/docker-clean && cp /etc/resolv.conf etc/ && "
            "mkdir -p opt/debs etc/libvirt run/vgpu var/lib/libvirt/images && cp %s opt/debs/" % (cache, cache, " ".join(
                glob.glob(self.page.build + "/deb/%s_*.deb" % name)[0] for name in OURS.split())))
        if status != 0:
            return "no root can be made: " + out[-300:]
        status, out = self.within("apt-get -qq update && apt-get -qq -y --no-install-recommends install %s" % PACKAGES, 1800)
        if status != 0:
            return "the archive does not give libvirtd: " + out[-300:]
        status, out = self.within("apt-get -qq -y --no-install-recommends install /opt/debs/*.deb && useradd -r -U libvirt-qemu", 600)
        return None if self.t.report("libvirt: our packages beside Debian's QEMU", status == 0, out) else ""

    def start_daemon(self):
        with open(os.path.join(self.root, "etc/libvirt/qemu.conf"), "w", encoding="utf-8") as f:
            f.write(CONFIG)
        self.process = subprocess.Popen(
            ["unshare", "-p", "-f", "--kill-child", "bash", "-c",
             "mount -t proc proc %s/proc; chroot %s /usr/lib/vgpu/vgpu-backend --socket-path /run/vgpu/vm1.sock --gpu soft & "
             "chroot %s libvirtd; wait" % ((self.root,) * 3)],
            stdin=subprocess.DEVNULL, stdout=open(self.page.work + "/libvirtd.log", "w"), stderr=subprocess.STDOUT)
        end = time.monotonic() + STARTS
        while time.monotonic() < end and self.process.poll() is None:
            if self.within("virsh version && test -S /run/vgpu/vm1.sock")[0] == 0:
                return True
            time.sleep(0.5)
        return False

    def domain(self, text):
        """The page's XML, with what is put in another's place."""
        for old, new in SUBSTITUTES:
            assert old in text, old
            text = text.replace(old, new)
        status, out = self.within("vgpu-qemu --vgpu-which")
        if status != 0:  # another build of Debian's QEMU than the package has a device for
            print("  libvirt's emulator is the QEMU with the device: " + out.strip())
            text = text.replace("/usr/bin/vgpu-qemu", "/usr/lib/vgpu/qemu/bin/qemu-system-x86_64")
        with open(os.path.join(self.root, "root/vm1.xml"), "w", encoding="utf-8") as f:
            f.write(text)

    def is_off(self):
        end = time.monotonic() + ENDS
        while time.monotonic() < end:
            if self.within("virsh domstate vm1")[1].strip() == "shut off":
                return True
            time.sleep(1)
        return False

    def console(self, command):
        """A program runs in the domain, on a console that libvirt gives."""
        terminal = Pty(["chroot", self.root] + command.split(), dict(os.environ, LC_ALL="C.UTF-8", TERM="dumb"))
        console = self.t.Console.of(terminal)
        try:
            console.until(rb"Escape character", STARTS)
            terminal.sendall(b"\n")
            console.login()
            for inside in ("test -c /dev/vgpu0", "vgpu smi -L", "/opt/vector_add"):
                status, out = console.run(inside)
                self.t.report("libvirt: guest# " + inside, status == 0, out)
            # Out of the shell, so that the next one finds a prompt; then out of the console.
            terminal.sendall(b"exit\n\x1d")
            ok, out = True, ""
        except (TimeoutError, OSError) as e:
            ok, out = False, repr(e)
        terminal.end()
        return (0 if ok else 1), out

    def run(self, commands, text):
        why = self.make_root()
        if why is not None:
            if why:
                self.t.skip("libvirt", why)
            return
        images = os.path.join(self.root, "var/lib/libvirt/images")
        for name in ("guest.qcow2", "vmlinuz", "initrd"):
            shutil.move(os.path.join(self.page.work, name), images)
        self.domain(text)
        if not self.t.report("libvirt: libvirtd starts", self.start_daemon(), open(self.page.work + "/libvirtd.log").read()):
            return
        hook = os.path.join(self.page.build, "packaging/kubernetes/hook.xml")  # of kubernetes_test.py
        if os.path.exists(hook):
            shutil.copy(hook, os.path.join(self.root, "root"))
            status, out = self.within("cd && virt-xml-validate hook.xml domain")
            self.t.report("libvirt: the domain that KubeVirt's hook makes is valid", status == 0, out)
        for command in commands:
            if command == NETWORK:
                self.t.skip("libvirt: " + command, "the network of libvirt needs dnsmasq and a firewall; the domain has `user`")
                continue
            status, out = self.console(command) if "console" in command else self.within("cd && " + command, ENDS)
            if status == 0 and re.search("shutdown|destroy", command) and not self.is_off():
                status, out = 1, "the domain is not off"
            if not self.t.report("libvirt: " + command, status == 0, out):
                log = os.path.join(self.root, "var/log/libvirt/qemu/vm1.log")
                print(open(log, encoding="utf-8", errors="replace").read()[-3000:] if os.path.exists(log) else "no log of the domain")
                return

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.page.shell("umount -R -l libvirt/root")
