#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""lint_names.py FILE...: static functions whose name is one bare word, which says in a backtrace, a profile or `git grep` neither where
nor about what: FILE:LINE: names: NAME. Tests, proofs and generated code are not looked at; names with a digit (get32) and the
instructions of PTX are words of the field. Exit status 1 where there is one."""
import re
import sys

DEFINITION = re.compile(r"^static (?:[\w ]+? )?[\w ]*?[ *]+([a-z]+)\((?:[^;{}]*?)\)[^;{}()]*\n\{", re.M)
NOT_LOOKED_AT = re.compile(r"(^|/)(generated|tests|testing|tests-ptx)/|_(test|proof)\.c$")
# Instructions of PTX and of x86, and functions of the C library under a name of their own.
FIELD = {"prmt", "fns", "bmsk", "szext", "vmad", "hmin", "hmax", "habs", "hxorsign", "shiftamt", "ternlog", "modrm", "main"}


def main():
    found = 0
    for name in sys.argv[1:]:
        if NOT_LOOKED_AT.search(name):
            continue
        with open(name, encoding="utf-8") as file:
            text = file.read()
        for match in DEFINITION.finditer(text):
            if match.group(1) not in FIELD:
                found += 1
                print("%s: names: line %d: `%s` does not say about what it is" % (
                    name, text.count("\n", 0, match.start(1)) + 1, match.group(1)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
