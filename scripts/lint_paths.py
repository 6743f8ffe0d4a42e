#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""lint_paths.py [--top DIR] [FILE...]: what Markdown pages and shell scripts name is in the tree.

Without FILE: all pages and scripts that git knows. Checked are, in a script, $here/../PATH where here is its folder, and in a page
    links    [text](target) to something that is not a URL: the file or folder, and for #anchor the heading
    paths    `code` that begins with a folder of the top: a file, a folder, or a pattern that matches one
    files    `code` that ends like a source (.c, .h, .py, .sh, ...): relative to the page, or the end of some file's path
Not looked at: blocks of code, what is built (build/), placeholders (tests/SUITE), what others bring (FOREIGN). Prints
FILE:LINE: paths: what; exit status 1 when something is missing.
"""
import fnmatch
import os
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[\w.+*?@-]+(/[\w.+*?@-]+)*/?")
HERE = re.compile(r"\$\{?here\}?/(\.\./[\w./+-]*[\w])(?=[\"'\s;)]|$)")
OWN_FOLDER = re.compile(r"^here=.*dirname", re.M)
SOURCE = re.compile(r"\.(c|h|cu|S|py|sh|md|mk|def|map|awk|seccomp|defconfig)$")
# What NVIDIA's packages, Kconfig and `make gpu` bring.
FOREIGN = {"cuda.h", "cudaTypedefs.h", "nvml.h", "config.h", "docs/results/nvidia/"}
# A part of a path that stands for any name: tests/GROUP/SUITE.
PLACEHOLDER = re.compile(r"(^|/)[A-Z]{2,}(/|$)")


def tracked(top):
    done = subprocess.run(["git", "-C", top, "ls-files", "--cached", "--others", "--exclude-standard"],
                          check=True, stdout=subprocess.PIPE, text=True)
    return [f for f in done.stdout.splitlines() if os.path.exists(os.path.join(top, f))]


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    found, fenced = set(), False
    with open(page, encoding="utf-8") as f:
        for line in f:
            fenced ^= line.startswith("```")
            if line.startswith("#") and not fenced:
                text = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
                found.add(text.replace(" ", "-"))
    return found


class Tree:
    def __init__(self, top):
        self.top, self.files = top, tracked(top)
        # Files that the protocol's generator writes while building are spoken of as if they were there.
        self.generated = set()
        if "protocol/gen/emit.py" in self.files:
            with open(os.path.join(top, "protocol/gen/emit.py"), encoding="utf-8") as f:
                self.generated.update(re.findall(r"'(\w+\.(?:c|h|map))':", f.read()))
        self.paths = set(self.files)
        for name in self.files:
            while "/" in name:
                name = name.rpartition("/")[0]
                self.paths.add(name)
        self.roots = {p for p in self.paths if "/" not in p}

    def has(self, path):
        path = os.path.normpath(path)
        if path == "." or path in self.paths:
            return True
        return any(c in path for c in "*?") and any(fnmatch.fnmatchcase(p, path) for p in self.paths)

    def ends(self, name):
        pattern = "*/" + name
        if any(c in name for c in "*?"):
            return any(fnmatch.fnmatchcase(p, pattern) or fnmatch.fnmatchcase(p, name) for p in self.paths)
        return name in self.paths or name in self.generated or any(p.endswith("/" + name) for p in self.files)

    def link(self, page, target):
        """What is wrong with a link, or None."""
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not self.has(path):
            return "there is no " + path
        if anchor and path.endswith(".md") and anchor not in anchors(os.path.join(self.top, path)):
            return f"{path} has no heading #{anchor}"
        return None

    def code(self, page, text):
        """The same of a piece of code."""
        for word in text.split():
            word = re.sub(r":[0-9]+$", "", word.rstrip(".,;:"))
            if not NAME.fullmatch(word) or word in FOREIGN or word.startswith("build/") or PLACEHOLDER.search(word):
                continue
            near = os.path.join(os.path.dirname(page), word)
            if "/" in word and word.split("/")[0] in self.roots:
                if not self.has(word) and not self.has(near):
                    return "there is no " + word
            elif SOURCE.search(word) and not word.startswith(".") and not self.has(near) and not self.ends(word):
                return "no file is called " + word
        return None

    def script(self, script):
        with open(os.path.join(self.top, script), encoding="utf-8") as f:
            text = f.read()
        if not OWN_FOLDER.search(text):
            return
        for number, line in enumerate(text.splitlines(), 1):
            for path in HERE.findall(line):
                path = os.path.normpath(os.path.join(os.path.dirname(script), path))
                if not self.has(path):
                    yield number, "there is no " + path

    def page(self, page):
        fenced = False
        with open(os.path.join(self.top, page), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                fenced ^= line.startswith("```")
                if fenced or line.startswith("    "):
                    continue
                found = [self.link(page, t) for t in LINK.findall(line) if "://" not in t and not t.startswith("mailto:")]
                found += [self.code(page, t) for t in CODE.findall(line)]
                for what in filter(None, found):
                    yield number, what


def main(args):
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if args[:1] == ["--top"] and len(args) > 1:
        top, args = args[1], args[2:]
    if args and args[0].startswith("-"):
        print(__doc__.split("\n", maxsplit=1)[0], file=sys.stderr)
        return 2
    tree, breaches = Tree(top), 0
    for name in args or [f for f in tree.files if f.endswith((".md", ".sh"))]:
        for number, what in tree.script(name) if name.endswith(".sh") else tree.page(name):
            print(f"{name}:{number}: paths: {what}")
            breaches += 1
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
