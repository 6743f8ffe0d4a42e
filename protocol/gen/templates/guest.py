# SPDX-License-Identifier: MIT
"""vgp_guest.[ch]: the guest's encoders: one function per call, plus send/recv halves for flex."""
import re

from templates.common import (BANNER, HANDLES, SCALARS, array_struct, elem_ctype, enc_params,
                              plist)

LOCATION_ID = ('CUmemLocation', 'id')  # an ordinal, where the location is a device


def ordinal(p, verb, value, kind):
    """The ordinal of a device on the other side; `kind` is the C expression of its location type."""
    if kind is True:
        return f'vgp_device_{verb}({value})'
    return f'vgp_location_{verb}({kind}, {value})'


def cast_int(p):
    if 'device' in p.attrs:
        return ordinal(p, 'sent', p.name, p.attrs['device'])
    if p.ctype.endswith('*') or p.type == 'handle':
        return f'(uint64_t)(uintptr_t){p.name}'
    return f'({SCALARS[p.type][1]}){p.name}'


def size_expr(c):
    terms = [str(c.args.size)]
    terms += [f'vgp_pad8({p.name}_bytes)' for p in c.var_in]
    return ' + '.join(terms)


def encode(c, d):
    """Statements: lengths, begin, fill. Leaves `s` begun; jumps nowhere on error but returns r."""
    # A silent fill has its intent from the check.
    o = [] if c.silent else [f'    s->intent = {"intent" if c.intent else "(struct vgp_intent){0}"};']
    for p in c.waits_for:
        o.append(f'    s->intent = (struct vgp_intent){{VGP_OBSERVED_WAITS, false, true, {cast_int(p)}}};')
    for p in c.var_in:
        if p.type == 'str':
            o += [f'    uint64_t {p.name}_bytes = {p.name} ? strnlen({p.name}, {p.max}) + 1 : 0;',
                  f'    if ({p.name}_bytes == 0 || {p.name}_bytes > {p.max})',
                  '        return CUDA_ERROR_INVALID_VALUE;']
        elif p.type == 'blob':
            o += [f'    uint32_t {p.name}_blob = 0;',
                  f'    uint64_t {p.name}_bytes = {p.name}_size <= {p.max} ? {p.name}_size : 0;',
                  f'    if ({p.name}_size > {p.max}) {{',
                  f'        r = vgp_blob_send({p.name}, {p.name}_size, &{p.name}_blob);',
                  '        if (r != CUDA_SUCCESS)', '            return r;', '    }']
        else:
            n = f'{p.name}_len' if p.type == 'bytes' else f'{p.name}_count'
            o += [f'    if ({n} > {p.max} || ({n} && !{p.name}))',
                  '        return CUDA_ERROR_INVALID_VALUE;',
                  f'    uint64_t {p.name}_bytes = (uint64_t){n} * {p.elem};']
    # What the caller does not wait for fills its stream.
    o += [f'    vgp_stream_count(s, {cast_int(p)});' for p in c.fills]
    reply = {'async': 'false', 'sync': 'true', 'wait': 'true', 'flex': 'want_reply'}[c.cls]
    if c.silent or c.node:
        reply = 'want_reply'
    o += [f'    r = vgp_submit_begin(s, VGP_{c.name}, (uint32_t)({size_expr(c)}), {reply});',
          '    if (r != CUDA_SUCCESS)', '        return r;']
    if c.args.size:
        o.append(f'    struct vgp_args_{c.name} *a = s->args;')
    for p in c.params:
        if p.dir == 'out':
            continue
        if p.dir == 'new' and p.ctype.endswith('*'):
            o.append(f'    a->{p.name} = {p.name}_minted;')
        elif p.type in SCALARS or p.type == 'handle':
            o.append(f'    a->{p.name} = {cast_int(p)};')
        elif p.type == 'struct':
            acc = f'{p.name}.' if 'value' in p.attrs else f'{p.name}->'
            for wt, n, _ in d.structs[p.sub].fields:
                value = f'({SCALARS[wt][1]}){acc}{n}'
                if (p.sub, n) == LOCATION_ID:
                    value = f'vgp_location_sent((uint32_t){acc}type, {acc}id)'
                o.append(f'    a->{p.name}.{n} = {value};')
    if c.var_in:
        o.append(f'    uint8_t *v = (uint8_t *)s->args + {c.args.size};')
    for i, p in enumerate(c.var_in):
        ln = f'{p.name}_bytes' if p.type != 'array' else f'{p.name}_count'
        o.append(f'    a->{p.name}_len = (uint32_t){ln};')
        if p.type == 'blob':
            o += [f'    a->{p.name}_size = {p.name}_size;', f'    a->{p.name}_blob = {p.name}_blob;']
        if array_struct(p):
            o.append(f'    for (uint32_t i = 0; i < {p.name}_count; i++) {{')
            o.append(f'        {elem_ctype(p)} *e = ({elem_ctype(p)} *)v + i;')
            o.append('        memset(e, 0, sizeof(*e));')
            for wt, n, _ in d.structs[array_struct(p)].fields:
                o.append(f'        e->{n} = ({SCALARS[wt][1]}){p.name}[i].{n};')
            o.append('    }')
        elif 'device' in p.attrs:
            t = p.attrs['device']
            kind = t if t is True else f'i < {t}_count ? {t}[i] : 0'
            o += [f'    for (uint32_t i = 0; i < {p.name}_count; i++)',
                  f'        ((int32_t *)v)[i] = {ordinal(p, "sent", p.name + "[i]", kind)};']
        else:
            o += [f'    if ({p.name}_bytes)', f'        memcpy(v, {p.name}, {p.name}_bytes);']
        if p.type == 'str':
            o.append(f'    v[{p.name}_bytes - 1] = 0;')
        if i + 1 < len(c.var_in):
            o.append(f'    v += vgp_pad8({p.name}_bytes);')
    return o


