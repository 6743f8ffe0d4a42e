#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Calls that fail, one after the other: the k-th allocation, mapping, descriptor, message, thread, call of the GPU's driver.

usage: walk.py --top-build DIR --build DIR [--full] [walk...]

Each walk is one process and one kind of call (WALKS). In a short run a walk ends after the k of its last column, with
--full only when a step meets no failure any more. The last line counts the walks. What each failure must keep is in
steps.c; here: nobody crashes, the broker has the same descriptors, workers and blocks of memory as before, and serves the
next program.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
from page import KINDS, Page  # noqa: E402
from rig import Fault, Setup, children, fd_count, find, need, wait_until  # noqa: E402

# Process, kind of failing call, last k in a short run.
WALKS = [("libcuda", kind, 100) for kind in ("memory", "mapping", "socket", "descriptor", "thread", "send", "receive", "open")] + \
        [("start", kind, 100) for kind in ("memory", "mapping", "socket", "descriptor", "thread", "send", "receive", "open")] + \
        [("worker", kind, 40) for kind in ("memory", "mapping", "descriptor", "thread", "send", "receive", "open")] + \
        [("provider", "provider", 100)] + \
        [("broker", kind, 6) for kind in ("memory", "mapping", "socket", "descriptor", "process", "watch", "send", "receive")]
MOST_DEATHS = 60  # of workers in one walk


