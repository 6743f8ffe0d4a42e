# SPDX-License-Identifier: MIT
"""Reads the toolkit's cuda.h: every prototype, type and documented result. No policy, no output."""
import os
import re
import subprocess
from dataclasses import dataclass, field

SCALARS = {'char': (1, True), 'signed char': (1, True), 'unsigned char': (1, False),
           'short': (2, True), 'unsigned short': (2, False), 'int': (4, True),
           'unsigned': (4, False), 'unsigned int': (4, False), 'long': (8, True),
           'unsigned long': (8, False), 'long long': (8, True), 'unsigned long long': (8, False),
           'size_t': (8, False), 'cuuint32_t': (4, False), 'cuuint64_t': (8, False)}


class HeaderError(Exception):
    """Something in cuda.h that this reader does not understand."""


@dataclass
class Field:
    path: str   # C expression after the dot
    ctype: str  # element type
    count: int  # elements of an array, else 1


@dataclass
class Function:
    name: str
    params: list  # (C type, name)


@dataclass
class Header:
    functions: dict = field(default_factory=dict)   # exported name -> Function
    enums: dict = field(default_factory=dict)       # type -> {constant: value}
    structs: dict = field(default_factory=dict)     # type -> [Field], flattened
    handles: set = field(default_factory=set)       # types that point to an opaque struct
    callbacks: set = field(default_factory=set)     # types of functions
    aliases: dict = field(default_factory=dict)     # type -> type
    documented: dict = field(default_factory=dict)  # name as in the comments -> {result names}
    renamed: dict = field(default_factory=dict)     # macro name -> exported name

    def resolve(self, ctype):
        while ctype in self.aliases:
            ctype = self.aliases[ctype]
        return ctype


def _preprocess(cc, include, text, *options):
    folders = [word for folder in include.split(':') for word in ('-I', folder)]
    return subprocess.run([cc, '-E', *options, *folders, '-'], input=text, check=True,
                          capture_output=True, text=True).stdout


def found(include, name):
    """Where a header is: in the first of the folders that has it."""
    for folder in include.split(':'):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise HeaderError(f'{include}: no {name}')


