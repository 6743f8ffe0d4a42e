# SPDX-License-Identifier: MIT
"""vgp_worker.[ch]: decoders and dispatch rows of the worker."""
import re
from facts import Located
from templates.common import (BANNER, HANDLES, SCALARS, elem_ctype)


def provider_calls(c):
    """The functions of the provider that the steps of a handler call, in order."""
    found = []
    for s in c.work:
        for n in re.findall(r'(?<![.\w])(cu[A-Z]\w*)\(', s.text):
            if n not in found:
                found.append(n)
    return found


def worker_texts(d):
    """All C text that the description gives to handlers."""
    return [t for c in d.calls for t in [s.text + ' ' + s.result for s in c.work] + [str(v) for p in c.params for v in p.attrs.values()]]


def declared(header):
    """name -> (type of the result, parameters) of the worker's functions that a header's text declares."""
    text = re.sub(r'/\*.*?\*/', '', header, flags=re.S)
    return {m[2]: (m[1].strip(), re.sub(r'\s+', ' ', m[3])) for m in
            re.finditer(r'^([A-Za-z_][\w ]*[ *])(wrk_\w+)\(([^;{]*?)\)(?: __attribute__[^;]*)?;', text, re.M)}


def rt_names(d):
    """name -> prototype of what the generated code may call whatever the description says: the worker's vgp_worker_rt.h."""
    return declared(d.runtime)


def inline_names(d):
    """Those of them that the header defines."""
    return set(re.findall(r'^static inline [\w *]*?\b(\w+)\(', d.runtime, re.M))


def own_names(d):
    """What steps name in the worker besides that: vgp_worker_steps.h declares it."""
    return sorted({n for text in worker_texts(d) for n in re.findall(r'\bwrk_\w+', re.sub(r'\bstruct \w+|"[^"]*"', '', text))}
                  - {'wrk_provider', *rt_names(d)})


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


def handler_long(c):
    """A forwarded call on a waiter thread: its arguments are numbers and objects, three at most, and it has no results."""
    def value(p, i):
        return f'({p.ctype})(uintptr_t)args[{i}]' if p.type == 'handle' else f'({p.ctype})args[{i}]'
    if len(c.params) > 3 or any(p.dir not in ('in', 'del') or p.type not in SCALARS and p.type != 'handle' or
                                p.sub in OBJECTS for p in c.params):
        raise ValueError(f'{c.name}: such parameters do not fit a long call')
    o = [f'static CUresult long_{c.name}(const uint64_t *args)', '{',
         f'    return wrk_provider.{c.name}({", ".join(value(p, i) for i, p in enumerate(c.params))});', '}', '',
         f'static CUresult handle_{c.name}(struct wrk_call *c)', '{'] + decode(c) + ['    CUresult r;']
    args, objects, drops = [], [], []
    for p in c.params:
        if p.type != 'handle':
            args.append(f'(uint64_t)a->{p.name}')
            continue
        o.append(f'    {p.ctype} {p.name} = NULL;')
        o += lookup(c, p)
        args.append(f'(uintptr_t){p.name}')
        objects.append(p.name)
        if p.dir == 'del':
            drops += [f'    if (wrk_handle_is_part(c, a->{p.name}, {HANDLES[p.sub]}))',
                      '        return CUDA_ERROR_INVALID_HANDLE;']
            if p.sub in KEPT:
                drops += [f'    if (wrk_name_keep_long(c, a->{p.name}, {HANDLES[p.sub]}))', '        return CUDA_SUCCESS;']
            drops += [f'    wrk_handle_drop(c, a->{p.name}, {HANDLES[p.sub]});']
    args += ['0'] * (3 - len(args))
    return [ln for ln in o if objects or ln != '    CUresult r;'] + [
        f'    if (!wrk_provider.{c.name})', f'        return wrk_missing(c, "{c.name}");'] + drops + [
        f'    return wrk_long(c, long_{c.name}, {objects[0] if objects else "NULL"}, '
        f'(const uint64_t[3]){{{", ".join(args)}}});', '}', '']


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
    if c.fills_legacy:
        o += ['    c->stream = NULL;', '    c->has_stream = true;']
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
# What nodes of graphs name: it is not destroyed while one does.
KEPT = ('array', 'mipmapped_array')


