#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""seeds_dispatch.py PROTOCOL_DIR DIR: inputs of fuzz_dispatch that offer images, capture calls without a reply, and wait for memory
to be used anew, as step() there reads them."""
import sys

sys.path.insert(0, sys.argv[1])
from gen.parse import parse  # noqa: E402

numbers = [c.number for c in parse(sys.argv[1] + "/cuda_calls.def").calls]
by_name = {c.name: i for i, c in enumerate(parse(sys.argv[1] + "/cuda_calls.def").calls)}

POSTS = ["launch", "memset8", "memset32", "copy", "record", "wait", "free", "host", "memops", "graph", "record_flags", "value", "destroy"]


def call(name: str, fields: bytes, waits: bool = True) -> bytes:
    """A call of that name: slot, its fields, the right length, does the client wait, has it a reply, the first context."""
    i = by_name[name]
    return bytes([0, i & 255, i >> 8, 9]) + fields + bytes([0, 0 if waits else 200, 0, 1])


def offer(blob: int, how: int, answer: int = 0) -> bytes:
    return bytes([244, blob, how, 10]) + (bytes([answer]) if how & 1 else b"")


def capture(posts: list, extra: int = 0) -> bytes:
    """b: bit 0 into a graph, how many calls, 240 and more: not ended. Fields of the calls: zeros, mostly what is there."""
    b = len(posts) << 1 | extra
    return bytes([247, b, 11, 16]) + b"".join(bytes([POSTS.index(p)]) + bytes([9]) + fields for p, fields in posts)


ALL, SOME, NONE, WAIT, ANSWER, OTHER_HASH = 48, 16, 0, 128, 1, 2
zeros = bytes(24)
seeds = {
    "offer_kept": offer(1, WAIT) + offer(2, WAIT | ALL) + offer(1, NONE) + offer(3, WAIT | OTHER_HASH),
    "offer_answers": b"".join(offer(k % 4, WAIT | ANSWER | (ALL if k & 1 else SOME), k) for k in range(8)),
    "offer_given_up": offer(1, WAIT | ANSWER, 4) + call("vgpBlobDrop", bytes([1])) + offer(1, WAIT | ANSWER | ALL, 5),
    "capture_posts": capture([(p, zeros) for p in ("memset8", "record", "wait", "host")]),
    "capture_launch": capture([(p, zeros) for p in ("launch", "copy", "memset32", "record_flags", "host")]),
    "capture_lost": capture([("value", bytes([255] * 24)), ("graph", zeros), ("host", zeros)]) + capture([("host", zeros)]),
    "capture_stays": capture([("host", zeros), ("destroy", zeros)], 240) + call("vgpSettle", bytes([0])),
    "settle": bytes([216, 0]) + call("vgpRegionRegister", bytes([0] * 4)) + call("vgpSettle", bytes([0])) + call("vgpRegionUnregister", bytes([0])) +
              call("vgpSettle", bytes([0]), False),
}
assert len(numbers) == len(by_name)
for name, data in seeds.items():
    with open(f"{sys.argv[2]}/{name}", "wb") as f:
        f.write(data)
