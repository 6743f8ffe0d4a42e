# SPDX-License-Identifier: MIT
"""vgp_calls.h: numbers, wire structures, names. Included by both sides."""
from templates.common import BANNER, SCALARS
from policy import layout_struct


def struct(name, lay):
    out = [f'struct {name} {{']
    for f in lay.fields:
        if f.name.startswith('pad') and f.ctype == 'uint8_t':
            out.append(f'    uint8_t {f.name}[{f.size}];')
        else:
            out.append(f'    {f.ctype} {f.name};')
    if not lay.fields:
        return []
    out.append('};')
    out.append(f'_Static_assert(sizeof(struct {name}) == {lay.size}, "wire size");')
    for f in lay.fields:
        if not f.name.startswith('pad'):
            out.append(f'_Static_assert(__builtin_offsetof(struct {name}, {f.name}) == '
                       f'{f.offset}, "wire layout");')
    return out + ['']


def render(d):
    o = [BANNER, '#ifndef VGP_CALLS_H', '#define VGP_CALLS_H', '', '#include <stdint.h>', '',
         '/* Numbers are stable and never reused. */', 'enum vgp_call {']
    o += [f'    VGP_{c.name} = {c.number:#06x},' for c in d.calls]
    o += ['};', f'#define VGP_CALL_LIMIT {d.calls[-1].number + 1:#06x}u /* no number is as high */',
          '', '/* The name of a call, or NULL. */', 'const char *vgp_call_name(uint16_t call);',
          '/* The minor version of the protocol that brought a call: an older worker does not know it. */',
          'unsigned vgp_call_since(uint16_t call);', '',
          '/* A row per call, for traces, fuzzers and tests; ends with name = NULL. */',
          'struct vgp_call_info {', '    uint16_t number;', '    const char *name;',
          '    const char *cls; /* "async", "sync", "wait", "flex" */',
          '    uint32_t args_fixed, args_max; /* bytes after the record header */',
          '    uint32_t ret_fixed, ret_max;   /* bytes after the reply header */', '};',
          'extern const struct vgp_call_info vgp_call_infos[];', '']
    for st in d.structs.values():
        o += [f'/* {st.name}, as it travels. */'] + struct(f'vgp_{st.name}', layout_struct(st))
    for c in d.calls:
        o.append(f'/* {c.name}: {c.cls} */')
        o += [f'#define VGP_MAX_{c.name}_{p.name} {p.max}u' for p in c.var_in + c.var_out if p.type in ('array', 'bytes')]
        o += struct(f'vgp_args_{c.name}', c.args)
        o += struct(f'vgp_ret_{c.name}', c.ret)
    o += ['#endif', '']
    return '\n'.join(o)


def render_names(d):
    newest = max((c.since for c in d.calls), default=0)
    o = [BANNER, '#include <stddef.h>', '', '#include "vgp_calls.h"', '#include "vgp_ring.h"', '',
         f'_Static_assert({newest} <= VGP_VERSION_MINOR, "a call is newer than the protocol");', '',
         'const char *vgp_call_name(uint16_t call)', '{', '    switch (call) {']
    o += [f'    case VGP_{c.name}: return "{c.name}";' for c in d.calls]
    o += ['    default: return NULL;', '    }', '}', '',
          'unsigned vgp_call_since(uint16_t call)', '{', '    static const uint8_t since[] = {']
    o += [f'        [VGP_{c.name}] = {c.since},' for c in d.calls if c.since]
    o += ['        [VGP_CALL_LIMIT] = 0,', '    };', '',
          '    return call < VGP_CALL_LIMIT ? since[call] : 0;', '}', '',
          'const struct vgp_call_info vgp_call_infos[] = {']
    o += [f'    {{{c.number:#06x}, "{c.name}", "{c.cls}", {c.args.size}, {c.args_max}, '
          f'{c.ret.size}, {c.ret_max}}},' for c in d.calls]
    o += ['    {0, NULL, NULL, 0, 0, 0, 0},', '};', '']
    return '\n'.join(o)
