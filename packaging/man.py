#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""man.py BUILD TROUBLESHOOTING OUT: a manual page for each command of `vgpu --help` and for vgpu-backend.

The text is the program's own --help, so that page and program agree; vgpu-doctor(1) has the table of causes of the page
TROUBLESHOOTING besides. Also OUT/commands, the commands, one a line.
"""
import os
import re
import subprocess
import sys

build, causes, out = sys.argv[1:]
VGPU = os.path.join(build, "userspace/vgpu/vgpu")
BACKEND = os.path.join(build, "host/backend/vgpu-backend")


def text_of(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def commands():
    """{first word: [the commands that begin with it]}, and what each first word does."""
    forms, does = {}, {}
    for line in text_of(VGPU, "--help").splitlines():
        m = re.match(r"  vgpu (?!run --help)([a-z].*?)(?:  +| (?=says ))(\S.*)$", line)
        if not m:
            continue
        for form in m[1].split(", "):
            words = re.match(r"(?:vgpu )?([a-z-]+)(?: (run|shell|list|stop|generate)\b)?", form)
            name = words[1] + (f" {words[2]}" if words[2] else "")
            forms.setdefault(words[1], []).append(name)
            does.setdefault(words[1], m[2])
    return forms, does


def escape(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def page(name, section, summary, texts, more=""):
    lines = ['.\\" SPDX-License-Identifier: MIT',
             f'.TH {name.upper()} {section} "2026" "vgpu-cuda" "' +
             ("User Commands" if section == 1 else "System Administration") + '"',
             ".SH NAME", f"{escape(name)} \\- {escape(summary)}"]
    for title, text in texts:
        lines += [f".SH {title.upper()}", ".nf"] + [escape(line.rstrip()) for line in text.splitlines()] + [".fi"]
    if more:
        lines.append(more)
    if name != "vgpu":
        lines += [".SH SEE ALSO", ".BR vgpu (1)" + (", which has the exit statuses of all commands" if section == 1 else "")]
    with open(os.path.join(out, f"{name}.{section}"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def help_of(*words):
    """The text of --help; a page of the tree that it names is in the manual page itself."""
    return text_of(*words, "--help").replace("docs/troubleshooting.md has", "The list below has")


def table():
    """The causes of vgpu doctor as a list."""
    lines = [".SH CAUSES"]
    for row in open(causes, encoding="utf-8"):
        m = re.match(r"\| (\d+) `([a-z-]+)` \| (.*?) \| (.*?) \|$", row)
        if m:
            plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", c).replace("`", "") for c in (m[3], m[4])]
            lines += [".TP", f"{m[1]} {escape(m[2])}", escape(plain[0] + (": " if plain[0] else "") + plain[1])]
    assert len(lines) > 60, causes
    return "\n".join(lines)


os.makedirs(out, exist_ok=True)
forms, does = commands()
assert {"run", "vm", "guest-bundle", "smi", "ctl", "metrics", "cdi", "trace", "replay", "doctor"} <= set(forms), forms
for first, names in forms.items():
    page(f"vgpu-{first}", 1, does[first], [(n if len(names) > 1 else "description", help_of(VGPU, *n.split()))
                                           for n in names], table() if first == "doctor" else "")
page("vgpu-backend", 8, "gives CUDA to a virtual machine", [("description", help_of(BACKEND))])
with open(os.path.join(out, "commands"), "w", encoding="utf-8") as f:
    f.writelines(n + "\n" for names in forms.values() for n in names)
