#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""lint_comments.py [--top DIR]: comments of C files that lost what they were about. FILE:LINE: comments: WHAT for

* a comment at column 0 that another one follows at once: the first is about nothing, or about what the second is about;
* a file of this tree that is named and not there.

Exit status 1 where there is one, 2 for a mistake of this program."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from lint_paths import FOREIGN, Tree  # noqa: E402

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
NAMED = re.compile(r'(?<![\w<./*-])((?:[\w-]+/)*[\w-]+\.(?:c|h|py|sh|def|mk|md|tsv))(?![\w(-])')
# Markers of tools, licences.
APART = re.compile(r'/\* (SPDX|clang-format)')
# Of other projects, the kernel, the toolkit, the C library.
OTHERS = re.compile(r'^(cuda|cuda[A-Z_]\w*|cudart|nvml|nvcc|driver_types|texture_types|vector_types|crt/.*|linux/.*|asm/.*|sys/.*|arch/.*|drivers/.*|include/.*|'
                    r'fatbinary\w+|nvrtc|nvJitLink|xf86drm|exec/.*|fs/.*|mm/.*|kernel/.*|lib/\w+|hw/.*|block/.*|system/.*|softmmu/.*|contrib/.*|docs/interop/.*|tools/.*|ggml.*|llama.*)\.\w+$')

# Written while tests are built.
GENERATED = {'walk_table.c', 'names.h', 'vgp_fields.c'}


def comments(text):
    """(line of its start, text, at column 0, another one follows at column 0)."""
    for m in COMMENT.finditer(text):
        if m[0][0] == '/':
            column0 = m.start() == 0 or text[m.start() - 1] == '\n'
            yield text.count('\n', 0, m.start()) + 1, m[0], column0, text.startswith('\n/*', m.end())


def main():
    if len(sys.argv) not in (1, 3) or sys.argv[1:2] not in ([], ['--top']):
        print(__doc__, file=sys.stderr)
        return 2
    top = sys.argv[2] if len(sys.argv) == 3 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tree = Tree(top)
    found = 0
    for name in tree.files:
        if not name.endswith(('.c', '.h', '.cu')) or '/testdata/' in name:
            continue
        with open(os.path.join(top, name), encoding='utf-8', errors='replace') as f:
            text = f.read()
        for line, comment, column0, followed in comments(text):
            rest = text.split('\n', line + comment.count('\n'))[-1] if followed else ''
            if column0 and followed and comment.startswith('/*') and not APART.match(comment) and not APART.match(rest):
                print(f'{name}:{line}: comments: another comment follows at once')
                found += 1
            for m in NAMED.finditer(comment):
                word = m[1]
                if word in FOREIGN or os.path.basename(word) in GENERATED or OTHERS.match(word) or tree.has(word) or tree.ends(word) or tree.has(os.path.join(os.path.dirname(name), word)):
                    continue
                print(f'{name}:{line}: comments: no file is called {word}')
                found += 1
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