def lookup(c, p):
    """Statements that look a handle up, in the variable of its name."""
    if p.sub == 'func':
        call = f'wrk_func_get(c, a->{p.name}, &{p.name})'
    elif p.sub in OBJECTS:
        call = f'{OBJECTS[p.sub]}{"_any" if "ending" in p.attrs else ""}(c, a->{p.name}, &{p.name})'
        if 'null' in p.attrs:
            call = f'a->{p.name} ? {call} : CUDA_SUCCESS'
    else:
        null = 'true' if 'null' in p.attrs else 'false'
        call = f'wrk_handle_get(c, a->{p.name}, {HANDLES[p.sub]}, {null}, (void **)&{p.name})'
        if c.node and p.sub == 'context':
            call = f'wrk_node_context(c, a->{p.name}, &{p.name})'
    if 'error' in p.attrs:
        call = f'wrk_handle_error({call}, {p.attrs["error"]})'
    return [f'    r = {call};', '    if (r != CUDA_SUCCESS)', '        return r;']


def bind(c, p):
    """Statements that make a parameter a variable of its own name; what to do when the call succeeded."""
    o, news, post = [], [], []
    t = str(p.attrs.get('as', '')) or p.ctype.rstrip('*').strip().replace('const ', '')
    if p.dir in ('in', 'del') and p.type in SCALARS:
        o.append(f'    {SCALARS[p.type][1]} {p.name} = a->{p.name};')
    elif p.dir in ('in', 'del') and p.type == 'handle':
        o.append(f'    {t} {p.name} = 0;')
        o += lookup(c, p)
        if p.dir == 'del':
            post.append(f'    wrk_handle_drop(c, a->{p.name}, {HANDLES[p.sub]});')
    elif p.dir == 'new':
        o += [f'    r = wrk_handle_reserve(c, a->{p.name}, {HANDLES[p.sub]});', '    if (r != CUDA_SUCCESS)', '        return r;']
        if 'late' not in p.attrs:
            o.append(f'    {t} {p.name} = NULL;')
            news.append(f'        wrk_handle_put(c, a->{p.name}, {HANDLES[p.sub]}, {p.name});')
        if 'parent' in p.attrs:
            news.append(f'        wrk_handle_parent(c, a->{p.name}, {p.attrs["parent"]});')
    elif p.dir == 'out' and p.type in SCALARS:
        value = p.attrs.get('from', p.name)
        if 'late' in p.attrs:
            pass
        elif 'from' not in p.attrs:
            o.append(f'    {t} {p.name} = 0;')
            post.append(f'    ret.{p.name} = ({SCALARS[p.type][1]}){value};')
        else:
            news.append(f'        ret.{p.name} = ({SCALARS[p.type][1]})({value});')
    elif p.dir == 'in' and p.type == 'bytes' and 'as' in p.attrs:
        none = f'a->{p.name}_len && ' if 'null' in p.attrs else ''
        o += [f'    {t} {p.name};', f'    if ({none}a->{p.name}_len != sizeof({p.name}))',
              f'        return wrk_malformed(c, "{p.name}: %u bytes, not %zu", a->{p.name}_len, sizeof({p.name}));']
        o += [f'    memset(&{p.name}, 0, sizeof({p.name}));'] if none else []
        o.append(f'    memcpy(&{p.name}, {p.name}_wire, a->{p.name}_len);')
    elif p.dir == 'out' and p.type == 'bytes' and 'as' in p.attrs:
        o += [f'    {t} {p.name};', f'    _Static_assert(sizeof({p.name}) <= {p.max}, "fits");',
              f'    memset(&{p.name}, 0, sizeof({p.name}));']
        news += [f'        memcpy(o.{p.name}, &{p.name}, sizeof({p.name}));',
                 f'        ret.{p.name}_len = {p.attrs.get("len", f"sizeof({p.name})")};']
    elif p.dir == 'out' and p.type in ('array', 'bytes') and ('from' in p.attrs or 'each' in p.attrs):
        news += [f'        const uint64_t {p.name}_n = {p.attrs["len"]};',
                 f'        ret.{p.name}_len = (uint32_t)({p.name}_n <= {p.max} ? {p.name}_n : {p.max});']
        if 'from' in p.attrs:
            news += [f'        if (ret.{p.name}_len)', f'            memcpy(o.{p.name}, {p.attrs["from"]}, (size_t)ret.{p.name}_len * {p.elem});']
        else:
            news += [f'        for (uint32_t i = 0; i < ret.{p.name}_len; i++)',
                     f'            o.{p.name}[i] = (__typeof__(o.{p.name}[0]))({p.attrs["each"]});']
    elif p.dir == 'out' and p.type == 'str' and 'from' in p.attrs:
        news += [f'        snprintf(o.{p.name}, sizeof(o.{p.name}), "%s", {p.attrs["from"]});',
                 f'        ret.{p.name}_len = (uint32_t)strlen(o.{p.name}) + 1;']
    elif p.dir == 'out' and p.type == 'array' and 'len' in p.attrs:
        o.append(f'    __typeof__(&o.{p.name}[0]) {p.name} = o.{p.name};')
        news += [f'        const uint32_t {p.name}_n = {p.attrs["len"]};',
                 f'        ret.{p.name}_len = {p.name}_n <= {p.max} ? {p.name}_n : {p.max};']
    elif p.dir == 'in' and p.type in ('array', 'bytes'):
        o.append(f'    uint32_t {p.name}_len = a->{p.name}_len;')
        if 'all' in p.attrs:
            o += [f'    {SCALARS[p.sub][1]} {p.name}_all[{p.max}] = {{0}};', f'    memcpy({p.name}_all, {p.name}, {p.name}_bytes);']
    elif not (p.dir == 'in' and p.type in ('str', 'blob') or p.dir == 'out' and 'late' in p.attrs):
        raise ValueError(f'{c.name}: {p.name}: has no form in a handler with steps')
    return o, news, post


