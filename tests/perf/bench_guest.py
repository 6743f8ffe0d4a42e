#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a call costs in a guest: exits to the device, ioctls of its driver, interrupts; and the counters of bench_check.py.

  bench_guest.py --build DIR --bench DIR [--accel auto|kvm|tcg] [--brief] [--show]

Boots a guest twice. QEMU sees each doorbell (x-trap-doorbells) and traces it and every other access to the device's
registers: under KVM each of them is an exit. The guest's kernel counts ioctls (a kprobe) and interrupts. As in bench_check.py, the
difference of two numbers of rounds counts.

First boot: both sides always poll (VGPU_TEST_POLL=always). Steady state: no access, no ioctl, no interrupt; the limits of
limits.txt hold as over the socket. Second boot: neither side polls: the control of these assertions, and what a sleeping side
costs: a doorbell for each time that the worker is woken, an ioctl and an interrupt for each sleep of the guest. --brief, for
`make test`: the first boot with few parts, and a program in it that never polls.
"""

import argparse
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading

import bench_check

ROUNDS = 100
# Parts whose rounds may enter the kernel: memory is mapped (limits.txt bounds how often), and the start is no round.
NOT_STEADY = ("start", "pinned-alloc")
BRIEF = ("round-trip", "issue", "pinned-to-host")
# Part in whose rounds each side sleeps once unless it polls.
SLOW = "slow-wait"
# Average number of sleeps per wait: a wake-up in flight may end a sleep early.
SLEEPS = 2
# Number of boots of which one must show no cost: a machine stalled for longer than a forced poll makes a side sleep.
BOOTS = 3
# Differences include the start's requests, whose number of exits depends on whether the broker already polls the queue.
CONTROL_NOISE = 0.2
EXITS = "doorbell_exits", "other_exits", "ioctls", "interrupts"
NONE = {"doorbell_exits": 0, "control_exits": 0, "other_exits": 0}

passed = failed = 0


def report(ok, text):
    """Prints and counts one assertion."""
    global passed, failed
    passed, failed = passed + ok, failed + (not ok)
    print(("ok - " if ok else "FAIL: ") + text, flush=True)


def wrapper(folder, args):
    """A QEMU that traces, for --qemu of `vgpu vm run`; the path of the trace with it."""
    trace, path = os.path.join(folder, "trace"), os.path.join(folder, "qemu")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec '%s' \"$@\" -global vgpu-cuda-device.x-trap-doorbells=on "
                   "-trace memory_region_ops_read -trace memory_region_ops_write -D '%s'\n"
                   % (os.path.join(args.build, "qemu/bin/qemu-system-x86_64"), trace))
    os.chmod(path, stat.S_IRWXU)
    return path, trace


class Trace:
    """Reads QEMU's trace, most of which is about other devices (a clock that is read as one, with an emulated CPU), as it is written."""

    def __init__(self, path):
        os.mkfifo(path)
        self.file = os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC), "rb")  # also for writing: no end before ours
        self.lines = []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        """The thread."""
        for line in self.file:
            if line == b"end\n":
                return
            if b"-vgpu-cuda'" in line:
                self.lines.append(line.decode(errors="replace"))

    def end(self):
        """All that QEMU, which has ended, has written."""
        os.write(self.file.fileno(), b"\nend\n")
        self.thread.join()
        self.file.close()
        return self.lines


def accesses(lines):
    """Accesses to the device between the marks, a list of counters as in NONE, for each run in turn."""
    runs, now, status = [], dict(NONE), 0
    for line in lines:
        found = re.search(r"memory_region_ops_(read|write) .* addr (0x[0-9a-f]+) value (0x[0-9a-f]+) .*name '(virtio-pci-[a-z]+)-vgpu-cuda'", line)
        if not found:
            continue
        if found.group(4) == "virtio-pci-common" and found.group(1) == "read" and int(found.group(2), 16) % 0x1000 == 0x14:
            status += 1
            if status == 3:
                runs.append(now)
                now = dict(NONE)
            continue
        status = 0
        if found.group(4) != "virtio-pci-notify":
            now["other_exits"] += 1
        else:  # the number of the queue; 0 and 1 are the driver's own (vgpu_device.h)
            now["doorbell_exits" if int(found.group(3), 16) >= 2 else "control_exits"] += 1
    return runs[1:]  # what lies before the first mark is the boot


def boot(args, folder, how, plan):
    """Runs the plan, [(part, rounds, control)], in one guest; a list of counters or None for each."""
    qemu, path = wrapper(folder, args)
    trace = Trace(path)
    lines = "".join("%d %s %d %s\n" % (i, part, rounds, (switch or "").replace(",", " ")) for i, (part, rounds, switch) in enumerate(plan))
    env = bench_check.environment("VGPU_TEST_POLL=" + how)
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run([os.path.join(args.build, "userspace/vgpu/vgpu"), "vm", "run", "--gpu", "soft", "--accel", args.accel, "--qemu", qemu,
                           "--timeout", "900", "sh", os.path.join(here, "bench_guest.sh"), os.path.join(args.bench, "counters")],
                          input=lines, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False)
    marks = accesses(trace.end())
    os.unlink(path)
    results, text = [None] * len(plan), ""
    for line in done.stdout.splitlines():
        found = re.match(r"run (\d+) (\d+) (\d+) (\d+)$", line)
        if not found:
            text += line + "\n"
            continue
        number, status, ioctls, interrupts = (int(word) for word in found.groups())
        counted = re.search(r"^vgpu-stats: (.*)$", text, re.M)
        if status or not counted or number >= len(marks):
            print("FAIL: %s ended with %d: %s" % (plan[number][0], status, text[-500:]))
        else:
            results[number] = {name: int(value) for name, value in (word.split("=") for word in counted.group(1).split())}
            results[number].update(marks[number], ioctls=ioctls, interrupts=interrupts)
        text = ""
    if done.returncode or len(marks) != len(plan):
        print("the guest ended with %d, %d of %d runs are in the trace: %s" % (done.returncode, len(marks), len(plan), done.stdout[-1500:]))
    return results


