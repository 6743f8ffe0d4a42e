#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""handles.py PROTOCOL_DIR: which fields of a call's arguments are handles of which kind, and whether the
call makes or ends what they name, as a table for fuzz_dispatch.c."""
import sys

sys.path.insert(0, sys.argv[1])
from gen.parse import parse  # noqa: E402

ROLES = {"in": "ROLE_USE", "new": "ROLE_NEW", "del": "ROLE_END"}

print('#include "dispatch.h"\n\nconst struct handle_field handle_fields[] = {')
for call in parse(sys.argv[1] + "/cuda_calls.def").calls:
    for p in call.params:
        if p.dir not in ROLES:
            continue
        kind = p.sub if p.type == "handle" else ""
        if p.type == "array" and str(p.sub).startswith("handle:"):
            kind = p.sub.split(":")[1]
        if kind:
            kind = "function" if kind == "func" else kind
            print(f'    {{0x{call.number:04x}, "{p.name}", VGP_H_{kind.upper()}, {ROLES[p.dir]}}},')
print("    {0, 0, 0, 0},\n};\nconst uint16_t call_numbers[] = {")
numbers = [c.number for c in parse(sys.argv[1] + "/cuda_calls.def").calls]
print("    " + ", ".join(f"0x{n:04x}" for n in numbers) + f",\n}};\nconst unsigned n_call_numbers = {len(numbers)};")