def decode(c, d):
    """Statements after collect: payload and size are in `pay`, `n`; result in r."""
    o = []
    if not c.ret.size:
        return o
    o += [f'    const struct vgp_ret_{c.name} *ret = pay;',
          '    if (n < sizeof(*ret) && r == CUDA_SUCCESS)', '        r = CUDA_ERROR_UNKNOWN;',
          '    if (n >= sizeof(*ret)) {']
    for p in c.params:
        if p.dir != 'out' or p in c.var_out:
            continue
        t = p.ctype.rstrip('*').strip()
        if p.type == 'struct':
            o.append(f'        if (r == CUDA_SUCCESS && {p.name}) {{')
            o.append(f'            memset({p.name}, 0, sizeof(*{p.name})); /* its padding too */')
            for _, n, ct in d.structs[p.sub].fields:
                value = f'({ct})ret->{p.name}.{n}'
                if (p.sub, n) == LOCATION_ID:
                    value = f'vgp_location_got(ret->{p.name}.type, ret->{p.name}.id)'
                o.append(f'            {p.name}->{n} = {value};')
            o.append('        }')
            continue
        value = f'({t})ret->{p.name}'
        if 'device' in p.attrs:
            kind = p.attrs['device']
            value = ordinal(p, 'got', f'ret->{p.name}', kind if kind is True else f'ret->{kind}')
        o += [f'        if (r == CUDA_SUCCESS && {p.name})',
              f'            *{p.name} = {value};']
    if c.var_out:
        o.append('        const uint8_t *q = (const uint8_t *)(ret + 1);')
        o.append('        uint64_t left = n - sizeof(*ret);')
    for p in c.var_out:
        el = p.elem
        o += [f'        uint64_t {p.name}_bytes = (uint64_t)ret->{p.name}_len * {el};',
              f'        if ({p.name}_bytes > left || ret->{p.name}_len > {p.max}) {{',
              '            r = CUDA_ERROR_UNKNOWN;', f'            {p.name}_bytes = left = 0;',
              '        }']
        if p.type == 'str':
            o.append(f'        vgp_copy_str({p.name}, {p.name}_cap, q, {p.name}_bytes);')
        else:
            o += [f'        if ({p.name} && {p.name}_len) {{',
                  f'            uint64_t k = {p.name}_bytes / {el} < *{p.name}_len ? '
                  f'{p.name}_bytes / {el} : *{p.name}_len;',
                  f'            memcpy({p.name}, q, k * {el});',
                  f'            *{p.name}_len = (uint32_t)k;']
            if 'device' in p.attrs:
                t = p.attrs['device']
                kind = t if t is True else f'{t} && i < *{t}_len ? {t}[i] : 0'
                o += ['            for (uint32_t i = 0; i < k; i++)',
                      f'                {p.name}[i] = {ordinal(p, "got", p.name + "[i]", kind)};']
            o.append('        }')
        o += [f'        q += {p.name}_bytes < left ? vgp_pad8({p.name}_bytes) : {p.name}_bytes;',
              f'        left -= vgp_pad8({p.name}_bytes) < left ? vgp_pad8({p.name}_bytes) : left;']
    o.append('    }')
    return o


def minted(c):
    return [p for p in c.params if p.dir == 'new' and p.ctype.endswith('*')]


