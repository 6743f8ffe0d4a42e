# SPDX-License-Identifier: MIT
"""The page that inject.so looks at (inject.h), for tests that say which call fails."""
import mmap
import os
import struct

# Numbers of enum inject_kind in inject.h.
KINDS = {"memory": 1, "mapping": 2, "socket": 3, "descriptor": 4, "process": 5, "thread": 6, "watch": 7, "send": 8,
         "receive": 9, "open": 10, "provider": 11}


class Page:
    """struct inject_page, in a file that all who are to fail map as well."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "page")
        with open(self.path, "wb") as f:
            f.write(bytes(4096))
        os.chmod(self.path, 0o666)
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)

    def arm(self, kind, k):
        """The k-th call of that kind from now on fails. The kind comes last: no call counts before all is set."""
        self.map[0:12] = struct.pack("III", 0, 0, 0)
        self.map[4:8] = struct.pack("I", k)
        self.map[0:4] = struct.pack("I", KINDS[kind])

    def disarm(self):
        """Number of failures since arm()."""
        self.map[0:8] = bytes(8)
        return self.fired()

    def fired(self):
        return struct.unpack("I", self.map[8:12])[0]

    def live(self):
        """Blocks of memory that are allocated."""
        return struct.unpack("i", self.map[12:16])[0]

    def environment(self, inject):
        """Of a process that is to fail."""
        return {"LD_PRELOAD": inject, "INJECT_FILE": self.path}

    def worker(self, folder, inject, real):
        """Path of a script that begins a failing worker: the environment of a worker is a list of names."""
        path = os.path.join(folder, "worker")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\nINJECT_FILE=%s LD_PRELOAD=%s exec %s \"$@\"\n" % (self.path, inject, real))
        os.chmod(path, 0o755)
        return path
