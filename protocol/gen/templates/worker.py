# SPDX-License-Identifier: MIT
"""vgp_worker.[ch]: decoders and dispatch rows of the worker, and the provider's function table."""
from templates.common import (BANNER, HANDLES, SCALARS, elem_ctype)


def provider_names(d):
    names = list(d.provider)
    names += [c.name for c in d.calls if c.worker == 'forward' and c.name not in names]
    return sorted(set(names))


def custom_proto(c):
    ps = ['struct vgb_call *c']
    if c.args.size:
        ps.append(f'const struct vgp_args_{c.name} *a')
    for p in c.var_in:
        ps.append(f'const {"void" if p.type in ("bytes", "blob") else elem_ctype(p)} *{p.name}')
    if c.ret.size:
        ps.append(f'struct vgp_ret_{c.name} *r')
    if c.var_out:
        ps.append(f'struct vgp_outs_{c.name} *o')
    return f'CUresult vgb_do_{c.name}({", ".join(ps)})'


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
              '            return vgb_malformed(c, "padding is not zero");']
    if not c.var_in:
        o += ['    if (c->args_size != vgp_round16(' + str(c.args.size) + '))',
              '        return vgb_malformed(c, "%u bytes of arguments, not %u", c->args_size,',
              f'                             (unsigned)vgp_round16({c.args.size}));']
        return o
    o.append(f'    uint64_t at = {c.args.size};')
    for p in c.var_in:
        ct = 'void' if p.type in ('bytes', 'blob') else elem_ctype(p)
        o += [f'    uint64_t {p.name}_bytes = (uint64_t)a->{p.name}_len * {p.elem};',
              f'    if (a->{p.name}_len > {p.max} || '
              f'!vgp_range_ok(at, {p.name}_bytes, c->args_size))',
              f'        return vgb_malformed(c, "{p.name}: %u is past its maximum or the record", '
              f'a->{p.name}_len);',
              f'    const {ct} *{p.name} = (const void *)(c->args + at);']
        if p.type == 'str':
            o += [f'    if ({p.name}_bytes == 0 || {p.name}[{p.name}_bytes - 1] != 0)',
                  f'        return vgb_malformed(c, "{p.name}: not a terminated string");']
        o.append(f'    at += vgp_round8({p.name}_bytes);')
    o += ['    if (vgp_round16(at) != c->args_size)',
          '        return vgb_malformed(c, "%u bytes of arguments, %llu used", c->args_size,',
          '                             (unsigned long long)at);']
    for p in c.var_in:
        if p.type == 'blob':
            o += [f'    if (a->{p.name}_blob == 0 && a->{p.name}_size != {p.name}_bytes)',
                  f'        return vgb_malformed(c, "{p.name}: its size does not match");',
                  f'    if (a->{p.name}_blob != 0) {{',
                  f'        CUresult br = vgb_blob_take(c, a->{p.name}_blob, a->{p.name}_size, '
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
    o = [f'static CUresult handle_{c.name}(struct vgb_call *c)', '{'] + decode(c)
    args = ['c'] + (['a'] if c.args.size else []) + [p.name for p in c.var_in]
    if c.ret.size:
        o.append(f'    struct vgp_ret_{c.name} ret = {{0}};')
        args.append('&ret')
    if c.var_out:
        o.append(f'    static __thread struct vgp_outs_{c.name} o;')
        args.append('&o')
    o.append(f'    CUresult r = vgb_do_{c.name}({", ".join(args)});')
    if c.ret.size:
        o += ['    if (c->malformed || c->deferred)', '        return r;']
        for p in c.var_out:
            o += [f'    if (ret.{p.name}_len > {p.max})', f'        ret.{p.name}_len = {p.max};']
    o += encode_reply(c)
    return o + ['    return r;', '}', '']


def handler_forward(c, d):
    o = [f'static CUresult handle_{c.name}(struct vgb_call *c)', '{'] + decode(c)
    if c.args.size:
        o.append('    (void)a;')
    o += [f'    if (!vgb_provider.{c.name})', f'        return vgb_missing(c, "{c.name}");',
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
                o.append(f'    r = vgb_func_get(c, a->{p.name}, &{p.name});')
            else:
                null = 'true' if 'null' in p.attrs else 'false'
                o.append(f'    r = vgb_handle_get(c, a->{p.name}, {HANDLES[p.sub]}, {null}, '
                         f'(void **)&{p.name});')
            o += ['    if (r != CUDA_SUCCESS)', '        return r;']
            args.append(p.name)
            if p.dir == 'del':
                post.append(f'    vgb_handle_drop(c, a->{p.name}, {HANDLES[p.sub]});')
        elif p.dir == 'new':
            o += [f'    {t} {p.name} = NULL;',
                  f'    r = vgb_handle_reserve(c, a->{p.name}, {HANDLES[p.sub]});',
                  '    if (r != CUDA_SUCCESS)', '        return r;']
            args.append(f'&{p.name}')
            news.append(f'        vgb_handle_put(c, a->{p.name}, {HANDLES[p.sub]}, {p.name});')
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
    o.append(f'    r = vgb_provider.{c.name}({", ".join(args)});')
    if news:
        o += ['    if (r == CUDA_SUCCESS) {'] + news + ['    }']
    o += post + encode_reply(c)
    return o + ['    return r;', '}', '']


def flags(c):
    f = []
    if not c.noctx:
        f.append('VGP_F_CONTEXT')
    f += {'async': ['VGP_F_ASYNC'], 'sync': ['VGP_F_REPLY'],
          'wait': ['VGP_F_REPLY', 'VGP_F_WAIT'], 'flex': ['VGP_F_WAIT']}[c.cls]
    return ' | '.join(f)


def render_h(d):
    o = [BANNER, '#ifndef VGP_WORKER_H', '#define VGP_WORKER_H', '', '#include "vgp_worker_rt.h"',
         '#include "vgp_calls.h"', '',
         '/* The provider: every driver-API function that the worker calls, by name; NULL where the',
         ' * provider lacks it. */', 'struct vgp_provider {']
    for n in provider_names(d):
        o.append(f'    __typeof__(&{n}) {n};')
    o += ['};', 'extern struct vgp_provider vgb_provider;',
          '/* Fills *p with find(ctx, name), e.g. dlsym. Returns how many were found. */',
          'unsigned vgp_provider_load(struct vgp_provider *p, void *(*find)(void *ctx, '
          'const char *name), void *ctx);', '',
          '/* Hand-written handlers (host/backend/worker). *r and *o are zeroed results; o->X holds',
          ' * r->X_len elements. A handler that returns an error may still fill them. */']
    for c in d.calls:
        if c.worker == 'custom':
            if c.var_out:
                o += outs_struct(c)
            o.append(custom_proto(c) + ';')
    return '\n'.join(o + ['', '#endif', ''])


def render_c(d):
    o = [BANNER, '#include <string.h>', '', '#include "vgp_worker.h"', '',
         'static inline uint64_t vgp_round8(uint64_t n)', '{', '    return (n + 7) & ~7ull;', '}', '',
         '/* What a record of this many argument bytes leaves after its header: records are multiples',
         ' * of 16 bytes. */',
         'static inline uint64_t vgp_round16(uint64_t n)', '{', '    return (n + 15) & ~15ull;', '}',
         '', 'static void vgp_reply_part(struct vgb_call *c, const void *data, uint64_t n)', '{',
         '    memcpy(c->reply + c->reply_size, data, n);',
         '    memset(c->reply + c->reply_size + n, 0, vgp_round8(n) - n);',
         '    c->reply_size += (uint32_t)vgp_round8(n);', '}', '']
    for c in d.calls:
        o += handler_custom(c) if c.worker == 'custom' else handler_forward(c, d)
    o += ['static const struct vgp_dispatch rows[] = {']
    for c in d.calls:
        o.append(f'    [VGP_{c.name}] = {{"{c.name}", handle_{c.name}, {c.args.size}, '
                 f'{c.args_max}, {flags(c)}, {c.since}}},')
    o += ['};', '', 'const struct vgp_dispatch *vgp_dispatch_row(uint16_t call)', '{',
          '    if (call >= sizeof(rows) / sizeof(rows[0]) || !rows[call].handler)',
          '        return NULL;', '    return &rows[call];', '}', '',
          'unsigned vgp_provider_load(struct vgp_provider *p, void *(*find)(void *ctx, '
          'const char *name), void *ctx)', '{', '    unsigned n = 0;']
    if not provider_names(d):
        o += ['    (void)p;', '    (void)find;', '    (void)ctx;']
    for n in provider_names(d):
        o.append(f'    n += (p->{n} = (__typeof__(p->{n}))find(ctx, "{n}")) != NULL;')
    o += ['    return n;', '}', '']
    return '\n'.join(o)
