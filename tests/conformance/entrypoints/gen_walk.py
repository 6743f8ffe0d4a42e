#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes walk_table.c: every function of cuda.h with a call by values, its parameters and its results.

usage: gen_walk.py CC INCLUDE_DIR DESCRIPTION ENTRY > walk_table.c

What a parameter is follows from its type; what is expected of an entry point from the comments of
cuda.h (documented results) and from the description of the calls (refused or not, needs a context): DESCRIPTION, what
travels, and ENTRY, what libcuda answers.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../../protocol/gen')]
sys.dont_write_bytecode = True
import header as hdr  # noqa: E402
import parse  # noqa: E402

# Handle types that are integers in C.
NUMBER_HANDLES = {'CUtexObject', 'CUsurfObject', 'CUmemGenericAllocationHandle',
                  'CUgraphConditionalHandle'}


# Non-const pointers that are inputs, by parameter name; with a part of the call's name where the same name is
# an output of other calls. Counts of lists are read and written.
READ = [(re.compile(call), set(names.split())) for call, names in (
    ('', 'ctxCreateParams options optionValues jitOptions jitOptionsValues libraryOptions libraryOptionValues '
         'userData p osHandle addr dataSizes attributes launchParamsList globalAddress resources nbGroups '
         'paramsArray paramArray dsts srcs sizes attrs attrsIdxs opList dptrs prefetchLocs prefetchLocIdxs '
         'kernelParams extra instantiateParams mapInfoList args location iterator numNodes numRootNodes '
         'numEdges numDependencies numDependentNodes shareData'),
    ('Set|Add|Instantiate|cuUserObjectCreate', 'nodeParams pBorderColor value ptr'),
    ('cuLinkAdd|GetAttributes', 'data'),
    ('cuCoredump|cuLogsDumpToMemory', 'size'),
    ('Import', 'handle'),
    ('cuParamSetv', 'ptr'),
    ('cuTensorMapReplace', 'tensorMap'),
    ('cuThreadExchange', 'mode'),
    ('UpdateCaptureDependencies', 'dependencies edgeData'))]


def is_output(call, ctype, name):
    """A pointer to what the call fills in, and does not read."""
    if not ctype.endswith('*') or (ctype.startswith('const ') and not ctype.endswith('**')):
        return False
    if name == 'handle' and not ctype.startswith('void'):
        return True
    return not any(name in names and where.search(call) for where, names in READ)


