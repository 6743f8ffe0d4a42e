# SPDX-License-Identifier: MIT
"""vgp_worker.[ch]: decoders and dispatch rows of the worker."""
import re
from templates.common import (BANNER, HANDLES, SCALARS, elem_ctype)


def provider_calls(c):
    """The functions of the provider that the steps of a handler call, in order."""
    found = []
    for s in c.work:
        for n in re.findall(r'\b(cu[A-Z]\w*)\(', s.text):
            if n not in found:
                found.append(n)
    return found


def custom_proto(c):
    ps = ['struct wrk_call *c']
    if c.args.size:
        ps.append(f'const struct vgp_args_{c.name} *a')
    for p in c.var_in:
        ps.append(f'const {"void" if p.type in ("bytes", "blob") else elem_ctype(p)} *{p.name}')
    if c.ret.size:
        ps.append(f'struct vgp_ret_{c.name} *r')
    if c.var_out:
        ps.append(f'struct vgp_outs_{c.name} *o')
    return f'CUresult wrk_do_{c.name}({", ".join(ps)})'


def outs_struct(c):
    o = [f'struct vgp_outs_{c.name} {{']
    for p in c.var_out:
        o.append(f'    {elem_ctype(p)} {p.name}[{p.max}] __attribute__((aligned(8)));')
    return o + ['};']


def decode(c):
    o = []
    if c.args.size:
        o.append(f'    const struct vgp_args_{c.name} *a = (const void *)c->args;')
    pads = [f for f in c.args.fields if f.name.startswith('pad')]
    for f in pads:
        o += [f'    for (unsigned i = 0; i < {f.size}; i++)', f'        if (a->{f.name}[i])',
              '            return wrk_malformed(c, "padding is not zero");']
    if not c.var_in:
        o += ['    if (c->args_size != vgp_round16(' + str(c.args.size) + '))',
              '        return wrk_malformed(c, "%u bytes of arguments, not %u", c->args_size,',
              f'                             (unsigned)vgp_round16({c.args.size}));']
        return o
    o.append(f'    uint64_t at = {c.args.size};')
    for p in c.var_in:
        ct = 'void' if p.type in ('bytes', 'blob') else elem_ctype(p)
        o += [f'    uint64_t {p.name}_bytes = (uint64_t)a->{p.name}_len * {p.elem};',
              f'    if (a->{p.name}_len > {p.max} || '
              f'!vgp_range_ok(at, {p.name}_bytes, c->args_size))',
              f'        return wrk_malformed(c, "{p.name}: %u is past its maximum or the record", '
              f'a->{p.name}_len);',
              f'    const {ct} *{p.name} = (const void *)(c->args + at);']
        if p.type == 'str':
            o += [f'    if ({p.name}_bytes == 0 || {p.name}[{p.name}_bytes - 1] != 0)',
                  f'        return wrk_malformed(c, "{p.name}: not a terminated string");']
        o.append(f'    at += vgp_round8({p.name}_bytes);')
    o += ['    if (vgp_round16(at) != c->args_size)',
          '        return wrk_malformed(c, "%u bytes of arguments, %llu used", c->args_size,',
          '                             (unsigned long long)at);']
    for p in c.var_in:
        if p.type == 'blob':
            o += [f'    if (a->{p.name}_blob == 0 && a->{p.name}_size != {p.name}_bytes)',
                  f'        return wrk_malformed(c, "{p.name}: its size does not match");',
                  f'    if (a->{p.name}_blob != 0) {{',
                  f'        CUresult br = wrk_blob_take(c, a->{p.name}_blob, a->{p.name}_size, '
                  f'&{p.name});', '        if (br != CUDA_SUCCESS)', '            return br;',
                  '    }']
    return o


def encode_reply(c):
    o = []
    if not c.ret.size:
        return o
    o += ['    memcpy(c->reply, &ret, sizeof(ret));', '    c->reply_size = sizeof(ret);']
    for p in c.var_out:
        o += [f'    vgp_reply_part(c, o.{p.name}, (uint64_t)ret.{p.name}_len * {p.elem});']
    return o


