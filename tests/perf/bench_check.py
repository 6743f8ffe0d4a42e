#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counters of what `make bench` measures, against committed limits (limits.txt).

  bench_check.py --build DIR --bench DIR [--limits FILE] [--show]

Runs the parts of `counters` over the socket with two numbers of rounds; the difference of what libcuda
counts (VGPU_STATS), for one round, is compared. No times: the counters do not depend on the machine. Each limit has a
control: what turns its optimisation off, or makes the work more. The part runs with it once more and must exceed
the limit: so a limit that nothing could exceed is found as well. --show prints all counters and compares nothing.
"""

import argparse
import os
import re
import subprocess
import sys

ROUNDS = 100
# Sleeps of the worker and doorbells also depend on the scheduler: a limit holds if it holds in one of this many runs.
TRIES = 3


# Variables that a limit's control may set; none may be inherited from the environment.
SWITCHES = ("VGPU_OWE_WAITS", "VGPU_ANSWER_QUERIES", "VGPU_POST_CAPTURED", "VGPU_POST_NODES", "VGPU_PARK_FREES",
            "CUDA_LAUNCH_BLOCKING", "VGPU_STAGING_PIECE", "VGPU_STREAM_COPIES", "VGPU_TEST_POLL", "COUNTERS_AS")


def environment(switch):
    """That of a run with the settings of a control, NAME=VALUE[,NAME=VALUE...]; None: without."""
    env = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    env["VGPU_STATS"] = "1"
    for setting in switch.split(",") if switch else ():
        name, value = setting.split("=", 1)
        if name not in SWITCHES:
            raise SystemExit("limits.txt: %s is not among the switches of bench_check.py" % name)
        env[name] = value
    return env


def stats(args, part, rounds, switch):
    """What VGPU_STATS prints for so many rounds: {counter: number}; None, with a line, when the part fails."""
    env = environment(switch)
    done = subprocess.run([os.path.join(args.build, "userspace/vgpu/vgpu"), "run", "--gpu", "soft",
                           os.path.join(args.bench, "counters"), part, str(rounds)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env=env, check=False)
    line = re.search(r"^vgpu-stats: (.*)$", done.stdout, re.M)
    if done.returncode or not line:
        print("FAIL: %s ended with %d: %s" % (part, done.returncode, done.stdout[-500:]))
        return None
    return {name: int(value) for name, value in (word.split("=") for word in line.group(1).split())}


def a_round(args, part, switch=None):
    """The same for one round; "start" is what a program has cost before the first."""
    few = stats(args, part, 0 if part == "start" else ROUNDS, switch)
    if part == "start" or few is None:
        return few
    many = stats(args, part, 2 * ROUNDS, switch)
    return many and {name: (many[name] - few[name]) / ROUNDS for name in many}


def read_limits(path):
    """The lines of limits.txt: (part, counter, limit, control, or None where it says "-")."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                part, counter, limit, switch = words
                yield part, counter, float(limit), None if switch == "-" else switch


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--bench", required=True, help="the folder of `counters`")
    parser.add_argument("--limits", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "limits.txt"))
    parser.add_argument("--show", action="store_true", help="print the counters, compare nothing")
    args = parser.parse_args()
    known, passed, failed = {}, 0, 0

    def counters(part, switch=None):
        if (part, switch) not in known:
            known[part, switch] = a_round(args, part, switch)
        return known[part, switch] or {}

    def first(part, switch, counter, holds):
        """The counter of the first run in which it is as it should be, else of the last; and whether it is."""
        for _ in range(TRIES):
            got = counters(part, switch).get(counter)
            if got is not None and holds(got):
                return got, True
            known.pop((part, switch), None)
        return got, False

    for part, counter, limit, switch in read_limits(args.limits):
        if args.show:
            print(part, counters(part))
            continue
        got, ok = first(part, None, counter, lambda value, limit=limit: value <= limit)
        print("%s%s: %s %s a round, at most %g" % ("ok - " if ok else "FAIL: ", part, got, counter, limit))
        passed, failed = passed + ok, failed + (not ok)
        if not switch:
            print("FAIL: %s: the limit of %s has no control" % (part, counter))
            failed += 1
        else:
            got, ok = first(part, switch, counter, lambda value, limit=limit: value > limit)
            print("%s%s: %s with %s, more than %g" % ("ok - " if ok else "FAIL: ", part, got, switch, limit))
            passed, failed = passed + ok, failed + (not ok)
    print("bench-check: %d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