class Writer:
    def __init__(self, header, description):
        self.h = header
        self.d = description
        self.kinds = sorted(header.handles | NUMBER_HANDLES)
        self.structs = {}  # type -> index, in the order of first use
        self.out = []

    def kind_of(self, ctype):
        """The walk's idea of a type: (macro, extra) where extra is a kind's or a struct's index."""
        bare = ctype.removeprefix('const ')
        if bare in self.h.handles or bare in NUMBER_HANDLES:
            return 'WK_HANDLE', self.kinds.index(bare)
        if bare == 'CUdevice':
            return 'WK_DEVICE', 0
        if bare in ('CUdeviceptr', 'CUdeviceptr_v1'):
            return 'WK_DEVPTR', 0
        if bare in self.h.callbacks:
            return 'WK_CALLBACK', 0
        real = self.h.resolve(bare)
        if real in self.h.enums:
            values = [v for v in self.h.enums[real].values() if v < 0x7fffffff]
            return 'WK_ENUM', max(values)
        if real in self.h.structs:
            return 'WK_STRUCT', self.struct(real)
        if real in ('float', 'double'):
            return 'WK_FLOAT', 0
        if real in hdr.SCALARS or real in ('uint32_t', 'uint64_t', 'uint8_t', 'uint16_t'):
            return 'WK_INT', 0
        if bare.endswith('*'):
            return 'WK_PTR', 0
        raise hdr.HeaderError(f'what is a {ctype!r}?')

    def valid_enum(self, ctype):
        """0 where it means something, else the smallest value that does."""
        values = self.h.enums[self.h.resolve(ctype.removeprefix('const '))]
        for name, v in values.items():
            if v == 0 and not name.endswith(('_INVALID', '_NONE', '_IGNORE')):
                return 0
        return min(v for v in values.values() if v > 0)

    def struct(self, name):
        if name not in self.structs:
            self.structs[name] = len(self.structs)
            for f in self.leaves(name):  # the structs that it holds by pointer
                self.element(f.ctype)
        return self.structs[name]

    def leaves(self, name, prefix=''):
        """Fields that are no struct themselves; the first element of an array stands for all."""
        out = []
        for f in self.h.structs[name]:
            real = self.h.resolve(f.ctype)
            if real in self.h.structs:
                sub = prefix + f.path + ('[0]' if f.count > 1 and not f.path.endswith(']') else '')
                out += self.leaves(real, sub + '.')
            else:
                out.append(hdr.Field(prefix + f.path, f.ctype, f.count))
        return out

    def element(self, ctype):
        """What a pointer points to: (what, extra, C type or None)."""
        bare = ctype.removeprefix('const ')
        if not bare.endswith('*'):
            return 'WK_INT', 0, None
        sub = bare[:-1]
        if sub == 'void':
            return 'WK_VOID', 0, None
        if sub == 'char':
            return 'WK_STRING', 0, None
        what, extra = self.kind_of(sub)
        if what == 'WK_ENUM':
            extra = self.valid_enum(sub)
        return what, extra, sub

    def row(self, ctype, name, where, call=None):
        what, extra = self.kind_of(ctype)
        size = f'sizeof({ctype})'
        const = 0
        sub, sub_extra, sub_type = 'WK_INT', 0, None
        if what == 'WK_ENUM':
            sub_extra = self.valid_enum(ctype)
        if what == 'WK_PTR':
            sub, sub_extra, sub_type = self.element(ctype)
            const = int(ctype.startswith('const ') and not ctype.endswith('**'))
        sub_size = f'sizeof({sub_type})' if sub_type else '1'
        out = int(call is not None and is_output(call, ctype, name))
        return (f'    {{"{name}", {what}, {sub}, {const}, {out}, {size}, {sub_size}, {extra}u, {sub_extra}u, '
                f'{where}}},')

    def entry(self, i, f):
        args = []
        for n, (ctype, name) in enumerate(f.params):
            what, _ = self.kind_of(ctype)
            if what == 'WK_STRUCT':
                args.append(f'*({ctype} *)(uintptr_t)a[{n}]')
            elif what == 'WK_FLOAT':
                args.append(f'wk_float(a[{n}])')
            elif what in ('WK_PTR', 'WK_CALLBACK') or (what == 'WK_HANDLE' and
                                                       ctype not in NUMBER_HANDLES):
                args.append(f'({ctype})(uintptr_t)a[{n}]')
            else:
                args.append(f'({ctype})a[{n}]')
        unused = '' if args else '    (void)a;\n'
        self.out.append(f'static CUresult call_{i}(void *f, const uint64_t *a)\n{{\n{unused}'
                        f'    return ((__typeof__(&{f.name}))f)({", ".join(args)});\n}}')
        rows = '\n'.join(self.row(t, n, 0, f.name) for t, n in f.params)
        if rows:
            self.out.append(f'static const struct wk_param params_{i}[] = {{\n{rows}\n}};')

    def documented(self, name):
        for key in (name, hdr.base_name(name)[0]):
            if key in self.h.documented:
                return sorted(self.h.documented[key])
        return []

    def state(self, name):
        """How the description says that this name is served."""
        per_thread = hdr.base_name(name)[2].lstrip('_')
        plain = name[:-5] if per_thread else name
        for u in self.d.unsupported:
            if name in (u.name, u.name + '_' + str(u.opts.get('per_thread', ''))):
                return 'WK_REFUSED'
        for x in self.d.locals:
            if plain == x.name and (not per_thread or x.opts.get('per_thread') == per_thread):
                return 'WK_LOCAL'
        for c in self.d.calls:
            if plain == c.name and (not per_thread or c.opts.get('per_thread') == per_thread):
                return 'WK_FORWARD_NOCTX' if 'noctx' in c.opts else 'WK_FORWARD'
        raise hdr.HeaderError(f'{name} of cuda.h is not described')

    def beyond(self):
        """Described names that cuda.h does not declare: those of display APIs."""
        names = set()
        for x in self.d.calls + self.d.locals + self.d.unsupported:
            names |= {x.name} | ({f'{x.name}_{x.opts["per_thread"]}'} if 'per_thread' in x.opts else set())
        return sorted(n for n in names - set(self.h.functions) if n.startswith('cu'))

    def render(self):
        functions = list(self.h.functions.values())
        beyond = self.beyond()
        for i, f in enumerate(functions):
            self.entry(i, f)
        lines = ['/* SPDX-License-' 'Identifier: MIT */',
                 '/* Generated by tests/conformance/entrypoints/gen_walk.py from cuda.h and the description of the calls. */',
                 '#include "walk.h"', '']
        lines += self.out
        lines += ['/* Of names that cuda.h does not declare only zeroes are passed. */',
                  'static CUresult call_beyond(void *f, const uint64_t *a)', '{', '    (void)a;',
                  '    return ((CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, '
                  'uint64_t))f)(0, 0, 0, 0, 0, 0);', '}']
        done = 0
        while done < len(self.structs):  # rendering a struct may name further ones
            name = list(self.structs)[done]
            rows = [self.row(f.ctype, f.path, f'offsetof({name}, {f.path})')
                    for f in self.leaves(name)]
            lines.append(f'static const struct wk_param fields_{done}[] = {{\n' + '\n'.join(rows) +
                         '\n};')
            done += 1
        lines.append('const struct wk_struct wk_structs[] = {')
        for name, i in self.structs.items():
            lines.append(f'    {{"{name}", sizeof({name}), fields_{i}, '
                         f'sizeof(fields_{i}) / sizeof(fields_{i}[0])}},')
        lines += ['};', 'const char *const wk_kinds[] = {']
        lines += [f'    "{k}",' for k in self.kinds]
        lines += ['};', f'const unsigned wk_kind_count = {len(self.kinds)};']
        lines.append('const struct wk_entry wk_entries[] = {')
        for i, f in enumerate(functions):
            codes = ', '.join(self.documented(f.name) + ['-1'])
            params = f'params_{i}, {len(f.params)}' if f.params else 'NULL, 0'
            lines.append(f'    {{"{f.name}", call_{i}, {params}, {self.state(f.name)}, false, '
                         f'(const int[]){{{codes}}}}},')
        for name in beyond:
            lines.append(f'    {{"{name}", call_beyond, NULL, 0, {self.state(name)}, true, '
                         '(const int[]){-1}},')
        lines += ['};', f'const unsigned wk_entry_count = {len(functions) + len(beyond)};', '']
        return '\n'.join(lines)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        header = hdr.read(sys.argv[1], sys.argv[2])
        text = Writer(header, parse.parse(sys.argv[3], entry=sys.argv[4:])).render()
    except (hdr.HeaderError, parse.DefError) as e:
        sys.exit(f'gen_walk.py: {e}')
    print(text, end='')


if __name__ == '__main__':
    main()
