#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Two builds of vgpu-cuda side by side: the same bench, in turn, on the software GPU.

  compare.py --build DIR --with DIR [--rounds N] [--table FILE] [--cuda DIR]

DIR is a build folder (build/). The bench programs come from --build; each round runs them by `vgpu run`
of the one build and of the other, and the next round in the other order, so that a drift of the machine
meets both. Printed for each row: the median of either build, and their ratio with the extremes of the
rounds: a row whose extremes are on one side of 1 differs by more than the machine's noise.
Exits with 1 when a program fails.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SECONDS = 900


def libraries(build):
    """The provider of BUILD, for the rows that call it directly."""
    return os.path.join(build, "host/softgpu/libcuda-soft.so.1")


def commands(args, build, out):
    """What a round runs on BUILD: (name, command, the JSON that it writes). bench is not cut short: its first copies
    touch pages of the ring for the first time, and three samples would show nothing else."""
    programs = os.path.join(args.build, "tests/perf")
    vgpu = [os.path.join(build, "userspace/vgpu/vgpu"), "run", "--gpu", "soft"]
    yield ("bench", vgpu + [os.path.join(programs, "bench"), "--provider", libraries(build)],
           os.path.join(out, "bench.json"))
    for name in ("insn-bench", "soft-bench"):
        yield (name, [os.path.join(programs, name), "--quick", "--provider", libraries(build)],
               os.path.join(out, name + ".json"))
    ggml = os.environ.get("GGML_DIR") or os.path.join(
        args.build, "npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda")
    if os.path.exists(os.path.join(ggml, "libggml-cuda.so")):
        yield ("ggml-bench", vgpu + [os.path.join(programs, "ggml-bench"), "--quick", "--dir", ggml,
                                     "--cuda", args.cuda], os.path.join(out, "ggml.json"))


def run_round(args, build):
    """One round on BUILD: {row: (value, unit)}; None when a program failed."""
    rows = {}
    with tempfile.TemporaryDirectory() as out:
        for name, command, path in commands(args, build, out):
            done = subprocess.run(command + ["--json", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=SECONDS, check=False)
            if not os.path.exists(path):
                print("%s on %s ended with %d:\n%s" % (name, build, done.returncode, done.stdout[-2000:]))
                return None
            with open(path, encoding="utf-8") as file:
                for row, value in json.load(file).items():
                    if not isinstance(value, dict):
                        continue
                    if "value" in value:
                        rows["%s: %s" % (name, row)] = (value["value"], value["unit"])
                        continue
                    for key, number in value.items():  # ggml-bench: several figures of an operation
                        if isinstance(number, (int, float)):
                            rows["%s: %s, %s" % (name, row, key)] = (number, "")
    return rows


def table(ours, others):
    """Lines of Markdown: a row each, the two medians, the ratio and its extremes over the rounds."""
    yield "| row | unit | this build | the other | ratio | of the rounds |"
    yield "|---|---|---|---|---|---|"
    for row, (_, unit) in ours[0].items():
        pairs = [(a[row][0], b[row][0]) for a, b in zip(ours, others) if row in a and row in b]
        if len(pairs) < len(ours) or any(b <= 0 or a <= 0 for a, b in pairs):
            continue
        ratios = sorted(a / b for a, b in pairs)
        yield "| %s | %s | %.4g | %.4g | %.2f | %.2f to %.2f |" % (
            row, unit, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs),
            statistics.median(ratios), ratios[0], ratios[-1])


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True, help="a build folder")
    parser.add_argument("--with", dest="other", required=True, help="the other build folder")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of both builds (5)")
    parser.add_argument("--table", help="write the table to this file as well")
    parser.add_argument("--cuda", default=os.environ.get("CUDA_HOME", "/usr/local/cuda"), help="the CUDA Toolkit")
    args = parser.parse_args()
    args.build, args.other = os.path.abspath(args.build), os.path.abspath(args.other)
    for build in (args.build, args.other):
        if not os.path.exists(libraries(build)):
            sys.exit("%s is not built: no host/softgpu/libcuda-soft.so.1" % build)
    ours, others = [], []
    for i in range(args.rounds):
        order = [(args.build, ours), (args.other, others)]
        for build, into in order if i % 2 == 0 else reversed(order):
            print("round %d of %d: %s" % (i + 1, args.rounds, build), file=sys.stderr, flush=True)
            rows = run_round(args, build)
            if rows is None:
                return 1
            into.append(rows)
    lines = list(table(ours, others))
    print("\n".join(lines))
    if args.table:
        with open(args.table, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
