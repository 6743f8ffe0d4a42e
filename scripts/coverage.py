#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""coverage.py TOP EXPORT SUITES STAMP: the table of coverage by folder, from what `llvm-cov export` wrote. STAMP: date and commit."""
import collections
import json
import os
import sys

FOLDERS = ("host/backend/broker", "host/backend/common", "host/backend/worker", "host/softgpu", "lib", "userspace/libcuda",
           "userspace/libnvidia-ml", "userspace/vgpu")
# Who reads what others wrote: their functions that no test reaches are listed.
BOUNDARIES = ("host/backend/", "lib/link/", "userspace/libcuda/core/")


def folder_of(path):
    if "/generated/" in path:
        return "generated code"
    for name in FOLDERS:
        if path.startswith(name + "/"):
            rest = path[len(name) + 1:].split("/")
            return name + "/" + rest[0] if len(rest) > 1 else name
    return None


def percent(part, whole):
    return "%.1f" % (100.0 * part / whole) if whole else "-"


def main():
    top, export, suites, stamp = os.path.realpath(sys.argv[1]), *sys.argv[2:5]
    with open(export, encoding="utf-8") as f:
        data = json.load(f)["data"][0]
    sums = collections.defaultdict(lambda: [0] * 6)
    for one in data["files"]:
        path = os.path.relpath(os.path.realpath(one["filename"]), top)
        name = folder_of(path)
        if not name or path.startswith("..") or "_test" in path or "/tests/" in path:
            continue
        for i, what in enumerate(("lines", "branches", "functions")):
            sums[name][2 * i] += one["summary"][what]["covered"]
            sums[name][2 * i + 1] += one["summary"][what]["count"]
    reached = collections.defaultdict(int)
    for one in data["functions"]:
        path = os.path.relpath(os.path.realpath(one["filenames"][0]), top)
        if path.startswith(BOUNDARIES) and "/generated/" not in path and "_test" not in path and "/tests/" not in path:
            reached[path, one["name"].split(":")[-1]] += one["count"]
    print("<!-- SPDX-License-" + "Identifier: MIT -->\n# Coverage\n")
    print("%s. %s clang's counters; not counted: native code of the software GPU, the guest driver, the QEMU device. Percent of\n"
          "lines, branches and functions, %d functions in all.\n" % (stamp, suites, sum(v[5] for v in sums.values())))
    print("| folder | lines | branches | functions |\n|---|---|---|---|")
    for name in sorted(sums):
        v = sums[name]
        print("| %s | %s | %s | %s |" % (name, percent(v[0], v[1]), percent(v[2], v[3]), percent(v[4], v[5])))
    total = [sum(v[i] for n, v in sums.items() if n != "generated code") for i in range(6)]
    print("| **without generated code** | %s | %s | %s |" %
          (percent(total[0], total[1]), percent(total[2], total[3]), percent(total[4], total[5])))
    never = sorted(k for k, n in reached.items() if n == 0)
    print("\nFunctions of broker, worker, and libcuda's link and core that nothing reached: %d of %d.\n" % (len(never), len(reached)))
    for path in sorted({p for p, _ in never}):
        print("* %s: %s" % (path, ", ".join("`%s`" % n for p, n in never if p == path)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
