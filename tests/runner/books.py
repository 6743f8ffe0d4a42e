# SPDX-License-Identifier: MIT
"""Conservation: when the last client of a broker has gone, nothing is held, and its accounts agree at any time."""
import re
import socket
import time


def status(pid):
    """What the broker says of itself; None: it has ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(20)
        try:
            s.connect("\0vgpu-backend.status.%d" % pid)
            return s.recv(1 << 18).decode(errors="replace")
        except OSError:
            return None


def wrong(pid, seconds=20, empty=False):
    """None, or what the accounts of this broker show, when no client is ending any more. With `empty`: when none is left,
    which has to be in that time."""
    end = time.monotonic() + seconds
    while True:
        text = status(pid)
        if not text:
            return "the broker does not answer"
        said = re.search(r"^books clients (\d+) ending (\d+) regions (\d+) shares (\d+) (.*)$", text, re.M)
        if not said:
            return "no line of books: " + text[:200]
        clients, ending, regions, shares = (int(n) for n in said.groups()[:4])
        if said.group(5) != "even":
            return said.group(0)
        if not ending and not (empty and clients):
            break
        if time.monotonic() > end:
            return "not given back: " + said.group(0)
        time.sleep(0.02)
    used = re.search(r"vram-used \d+ pin-used \d+ blob-used \d+", text)
    if not clients and (regions or shares or not used or used.group(0) != "vram-used 0 pin-used 0 blob-used 0"):
        return "held without a client: %s; %s" % (said.group(0), used and used.group(0))
    return None
