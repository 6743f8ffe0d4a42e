# SPDX-License-Identifier: MIT
"""full.py CLIENT: takes the one client of the first backend, and says what CLIENT sees then: by default, and when
it asks for the second backend's device."""

import os
import subprocess
import sys

FIRST = os.environ["VGPU_SOCKET"].split(":")[0]


def main():
    # Occupies the backend's client slot until the end of its input.
    hold = ("import ctypes, sys; cuda = ctypes.CDLL('libcuda.so.1'); "
            "print(cuda.cuInit(0), flush=True); sys.stdin.read()")
    holder = subprocess.Popen([sys.executable, "-c", hold], env=dict(os.environ, VGPU_SOCKET=FIRST),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if holder.stdout.readline().strip() != "0":
        print("FAIL: the first backend cannot be taken")
        return 1
    for chosen in ({}, {"CUDA_VISIBLE_DEVICES": "1"}):
        sys.stdout.flush()
        subprocess.run([sys.argv[1], "cuda"], env=dict(os.environ, **chosen), check=False)
    holder.stdin.close()
    holder.wait()
    return 0


sys.exit(main())