def handler_custom(c):
    o = [f'static CUresult handle_{c.name}(struct wrk_call *c)', '{'] + decode(c)
    args = ['c'] + (['a'] if c.args.size else []) + [p.name for p in c.var_in]
    if c.ret.size:
        o.append(f'    struct vgp_ret_{c.name} ret = {{0}};')
        args.append('&ret')
    if c.var_out:
        o.append(f'    static __thread struct vgp_outs_{c.name} o;')
        args.append('&o')
    o.append(f'    CUresult r = wrk_do_{c.name}({", ".join(args)});')
    if c.ret.size:
        o += ['    if (c->malformed || c->deferred)', '        return r;']
        for p in c.var_out:
            o += [f'    if (ret.{p.name}_len > {p.max})', f'        ret.{p.name}_len = {p.max};']
    o += encode_reply(c)
    return o + ['    return r;', '}', '']


def handler_forward(c, d):
    o = [f'static CUresult handle_{c.name}(struct wrk_call *c)', '{'] + decode(c)
    if c.args.size:
        o.append('    (void)a;')
    o += [f'    if (!wrk_provider.{c.name})', f'        return wrk_missing(c, "{c.name}");',
          '    CUresult r;']
    if c.ret.size:
        o.append(f'    struct vgp_ret_{c.name} ret = {{0}};')
    args, post, news = [], [], []
    for p in c.params:
        t = p.ctype.rstrip('*').strip().replace('const ', '')
        if p.dir in ('in', 'del') and p.type in SCALARS:
            args.append(f'({p.ctype})a->{p.name}')
        elif p.dir in ('in', 'del') and p.type == 'handle':
            o.append(f'    {p.ctype} {p.name} = NULL;')
            if p.sub == 'func':
                o.append(f'    r = wrk_func_get(c, a->{p.name}, &{p.name});')
            else:
                null = 'true' if 'null' in p.attrs else 'false'
                o.append(f'    r = wrk_handle_get(c, a->{p.name}, {HANDLES[p.sub]}, {null}, '
                         f'(void **)&{p.name});')
            o += ['    if (r != CUDA_SUCCESS)', '        return r;']
            args.append(p.name)
            if p.dir == 'del':
                post.append(f'    wrk_handle_drop(c, a->{p.name}, {HANDLES[p.sub]});')
        elif p.dir == 'new':
            o += [f'    {t} {p.name} = NULL;',
                  f'    r = wrk_handle_reserve(c, a->{p.name}, {HANDLES[p.sub]});',
                  '    if (r != CUDA_SUCCESS)', '        return r;']
            args.append(f'&{p.name}')
            news.append(f'        wrk_handle_put(c, a->{p.name}, {HANDLES[p.sub]}, {p.name});')
        elif p.dir == 'out' and p.type in SCALARS:
            o.append(f'    {t} {p.name} = 0;')
            args.append(f'&{p.name}')
            post.append(f'    ret.{p.name} = ({SCALARS[p.type][1]}){p.name};')
        elif p.dir == 'out' and p.type == 'struct':
            o += [f'    {t} {p.name};', f'    memset(&{p.name}, 0, sizeof({p.name}));']
            args.append(f'&{p.name}')
            for wt, n, _ in d.structs[p.sub].fields:
                post.append(f'    ret.{p.name}.{n} = ({SCALARS[wt][1]}){p.name}.{n};')
        elif p.dir == 'in' and p.type == 'struct':
            o.append(f'    {t} {p.name};')
            o.append(f'    memset(&{p.name}, 0, sizeof({p.name}));')
            for _, n, ct in d.structs[p.sub].fields:
                o.append(f'    {p.name}.{n} = ({ct})a->{p.name}.{n};')
            args.append(p.name if 'value' in p.attrs else f'&{p.name}')
        elif p.dir == 'in' and p.type == 'str':
            args.append(p.name)
        else:
            raise ValueError(f'{c.name}: {p.name}: cannot be forwarded: use worker=custom')
    o.append(f'    r = wrk_provider.{c.name}({", ".join(args)});')
    owners = [p for p in c.params if 'parent' in p.attrs]
    for p in owners:
        if p.dir != 'in' or p.type != 'handle' or len(owners) > 1 or not news:
            raise ValueError(f'{c.name}: {p.name}: a parent is one handle of a call that makes one')
        news += [f'        wrk_handle_parent(c, a->{n.name}, a->{p.name});'
                 for n in c.params if n.dir == 'new']
    if news:
        o += ['    if (r == CUDA_SUCCESS) {'] + news + ['    }']
    o += post + encode_reply(c)
    return o + ['    return r;', '}', '']


