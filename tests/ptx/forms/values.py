#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the instructions of lists on a GPU and compares the results: values.py LIBRARY LIST...

The lists' results follow from the PTX ISA alone, so LIBRARY may be the software GPU or NVIDIA's driver.
"""

import ctypes
import os
import sys

import forms


def main(args):
    if len(args) < 2:
        print(__doc__)
        return 2
    cu = forms.Ours(args[0]).cu
    out = ctypes.c_uint64()
    if cu.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(8)):
        raise SystemExit("values: no memory")
    passed = failed = skipped = 0
    software = os.path.basename(args[0]).startswith("libcuda-soft")  # takes every target up to its own
    capability = [ctypes.c_int(), ctypes.c_int()]
    for value, attribute in zip(capability, (75, 76)):
        cu.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
    lines = [line for path in args[1:] for line in open(path, encoding="ascii")]
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        expected, body = line.strip().split(" ", 1)
        target, expected = expected.split(":") if ":" in expected else ("90", expected)
        of_gpu, least = 10 * capability[0].value + capability[1].value, int(target.rstrip("a"))
        if of_gpu < least or (target.endswith("a") and of_gpu != least and not software):
            skipped += 1
            continue
        store = f"ld.param.u64 d7,[P];\nst.global.b{4 * len(expected)} [d7],{'d0' if len(expected) == 16 else 'b0'};"
        text = forms.module([f"mov.b32 u7,%tid.x;\nsetp.eq.u32 p7,u7,0;\n{body}\n@!p7 ret;\n{store}"], target)
        m, f, got = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        r = cu.cuModuleLoadData(ctypes.byref(m), text.encode() + b"\0") or cu.cuModuleGetFunction(ctypes.byref(f), m, b"k")
        if not r:
            params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(out), ctypes.c_void_p))
            r = cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, None, params, None) or \
                cu.cuMemcpyDtoH_v2(ctypes.byref(got), out, ctypes.c_size_t(len(expected) // 2))
            cu.cuModuleUnload(m)
        result = f"error {r}" if r else f"{got.value:0{len(expected)}x}"
        passed += result == expected
        if result != expected:
            failed += 1
            print(f"FAIL: {body} {result}, expected {expected}")
    print(f"values: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
