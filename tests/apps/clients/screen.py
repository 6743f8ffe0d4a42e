# SPDX-License-Identifier: MIT
"""screen.py KEYS PATTERN... -- PROGRAM...: runs a program on a terminal of its own until every pattern was on it.

Then KEYS are sent, which are to end it. Exit status: 0 seen and ended, 1 not (what was on the terminal is printed).
There is no time in it but the bound of two minutes.
"""
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from fcntl import ioctl

split = sys.argv.index("--")
keys, patterns, program = sys.argv[1], sys.argv[2:split], sys.argv[split + 1:]
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execvp(program[0], program)
ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
seen, sent, end = b"", False, time.monotonic() + 120
while time.monotonic() < end:
    if not select.select([fd], [], [], 1)[0]:
        continue
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    seen += data
    plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]", b"", seen).decode(errors="replace")
    if not sent and all(re.search(p, plain) for p in patterns):
        os.write(fd, keys.encode().decode("unicode_escape").encode())
        sent = True
else:
    os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
if not sent:
    sys.stderr.write(seen.decode(errors="replace"))
sys.exit(0 if sent and time.monotonic() < end else 1)