def _match_brace(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {'{': 1, '}': -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise HeaderError('a brace without its match')


def _enum_body(body, known):
    values, following = {}, 0
    for item in body.split(','):
        item = item.strip()
        if not item:
            continue
        name, _, expr = (x.strip() for x in item.partition('='))
        if expr:
            expr = re.sub(r'\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b', r'\1', expr)
            expr = re.sub(r'\((?:unsigned )?int\)', '', expr)
            following = eval(' '.join(expr.split()), {'__builtins__': {}}, {**known, **values})
        values[name] = following
        following += 1
    known.update(values)
    return values


def _struct_body(header, body, prefix=''):
    """The fields of a struct or union, those of nested ones with their path."""
    fields, i = [], 0
    while True:
        while i < len(body) and body[i] in ' \n\t;':
            i += 1
        if i >= len(body):
            return fields
        nested = re.compile(r'(?:struct|union)\s*(\w*)\s*\{').match(body, i)
        if nested:
            end = _match_brace(body, nested.end() - 1)
            name, stop = body[end + 1:].split(';', 1)[0].strip(), body.index(';', end)
            inner = body[nested.end():end]
            m = re.match(r'(\w*)\s*(?:\[(\d+)\])?$', name)
            if not m:
                raise HeaderError(f'nested struct {name!r}')
            sub = prefix + (m[1] + ('[0]' if m[2] else '') + '.' if m[1] else '')
            fields += _struct_body(header, inner, sub)
            i = stop + 1
            continue
        stop = body.index(';', i)
        decl = re.sub(r'\s+', ' ', body[i:stop]).strip()
        i = stop + 1
        m = re.match(r'^(.*?)(\w+)\s*((?:\[[^\]]+\])*)$', decl)
        if not m:
            raise HeaderError(f'field {decl!r}')
        ctype = _type(m[1])
        dims = [int(d) if d.isdigit() else 1 for d in re.findall(r'\[([^\]]+)\]', m[3])]
        count = 1
        for d in dims:
            count *= d
        fields.append(Field(prefix + m[2] + '[0]' * len(dims), ctype, count))


def _type(text):
    text = re.sub(r'\b(struct|enum|union)\s+|\b_Alignas\(\d+\)', '', text)
    text = re.sub(r'\s*\*\s*', '*', text.strip())
    return re.sub(r'\s+', ' ', text).strip()


def _comments(header, raw):
    """The \\return lists of the comments, by the name that the comment's function has."""
    for m in re.finditer(r'/\*\*(.*?)\*/\s*(?:__CUDA_DEPRECATED\s+)?CUresult\s+CUDAAPI\s+(\w+)\s*\(',
                         raw, re.S):
        text = m[1].rsplit('/**', 1)[-1]
        part = re.search(r'\\returns?\b(.*?)(?:\\notefnerr|\\note_|\\sa\b|\\param|\Z)', text, re.S)
        if part:
            names = set(re.findall(r'CUDA_(?:ERROR_\w+|SUCCESS)', part[1]))
            if names:
                header.documented[m[2]] = names


def read(cc, include):
    """The Header of the toolkit whose include folder is given; with colons: folders, searched in their order."""
    source = '#include <cuda.h>\n#include <cudaProfiler.h>\n'
    text = _preprocess(cc, include, '#define __CUDA_API_VERSION_INTERNAL\n' + source, '-P')
    text = re.sub(r'__attribute__\s*\(\(.*?\)\)(?=[^)])', '', text, flags=re.S)
    text = text[text.index('typedef unsigned int cuuint32_t') if
                'typedef unsigned int cuuint32_t' in text else text.index('cuuint32_t') - 40:]
    header, constants = Header(), {}
    for m in re.finditer(r'typedef\s+enum\s+\w*\s*\{(.*?)\}\s*(\w+)\s*;', text, re.S):
        header.enums[m[2]] = _enum_body(m[1], constants)
    for m in re.finditer(r'typedef\s+(?:struct|union)\s+\w*\s*\{', text):
        end = _match_brace(text, m.end() - 1)
        name = re.match(r'\s*(\w+)\s*;', text[end + 1:])
        if not name:
            raise HeaderError(f'struct at {text[m.start():m.start() + 60]!r}')
        header.structs[name[1]] = _struct_body(header, text[m.end():end])
    for m in re.finditer(r'typedef\s+struct\s+\w+\s*\*\s*(\w+)\s*;', text):
        header.handles.add(m[1])
    for m in re.finditer(r'typedef\s+[\w\s]+?\*?\(\s*\*\s*(\w+)\s*\)\s*\(', text):
        header.callbacks.add(m[1])
    for m in re.finditer(r'typedef\s+([\w ]+?)\s+(\w+)\s*;', text):
        if not re.match(r'(struct|union|enum)\b.*\{', m[1]):
            header.aliases[m[2]] = _type(m[1])
    for m in re.finditer(r'\bCUresult\s+(cu[A-Z]\w*)\s*\(([^()]*)\)\s*;', text):
        params = []
        for part in re.sub(r'\s+', ' ', m[2]).split(','):
            part = part.strip()
            if part in ('', 'void'):
                continue
            p = re.match(r'^(.*?)(\w+)\s*(\[\w*\])?$', part)
            if not p:
                raise HeaderError(f'{m[1]}: parameter {part!r}')
            params.append((_type(p[1] + ('*' if p[3] else '')), p[2]))
        header.functions[m[1]] = Function(m[1], params)
    for m in re.finditer(r'^#define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*)$',
                         _preprocess(cc, include, source, '-dM'), re.M):
        header.renamed[m[1]] = m[2]
    for name in ('cuda.h', 'cudaProfiler.h'):
        with open(found(include, name), encoding='ascii', errors='replace') as f:
            _comments(header, f.read())
    if len(header.functions) < 600 or len(header.structs) < 80 or len(header.enums) < 80:
        raise HeaderError(f'{include}: not the headers of CUDA 13')
    return header


def typedef_versions(include):
    """{(name, '' or '_ptsz' or '_ptds'): [versions, rising]} of cudaTypedefs.h and its relatives."""
    found = {}
    for name in ('cudaTypedefs.h', 'cudaGLTypedefs.h', 'cudaEGLTypedefs.h', 'cudaVDPAUTypedefs.h',
                 'cudaProfilerTypedefs.h'):
        path = os.path.join(include, name)
        if not os.path.exists(path):
            continue
        with open(path, encoding='ascii', errors='replace') as f:
            for m in re.finditer(r'\bPFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)', f.read()):
                found.setdefault((m[1], m[3] or ''), set()).add(int(m[2]))
    return {k: sorted(v) for k, v in found.items()}


def base_name(symbol):
    """'cuMemAlloc_v2_ptds' -> ('cuMemAlloc', 2, '_ptds')"""
    m = re.fullmatch(r'(\w+?)(?:_v(\d+))?(_ptsz|_ptds)?', symbol)
    return m[1], int(m[2] or 1), m[3] or ''


def main(argv):
    """header.py --results CC INCLUDE_DIR: R(name) for every result of cuda.h."""
    import sys
    if len(argv) != 4 or argv[1] != '--results':
        sys.exit(main.__doc__)
    for name in read(argv[2], argv[3]).enums['CUresult']:
        print(f'R({name})')


if __name__ == '__main__':
    import sys
    main(sys.argv)
