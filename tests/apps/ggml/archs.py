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
import shlex
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
    return _rows(name, out, child.returncode, time.monotonic() - started,
                 "took longer than %d s" % timeout if hung else "")


# In the guest: a process per architecture, as many at once as there are processors.
GUEST = """#!/bin/bash
cd "$(dirname "$0")" || exit 1
export VGPU_TEST_GPU_ONLY=1 LD_PRELOAD=%(preload)s
one() {
    start=$SECONDS
    timeout %(timeout)d stdbuf -oL %(program)s -a "$1" -s %(seed)s > "$1.txt" 2>&1 < /dev/null
    echo "$? $((SECONDS - start))" > "$1.end"
}
export -f one
printf '%%s\\n' %(names)s | xargs -P "$(nproc)" -I{} bash -c 'one {}'
"""


def run_guest(prefix, program, preload, names, env, folder, timeout):
    """Runs architectures in one guest (PREFIX starts it), on the GPU only; returns {name: rows}. FOLDER is
    shared with the guest. TIMEOUT is for each of them."""
    os.makedirs(folder, exist_ok=True)
    for name in names:
        for end in (".txt", ".end"):
            if os.path.exists(os.path.join(folder, name + end)):
                os.unlink(os.path.join(folder, name + end))
    script = os.path.join(folder, "guest.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(GUEST % {"preload": shlex.quote(preload), "program": shlex.quote(program), "timeout": timeout,
                            "seed": SEED, "names": " ".join(shlex.quote(name) for name in names)})
    done = subprocess.run(prefix + ["/bin/bash", script], env=env, cwd=folder, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
    result = {}
    for name in names:
        try:
            with open(os.path.join(folder, name + ".txt"), encoding="utf-8", errors="replace") as file:
                out = file.read()
            with open(os.path.join(folder, name + ".end"), encoding="utf-8") as file:
                status, seconds = file.read().split()
        except (OSError, ValueError):
            out, status, seconds = done.stdout, done.returncode or 1, 0
        result[name] = _rows(name, out, int(status), float(seconds),
                             "took longer than %d s" % timeout if int(status) == 124 else "")
    return result


def _rows(name, out, status, seconds, hung):
    """The rows of the table that the test printed, and one for a process that did not end well."""
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
    if status and not any("FAIL" in (row["nmse"], row["roundtrip"]) for row in rows):
        config = open_row.group(3) if open_row else "?"
        device = _device(open_row.group(2)) if open_row else "GPU"
        rows.append({"arch": name, "config": config, "device": device, "nmse": "died", "error": "",
                     "roundtrip": "died", "detail": hung or " | ".join(errors[:4])[:500] or
                     "exit status %d" % status})
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
