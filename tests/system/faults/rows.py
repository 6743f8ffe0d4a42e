#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The 39 faults that the system must survive, a row each: `make faults`.

usage: rows.py --top-build DIR --build DIR [--short] [--cycles F] [--guest auto|no] [ROW...]

Each row provokes its fault beside a victim, a process on the same backend that computes and compares
its results, and checks what the row demands. It prints `row NN: result, cycles: what`. The table of all
rows comes at the end, and as BUILD/faults.md and BUILD/faults.json. The rows themselves are
rows_*.py; --list prints them. --short is what `make test` runs: few cycles, no guest. --cycles
multiplies the number of cycles of the long form (default 1). The last line counts the rows.
"""
import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time

from bench import Bench, NotRun, ROWS
from rig import Fault, find
import faults
import rows_guest
import rows_host
import rows_process
import rows_ring

assert rows_guest and rows_host and rows_process and rows_ring  # they fill ROWS


def run_row(row, args):
    x = Bench(args, row)
    began = time.monotonic()
    result, why = "ok", ""
    print("row %02d: %s. Required: %s. %s" % (row.number, row.fault, row.required, row.how), flush=True)
    try:
        row.function(x)
    except NotRun as e:
        result, why = "not run", str(e)
    except Fault as e:
        result, why = "FAILED", str(e)
    except Exception as e:  # a row's own fault must not hide the other rows
        result, why = "FAILED", "%s: %s" % (type(e).__name__, e)
    finally:
        x.close(result == "FAILED")
    if result == "ok" and not x.cycles:
        result = "not run" if x.left_out else "FAILED"
        why = "; ".join(x.left_out) or "nothing was done"
    why = " ".join(why.split())
    if result == "FAILED":
        print("FAIL: faults.%02d: %s" % (row.number, why))
    if result == "not run" and not x.left_out:
        x.leave_out(why)
    print("row %02d: %s, %d cycles (%.0f s)%s" % (row.number, result, x.cycles, time.monotonic() - began,
                                                  ": " + why if why else ""), flush=True)
    return {"row": row.number, "fault": row.fault, "required": row.required, "how": row.how,
            "cycles": x.cycles, "result": result, "why": why, "not_run": x.left_out, "said": x.said}


def table(done):
    lines = ["| row | fault | cycles | result |", "|---|---|---|---|"]
    for d in done:
        result = d["result"] + (": " + d["why"] if d["why"] and d["result"] != "ok" else "")
        if d["result"] == "ok" and d["not_run"]:
            result += "; not run: " + "; ".join(d["not_run"])
        lines.append("| %02d | %s | %d | %s |" % (d["row"], d["fault"], d["cycles"], result))
    return "\n".join(lines)


def write(args, done, counts):
    head = {"date": datetime.date.today().isoformat(), "machine": "%s, %d processors, Linux %s"
            % (platform.machine(), os.cpu_count(), platform.release()), "form": "short" if args.short else "long",
            "cycles": args.cycles, "rows": len(done), "passed": counts["ok"], "failed": counts["FAILED"],
            "not_run": counts["not run"]}
    with open(os.path.join(args.build, "faults.json"), "w") as f:
        json.dump(dict(head, table=done), f, indent=1)
    with open(os.path.join(args.build, "faults.md"), "w") as f:
        f.write("%(date)s, %(machine)s, %(form)s form, cycles x %(cycles)g: %(rows)d rows, %(passed)d passed, "
                "%(failed)d failed, %(not_run)d not run\n\n" % head + table(done) + "\n")


def old_tests(args, done):
    """What faults.py tests beyond the rows."""
    passed = failed = 0
    for t in faults.TESTS:
        name = t.__name__[5:]
        if name in args.tests_run:
            continue
        why = faults.run_test(args, t)
        passed += not why
        failed += bool(why)
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--top-build", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--cycles", type=float, default=1)
    parser.add_argument("--guest", default="auto", choices=("auto", "no"))
    parser.add_argument("--accel", default="auto")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("row", nargs="*", type=int)
    args = parser.parse_args()
    if args.list:
        for n in sorted(ROWS):
            print("%02d %s. Required: %s. %s" % (n, ROWS[n].fault, ROWS[n].required, ROWS[n].how))
        return 0
    assert sorted(ROWS) == list(range(1, 40)), "a row is missing"
    args.top = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
    faults.complete(args)
    args.scratch = tempfile.mkdtemp(prefix="vgpu-rows-")
    args.memo, args.tests_run = {}, set()
    done = []
    for number in args.row or sorted(ROWS):
        if not args.libcuda or not args.backend:
            print("not run: faults %02d: vgpu-backend or libcuda.so.1 is not built" % number)
            done.append({"row": number, "fault": ROWS[number].fault, "cycles": 0, "result": "not run",
                         "why": "not built", "not_run": [], "said": []})
            continue
        done.append(run_row(ROWS[number], args))
        write(args, done, {k: sum(d["result"] == k for d in done) for k in ("ok", "FAILED", "not run")})
    passed, failed = old_tests(args, done) if not args.row and args.backend and args.libcuda else (0, 0)
    counts = {k: sum(d["result"] == k for d in done) for k in ("ok", "FAILED", "not run")}
    print("\n" + table(done) + "\n")
    parts = sum(len(d["not_run"]) for d in done)
    print("faults: %d passed, %d failed, %d skipped" % (counts["ok"] + passed, counts["FAILED"] + failed,
                                                       max(parts, counts["not run"])))
    os.rmdir(args.scratch) if not os.listdir(args.scratch) else None
    return counts["FAILED"] + failed != 0


if __name__ == "__main__":
    sys.exit(main())
