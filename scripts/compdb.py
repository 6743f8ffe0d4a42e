#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""compdb.py OUT CUDA_HOME BUILD FOLDER...: writes compile_commands.json for editors and clang tools.

The commands are those that `make -n -B check` prints in each folder; nothing is compiled. What Kbuild and QEMU's build
have left below BUILD is added for the driver and the device. A file that is compiled several times keeps its first command.
"""
import json
import os
import re
import shlex
import subprocess
import sys

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
COMPILER = re.compile(r"^(\S*/)?(gcc|cc|clang)(-[0-9.]+)?$")
PLACE = {"demo": "demo/programs"}


def commands_of(text, folder):
    """(directory, words) of each compiler call in the output of make."""
    where = [folder]
    for line in text.replace("\\\n", " ").split("\n"):
        entered = re.match(r"make(\[\d+\])?: (Entering|Leaving) directory '(.*)'", line)
        if entered:
            where.append(entered[3]) if entered[2] == "Entering" else where.pop()
            continue
        if ".c" not in line:
            continue
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if words and COMPILER.match(words[0]):
            yield where[-1] if where else folder, words


def entries(directory, words):
    output = words[words.index("-o") + 1] if "-o" in words[:-1] else None
    sources = [w for i, w in enumerate(words) if w.endswith(".c") and words[i - 1] not in ("-o", "-MF", "-include")]
    for source in sources:
        own = [w for w in words if w == source or w not in sources]
        yield {"directory": directory, "file": os.path.normpath(os.path.join(directory, source)), "arguments": own,
               **({"output": output} if output else {})}


def kbuild(build):
    """What Kbuild has compiled: .NAME.o.cmd files."""
    for root, _, files in os.walk(os.path.join(build, "kernel")):
        for name in files:
            if not name.endswith(".o.cmd"):
                continue
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
                text = f.read()
            found = re.search(r"^(?:saved)?cmd_\S+ := (.*?\.c)(?: *;.*)?$", text, re.M)
            source = re.search(r"^source_\S+ := (\S+\.c)$", text, re.M)
            if found and source and os.path.exists(os.path.join(root, source[1])):
                yield root, found[1], os.path.realpath(os.path.join(root, source[1]))


def main(args):
    if len(args) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    out, cuda, build, folders = args[0], args[1], args[2], args[3:]
    table = {}
    for folder in folders:
        here = os.path.join(TOP, folder)
        done = subprocess.run(["make", "-n", "-B", "-w", "-C", here, "check", "CUDA_HOME=" + cuda,
                               "O=" + os.path.join(build, PLACE.get(folder, folder))], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")})
        if done.returncode:
            print("compdb: %s: make -n ended with status %d: %s" %
                  (folder, done.returncode, done.stdout.strip().split("\n")[-1]), file=sys.stderr)
        for directory, words in commands_of(done.stdout, here):
            for entry in entries(directory, words):
                table.setdefault(entry["file"], entry)
    for directory, command, source in kbuild(build):
        ours = os.path.join(TOP, "kernel/vgpu_drv", os.path.basename(source))  # Kbuild compiles copies
        source = ours if os.path.exists(ours) else source
        table.setdefault(source, {"directory": directory, "file": source, "command": command})
    qemu = os.path.join(build, "qemu/obj/compile_commands.json")
    if os.path.exists(qemu):
        with open(qemu, encoding="utf-8") as f:
            for entry in json.load(f):
                source = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
                if os.path.basename(source).startswith("vgpu") or source.startswith(TOP + "/qemu-device/"):
                    ours = os.path.join(TOP, "qemu-device", os.path.basename(source))
                    source = ours if os.path.exists(ours) else source
                    table.setdefault(source, dict(entry, file=source))
    with open(out + ".new", "w", encoding="utf-8") as f:
        json.dump(sorted(table.values(), key=lambda e: e["file"]), f, indent=1)
    os.replace(out + ".new", out)
    print("%s: %d files" % (out, len(table)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