class Walk:
    def __init__(self, args, folder, who, kind, most):
        self.args, self.folder, self.who, self.kind, self.most = args, folder, who, kind, most
        self.page = Page(folder)
        self.inject = os.path.join(args.build, "inject.so")
        self.steps = os.path.join(args.build, "steps")
        self.setup = Setup(args, folder)
        self.failures = self.deaths = 0

    def start(self):
        """The backend, and inject.so in front of the process that is walked through."""
        options = ["--pool", "0"]
        if self.who in ("worker", "provider"):
            real = os.path.join(os.path.dirname(self.args.backend), "vgpu-worker")
            options += ["--worker", self.page.worker(self.folder, self.inject, real)]
        if self.who == "provider":
            for part in (os.path.join(self.args.build, "libfail.so"),
                         os.path.join(self.args.top_build, "host/softgpu/libcuda-soft.so.1")):
                shutil.copy(part, self.folder)
            options += ["--provider", os.path.join(self.folder, "libfail.so")]
        if self.who == "broker":
            self.setup.env = self.page.environment(self.inject)
        self.setup.start(*options)
        self.works()
        self.setup.baseline = 0  # the first one was to ask the GPU
        self.setup.back_to_baseline(20)

    def run(self, *command, preload=False):
        env = self.setup.environment()
        if preload:
            env.update(self.page.environment(self.inject))
        done = subprocess.run([self.steps, *command], env=env, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def works(self):
        status, text = self.run("once")
        need(status == 0, "the next program: status %d: %s" % (status, text.strip()[-300:]))

    def through_steps(self):
        """Programs that walk; a new one goes on where one has lost its worker."""
        how = {"libcuda": "own", "start": "init"}.get(self.who, "other")
        at = []
        while True:
            status, text = self.run(how, self.page.path, str(KINDS[self.kind]), str(self.most), *at, preload=how != "other")
            self.page.disarm()
            wrong = [line for line in text.splitlines() if line.startswith("FAIL")]
            need(not wrong, "; ".join(wrong[:4]))
            last = text.strip().splitlines()[-1].split() if text.strip() else [""]
            if status == 0 and last[0] == "walked":
                self.failures += int(last[1])
                return
            need(status == 3 and last[0] == "died" and how == "other", "status %d: %s" % (status, text.strip()[-300:]))
            self.deaths += 1
            need(self.deaths <= MOST_DEATHS, "%d programs have lost their worker or their context" % self.deaths)
            self.failures += 1
            at = [last[1], str(int(last[2]) + 1)]

    def through_starts(self):
        """One program after another, while the broker fails."""
        s = self.setup
        # The first failure allocates memory for good: the stack of the thread that closes files, kept by the C library,
        # and the array of their list.
        self.page.arm(self.kind, 1)
        self.run("once")
        self.page.disarm()
        self.works()
        s.back_to_baseline(20)
        live = self.page.live()
        for k in range(1, self.most + 1):
            self.page.arm(self.kind, k)
            status, text = self.run("once")
            fired = self.page.disarm()
            need(s.backend.poll() is None, "failure %d: the broker has ended" % k)
            need(status in (0, 1), "failure %d: the program: status %d: %s" % (k, status, text.strip()[-300:]))
            need(status == 0 or fired, "failure %d: the program fails of nothing: %s" % (k, text.strip()[-300:]))
            self.works()
            need(wait_until(lambda: s.workers() == s.baseline and self.page.live() <= live, 10),
                 "failure %d: %d workers and %d blocks of memory, %d and %d before" %
                 (k, s.workers(), self.page.live(), s.baseline, live))
            self.failures += bool(fired)
            if not fired:
                return

    def whole(self):
        self.start()
        s = self.setup
        before = fd_count(s.backend.pid)
        if self.who == "broker":
            self.through_starts()
        else:
            self.through_steps()
        s.alive()
        self.works()
        s.back_to_baseline(20)
        need(wait_until(lambda: fd_count(s.backend.pid) <= before, 10),
             "descriptors of the broker: %d before, %d after" % (before, fd_count(s.backend.pid)))
        with open(os.path.join(self.folder, "backend.log"), errors="replace", encoding="utf-8") as f:
            crashed = [line.strip() for line in f if "ended by signal" in line and "(Killed)" not in line]
        need(not crashed, "a worker has crashed: " + "; ".join(crashed[:3]))


def run_walk(args, who, kind, most):
    folder = tempfile.mkdtemp(prefix="vgpu-inject-")
    os.chmod(folder, 0o755)
    walk = Walk(args, folder, who, kind, most)
    why, began = None, time.monotonic()
    try:
        walk.whole()
    except Fault as e:
        why = str(e)
    except subprocess.TimeoutExpired:
        why = "the program does not end"
    finally:
        kept = walk.setup.stop()
        why = why or kept
        walk.setup.log.close()
    if why:
        print("FAIL: inject %s %s: %s" % (who, kind, why))
        with open(os.path.join(folder, "backend.log"), errors="replace", encoding="utf-8") as f:
            sys.stdout.write("".join("  backend: " + line for line in f.readlines()[-6:]))
    else:
        print("%s, %s: %d failures, %d programs ended by them, %.1f s" %
              (who, kind, walk.failures, walk.deaths, time.monotonic() - began), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--top-build", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("walk", nargs="*", help="WHO or WHO/KIND")
    args = parser.parse_args()
    args.backend = find(os.path.join(args.top_build, "host"), "vgpu-backend")
    libcuda = find(os.path.join(args.top_build, "userspace"), "libcuda.so.1", False)
    args.libcuda = libcuda and os.path.dirname(libcuda)
    chosen = [w for w in WALKS if not args.walk or w[0] in args.walk or "%s/%s" % w[:2] in args.walk]
    for what, part in (("vgpu-backend", args.backend), ("libcuda.so.1", args.libcuda),
                       ("the software GPU", find(os.path.join(args.top_build, "host"), "libcuda-soft.so.1", False))):
        if not part:
            for w in chosen:
                print("not run: inject %s %s: %s is not built" % (w[0], w[1], what))
            print("inject: 0 passed, 0 failed, %d skipped" % len(chosen))
            return 0
    failed = sum(bool(run_walk(args, who, kind, 10000 if args.full else most)) for who, kind, most in chosen)
    print("inject: %d passed, %d failed, 0 skipped" % (len(chosen) - failed, failed))
    return failed != 0 or not chosen


if __name__ == "__main__":
    sys.exit(main())
