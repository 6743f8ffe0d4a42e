#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""lint_holds.py FILE...: a member of a structure that is a pointer to a structure says how it is held.

  struct holds {
      SG_COUNTED struct sg_graph *graph;  a reference, put when this one lets go of it
      SG_OWNED struct sg_front *front;    nothing else keeps it; freed by what has it
      SG_LISTED struct sg_node *next;     no reference: what ends takes itself out of here first
      SG_LENT struct sg_stream *s;        no reference: this lives inside of a call, or under a lock, that keeps it
  };

VGB_ in the worker; the compiler sees nothing of the words (base/base.h, common/vgb_holds.h). A raw pointer without a word is how graphs came to
name what had ended: docs/architecture.md, "References among graphs". Pointers to functions and to constant tables (`const struct` at
file scope) are not members of that kind. Prints FILE: holds: what; exit status 1 when there is one.
"""
import re
import sys

WORDS = r"(?:SG|VGB)_(?:COUNTED|OWNED|LISTED|LENT)\b"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# Beginning of a structure or union with a body; members of nested ones count as well.
HEAD = re.compile(r"\b(?:struct|union)\b(?:\s+(\w+))?\s*\{")
MEMBER = re.compile(r"(?:^|\s)struct\s+\w+\s*(?:const\s*)?\*")


def blank(text):
    """The text without comments, its lines where they were."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def bodies(text):
    """(start, end) of the bodies of outermost structures."""
    at = 0
    while True:
        head = HEAD.search(text, at)
        if not head:
            return
        depth, end = 1, head.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield head.end(), end - 1, head.group(1) or "(unnamed)"
        at = end


def breaches(text):
    text = blank(text)
    for start, end, name in bodies(text):
        at = start
        for part in re.split(r"[;{}]", text[start:end]):
            member = part.strip()
            if "(" not in member and MEMBER.search(" " + member) and not re.match(WORDS, member):
                begin = at + len(part) - len(part.lstrip())
                yield text.count("\n", 0, begin) + 1, f"struct {name}: `{' '.join(member.split())}`"
            elif re.match(r"\*", member) and not re.match(r"\*\s*" + WORDS, member):
                yield text.count("\n", 0, at) + 1, f"struct {name}: a nested pointer `{member}`"
            at += len(part) + 1


def main():
    found = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as f:
            for number, what in breaches(f.read()):
                print(f"{name}: holds: line {number}: {what} does not say how it is held")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
