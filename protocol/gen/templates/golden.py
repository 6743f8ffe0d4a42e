# SPDX-License-Identifier: MIT
"""Test code, made anew for each run: for every call, and each form in which it may travel, a record with
arguments that follow from the names of its fields alone. vgp_golden_test.c prints what the encoder made of it."""
from templates.common import BANNER, HANDLES, SCALARS, elem_ctype


def fill_in(c, d, count, blob):
    """Statements that declare and fill the arguments; the argument list. Arrays have `count` elements at most."""
    o, args = [], []
    for p in c.params:
        key = f'"{c.name}.{p.name}"'
        if p.dir == 'out':
            continue
        if p.type in SCALARS:
            t = SCALARS[p.type][1]
            o += [f'    {t} in_{p.name};', f'    fill(&in_{p.name}, sizeof(in_{p.name}), {key});']
            args.append(f'({p.ctype})in_{p.name}')
        elif p.type == 'handle':
            if p.dir == 'new' and p.ctype.endswith('*'):
                o.append(f'    {p.ctype[:-1].strip()} in_{p.name};')
                args.append(f'&in_{p.name}')
            else:
                args.append(f'({p.ctype})(uintptr_t)handle({HANDLES[p.sub]}, {key})')
        elif p.type == 'struct':
            t = p.ctype.rstrip('*').strip().replace('const ', '')
            o += [f'    {t} in_{p.name};', f'    memset(&in_{p.name}, 0, sizeof(in_{p.name}));']
            for _, n, ct in d.structs[p.sub].fields:
                o.append(f'    in_{p.name}.{n} = ({ct})(value({key} ".{n}") & 0x7fff);')
            args.append(f'in_{p.name}' if 'value' in p.attrs else f'&in_{p.name}')
        elif p.type == 'str':
            n = min(p.max, 20)
            o += [f'    char in_{p.name}[{n}];', f'    text(in_{p.name}, {n}, {key});']
            args.append(f'in_{p.name}')
        else:
            n = blob if p.type == 'blob' else min(p.max, count)
            el = 'uint8_t' if p.type == 'blob' else elem_ctype(p)
            o += [f'    static {el} in_{p.name}[{n or 1}];', f'    fill(in_{p.name}, sizeof(in_{p.name}), {key});']
            cast = f'({p.ctype})' if p.type == 'array' and ':' in p.sub else ''
            args += [f'{cast}in_{p.name}', str(n)]
    return o, args


def results(c):
    args = []
    for p in c.params:
        if p.dir == 'out':
            args.append('NULL')
            if p.type == 'str':
                args.append('0')
            elif p.type in ('bytes', 'array'):
                args.append('NULL')
    return args


def in_order(c, ins):
    """The arguments of vgp_call_X: the results stand where the description has them."""
    out, left = [], list(ins)
    for p in c.params:
        if p.dir == 'out':
            one = type(c)(c.number, c.name, c.cls, {}, c.path, c.line, [p])
            out += results(one)
        else:
            out.append(left.pop(0))
            if p.type in ('blob', 'bytes', 'array'):
                out.append(left.pop(0))
    return out


def render(d):
    o, names = [BANNER], []
    for c in d.calls:
        forms = [('', 5, 40)]
        if c.var_in:
            forms.append(('_empty', 0, 0))
        if any(p.type == 'blob' for p in c.params):
            forms.append(('_large', 5, 48 * 1024 + 1))
        for tag, count, blob in forms:
            fill, ins = fill_in(c, d, count, blob)
            name = f'golden_{c.name}{tag}'
            names.append(name)
            o += [f'static void {name}(void)', '{', f'    begin("{c.name}{tag}");'] + fill
            intent = ['(struct vgp_intent){0}'] if c.intent else []
            o.append(f'    vgp_call_{c.name}({", ".join(intent + in_order(c, ins))});')
            if c.cls == 'flex':
                o += ['    struct vgp_submit s;', f'    begin("{c.name}{tag}_silent");',
                      f'    vgp_send_{c.name}(&s, false, {", ".join(intent + ins)});']
            o += ['}', '']
    o += ['static void (*const cases[])(void) = {'] + [f'    {n},' for n in names]
    return '\n'.join(o + ['};', ''])
