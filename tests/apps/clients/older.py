# SPDX-License-Identifier: MIT
"""older.py VERSION SYMBOLS LIBCUDA OUT: a copy of our libcuda.so.1 with the names of the driver of an older CUDA.

A program that finds entry points with dlsym sees names there which the driver of its time did not have. Some
take any NAME_v2 for the NAME that they know: Numba calls cuCtxGetDevice_v2, which came with CUDA 13.0 and has
one parameter more, as it would with NVIDIA's own driver of CUDA 13. For them the copy has no symbol that is newer
than VERSION (12040: CUDA 12.4): those of SYMBOLS (protocol/cuda_symbols.tsv) that came later become undefined,
which dlsym does not find. Nothing else differs. With it goes VGPU_DRIVER_VERSION=VERSION.
"""
import struct
import sys

SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, shndx, value, size
SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
SHT_DYNSYM = 11


def newer_names(table, version):
    """The exported symbols that no CUDA up to `version` has, with their per-thread variants."""
    old, new = set(), set()
    for line in open(table, encoding="ascii"):
        if line.startswith("#"):
            continue
        _, since, per_thread, symbol = line.rstrip("\n").split("\t")
        names = {symbol, symbol + "_" + per_thread} if per_thread else {symbol}
        (old if int(since) <= version else new).update(names)
    return new - old


def main():
    version, table, source, target = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    gone = newer_names(table, version)
    image = bytearray(open(source, "rb").read())
    at, entry, count = struct.unpack_from("<Q", image, 0x28)[0], *struct.unpack_from("<HH", image, 0x3A)
    sections = [SECTION.unpack_from(image, at + i * entry) for i in range(count)]
    dynsym = next(s for s in sections if s[1] == SHT_DYNSYM)
    strings = sections[dynsym[6]][4]
    hidden = 0
    for offset in range(dynsym[4], dynsym[4] + dynsym[5], SYMBOL.size):
        name, info, other, _, _, _ = SYMBOL.unpack_from(image, offset)
        end = image.index(0, strings + name)
        if image[strings + name:end].decode("ascii") in gone:
            SYMBOL.pack_into(image, offset, name, info, other, 0, 0, 0)
            hidden += 1
    open(target, "wb").write(image)
    print(f"{target}: {hidden} names newer than CUDA {version // 1000}.{version % 1000 // 10} hidden")


main()