NODE_OPS = {'add': 'VGP_NODE_ADD', 'set': 'VGP_NODE_SET', 'exec': 'VGP_NODE_EXEC'}


def rows(c, s):
    """Arrays of the wire become one array of structs; they are as long as each other."""
    m = re.match(r'(.+?)(\w+)\[(\d+)\]$', s.text)
    lists = sorted(set(re.findall(r'\b(\w+)\[i\]', s.result)))
    if not m or not lists or any(not any(p.name == n and p.type == 'array' and p.dir == 'in' and p.max <= int(m[3])
                                         for p in c.params) for n in lists):
        raise ValueError(f'{c.name}: rows TYPE NAME[MAX] : ELEMENT of arrays that are not longer')
    kind, name = m[1].strip(), m[2]
    o = [f'    {kind} {name}[{m[3]}];', f'    const uint32_t {name}_len = a->{lists[0]}_len;']
    if lists[1:]:
        o += ['    if (' + ' || '.join(f'a->{n}_len != {name}_len' for n in lists[1:]) + ')',
              f'        return wrk_malformed(c, "{name}: lists of different lengths");']
    return o + [f'    for (uint32_t i = 0; i < {name}_len; i++)', f'        {name}[i] = ({kind}){s.result};']


def provided(text):
    return re.sub(r'(?<![.\w])(cu[A-Z]\w*)\(', r'wrk_provider.\1(', text)


def node_ops(c):
    """What the provider is asked to do with a node: one of the operations that its type has."""
    o = ['    switch (where.op) {']
    for s in c.work:
        if s.kind not in NODE_OPS:
            continue
        o += [f'    case {NODE_OPS[s.kind]}:', f'        r = {provided(s.text)};']
        if s.kind == 'add':
            o += [ln.replace('    ', '        ', 1) for ln in after(c)]
            o.append('        r = wrk_added(c, &where, r, added, &ret.node);')
        o.append('        break;')
    return o + ['    default:', '        r = wrk_malformed(c, "no operation %u with nodes of this type", where.op);',
                '        break;', '    }']


def after(c):
    o = []
    for s in c.work:
        if s.kind == 'after':
            o += ['    if (r == CUDA_SUCCESS)', f'        r = {provided(s.text)};']
    return o


