#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fatbin_keep.py ARCH FROM TO: copies a library with GPU code, and keeps of that code the PTX for ARCH (90) only.

Each fat binary in the file keeps its place; behind its one entry there are zeros, which packing makes small. A fat
binary without such PTX stays as it is. Prints how many were changed. Exit status 1: none was.
"""
import struct
import sys

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # version 1, a header of 16 bytes
PTX = 1


def entries(data, at, end):
    """(kind, arch, first byte, one behind the last byte) of each entry."""
    while at + 32 <= end:
        kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
        arch = struct.unpack_from("<I", data, at + 28)[0]
        if header < 32 or at + header + size > end:
            return
        yield kind, arch, at, at + header + size
        at += header + size


def keep(data, arch):
    changed, at = 0, data.find(MAGIC)
    while at >= 0:
        first, total = at + 16, struct.unpack_from("<Q", data, at + 8)[0]
        end = first + total
        if end > len(data):
            at = data.find(MAGIC, first)
            continue
        for kind, is_for, begin, behind in entries(data, first, end):
            if kind == PTX and is_for == arch:
                wanted = bytes(data[begin:behind])
                data[first:end] = wanted + bytes(total - len(wanted))
                struct.pack_into("<Q", data, at + 8, len(wanted))
                changed += 1
                break
        at = data.find(MAGIC, end)
    return changed


def main():
    if len(sys.argv) != 4 or not sys.argv[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[2], "rb") as file:
        data = bytearray(file.read())
    changed = keep(data, int(sys.argv[1]))
    with open(sys.argv[3], "wb") as file:
        file.write(data)
    print(f"{changed} fat binaries")
    return 0 if changed else 1


if __name__ == "__main__":
    sys.exit(main())
