#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""seeds_broker.py DIR: inputs of fuzz_broker in which clients ask for images and fill them, as the steps of run() there read them."""
import sys


def honest(worker: int) -> bytes:
    return bytes([3, worker])


def create(client: int) -> bytes:
    """A well-formed CLIENT_CREATE: of each range of bytes the value that leaves it as it is."""
    return bytes([5, 1, 1, 0, 1, client, 1, 1, 1, 1, 1])


def image(worker: int, what: int) -> bytes:
    return bytes([4, worker, what])


ASK, FILL = 0, 128
begin = bytes([1])
clients = honest(1) + create(0) + create(1) + honest(2) + create(2) + honest(3)  # run() has started worker 0
seeds = {
    # A client fills an image, and further clients get it.
    "image_kept": [image(w, k | what) for k in range(3) for what in (ASK, FILL) for w in (0, 1, 2)] * 2,
    # Bytes that do not match the hash: afterwards no image of this client is accepted.
    "image_lies": [image(0, ASK | 1), image(0, FILL | 2), image(0, ASK | 2), image(1, ASK | 1), image(1, FILL | 1), image(0, ASK | 1)],
    # Abandoned, partly filled and truncated images, and invalid numbers.
    "image_odd": [image(0, ASK | 3), image(0, FILL | 15), image(1, ASK | 2), image(1, FILL | 30), bytes([9]), image(1, ASK | 1), image(1, FILL | 29),
                  image(1, ASK | 31), bytes([120]), image(0, FILL | 28), bytes([120])],
}
for name, steps in seeds.items():
    with open(f"{sys.argv[1]}/{name}", "wb") as f:
        f.write(begin + clients + b"".join(steps))
