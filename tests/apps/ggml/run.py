#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""llama.cpp's own tests on the GPU of `vgpu run` or, a few of them, in a guest.

  run.py check --build DIR --cuda DIR [--gpu soft|nvidia]   a sample; the last line sums
  run.py guest ... [--only REGEX] [--seconds N]                  test-llama-archs in guests, all of it; continues
  run.py full  ... [--tables DIR] [--only REGEX] [--seconds N]   every case; continues an earlier run
  run.py tables ... --tables DIR                            writes the tables of what was run

See README.md.
"""

import argparse
import collections
import csv
import os
import re
import shutil
import subprocess
import sys
import time

import archs
import ops
import tables

# Number of cases per operation in `check`, evenly spread over those that the GPU's backend supports.
SAMPLE = 8
# Cases left out of the sample: the reference on the CPU, or the software GPU, takes seconds for each.
SLOW = re.compile(r"(?<![\d.])\d{5,}|n=512,k=2048|n_mats=128|kv=(4096|8192)|LIGHTNING_INDEXER.*nb=512|be1=700"
                  r"|SSM_SCAN.*n_seq_tokens=\d{3}|=\[16,16,8192|=\[36,16,2457|=\[2304,64,64|=\[512,512")
# ggml builds large tables at the first use of these types, so their cases share a process.
TABLES = re.compile(r"iq[123]_")
# Architectures in `check`: families that differ in their operations.
SAMPLE_ARCHS = ["llama", "gpt2", "bloom", "qwen3moe", "mamba2", "t5", "deepseek2", "gemma3", "gpt-oss", "falcon-h1",
                "qwen3next", "llada"]
# Fewer in the guest, whose CPU may be emulated: test-llama-archs computes its weights and its reference there,
# which takes minutes.
GUEST_CASES = 12
GUEST_ARCHS = ["gpt2", "mamba2"]
GUEST_ARCH_SECONDS = 900
CASE_SECONDS = 120
ARCH_SECONDS = 300


class Sums:
    """Passed, failed and not run, printed at the end as run-checks.sh wants it."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def fail(self, text):
        """One failed test."""
        self.failed += 1
        print("FAIL: " + text, flush=True)

    def not_run(self, test, reason):
        """One test that cannot run here."""
        self.skipped += 1
        print("not run: %s: %s" % (test, reason), flush=True)

    def end(self):
        """The last line; the exit status."""
        print("ggml: %d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped))
        return 1 if self.failed else 0


class Place:
    """Where everything is, and the environment of the programs."""

    def __init__(self, args):
        self.build, self.gpu = args.build, args.gpu
        self.out = os.path.join(args.build, "tests", "apps", "ggml")
        self.vgpu = os.path.join(args.build, "userspace", "vgpu", "vgpu")
        self.bin = os.path.join(args.build, "llama", "bin")
        self.backend_ops = os.path.join(self.bin, "test-backend-ops")
        self.llama_archs = os.path.join(self.bin, "test-llama-archs")
        self.list, self.load = (os.path.join(self.out, name) for name in ("list.so", "load.so"))
        self.cuda_lib = os.path.join(args.cuda, "lib64")
        earlier = os.environ.get("LD_LIBRARY_PATH")
        self.env = dict(os.environ, LD_LIBRARY_PATH=self.cuda_lib + (":" + earlier if earlier else ""))
        self.prefix = [self.vgpu, "run", "--gpu", self.gpu]

    def missing(self):
        """What is not there, or None."""
        if not os.access(self.vgpu, os.X_OK):
            return "the vgpu command is not built"
        if self.gpu == "soft" and not os.path.exists(
                os.path.join(self.build, "host", "softgpu", "libcuda-soft.so.1")):
            return "the software GPU is not built"
        for library in ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"):
            if not os.path.exists(os.path.join(self.cuda_lib, library)):
                return "%s has no %s" % (self.cuda_lib, library)
        return None

    def runner(self):
        """For test-backend-ops."""
        return ops.Runner(self.prefix, self.backend_ops, self.list, self.env)

    def listing_env(self):
        """For test-llama-archs -- without a backend."""
        return dict(self.env, LD_PRELOAD=self.list)


def supported_cases(place):
    """The cases that ggml's CUDA backend says it supports on this GPU: the test's own mode for it,
    which leaves out those of several fused operations."""
    out = subprocess.run(place.prefix + [place.backend_ops, "support", "-b", "CUDA0", "--output", "csv"],
                         env=place.env, text=True, stdout=subprocess.PIPE, timeout=300, check=False).stdout
    answers = {}
    for row in csv.DictReader(out.splitlines()):
        answers["%s(%s)" % (row["op_name"], row["op_params"])] = row["supported"] == "1"
    return answers


def spread(items, count):
    """COUNT of ITEMS, evenly spread, the first one among them."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]


def sample(place, count):
    """The sample: {operation: cases}, and the number of cases of each operation."""
    answers = supported_cases(place)
    by_op = collections.OrderedDict()
    totals = collections.Counter()
    for case in ops.list_cases(place.runner()):
        op = ops.operation(case)
        totals[op] += 1
        cases = by_op.setdefault(op, [])
        if answers.get(case, True) and not SLOW.search(case) and case not in cases:
            cases.append(case)
    return {op: spread(cases, count) for op, cases in by_op.items()}, totals


def check_ops(place, sums):
    """A sample of every operation, 60 cases to a process."""
    chosen, totals = sample(place, SAMPLE)
    if not chosen:
        sums.fail("test-backend-ops lists no cases")
        return
    results = collections.defaultdict(list)
    everything = sorted((case for cases in chosen.values() for case in cases), key=lambda case:
                        bool(TABLES.search(case)))
    place.runner().run_batches(everything, CASE_SECONDS, lambda case, status, seconds, detail:
                               results[ops.operation(case)].append((case, status, seconds, detail)))
    for op, cases in chosen.items():
        count = collections.Counter(status for _, status, _, _ in results[op])
        seconds = sum(seconds for _, _, seconds, _ in results[op])
        print("%-30s %2d of %4d cases: %d ok%s, %.1f s" % (
            op, len(cases), totals[op], count["OK"],
            "".join(", %d %s" % (n, status) for status, n in sorted(count.items()) if status != "OK"), seconds))
        sums.passed += count["OK"]
        for case, status, _, detail in results[op]:
            if status not in ("OK", "not supported"):
                sums.fail("%s: %s %s" % (case, status, detail))


def sum_arch(name, rows, sums, where=""):
    """Counts and prints one architecture's rows."""
    gpu = [row for row in rows if row["device"] != "CPU"]
    for row in gpu:
        for what in ("nmse", "roundtrip"):
            if row[what] == "OK":
                sums.passed += 1
            elif row[what] != "SKIP":
                sums.fail("%s%s %s %s: %s %s %s %s" % (where, name, row["config"], row["device"], what, row[what],
                                                       row["error"], row["detail"]))
    if not any(row["nmse"] == "OK" for row in gpu if row["device"] == "GPU"):
        sums.fail("%s%s: the GPU computed nothing" % (where, name))
    print("%-30s %s, %.1f s" % (where + name, ", ".join(
        "%s %s %s" % (row["config"], row["device"], row["error"]) for row in gpu if row["nmse"] == "OK"),
        rows[0]["seconds"] if rows else 0), flush=True)


def check_archs(place, sums):
    """Some architectures: logits and round trip, on the GPU alone and through ggml's Meta device."""
    known = archs.list_archs(place.llama_archs, place.listing_env())
    for name in SAMPLE_ARCHS:
        if name not in known:
            sums.fail("test-llama-archs does not know %s" % name)
            continue
        rows = archs.run_arch(place.prefix, place.llama_archs, place.load, name, place.env, ARCH_SECONDS)
        sum_arch(name, rows, sums)


def guest_missing(place, sums):
    """True, and counted, when no guest can be booted."""
    for part in ("qemu/bin/qemu-system-x86_64", "guest/initrd.cpio", "kernel/vgpu_drv.ko"):
        if not os.path.exists(os.path.join(place.build, part)):
            sums.not_run("guest", "build/%s is not built" % part)
            return True
    return False


def guest_archs(place, names, seconds):
    """Architectures in one guest; {name: rows}."""
    limit = int(seconds * len(names) + 300)
    prefix = [place.vgpu, "vm", "run", "--gpu", place.gpu, "--memory", "3072", "--timeout", str(limit)]
    return archs.run_guest(prefix, place.llama_archs, place.load, names, place.env,
                           os.path.join(place.out, "guest"), seconds)


def check_guest(place, sums):
    """A few operations and architectures in guests: the same programs there."""
    if guest_missing(place, sums):
        return
    chosen, _ = sample(place, 1)
    cases = [case for per_op in chosen.values() for case in per_op]
    cases = spread(cases, GUEST_CASES)
    runner = ops.Runner([place.vgpu, "vm", "run", "--gpu", place.gpu], place.backend_ops, place.list, place.env)
    started = time.monotonic()

    def result(case, status, _, detail):
        if status == "OK":
            sums.passed += 1
        else:
            sums.fail("in the guest: %s: %s %s" % (case, status, detail))
    runner.run(cases, 300, result)
    print("in a guest: %s: %.0f s" % (", ".join(ops.operation(case) for case in cases), time.monotonic() - started))
    for name, rows in guest_archs(place, GUEST_ARCHS, GUEST_ARCH_SECONDS).items():
        sum_arch(name, rows, sums, "in a guest: ")


def guest_full(place, args, sums):
    """Every architecture in guests, a few in each; results are kept as they come, and counted at the end."""
    until = time.monotonic() + args.seconds
    wanted = re.compile(args.only or "")
    path = os.path.join(place.out, "guest-archs.jsonl")
    names = [name for name in archs.list_archs(place.llama_archs, place.listing_env()) if wanted.search(name)]
    if guest_missing(place, sums):
        return
    left = [name for name in names if name not in archs.load(path)]
    while left and time.monotonic() < until:
        some, left = left[:2 * (os.cpu_count() or 1)], left[2 * (os.cpu_count() or 1):]
        for name, rows in guest_archs(place, some, 2 * GUEST_ARCH_SECONDS).items():
            archs.store(path, rows or [{"arch": name, "config": "?", "device": "GPU", "nmse": "SKIP", "error": "",
                                        "roundtrip": "SKIP", "seconds": 0, "detail": "not tested"}])
            print("in a guest: %s: %s" % (name, ", ".join("%s %s" % (row["device"], row["nmse"]) for row in rows)),
                  flush=True)
    done = archs.load(path)
    for name in names:
        for row in done.get(name, []):
            sums.passed += (row["nmse"] == "OK") + (row["roundtrip"] == "OK")
            if not {row["nmse"], row["roundtrip"]} <= {"OK", "SKIP"}:
                sums.fail("in a guest: %s %s %s: %s" % (name, row["config"], row["device"], row["detail"]))
        if name not in done:
            sums.not_run("in a guest: " + name, "no time was left")


def full(place, args):
    """Everything, as far as SECONDS allow; results are kept as they come."""
    os.makedirs(place.out, exist_ok=True)
    until = time.monotonic() + args.seconds
    wanted = re.compile(args.only or "")
    results = ops.Results(os.path.join(place.out, "ops.jsonl"))
    by_op = collections.OrderedDict()
    for case in ops.list_cases(place.runner()):
        if case not in results.by_case and wanted.search(case):
            by_op.setdefault(ops.operation(case), {})[case] = True
    for op, cases in sorted(by_op.items(), key=lambda item: len(item[1])):
        cases = list(cases)
        for i in range(0, len(cases), ops.BATCH):
            if time.monotonic() > until:
                return
            place.runner().run(cases[i:i + ops.BATCH], 900, results.add)
        print("%s: %d cases run" % (op, len(cases)), flush=True)
    path = os.path.join(place.out, "archs.jsonl")
    done = archs.load(path)
    for name in archs.list_archs(place.llama_archs, place.listing_env()):
        if name in done or time.monotonic() > until or not wanted.search(name):
            continue
        archs.store(path, archs.run_arch(place.prefix, place.llama_archs, place.load, name, place.env, 600))
        print(name, flush=True)


def write_tables(place, folder):
    """docs/results."""
    os.makedirs(folder, exist_ok=True)
    results = ops.Results(os.path.join(place.out, "ops.jsonl"))
    with open(os.path.join(folder, "test-backend-ops.md"), "w", encoding="utf-8") as file:
        file.write(tables.ops_table(ops.list_cases(place.runner()), results.by_case, place.gpu))
    rows = archs.load(os.path.join(place.out, "archs.jsonl"))
    with open(os.path.join(folder, "llama-archs.md"), "w", encoding="utf-8") as file:
        file.write(tables.archs_table(archs.list_archs(place.llama_archs, place.listing_env()), rows, place.gpu))


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["check", "full", "guest", "tables"])
    parser.add_argument("--build", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--gpu", default="soft", choices=["soft", "nvidia"])
    parser.add_argument("--tables")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    place = Place(args)
    sums = Sums()
    reason = place.missing()
    if reason or not shutil.which("stdbuf"):
        sums.not_run("ggml", reason or "there is no stdbuf")
        return sums.end()
    if args.mode == "check":
        check_ops(place, sums)
        check_archs(place, sums)
        check_guest(place, sums)
        return sums.end()
    if args.mode == "guest":
        guest_full(place, args, sums)
        return sums.end()
    if args.mode == "full":
        full(place, args)
    if args.tables:
        write_tables(place, args.tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