# Handles whose table entry is not the provider's object itself: who gives that.
OBJECTS = {'graph': 'wrk_graph_object', 'graph_node': 'wrk_node_object', 'green': 'wrk_green_object',
           'allocation': 'wrk_allocation_object'}


def bind(c, p):
    """Statements that make a parameter a variable of its own name; what to do when the call succeeded."""
    o, news, post = [], [], []
    t = str(p.attrs.get('as', '')) or p.ctype.rstrip('*').strip().replace('const ', '')
    if p.dir in ('in', 'del') and p.type in SCALARS:
        o.append(f'    {SCALARS[p.type][1]} {p.name} = a->{p.name};')
    elif p.dir in ('in', 'del') and p.type == 'handle':
        o.append(f'    {t} {p.name} = 0;')
        if p.sub == 'func':
            o.append(f'    r = wrk_func_get(c, a->{p.name}, &{p.name});')
        elif p.sub in OBJECTS:
            o.append(f'    r = {OBJECTS[p.sub]}(c, a->{p.name}, &{p.name});')
        else:
            null = 'true' if 'null' in p.attrs else 'false'
            o.append(f'    r = wrk_handle_get(c, a->{p.name}, {HANDLES[p.sub]}, {null}, (void **)&{p.name});')
        o += ['    if (r != CUDA_SUCCESS)', '        return r;']
        if p.dir == 'del':
            post.append(f'    wrk_handle_drop(c, a->{p.name}, {HANDLES[p.sub]});')
    elif p.dir == 'new':
        o += [f'    {t} {p.name} = NULL;', f'    r = wrk_handle_reserve(c, a->{p.name}, {HANDLES[p.sub]});',
              '    if (r != CUDA_SUCCESS)', '        return r;']
        news.append(f'        wrk_handle_put(c, a->{p.name}, {HANDLES[p.sub]}, {p.name});')
    elif p.dir == 'out' and p.type in SCALARS:
        value = p.attrs.get('from', p.name)
        if 'from' not in p.attrs:
            o.append(f'    {t} {p.name} = 0;')
        post.append(f'    ret.{p.name} = ({SCALARS[p.type][1]}){value};')
    elif p.dir == 'in' and p.type == 'bytes' and 'as' in p.attrs:
        o += [f'    {t} {p.name};', f'    if (a->{p.name}_len != sizeof({p.name}))',
              f'        return wrk_malformed(c, "{p.name}: %u bytes, not %zu", a->{p.name}_len, sizeof({p.name}));',
              f'    memcpy(&{p.name}, {p.name}_wire, sizeof({p.name}));']
    elif p.dir == 'out' and p.type == 'bytes' and 'as' in p.attrs:
        o += [f'    {t} {p.name};', f'    _Static_assert(sizeof({p.name}) <= {p.max}, "fits");',
              f'    memset(&{p.name}, 0, sizeof({p.name}));']
        news += [f'        memcpy(o.{p.name}, &{p.name}, sizeof({p.name}));',
                 f'        ret.{p.name}_len = sizeof({p.name});']
    elif p.dir == 'out' and p.type == 'array' and 'len' in p.attrs:
        o.append(f'    __typeof__(&o.{p.name}[0]) {p.name} = o.{p.name};')
        news.append(f'        ret.{p.name}_len = {p.attrs["len"]} <= {p.max} ? {p.attrs["len"]} : {p.max};')
    elif p.dir == 'in' and p.type == 'array':
        o.append(f'    uint32_t {p.name}_len = a->{p.name}_len;')
    elif not (p.dir == 'in' and p.type == 'str'):
        raise ValueError(f'{c.name}: {p.name}: has no form in a handler with steps')
    return o, news, post


