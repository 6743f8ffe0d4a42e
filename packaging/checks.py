# SPDX-License-Identifier: MIT
"""The checks of one test program: a line each, counted."""
import sys

passed = failed = skipped = 0


def report(name, ok, detail=""):
    """A check; detail: what is shown of one that failed. Returns ok."""
    global passed, failed
    if ok:
        passed += 1
        print("ok - " + name, flush=True)
    else:
        failed += 1
        print("FAIL: %s: %s" % (name, str(detail)[-1500:]), flush=True)
    return ok


def skip(name, why):
    """A check that cannot be made here."""
    global skipped
    skipped += 1
    print("not run: %s: %s" % (name, why), flush=True)


def end(name):
    """The sum; the exit status of the program."""
    print("%s: %d passed, %d failed, %d skipped" % (name, passed, failed, skipped), flush=True)
    return failed != 0
