# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of -device vgpu-cuda with a fake broker and no guest: device_test.py O [NAME...]"""

import os
import subprocess
import sys
import time

from vgputest import Env, Failure, NotRun, TESTS

# They fill TESTS, in this order.
import startup_test
import guest_view_test
import lifecycle_test
import reconnect_test
import fault_test


def run(env_path, names):
    passed = failed = skipped = 0
    for fn in TESTS:
        if names and fn.__name__ not in names:
            continue
        env = Env(env_path)
        start = time.monotonic()
        try:
            fn(env)
            passed += 1
            print("ok      %-45s %5.1f s" % (fn.__name__, time.monotonic() - start), flush=True)
        except NotRun as e:
            skipped += 1
            print("not run: %s: %s" % (fn.__name__, e), flush=True)
        except (Failure, subprocess.SubprocessError, OSError, ValueError, KeyError,
                IndexError) as e:
            failed += 1
            print("FAILED  %s: %s: %s" % (fn.__name__, type(e).__name__, e), flush=True)
        finally:
            env.close()
    return passed, failed, skipped


def main():
    if len(sys.argv) < 2:
        print("usage: device_test.py O [NAME...]", file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(build, "bin/qemu-system-x86_64")):
        print("not run: all: %s/bin/qemu-system-x86_64 is not built (make -C qemu-device)" % build)
        print("qemu-device: 0 passed, 0 failed, %d skipped" % len(TESTS))
        return 0
    passed, failed, skipped = run(build, sys.argv[2:])
    print("qemu-device: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
