#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the commands of README.md's section "With your own guest" and asks QEMU what became of them: readme_test.py BUILD.

Only places, the accelerator and the number of the screen are put in the place of others. No system is on the disk; that is what
`make check-own-guest` has.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
SECONDS = 120
passed = failed = 0


def report(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
        print("readme.%s ok" % name, flush=True)
    else:
        failed += 1
        print("FAIL: readme.%s: %s" % (name, detail), flush=True)


def section():
    """The two commands: backend, QEMU."""
    text = open(os.path.join(TOP, "README.md")).read()
    text = text[text.index("## With your own guest"):]
    block = re.search(r"\n((?:    .*\n)+)", text).group(1).replace("\\\n", " ")
    return [re.sub(r"\s+", " ", line).strip() for line in block.strip().split("\n")]


class Qmp:
    def __init__(self, path, process):
        end = time.monotonic() + SECONDS
        sock = socket.socket(socket.AF_UNIX)
        while True:
            try:
                sock.connect(path)
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)
        sock.settimeout(SECONDS)
        self.file = sock.makefile("rw")
        self.file.readline()
        self.ask("qmp_capabilities")

    def ask(self, execute, **arguments):
        self.file.write(json.dumps({"execute": execute, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "return" in answer or "error" in answer:
                return answer.get("return", answer)


def run(build, work):
    lines = section()
    report("two_commands", len(lines) == 2 and lines[0].endswith("&") and "-device vgpu-cuda" in lines[1], str(lines))
    backend, qemu = (line.replace("/tmp/vgpu.sock", work + "/vgpu.sock").replace("build/", build + "/") for line in lines)
    for old, new in (("-accel kvm -cpu host", "-accel tcg -cpu max"), ("-vnc :0", "-vnc unix:%s/vnc" % work),
                     ("file=guest.qcow2,format=qcow2", "file=guest.raw,format=raw")):
        report("has_" + old.split("=")[0].strip("- ").split(" ")[0], old in qemu, qemu)
        qemu = qemu.replace(old, new)
    with open(work + "/guest.raw", "wb") as f:
        f.truncate(1 << 20)
    started = []
    try:
        log = open(work + "/log", "w+")
        started.append(subprocess.Popen("exec " + backend.rstrip("& "), shell=True, cwd=work, stdin=subprocess.DEVNULL,
                                        stdout=log, stderr=log))
        end = time.monotonic() + SECONDS
        while not os.path.exists(work + "/vgpu.sock") and time.monotonic() < end and started[0].poll() is None:
            time.sleep(0.05)
        qemu_process = subprocess.Popen("exec " + qemu + " -qmp unix:%s/qmp,server=on,wait=off" % work, shell=True, cwd=work,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        started.append(qemu_process)
        try:
            q = Qmp(work + "/qmp", qemu_process)
        except OSError:
            log.seek(0)
            report("qemu_starts", False, log.read()[-1500:])
            return
        report("qemu_starts", q.ask("query-status")["running"])
        devices = q.ask("qom-list", path="/machine/peripheral-anon")
        types = {d["type"]: "/machine/peripheral-anon/" + d["name"] for d in devices}
        for name in ("virtio-blk-pci", "virtio-net-pci", "vgpu-cuda"):
            report("has_" + name, "child<%s>" % name in types, str(types))
        report("has_vga", "VGA" in q.ask("human-monitor-command", **{"command-line": "info pci"}))
        report("connected", q.ask("qom-get", path=types["child<vgpu-cuda>"] + "/virtio-backend", property="connected") is True)
        report("vnc", q.ask("query-vnc").get("enabled") is True)
        q.file.write('{"execute": "quit"}\n')
        q.file.flush()
        report("qemu_ends", qemu_process.wait(SECONDS) == 0)
    finally:
        for process in reversed(started):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def main():
    build = os.path.abspath(sys.argv[1])
    missing = [p for p in ("host/backend/vgpu-backend", "qemu/bin/qemu-system-x86_64", "host/softgpu/libcuda-soft.so.1")
               if not os.path.exists(os.path.join(build, p))]
    if missing:
        print("not run: readme: not built: %s" % ", ".join(missing))
        print("readme: 0 passed, 0 failed, 1 skipped")
        return 0
    work = tempfile.mkdtemp(prefix="vgpu-readme.")
    try:
        run(build, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("readme: %d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
