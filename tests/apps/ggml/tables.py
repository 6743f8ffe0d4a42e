#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The pages in docs/results about llama.cpp's own tests."""

import collections
import os
import subprocess

import ops

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts", "results.py")
GPUS = {"soft": "the software GPU (compute capability 8.0)", "nvidia": "an NVIDIA GPU"}


def stamp():
    """Date and commit, as every page of results names them."""
    return subprocess.run([RESULTS, "stamp"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def ops_table(cases, by_case, gpu):
    """The page about test-backend-ops: CASES are all, in the test's order, some more than once."""
    rows = collections.OrderedDict()
    seconds = collections.Counter()
    problems = []
    for case in cases:
        op = ops.operation(case)
        row = rows.setdefault(op, collections.Counter())
        row["cases"] += 1
        entry = by_case.get(case)
        status = entry["status"] if entry else "not run"
        row[status if status in ("OK", "not supported", "not run") else "failed"] += 1
        if entry and status != "not supported":
            seconds[op] += entry["seconds"]
        if status not in ("OK", "not supported", "not run"):
            problems.append("* `%s`: %s %s" % (case, status, entry["detail"].replace("\n", " ")))
    total = collections.Counter()
    for row in rows.values():
        total.update(row)
    out = ["# test-backend-ops", "",
           "llama.cpp's own test of every operation of ggml (v0.5.0 of node-llama-cpp 3.22.1), unmodified, with the CUDA",
           "backend as it is distributed, on %s over the socket" % GPUS[gpu],
           "transport: each result is compared with ggml's reference on the CPU, with the test's own bounds.",
           "Written by `make -C tests/apps/ggml full` (see tests/apps/ggml/README.md), %s." % stamp(), "",
           "%d cases; of these ggml's CUDA backend declares %d as not supported; %d passed, %d failed, %d were not run." % (
               total["cases"], total["not supported"], total["OK"], total["failed"], total["not run"]), "",
           "Seconds are those of the test program, CPU reference included, on a machine busy with other work: an order of",
           "magnitude, not a benchmark.", "",
           "| operation | cases | not supported by the backend | passed | failed | not run | seconds |",
           "|---|---:|---:|---:|---:|---:|---:|"]
    for op, row in rows.items():
        out.append("| %s | %d | %d | %d | %d | %d | %.0f |" % (
            op, row["cases"], row["not supported"], row["OK"], row["failed"], row["not run"], seconds[op]))
    out.append("| **all** | %d | %d | %d | %d | %d | %.0f |" % (
        total["cases"], total["not supported"], total["OK"], total["failed"], total["not run"], sum(seconds.values())))
    if problems:
        out += ["", "## Failed", ""] + problems
    slow = sorted((entry for case, entry in by_case.items() if entry["status"] == "OK"),
                  key=lambda entry: -entry["seconds"])[:10]
    out += ["", "## The slowest", ""] + ["* %.0f s: `%s`" % (entry["seconds"], entry["case"]) for entry in slow]
    return "\n".join(out) + "\n"


def archs_table(names, by_arch, gpu):
    """The page about test-llama-archs."""
    out = ["# test-llama-archs", "",
           "llama.cpp's own test of every model architecture (v0.5.0 of node-llama-cpp 3.22.1), on",
           "%s over the socket transport: a small model with" % GPUS[gpu],
           "random weights, logits of 128 tokens; the normalised mean squared error against the CPU must be at most 1e-4.",
           "*Round trip*: the model, written to a file and loaded again, has the same logits, bit for bit. *Meta*: the error",
           "through ggml's tensor-parallel device. `-`: skipped by the test itself. Written by",
           "`make -C tests/apps/ggml full`, %s." % stamp(), ""]
    table, problems = [], []
    count = collections.Counter()
    for name in names:
        rows = by_arch.get(name)
        if not rows:
            count["not run"] += 1
            table.append("| %s | | not run | | | |" % name)
            continue
        by_config = collections.OrderedDict()
        for row in rows:
            if row["device"] != "CPU":
                by_config.setdefault(row["config"], {})[row["device"]] = row
        for config, devices in by_config.items():
            gpu_row, meta = devices.get("GPU"), devices.get("Meta")
            cells = [_cell(gpu_row, "nmse"), _cell(gpu_row, "roundtrip"), _cell(meta, "nmse")]
            for row, what in ((gpu_row, "nmse"), (gpu_row, "roundtrip"), (meta, "nmse")):
                if row and row[what] == "OK":
                    count["passed"] += 1
                elif row and row[what] != "SKIP":
                    count["failed"] += 1
                    problems.append("* %s %s %s, %s: %s %s" % (name, config, row["device"], what, row[what], row["detail"]))
            if gpu_row and gpu_row["nmse"] != "SKIP":
                count["models"] += 1
            table.append("| %s | %s | %s | %.1f |" % (name, config, " | ".join(cells), rows[0]["seconds"]))
    out += ["%d architectures, of which %d models ran: %d comparisons passed, %d failed; %d architectures were not run." % (
        len(names), count["models"], count["passed"], count["failed"], count["not run"]), "",
            "| architecture | model | error | round trip | Meta | seconds |", "|---|---|---:|---|---:|---:|"] + table
    if problems:
        out += ["", "## Failed", ""] + problems
    return "\n".join(out) + "\n"


def _cell(row, what):
    """One result as a cell."""
    if not row or row[what] in ("SKIP", ""):
        return "-"
    if row[what] != "OK":
        return "**%s** %s" % (row[what], row["error"] if what == "nmse" else "")
    return row["error"] if what == "nmse" else "OK"
