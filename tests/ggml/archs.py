#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs llama.cpp's test-llama-archs on the GPU, one architecture in a process.

The test makes a small model of an architecture with random weights, lets the GPU and the CPU compute
the logits of 128 tokens, and compares: the normalised mean squared error must be at most 1e-4. It then
writes the model to a file, loads it again, and the logits must be the same, bit for bit.
Its rows become {"arch", "config", "device", "nmse", "error", "roundtrip", "seconds", "detail"}: nmse and
roundtrip are "OK", "FAIL", "SKIP" (by the test's own choice) or "died", device is "GPU", "CPU" or
"Meta" (the GPU through ggml's tensor-parallel device).
"""

import json
import os
import re
import signal
import subprocess
import time

ROW = re.compile(r"^\| *([^|]+?) *\|([^|]*)\| *(Dense|MoE) *\| *(\w*) *(?:\(([^)]*)\))? *\| *(\w*) *\|")
START = re.compile(r"^\| *([^|]+?) *\|([^|]*)\| *(Dense|MoE) *\|")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SEED = "42"


def list_archs(program, env):
    """The architectures that the test knows: without a backend it skips each, by name. ENV preloads
    list.so, which has it print everything."""
    out = subprocess.run([program, "-s", SEED], env=env, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, timeout=60, check=False).stdout
    names = []
    for line in COLOUR.sub("", out).splitlines():
        match = ROW.match(line)
        if match and match.group(1) not in names:
            names.append(match.group(1))
    return names


def _device(label):
    label = label.strip()
    return label if label == "Meta" else "GPU" if "vgpu" in label or "NVIDIA" in label else "CPU"


def run_arch(prefix, program, preload, name, env, timeout):
    """Runs one architecture; returns its rows."""
    started = time.monotonic()
    command = prefix + ["env", "LD_PRELOAD=" + preload, "stdbuf", "-oL", program, "-a", name, "-s", SEED]
    child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")
    hung = False
    try:
        out = child.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        hung = True
        child.terminate()
        try:
            out = child.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out = child.communicate()[0]
    seconds = time.monotonic() - started
    rows, errors, open_row = [], [], None
    for line in COLOUR.sub("", out).splitlines():
        match = ROW.match(line)
        if match:
            arch, label, config, nmse, error, roundtrip = match.groups()
            rows.append({"arch": arch, "config": config, "device": _device(label), "nmse": nmse,
                         "error": error or "", "roundtrip": roundtrip, "detail": ""})
            open_row = None
            continue
        match = START.match(line)
        if match:
            open_row = match
        if re.search(r"error|abort|assert|failed", line, re.I):
            errors.append(line.strip())
    if child.returncode and not any("FAIL" in (row["nmse"], row["roundtrip"]) for row in rows):
        config = open_row.group(3) if open_row else "?"
        device = _device(open_row.group(2)) if open_row else "GPU"
        rows.append({"arch": name, "config": config, "device": device, "nmse": "died", "error": "",
                     "roundtrip": "died", "detail": "took longer than %d s" % timeout if hung else
                     " | ".join(errors[:4])[:500] or "exit status %d" % child.returncode})
    for row in rows:
        row["seconds"] = round(seconds, 2)
    return rows


def load(path):
    """The rows of a file, by architecture."""
    by_arch = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                rows = json.loads(line)
                if rows:
                    by_arch[rows[0]["arch"]] = rows
    return by_arch


def store(path, rows):
    """Adds the rows of one architecture."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(rows) + "\n")