def handler_steps(c):
    """The decoder, what the steps say, the reply. Handles first, then the checks, then what the provider lacks."""
    dec = decode(c)
    for p in c.var_in:
        if p.type == 'bytes' and 'as' in p.attrs:
            dec = [re.sub(rf'\*{p.name} =', f'*{p.name}_wire =', ln) for ln in dec]
    o = [f'static CUresult handle_{c.name}(struct wrk_call *c)', '{'] + dec + ['    CUresult r;']
    if c.ret.size:
        o.append(f'    struct vgp_ret_{c.name} ret = {{0}};')
    if c.var_out:
        o.append(f'    static __thread struct vgp_outs_{c.name} o;')
    news, post, said = [], [], ' '.join(s.text for s in c.work) + ' '.join(str(v) for p in c.params
                                                                          for v in p.attrs.values())
    for p in c.params:
        b, n, q = bind(c, p)
        o += b
        news += n
        post += q
        name = f'{p.name}_len' if p.type == 'array' and p.dir == 'in' else p.name
        if p.dir == 'in' and not re.search(rf'\b{name}\b', said) or p.dir == 'del':
            o.append(f'    (void){name};')
    for p in c.params:
        if 'parent' in p.attrs:
            news += [f'        wrk_handle_parent(c, a->{n.name}, a->{p.name});' for n in c.params if n.dir == 'new']
    for s in c.work:
        text = re.sub(r'\b(cu[A-Z]\w*)\(', r'wrk_provider.\1(', s.text)
        if s.kind == 'with':
            o.append(f'    {text};')
        elif s.kind == 'check':
            o += [f'    r = {text};', '    if (r != CUDA_SUCCESS)', '        return r;']
        elif s.kind == 'deny':
            o += [f'    if ({text})', f'        return {s.result};']
        else:
            for n in provider_calls(c):
                o += [f'    if (!wrk_provider.{n})', f'        return wrk_missing(c, "{n}");']
            o.append(f'    r = {text};')
    if news:
        o += ['    if (r == CUDA_SUCCESS) {'] + news + ['    }']
    return o + post + encode_reply(c) + ['    return r;', '}', '']


def flags(c):
    f = []
    if not c.noctx:
        f.append('VGP_F_CONTEXT')
    f += {'async': ['VGP_F_ASYNC'], 'sync': ['VGP_F_REPLY'],
          'wait': ['VGP_F_REPLY', 'VGP_F_WAIT'], 'flex': ['VGP_F_WAIT']}[c.cls]
    return ' | '.join(f)


def render_h(d):
    o = [BANNER, '#ifndef VGP_WORKER_H', '#define VGP_WORKER_H', '', '#include "vgp_worker_rt.h"',
         '#include "vgp_calls.h"', '#include "vgp_provider.h"', '',
         "/* The provider's functions as handlers call them: behind the worker's filters. */",
         'extern struct vgp_provider wrk_provider;', '',
         '/* Hand-written handlers (host/backend/worker). *r and *o are zeroed results; o->X holds',
         ' * r->X_len elements. A handler that returns an error may still fill them. */']
    for c in d.calls:
        if c.worker == 'custom':
            if c.var_out:
                o += outs_struct(c)
            o.append(custom_proto(c) + ';')
    o += ['', '/* What the generated handlers call in the worker around them. */']
    o += [f'{p};' for p in d.host]
    return '\n'.join(o + ['', '#endif', ''])


def render_c(d):
    o = [BANNER, '#include <string.h>', '', '#include "vgp_worker.h"', '',
         'static inline uint64_t vgp_round8(uint64_t n)', '{', '    return (n + 7) & ~7ull;', '}', '',
         '/* What a record of this many argument bytes leaves after its header: records are multiples',
         ' * of 16 bytes. */',
         'static inline uint64_t vgp_round16(uint64_t n)', '{', '    return (n + 15) & ~15ull;', '}',
         '', 'static void vgp_reply_part(struct wrk_call *c, const void *data, uint64_t n)', '{',
         '    memcpy(c->reply + c->reply_size, data, n);',
         '    memset(c->reply + c->reply_size + n, 0, vgp_round8(n) - n);',
         '    c->reply_size += (uint32_t)vgp_round8(n);', '}', '']
    for c in d.calls:
        if c.worker == 'steps':
            if c.var_out:
                o += outs_struct(c)
            o += handler_steps(c)
        else:
            o += handler_custom(c) if c.worker == 'custom' else handler_forward(c, d)
    o += ['static const struct vgp_dispatch rows[] = {']
    for c in d.calls:
        o.append(f'    [VGP_{c.name}] = {{"{c.name}", handle_{c.name}, {c.args.size}, '
                 f'{c.args_max}, {flags(c)}, {c.since}}},')
    o += ['};', '', 'const struct vgp_dispatch *vgp_dispatch_row(uint16_t call)', '{',
          '    if (call >= sizeof(rows) / sizeof(rows[0]) || !rows[call].handler)',
          '        return NULL;', '    return &rows[call];', '}', '']
    return '\n'.join(o)
