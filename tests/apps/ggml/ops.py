#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs cases of llama.cpp's test-backend-ops on the GPU, in processes of bounded size.

A case is the test's own line: OPERATION(parameters). The test is not changed: cases are chosen with
its option -o. A process gets some cases; when it dies or hangs, the case that it had
not answered counts as failed and the rest go to a new process. Results are lines of JSON:
{"case", "status", "seconds", "detail"}, with the status "OK", "FAIL" (a wrong result), "died",
"timeout", or "not supported" (ggml's backend declares so before anything runs).
"""

import json
import os
import re
import select
import subprocess
import time

LINE = re.compile(r"^  ([A-Z0-9_]+\(.*\)): (.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BATCH = 60  # the test compares every case of its own with every case asked for


def list_cases(runner):
    """All cases of the test, in its order: nothing is run, because the preloaded library answers
    for ggml that no operation is supported, which the test reports case by case."""
    if not os.path.exists(runner.listing_library):  # without it, every case would run, which takes days
        raise FileNotFoundError("%s is not built" % runner.listing_library)
    out = subprocess.run(runner.command(["test", "-b", "CPU"]), env=runner.listing_env(), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300, check=False)
    cases = []
    for line in out.stdout.splitlines():
        match = LINE.match(COLOUR.sub("", line))
        if match:
            cases.append(match.group(1))
    return cases


def operation(case):
    """The operation's name."""
    return case[:case.index("(")]


class Runner:
    """How the test is started: PREFIX (vgpu run ...), the program, the environment."""

    def __init__(self, prefix, program, listing_library, env):
        self.prefix, self.program, self.listing_library, self.env = prefix, program, listing_library, env

    def command(self, args):
        """The command line; without the prefix for the reference on the CPU."""
        return [self.program] + args

    def listing_env(self):
        """The environment in which the test only lists."""
        return dict(self.env, LD_PRELOAD=self.listing_library)

    def run(self, cases, timeout, result):
        """Runs CASES (distinct, at most BATCH), calls RESULT(case, status, seconds, detail)."""
        left = list(cases)
        while left:
            left = self._process(left, timeout, result)

    def run_batches(self, cases, timeout, result):
        """The same for any number of cases."""
        for i in range(0, len(cases), BATCH):
            self.run(cases[i:i + BATCH], timeout, result)

    def _process(self, cases, timeout, result):
        """One process. TIMEOUT: seconds for a case. Returns the cases that another must run."""
        # Line buffering, so that the output of a crashing process is complete.
        command = self.prefix + ["stdbuf", "-oL"] + self.command(["test", "-b", "CUDA0", "-o", ",".join(cases)])
        child = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        wanted, text, noise = set(cases), b"", []
        last, hung = time.monotonic(), False
        while True:
            # The first case's time includes the start of the process.
            ready = select.select([child.stdout], [], [], max(0.0, last + timeout - time.monotonic()))[0]
            data = os.read(child.stdout.fileno(), 65536) if ready else b""
            if not data:
                hung = not ready
                break
            text += data
            *lines, text = text.split(b"\n")
            for raw in lines:
                line = COLOUR.sub("", raw.decode(errors="replace")).rstrip("\r")
                match = LINE.match(line)
                if not match or match.group(1) not in wanted:
                    noise.append(line)
                    continue
                now = time.monotonic()
                status, detail = self._status(match.group(2))
                result(match.group(1), status, now - last, detail)
                wanted.discard(match.group(1))
                last = now
        if hung:
            child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
        left = [case for case in cases if case in wanted]
        if not left:
            return []
        noise.append(text.decode(errors="replace"))
        errors = [line.strip() for line in noise if re.search(r"error|abort|assert|vgpu", line, re.I)]
        result(left[0], "timeout" if hung else "died", time.monotonic() - last,
               " | ".join(errors[-4:])[:600] or "exit status %d" % child.returncode)
        return left[1:]

    @staticmethod
    def _status(text):
        """The words after the colon: "OK", "FAIL", "not supported [CUDA0]", with the error before them."""
        if "not supported" in text:
            return "not supported", ""
        if text.strip() == "OK":
            return "OK", ""
        return "FAIL", text.strip()[:300]


class Results:
    """A file of results that a later run continues."""

    def __init__(self, path):
        self.path, self.by_case = path, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    self.by_case[entry["case"]] = entry

    def add(self, case, status, seconds, detail):
        """Keeps one result; the last one of a case counts."""
        entry = {"case": case, "status": status, "seconds": round(seconds, 3), "detail": detail}
        self.by_case[case] = entry
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