def rounds_of(args, folder, how, wanted):
    """What a round of each (part, control) costs: {(part, control): {counter: number}}."""
    plan = [(part, rounds, switch) for part, switch in wanted
            for rounds in ((0,) if part == "start" else (ROUNDS, 2 * ROUNDS))]
    results, costs = iter(boot(args, folder, how, plan)), {}
    for part, switch in wanted:
        few = next(results)
        many = None if part == "start" else next(results)
        if part == "start":
            costs[part, switch] = few or {}
        else:
            costs[part, switch] = {name: (many[name] - few[name]) / ROUNDS for name in many} if few and many else {}
            if many:
                costs[part, switch]["whole"] = many
    return costs


def at_most(costs, part, switch, counter, limit):
    """Asserts it."""
    got = costs[part, switch].get(counter)
    report(got is not None and got <= limit, "%s: %s %s a round, at most %g" % (part, got, counter, limit))


def more_than(costs, part, switch, counter, limit):
    """Asserts that a control exceeds it."""
    got = costs[part, switch].get(counter)
    report(got is not None and got > limit, "%s: %s %s with %s, more than %g" % (part, got, counter, switch or "no polling", limit))


def is_steady(costs, parts):
    """Has no part cost an exit?"""
    bounds = dict.fromkeys(EXITS, 0) | {"control_exits": CONTROL_NOISE}
    return all(costs[part, None].get(counter, 1) <= bound
               for part in parts if part not in NOT_STEADY for counter, bound in bounds.items())


def polling(args, folder, parts):
    """Both sides poll: the steady state costs no exit; the limits hold."""
    limits = [row for row in bench_check.read_limits(args.limits) if row[0] in parts]
    alone = "VGPU_TEST_POLL=never"  # for the program, not for its worker
    wanted = [(part, None) for part in parts] + [(SLOW, alone)]
    costs = rounds_of(args, folder, "always", wanted)
    for _ in range(BOOTS - 1):
        if is_steady(costs, parts):
            break
        again = rounds_of(args, folder, "always", wanted)
        for part in parts:
            for counter in EXITS + ("control_exits",):
                if counter in again[part, None]:
                    costs[part, None][counter] = min(costs[part, None].get(counter, 1), again[part, None][counter])
    if args.show:
        for key, cost in costs.items():
            print(*key, cost)
    for part in parts:
        if part not in NOT_STEADY:
            for counter in EXITS:
                at_most(costs, part, None, counter, 0)
            at_most(costs, part, None, "control_exits", CONTROL_NOISE)
    for part, counter, limit, _ in limits:  # their controls are bench-check's
        at_most(costs, part, None, counter, limit)
    for counter in ("ioctls", "interrupts"):
        more_than(costs, SLOW, alone, counter, 0.5)


def sleeping(args, folder, parts):
    """Neither side polls: the same assertions must fail, and each sleep of a side costs what is said and no more."""
    costs = rounds_of(args, folder, "never", [(part, None) for part in parts if part not in NOT_STEADY])
    if args.show:
        for key, cost in costs.items():
            print(*key, cost)
    for (part, _), cost in costs.items():
        report(bool(cost) and abs(cost["doorbell_exits"] - cost["doorbells"]) < 0.005,
               "%s: %s doorbells seen by QEMU a round, as many as rung: %s" % (part, cost.get("doorbell_exits"), cost.get("doorbells")))
        at_most(costs, part, None, "other_exits", 0)
        # Sleeps depend on timing and differ between runs, so they are counted over a whole run.
        whole = cost.get("whole", {"doorbells": 1, "records": 0})
        report(whole["doorbells"] <= whole["records"],
               "%s: %d doorbells in a run of %d records" % (part, whole["doorbells"], whole["records"]))
    for counter in ("doorbell_exits", "ioctls", "interrupts"):
        more_than(costs, SLOW, None, counter, 0.5)
    for counter in ("ioctls", "interrupts"):
        at_most(costs, SLOW, None, counter, SLEEPS)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--bench", required=True, help="the folder of `counters`")
    parser.add_argument("--limits", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "limits.txt"))
    parser.add_argument("--accel", default="auto", help="auto, kvm or tcg")
    parser.add_argument("--brief", action="store_true", help="one boot, few parts")
    parser.add_argument("--show", action="store_true", help="print all counters, too")
    args = parser.parse_args()
    args.build, args.bench = os.path.abspath(args.build), os.path.abspath(args.bench)
    parts = BRIEF if args.brief else list(dict.fromkeys(part for part, _, _, _ in bench_check.read_limits(args.limits)))

    with tempfile.TemporaryDirectory(prefix="vgpu-bench-guest-") as folder:
        polling(args, folder, parts)
        if not args.brief:
            sleeping(args, folder, parts)
    print("bench-guest: %d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