def call(c, d):
    o = [f'CUresult vgp_call_{c.name}({plist(enc_params(c))})', '{', '    CUresult r;',
         '    struct vgp_submit sub, *s = &sub;']
    if c.cls == 'flex':
        o.append('    const bool want_reply = true;')
    if c.silent:
        o.append('    s->intent = (struct vgp_intent){0};')
        own = f'true, {cast_int(c.fills[0])}' if c.fills else 'false, 0'
        o.append(f'    const bool want_reply = !vgp_submit_silent(s, {c.silent_since}, {", ".join(c.silent)}, {own});')
    if c.node:
        o.append('    const bool want_reply = op != VGP_NODE_POST;')
    m = minted(c)
    for p in m:
        o += [f'    uint64_t {p.name}_minted = vgp_handle_mint({HANDLES[p.sub]});',
              f'    if (!{p.name}_minted)', '        return CUDA_ERROR_OUT_OF_MEMORY;']
    body = encode(c, d)
    if m:
        drop = ''.join(f'vgp_handle_drop({p.name}_minted); ' for p in m)
        body = [re.sub(r'^( +)return (\w+);$', rf'\1{{ {drop}return \2; }}', b) for b in body]
    o += body
    if c.silent or c.node:
        o += ['    if (!want_reply)', '        return vgp_submit_async(s);']
    if c.cls == 'async':
        o.append('    r = vgp_submit_async(s);')
    else:
        o += ['    const void *pay = NULL;', '    uint32_t n = 0;',
              '    r = vgp_submit_publish(s);',
              '    if (r == CUDA_SUCCESS)', '        r = vgp_submit_collect(s, &pay, &n);']
        o += decode(c, d) or ['    (void)pay;', '    (void)n;']
        o.append('    vgp_submit_end(s);')
    for p in m:
        o += ['    if (r == CUDA_SUCCESS)',
              f'        *{p.name} = ({p.ctype[:-1].strip()})(uintptr_t){p.name}_minted;',
              '    else', f'        vgp_handle_drop({p.name}_minted);']
    for p in c.params:
        if p.dir == 'del':
            o += ['    if (r == CUDA_SUCCESS)',
                  f'        vgp_handle_drop((uint64_t)(uintptr_t){p.name});']
    o += ['    return r;', '}', '']
    return o


def post(c, d):
    """The encoder without a reply: what fails is told otherwise."""
    c.cls, cls = 'async', c.cls
    body = encode(c, d)
    c.cls = cls
    return [f'CUresult vgp_post_{c.name}({plist(enc_params(c))})', '{', '    CUresult r;',
            '    struct vgp_submit sub, *s = &sub;'] + body + ['    return vgp_submit_async(s);', '}', '']


def flex(c, d):
    ins = enc_params(c, ('in', 'new', 'del'))
    outs = enc_params(c, ('out',))
    o = [f'CUresult vgp_send_{c.name}(struct vgp_submit *s, bool want_reply, {plist(ins)})', '{',
         '    CUresult r;'] + encode(c, d)
    o += ['    return want_reply ? vgp_submit_publish(s) : vgp_submit_async(s);', '}', '',
          f'CUresult vgp_recv_{c.name}(struct vgp_submit *s'
          + (', ' + plist(outs) if outs else '') + ')', '{',
          '    const void *pay = NULL;', '    uint32_t n = 0;',
          '    CUresult r = vgp_submit_collect(s, &pay, &n);']
    o += decode(c, d) or ['    (void)pay;', '    (void)n;']
    o += ['    vgp_submit_end(s);', '    return r;', '}', '']
    return o


def render_h(d):
    o = [BANNER, '#ifndef VGP_GUEST_H', '#define VGP_GUEST_H', '', '#include "vgp_guest_rt.h"',
         '#include "vgp_calls.h"', '',
         '/*', ' * Encoders. vgp_call_X submits and, unless the class is async, waits for the reply.',
         ' * Lengths: _len counts bytes, _count elements; for results it is in: capacity, out: what',
         ' * came. `del` handles are dropped when the call succeeded. For flex calls vgp_send_X',
         ' * publishes (with want_reply the reply is outstanding) and vgp_recv_X collects and ends.',
         ' */']
    for c in d.calls:
        o.append(f'CUresult vgp_call_{c.name}({plist(enc_params(c))});')
        if c.post:
            o.append(f'CUresult vgp_post_{c.name}({plist(enc_params(c))});')
        if c.cls == 'flex':
            ins = enc_params(c, ('in', 'new', 'del'))
            outs = enc_params(c, ('out',))
            o.append(f'CUresult vgp_send_{c.name}(struct vgp_submit *s, bool want_reply, '
                     f'{plist(ins)});')
            o.append(f'CUresult vgp_recv_{c.name}(struct vgp_submit *s'
                     + (', ' + plist(outs) if outs else '') + ');')
    return '\n'.join(o + ['', '#endif', ''])


def render_c(d):
    o = [BANNER, '#include <string.h>', '', '#include "vgp_guest.h"', '',
         'static inline uint64_t vgp_pad8(uint64_t n)', '{', '    return (n + 7) & ~7ull;', '}', '',
         'static inline void vgp_copy_str(char *to, uint32_t cap, const uint8_t *from, uint64_t n)',
         '{', '    if (!to || !cap)', '        return;', '    uint64_t k = n < cap ? n : cap - 1;',
         '    memcpy(to, from, k);', '    to[k < cap ? k : cap - 1] = 0;', '}', '']
    for c in d.calls:
        o += call(c, d)
        if c.post:
            o += post(c, d)
        if c.cls == 'flex':
            o += flex(c, d)
    return '\n'.join(o)
