# SPDX-License-Identifier: MIT
"""vgp_fields.c: where each field of a call lies and what it means to whoever replays the call."""
from templates.common import BANNER


def meaning(p):
    """An address, a handle, an object that the worker numbers, ...: enum vgp_field_meaning."""
    if p.type == 'handle' or p.sub.startswith('handle:'):
        return 'HANDLE'
    if 'made' in p.attrs and 'varies' in p.attrs:
        return 'OBJECTS'
    for attr in ('addr', 'words', 'made', 'varies', 'opaque'):
        if attr in p.attrs:
            return {'made': 'HANDLE'}.get(attr, attr.upper())
    return 'ADDR' if p.ctype.startswith('CUdeviceptr') else 'PLAIN'


def rows(params, lay, var):
    at = {f.name: f for f in lay.fields}
    out = []
    for p in params:
        if p in var:
            f = at[f'{p.name}_len']
            form = 'BLOB' if p.type == 'blob' else 'STR' if p.type == 'str' else 'ARRAY'
            out.append((p.name, form, meaning(p), f.offset, p.elem, p.max))
        else:
            f = at[p.name]
            out.append((p.name, 'FLOAT' if p.type == 'f32' else 'FIXED', meaning(p), f.offset, f.size, 0))
    return out


def table(name, cells):
    o = [f'static const struct vgp_field {name}[] = {{']
    o += [f'    {{"{n}", VGP_FORM_{form}, VGP_MEANS_{m}, {off}, {size}, {most}}},'
          for n, form, m, off, size, most in cells]
    return o + ['};']


def render(d):
    o = [BANNER, '#include <stddef.h>', '', '#include "vgp_fields.h"', '#include "vgp_calls.h"', '']
    cases = []
    for c in d.calls:
        ins = rows([p for p in c.params if p.dir != 'out'], c.args, c.var_in)
        outs = rows([p for p in c.params if p.dir == 'out'], c.ret, c.var_out)
        for tag, cells in (('in', ins), ('out', outs)):
            if cells:
                o += table(f'{tag}_{c.name}', cells)
        a = f'in_{c.name}, {len(ins)}' if ins else 'NULL, 0'
        r = f'out_{c.name}, {len(outs)}' if outs else 'NULL, 0'
        cases.append(f'    {{{c.number:#06x}, "{c.name}", {a}, {r}, {c.args.size}, {c.ret.size}}},')
    o += ['', 'static const struct vgp_call_fields calls[] = {'] + cases + ['};', '',
          'const struct vgp_call_fields *vgp_fields_of(uint16_t call)', '{',
          '    size_t low = 0, high = sizeof(calls) / sizeof(calls[0]);', '',
          '    while (low < high) {', '        size_t mid = low + (high - low) / 2;', '',
          '        if (calls[mid].number == call)', '            return &calls[mid];',
          '        if (calls[mid].number < call)', '            low = mid + 1;', '        else',
          '            high = mid;', '    }', '    return NULL;', '}', '']
    return '\n'.join(o)
