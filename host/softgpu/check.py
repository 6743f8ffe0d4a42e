#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the folder's test programs and sums up what they say.

usage: check.py BUILD_DIR PROGRAM...

Reads cmocka's lines. A program that ends by a signal, or that fails without saying which test did,
or that runs none, counts as one failure. The last line is "host/softgpu: N passed, M failed, K skipped".
"""
import os
import re
import subprocess
import sys

OWN_SUM = re.compile(r"^\S+: \d+ passed, \d+ failed, \d+ skipped\n", re.M)  # counted in ours
LIMIT_S = 300  # no single program needs more than a few seconds on an idle machine


def environment():
    """VGPU_TEST_PRELOAD: a library that selects tests (tests/runner/filter.c)."""
    preload = os.environ.get("VGPU_TEST_PRELOAD")
    return dict(os.environ, LD_PRELOAD=preload, ASAN_OPTIONS="verify_asan_link_order=0") if preload else None


def main():
    passed = failed = skipped = 0
    for name in sys.argv[2:]:
        try:
            done = subprocess.run([os.path.join(sys.argv[1], name)], env=environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, timeout=LIMIT_S, errors="replace")
            out, rc = done.stdout, done.returncode
        except subprocess.TimeoutExpired as e:
            out = (e.stdout or b"").decode(errors="replace") + "\ntimed out\n"
            rc = -1
        sys.stdout.write(OWN_SUM.sub("", out))
        f = len(re.findall(r"^\[  FAILED  \] \w+$", out, re.M)) // 2  # said twice per test
        s = len(re.findall(r"^\[  SKIPPED \] \w+$", out, re.M)) // 2
        p = len(re.findall(r"^\[       OK \] ", out, re.M))
        passed += p
        if not p + f + s and not rc and not os.environ.get("VGPU_TEST_PRELOAD"):
            print("FAIL: %s ran no test" % name)
            f = 1
        if rc != 0 and not f:
            print("%s: ended with %d" % (name, rc))
            f = 1
        failed += f
        skipped += s
    print("host/softgpu: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