def place(c):
    """The variables of a handler of nodes."""
    said = ' '.join(s.text + s.result for s in c.work)
    o = ['    struct wrk_where where __attribute__((cleanup(wrk_where_end)));',
         '    r = wrk_where_get(c, &where, a->op, a->graph, a->target, a->exec, dependencies, a->dependencies_len,',
         '                      edgeData, a->edgeData_len);', '    if (r != CUDA_SUCCESS)', '        return r;']
    for kind, name, value in (('CUgraph', 'graph', 'where.in'), ('CUgraphNode', 'target', 'where.at'),
                              ('CUgraphExec', 'exec', 'where.exec'), ('CUgraphNode *', 'deps', 'where.deps'),
                              ('size_t', 'ndeps', 'wrk_where_n(&where)'), ('CUgraphNode', 'added', 'NULL')):
        if re.search(rf'\b{name}\b', said):
            o.append(f'    {kind}{"" if kind.endswith("*") else " "}{name} = {value};')
    return o


def handler_steps(c):
    """The decoder, what the steps say, the reply. Handles first, then the checks, then what the provider lacks."""
    dec = decode(c)
    for p in c.var_in:
        if p.type == 'bytes' and 'as' in p.attrs:
            dec = [re.sub(rf'\*{p.name} =', f'*{p.name}_wire =', ln) for ln in dec]
    own = 'steps' if any(s.kind == 'failed' for s in c.work) else 'handle'
    o = [f'static CUresult {own}_{c.name}(struct wrk_call *c)', '{'] + dec + ['    CUresult r;']
    if c.ret.size:
        o.append(f'    struct vgp_ret_{c.name} ret = {{0}};')
    if c.var_out:
        o.append(f'    static __thread struct vgp_outs_{c.name} o;')
    params = c.params
    if c.node:
        o += place(c)
        params = [p for p in c.params if p.name not in ('op', 'graph', 'target', 'exec', 'dependencies', 'edgeData', 'node')]
    said = ' '.join(s.text + ' ' + s.result for s in c.work) + ' '.join(str(v) for p in params for v in p.attrs.values())
    news, post = [], []
    for p in params:
        b, n, q = bind(c, p)
        o += b
        news += n
        post += q
        plain = p.type == 'array' and 'all' not in p.attrs or p.type == 'bytes' and 'as' not in p.attrs
        names = [p.name, f'{p.name}_len'] if plain else [p.name]
        if p.dir in ('in', 'del'):
            o += [f'    (void){n};' for n in names if p.dir == 'del' or not re.search(rf'\b{n}\b', said)]
            o += [f'    (void){p.name}_len;'] if 'all' in p.attrs else []
    for p in params:
        if 'parent' in p.attrs and p.dir != 'new':
            news += [f'        wrk_handle_parent(c, a->{n.name}, a->{p.name});' for n in c.params if n.dir == 'new']
    looked = any(s.kind == 'needs' for s in c.work)
    for s in c.work:
        text = provided(s.text)
        if s.kind == 'with':
            o.append(f'    {text};')
        elif s.kind == 'rows':
            with Located(s):
                o += rows(c, s)
        elif s.kind == 'needs':
            o += lacking(c)
        elif s.kind == 'check':
            o += [f'    r = {text};', '    if (r != CUDA_SUCCESS)', '        return r;']
        elif s.kind == 'deny':
            result = f'wrk_refuse(c, {s.result}, {s.why})' if s.why else s.result
            o += [f'    if ({text})', f'        return {result};']
    if not looked:
        o += lacking(c)
    if c.node and not any(s.kind == 'does' for s in c.work):
        o += node_ops(c)
    else:
        o += [f'    r = {provided(s.text)};' for s in c.work if s.kind == 'does'] + after(c)
    if late(c):
        o += ['    if (c->malformed || c->deferred)', '        return r;']
    if news:
        o += ['    if (r == CUDA_SUCCESS) {'] + news + ['    }']
    return o + post + encode_reply(c) + ['    return r;', '}', ''] + failing(c)


def late(c):
    """Is there a parameter that is not known before the deferred reply?"""
    return any('late' in p.attrs for p in c.params)


