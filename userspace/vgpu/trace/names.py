#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Names for the numbers in a trace, out of the toolkit's cuda.h: names.py CUDA_H OUTPUT.

Writes three arrays of C: the values of each list, the lists, and which argument of which call is of which list. An
argument whose type is an enumeration has its list by that; a plain number that holds flags has it by FLAGS, as NVIDIA's
driver API reference documents the call.
"""
import re
import sys

# Base name of a call: the list of its flags. A list that ends in "_" is the family of macros that begin so.
FLAGS = {
    "cuCtxCreate": "CUctx_flags", "cuCtxGetFlags": "CUctx_flags", "cuCtxSetFlags": "CUctx_flags",
    "cuDevicePrimaryCtxSetFlags": "CUctx_flags", "cuDevicePrimaryCtxGetState": "CUctx_flags",
    "cuStreamCreate": "CUstream_flags", "cuStreamCreateWithPriority": "CUstream_flags", "cuStreamGetFlags": "CUstream_flags",
    "cuEventCreate": "CUevent_flags", "cuEventRecordWithFlags": "CUevent_record_flags", "cuStreamWaitEvent": "CUevent_wait_flags",
    "cuStreamWaitValue32": "CUstreamWaitValue_flags", "cuStreamWaitValue64": "CUstreamWaitValue_flags",
    "cuStreamWriteValue32": "CUstreamWriteValue_flags", "cuStreamWriteValue64": "CUstreamWriteValue_flags",
    "cuMemAllocManaged": "CUmemAttach_flags", "cuStreamAttachMemAsync": "CUmemAttach_flags",
    "cuMemHostAlloc": "CU_MEMHOSTALLOC_", "cuMemHostGetFlags": "CU_MEMHOSTALLOC_", "cuMemHostRegister": "CU_MEMHOSTREGISTER_",
    "cuIpcOpenMemHandle": "CUipcMem_flags", "cuGetProcAddress": "CUdriverProcAddress_flags",
    "cuGraphInstantiate": "CUgraphInstantiate_flags", "cuGraphInstantiateWithFlags": "CUgraphInstantiate_flags",
    "cuGraphExecGetFlags": "CUgraphInstantiate_flags", "cuGraphDebugDotPrint": "CUgraphDebugDot_flags",
    "cuUserObjectCreate": "CUuserObject_flags", "cuGraphRetainUserObject": "CUuserObjectRetain_flags",
    "cuStreamUpdateCaptureDependencies": "CUstreamUpdateCaptureDependencies_flags",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": "CUoccupancy_flags",
    "cuOccupancyMaxPotentialBlockSizeWithFlags": "CUoccupancy_flags",
}


def number(text, known):
    """The value of a constant expression: numbers, names before it, shifts, or. None: it is none."""
    text = re.sub(r"(\d)[uUlL]+\b", r"\1", text)
    words = re.findall(r"0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|<<|[|()~+-]|\S", text)
    for i, word in enumerate(words):
        if re.match(r"[A-Za-z_]", word):
            if word not in known:
                return None
            words[i] = str(known[word])
        elif not re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+|<<|[|()~+-]", word):
            return None
    try:
        return int(eval(" ".join(words), {"__builtins__": {}}))  # only numbers and operators are left
    except (SyntaxError, TypeError, ValueError):
        return None


def parse(text):
    """(lists: name to [(name, value)], calls: [(base name, [(type, argument)])])"""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    lists, known = {}, {}
    for line in re.finditer(r"^#define +(CU_[A-Z0-9_]+) +([^\n]+)$", text, re.MULTILINE):
        value = number(line.group(2), known)
        if value is not None:
            known[line.group(1)] = value
            for family in {f for f in FLAGS.values() if f.endswith("_") and line.group(1).startswith(f)}:
                lists.setdefault(family, []).append((line.group(1), value))
    for match in re.finditer(r"typedef +enum +\w* *\{(.*?)\} *(\w+) *;", text, re.DOTALL):
        value, rows = -1, []
        for part in match.group(1).split(","):
            row = re.fullmatch(r"\s*(\w+)(?:\s*=\s*(.+?))?\s*", part, re.DOTALL)
            if not row:
                continue
            value = value + 1 if row.group(2) is None else number(row.group(2), known)
            if value is None:
                break
            known[row.group(1)] = value
            rows.append((row.group(1), value))
        lists[match.group(2)] = rows
    calls = []
    for match in re.finditer(r"CUresult +CUDAAPI +(cu\w+) *\(([^)]*)\) *;", text):
        arguments = []
        for part in match.group(2).split(","):
            one = re.fullmatch(r"\s*(?:const +)?(?:enum +)?(\w+(?: +int| +long)*)[\s*]+(\w+)(?:\[\w*\])?\s*", part)
            if one:
                arguments.append(one.groups())
        calls.append((base(match.group(1)), arguments))
    return lists, calls


def base(call):
    """Without what tells versions and default streams apart."""
    return re.sub(r"(_v\d+|_ptsz|_ptds)+$", "", call)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as f:
        lists, calls = parse(f.read())
    rows = set()
    for call, arguments in calls:
        for kind, name in arguments:
            if kind in lists:
                rows.add((call, name.lower(), kind, 0))
            elif call in FLAGS and "flags" in name.lower():
                rows.add((call, name.lower(), FLAGS[call], 1))
    used = sorted({row[2] for row in rows})
    first, values, ranges = {}, [], []
    for kind in used:
        seen, begin = set(), len(values)
        for name, value in lists[kind]:
            if value not in seen and not re.search(r"(_MAX|_MASK|_ENUM|_RESERVED\w*)$", name):
                seen.add(value)
                values.append((name, value))
        first[kind] = len(ranges)
        ranges.append((begin, len(values) - begin))
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write("static const struct value values[] = {\n")
        f.writelines("{\"%s\", %dll},\n" % row for row in values)
        f.write("};\nstatic const struct list lists[] = {\n")
        f.writelines("{%d, %d},\n" % row for row in ranges)
        f.write("};\nstatic const struct argument arguments[] = {\n")
        f.writelines("{\"%s\", \"%s\", %d, %d},\n" % (call, name, first[kind], flags) for call, name, kind, flags in sorted(rows))
        f.write("};\n")


if __name__ == "__main__":
    main()
