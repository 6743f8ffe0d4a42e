#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks what own_guest_test.py makes of docs/own-guest.md, without a guest: own_guest_page_test.py.

The commands are parsed, each substitution finds its text, and the page's trial of KVM is run with a QEMU that stands in.
"""
import os
import re
import subprocess
import sys
import tempfile

import own_guest_libvirt
import own_guest_test
from checks import end, report

# With KVM: as QEMU does where the host refuses a register, and where KVM does not work at all.
FAKE = """#!/bin/bash
case $KVM_IS-$* in
*"-accel tcg -cpu max"* | good-* | register-*arch-capabilities=off*) read -r line; [ "$line" = quit ] ;;
*) echo "qemu-system-x86_64: error: failed to set MSR 0x10a to 0x69" >&2; kill -ABRT $$ ;;
esac
"""


def trial(script):
    """The command that writes the trial, with QEMUs of three kinds; then the trial itself."""
    for kind, want in (("good", "kvm -cpu host"), ("register", "kvm -cpu host,arch-capabilities=off"), ("broken", "tcg -cpu max")):
        with tempfile.TemporaryDirectory() as work:
            fake = os.path.join(work, "qemu-system-x86_64")
            with open(fake, "w", encoding="utf-8") as f:
                f.write(FAKE)
            os.chmod(fake, 0o755)
            env = dict(os.environ, PATH=work + ":/usr/bin:/bin", KVM_IS=kind)
            done = subprocess.run(script + "\nsh try-accel && cat accel", shell=True, cwd=work, env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            report("KVM is %s: the guest's CPU is %s" % (kind, want), done.stdout.decode().strip() == want, done.stdout)


def main():
    found = own_guest_test.commands()
    places = {place for _, place, _ in found}
    report("the page has commands of all places", places == {"host#", "host$", "guest#", "qemu)"}, places)
    page = [command for _, _, command in found]
    for need in ("scp -q -P 2222 -i key ", "ssh-keygen ", "qemu-img convert ", "sh try-accel", "savevm ", "virsh net-start default"):
        report("a command of the page begins with " + need, any(c.startswith(need) for c in page), page)
    qemu = [c for c in page if c.startswith("qemu-system")]
    report("there is one QEMU, on a disk with snapshots", len(qemu) == 1 and "format=qcow2" in qemu[0], qemu)
    for name, pairs in ("the machine", own_guest_test.QEMU_SUBSTITUTES), ("the second machine", own_guest_test.SECOND_SUBSTITUTES):
        try:
            own_guest_test.Page.substitute(qemu[0], pairs)
            report("what is put in another's place in " + name, True)
        except AssertionError as e:
            report("what is put in another's place in " + name, False, e)
    report("no command runs KVM, or emulation, without the trial", not re.search("accel=(kvm|tcg)", "\n".join(page)))
    with open(os.path.join(own_guest_test.TOP, "README.md"), encoding="utf-8") as f:
        report("README's command does not take KVM for a choice that falls back", "accel=kvm:tcg" not in f.read())
    with open(os.path.join(own_guest_test.TOP, "docs/own-guest.md"), encoding="utf-8") as f:
        domain = re.search(r"(?s)```xml\n(.*?)```", f.read()).group(1)
    missing = [old for old, _ in own_guest_libvirt.SUBSTITUTES if old not in domain]
    report("what is put in another's place in the domain", not missing, missing)
    libvirt = [c for c in page if c.startswith("virsh")]
    report("the network is started before the domain", own_guest_libvirt.NETWORK in libvirt
           and libvirt.index(own_guest_libvirt.NETWORK) < libvirt.index("virsh start vm1"), libvirt)
    scripts = [c for c in page if c.startswith("cat > try-accel")]
    report("the trial is a whole here-document", len(scripts) == 1 and scripts[0].endswith("\nEND"), scripts)
    for script in scripts:
        trial(script)


if __name__ == "__main__":
    main()
    sys.exit(end("own-guest-page"))