def lacking(c):
    """A provider without a function that the steps call, or name as needed."""
    o = []
    for n in dict.fromkeys([n for s in c.work if s.kind == 'needs' for n in s.text.split()] + provider_calls(c)):
        o += [f'    if (!wrk_provider.{n})', f'        return wrk_missing(c, "{n}");']
    return o


def failing(c):
    """The handler of a call with something to do where it fails."""
    step = [s for s in c.work if s.kind == 'failed']
    if not step:
        return []
    return [f'static CUresult handle_{c.name}(struct wrk_call *c)', '{', f'    const struct vgp_args_{c.name} *a = (const void *)c->args;',
            f'    const CUresult r = steps_{c.name}(c);', '    if (r != CUDA_SUCCESS && !c->malformed)', f'        {step[0].text};',
            '    return r;', '}', '']


def flags(c):
    f = []
    if not c.noctx:
        f.append('VGP_F_CONTEXT')
    f += {'async': ['VGP_F_ASYNC'], 'sync': [] if c.silent or c.node or c.post else ['VGP_F_REPLY'],  # of a node: wrk_where_get() looks
          'wait': ['VGP_F_REPLY', 'VGP_F_WAIT'], 'flex': ['VGP_F_WAIT']}[c.cls]
    if c.fills or c.fills_legacy:
        f.append('VGP_F_FILLS')
    return ' | '.join(f) or '0'


def render_h(d):
    o = [BANNER, '#ifndef VGP_WORKER_H', '#define VGP_WORKER_H', '', '#include "vgp_worker_rt.h"',
         '#include "vgp_calls.h"', '#include "vgp_provider.h"', '',
         "/* The provider's functions as handlers call them: behind the worker's filters. */",
         'extern struct vgp_provider wrk_provider;', '',
         '/* Hand-written handlers (host/backend/worker). *r and *o are zeroed results; o->X holds',
         ' * r->X_len elements. A handler that returns an error may still fill them. */']
    for c in d.calls:
        if c.var_out and (c.worker == 'custom' or late(c)):
            o += outs_struct(c)
        if c.worker == 'custom':
            o.append(custom_proto(c) + ';')
    return '\n'.join(o + ['', '#endif', ''])


def handler(c, d):
    """The decoder of one call, with all that only it needs."""
    if c.worker == 'steps':
        return (outs_struct(c) if c.var_out and not late(c) else []) + handler_steps(c)
    return handler_custom(c) if c.worker == 'custom' else handler_long(c) if c.long else handler_forward(c, d)


def preamble():
    """What every decoder uses."""
    return ['#include <stdio.h>', '#include <string.h>', '', '#include "vgp_worker.h"', '',
            'static inline uint64_t vgp_round8(uint64_t n)', '{', '    return (n + 7) & ~7ull;', '}', '',
            '/* What a record of this many argument bytes leaves after its header: records are multiples',
            ' * of 16 bytes. */',
            'static inline uint64_t vgp_round16(uint64_t n)', '{', '    return (n + 15) & ~15ull;', '}',
            '', 'static void vgp_reply_part(struct wrk_call *c, const void *data, uint64_t n)', '{',
            '    memcpy(c->reply + c->reply_size, data, n);',
            '    memset(c->reply + c->reply_size + n, 0, vgp_round8(n) - n);',
            '    c->reply_size += (uint32_t)vgp_round8(n);', '}', '']


def render_c(d):
    o = [BANNER] + preamble()
    o.insert(o.index('#include "vgp_worker.h"') + 1, '#include "vgp_worker_steps.h"')
    for c in d.calls:
        with Located(c):
            o += handler(c, d)
    o += ['static const struct vgp_dispatch rows[] = {']
    for c in d.calls:
        o.append(f'    [VGP_{c.name}] = {{"{c.name}", handle_{c.name}, {c.args.size}, '
                 f'{c.args_max}, {flags(c)}, {c.since}}},')
    o += ['};', '', 'const struct vgp_dispatch *vgp_dispatch_row(uint16_t call)', '{',
          '    if (call >= sizeof(rows) / sizeof(rows[0]) || !rows[call].handler)',
          '        return NULL;', '    return &rows[call];', '}', '']
    return '\n'.join(o)
