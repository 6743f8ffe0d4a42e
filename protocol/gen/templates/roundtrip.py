# SPDX-License-Identifier: MIT
"""Test code, made anew for each run: for every call a case that encodes random arguments, decodes
them with the worker's decoder, compares, and sends random results back the same way."""
import re

from facts import IN_A_STREAM
from templates.common import BANNER, HANDLES, SCALARS, elem_ctype, enc_params
from templates.guest import LOCATION_ID
from templates.provider import names
from templates.worker import custom_proto, late, own_names, worker_texts


LOCATION_KIND = (LOCATION_ID[0], 'type')


def kinds(c):
    """Parameters that say whether another is an ordinal: half of their values do."""
    return {p.attrs['device'] for p in c.params if p.attrs.get('device', True) is not True}


def fill_in(c, d):
    """Declares and fills the guest-side arguments; returns (statements, argument list)."""
    o, args = [], ['(struct vgp_intent){0}'] if c.intent else []
    for p in c.params:
        if p.dir == 'out':
            if p.type in SCALARS:
                t = p.ctype.rstrip('*').strip()
                o.append(f'    {t} out_{p.name};')
                o.append(f'    memset(&out_{p.name}, 0, sizeof(out_{p.name}));')
                args.append(f'&out_{p.name}')
            elif p.type == 'struct':
                t = p.ctype.rstrip('*').strip()
                o.append(f'    {t} out_{p.name};')
                o.append(f'    memset(&out_{p.name}, 0, sizeof(out_{p.name}));')
                args.append(f'&out_{p.name}')
            else:
                el = elem_ctype(p)
                o.append(f'    static {el} out_{p.name}[{p.max}];')
                o.append(f'    uint32_t out_{p.name}_len = {p.max};')
                cast = f'({p.ctype})' if p.ctype.endswith('*') else ''
                args.append(f'{cast}out_{p.name}')
                args.append(f'{"" if p.type == "str" else "&"}out_{p.name}_len')
        elif p.type in SCALARS:
            o.append(f'    {SCALARS[p.type][1]} in_{p.name} = ({SCALARS[p.type][1]}){"rnd() % 2" if p.name in kinds(c) else "rnd()"};')
            args.append(f'({p.ctype})in_{p.name}')
        elif p.type == 'handle':
            if p.dir == 'new' and p.ctype.endswith('*'):
                t = p.ctype[:-1].strip()
                o.append(f'    {t} in_{p.name} = NULL;')
                args.append(f'&in_{p.name}')
            else:
                o.append(f'    uint64_t in_{p.name} = VGP_HANDLE({HANDLES[p.sub]}, 7, '
                         'rnd() % 1000);')
                args.append(f'({p.ctype})(uintptr_t)in_{p.name}')
        elif p.type == 'struct':
            t = p.ctype.rstrip('*').strip().replace('const ', '')
            o.append(f'    {t} in_{p.name};')
            o.append(f'    memset(&in_{p.name}, 0, sizeof(in_{p.name}));')
            for _, n, ct in d.structs[p.sub].fields:
                o.append(f'    in_{p.name}.{n} = ({ct})(rnd() & {1 if (p.sub, n) == LOCATION_KIND else "0x7fff"});')
            args.append(f'in_{p.name}' if 'value' in p.attrs else f'&in_{p.name}')
        else:
            el = 'uint8_t' if p.type == 'blob' else elem_ctype(p)
            o.append(f'    static {el} in_{p.name}[{p.max}];')
            # Bytes of a C type have its length, or the worker refuses them.
            length = f'sizeof({p.attrs["as"]})' if 'as' in p.attrs else f'pick_len({p.max})'
            o.append(f'    uint32_t in_{p.name}_len = {length};')
            if p.type == 'str':
                o.append(f'    in_{p.name}_len = in_{p.name}_len ? in_{p.name}_len : 1;')
                o.append(f'    rnd_text(in_{p.name}, in_{p.name}_len);')
            else:
                o.append(f'    rnd_bytes(in_{p.name}, (size_t)in_{p.name}_len * {p.elem});')
            if p.name in kinds(c):
                o.append(f'    rnd_kinds(in_{p.name}, in_{p.name}_len);')
            # Arrays of handles and of structs: the test's structs are laid out as on the wire.
            cast = f'({p.ctype})' if p.type == 'array' and ':' in p.sub else ''
            args.append(f'{cast}in_{p.name}')
            if p.type != 'str':
                args.append(f'in_{p.name}_len')
    return o, args


def ordinal(p, verb, value, kind):
    """An ordinal of p on the other side; kind: its type of location there, of a field with a parameter that says it."""
    return f'vgp_device_{verb}({value})' if p.attrs['device'] is True else f'vgp_location_{verb}((uint32_t){kind}, {value})'


def compare_ordinals(p):
    kind = p.attrs['device']
    of = 0 if kind is True else f'i < in_{kind}_len ? in_{kind}[i] : 0'
    return [f'    for (uint32_t i = 0; i < in_{p.name}_len; i++)',
            f'        CHECK(((const int32_t *)v)[i] == {ordinal(p, "sent", f"in_{p.name}[i]", f"({of})")}, "{p.name}: ordinals");']


def compare_ordinals_out(p):
    """Of an array of results: as the worker has written them, translated."""
    kind = p.attrs['device']
    of = 0 if kind is True else f'i < out_{kind}_len ? out_{kind}[i] : 0'
    return [f'    for (uint32_t i = 0; i < ret->{p.name}_len && out_{p.name}_len == ret->{p.name}_len; i++)',
            f'        CHECK(out_{p.name}[i] == {ordinal(p, "got", f"((const int32_t *)w)[i]", f"({of})")}, "{p.name}: ordinals");']


def handles(c):
    """T8: the handles of a call by the directions of its parameters; a parent is one for each new object."""
    new = [p for p in c.params if p.dir == 'new']
    parents = sum(1 if p.dir == 'new' else len(new) for p in c.params if 'parent' in p.attrs)
    want = (sum(p.ctype.endswith('*') for p in new), len(new), sum(p.dir == 'del' for p in c.params), parents)
    said = any(f in s.text for s in c.work for f in ('wrk_handle_put', 'wrk_handle_drop', 'wrk_handle_parent'))
    known = c.worker in ('forward', 'steps') and not c.long and not said and not late(c)
    return (f'    check_handles(r, (struct vgp_handles){{.minted = {want[0]}, .named = {want[1]}, .unnamed = {want[2]}, '
            f'.parents = {want[3]}}}, {"true" if known else "false"});')


def meaning(p):
    """T9: what a replay is told of a field."""
    number = p.type == 'handle' or p.sub.startswith('handle:')
    if {'made', 'varies'} <= p.attrs.keys():
        return 'OBJECTS'
    if number or 'made' in p.attrs and 'addr' not in p.attrs and 'words' not in p.attrs:
        return 'HANDLE'
    said = [a for a in ('addr', 'words', 'varies', 'opaque') if a in p.attrs]
    return said[0].upper() if said else 'ADDR' if p.ctype.startswith('CUdeviceptr') else 'PLAIN'


def tables(c):
    o = ['    check_flags(' + (' | '.join(f for f, yes in (
        ('VGP_F_CONTEXT', not c.noctx), ('VGP_F_WAIT', c.cls in ('wait', 'flex')),
        ('VGP_F_FILLS', c.effect in IN_A_STREAM)) if yes) or '0') + ');']
    o += [f'    check_meaning({"true" if p.dir == "out" else "false"}, "{p.name}", VGP_MEANS_{meaning(p)});' for p in c.params]
    recorded = [p for p in c.params if 'records' in p.attrs]
    o.append(f'    CHECK(((vgp_facts(case_call) & VGP_FACT_RECORDS) != 0) == {"true" if recorded else "false"}, "T9: records an event");')
    return o + [f'    CHECK(vgp_place_get(vgp_call_facts(case_call)->records, seen.args, NULL) == a->{p.name}, "T9: the event");'
                for p in recorded]


def compare(c, d):
    """The worker's view (seen.args, a private copy) against the guest's arguments."""
    o = []
    if not c.args.size:
        return o
    o.append(f'    const struct vgp_args_{c.name} *a = (const void *)seen.args;')
    for p in c.params:
        if p.dir == 'out':
            continue
        if 'device' in p.attrs and p.type in SCALARS:
            kind = p.attrs['device']
            o.append(f'    CHECK(a->{p.name} == {ordinal(p, "sent", f"in_{p.name}", f"in_{kind}")}, "{p.name}: the ordinal");')
        elif p.type in SCALARS:
            o.append(f'    CHECK(memcmp(&a->{p.name}, &in_{p.name}, sizeof(a->{p.name})) == 0, '
                     f'"{p.name}");')
        elif p.type == 'handle':
            minted = p.dir == 'new' and p.ctype.endswith('*')  # handed out only on success
            ok = 'r != CUDA_SUCCESS || ' if minted else ''
            o.append(f'    CHECK({ok}a->{p.name} == (uint64_t)(uintptr_t)in_{p.name}, "{p.name}");')
        elif p.type == 'struct':
            for _, n, ct in d.structs[p.sub].fields:
                want = f'in_{p.name}.{n}'
                if (p.sub, n) == LOCATION_ID:
                    want = f'vgp_location_sent((uint32_t)in_{p.name}.type, {want})'
                o.append(f'    CHECK((uint64_t)a->{p.name}.{n} == (uint64_t){want}, "{p.name}.{n}");')
        else:
            o.append(f'    CHECK(a->{p.name}_len == in_{p.name}_len, "{p.name}_len");')
    if c.var_in:
        o.append(f'    const uint8_t *v = seen.args + {c.args.size};')
    for p in c.var_in:
        n = f'(size_t)in_{p.name}_len * {p.elem}'
        if 'device' in p.attrs:
            o += compare_ordinals(p)
        else:
            o.append(f'    CHECK(memcmp(v, in_{p.name}, {n}) == 0, "{p.name} bytes");')
        o.append(f'    v += ({n} + 7) & ~(size_t)7;')
    return o


def compare_out(c, d):
    o = []
    if not c.ret.size:
        return o
    o.append(f'    const struct vgp_ret_{c.name} *ret = (const void *)seen.reply;')
    if c.var_out:
        o.append('    const uint8_t *w = seen.reply + sizeof(*ret);')
    for p in c.params:
        if p.dir != 'out':
            continue
        if p.type == 'struct':
            o.append('    if (seen.result == CUDA_SUCCESS) {')
            for _, n, ct in d.structs[p.sub].fields:
                want = f'ret->{p.name}.{n}'
                if (p.sub, n) == LOCATION_ID:
                    want = f'vgp_location_got(ret->{p.name}.type, {want})'
                o.append(f'        CHECK(out_{p.name}.{n} == ({ct}){want}, "{p.name}.{n}");')
            o.append('    }')
        elif p.type in SCALARS:
            t = p.ctype.rstrip('*').strip()
            value = f'ret->{p.name}'
            if 'device' in p.attrs:
                value = ordinal(p, 'got', value, f'ret->{p.attrs["device"]}')
            o += [f'    if (seen.result == CUDA_SUCCESS) {{', f'        {t} want = ({t}){value};',
                  f'        CHECK(memcmp(&out_{p.name}, &want, sizeof(want)) == 0, "{p.name}");',
                  '    }']
        else:
            n = f'(size_t)ret->{p.name}_len * {p.elem}'
            if 'device' in p.attrs:
                o.append(f'    CHECK(out_{p.name}_len == ret->{p.name}_len, "{p.name}_len");')
                o += compare_ordinals_out(p)
            elif p.type == 'str':
                o.append(f'    CHECK(strncmp(out_{p.name}, (const char *)w, ret->{p.name}_len) == 0, '
                         f'"{p.name}");')
            else:
                o.append(f'    CHECK(out_{p.name}_len == ret->{p.name}_len, "{p.name}_len");')
                o.append(f'    CHECK(memcmp(out_{p.name}, w, {n}) == 0, "{p.name} bytes");')
            o.append(f'    w += ({n} + 7) & ~(size_t)7;')
    return o


def limits(c):
    """T7: where each variable part of the arguments says its length, and the most that it may be."""
    parts = c.var_in
    if not any(p.type != 'blob' for p in parts):
        return []
    listed = {n for s in c.work if s.kind == 'rows' for n in re.findall(r'\b(\w+)\[i\]', s.result)}
    rows = ', '.join(f'{{"{p.name}", offsetof(struct vgp_args_{c.name}, {p.name}_len), {p.elem}, {0 if p.type == "blob" else p.max}, '
                     f'{"true" if p.type == "str" else "false"}, {"true" if p.name in listed else "false"}, '
                     f'{"sizeof(" + p.attrs["as"] + ")" if "as" in p.attrs else "0"}}}' for p in parts)
    return [f'    static const struct part parts[] = {{{rows}}};', f'    one_over(parts, {len(parts)}, {c.args.size});']


def not_sent(c, args):
    """T11: the call where no record can be begun, and with each list a step longer than its maximum."""
    call = f'        check_not_sent(vgp_call_{c.name}({", ".join(args)}));'
    o = ['    if (first_round) {', '        begin_not_sent(true);', call]
    for p in c.var_in:
        if p.type in ('array', 'bytes'):
            o += [f'        const uint32_t {p.name}_keep = in_{p.name}_len;', f'        in_{p.name}_len = {p.max + 1};',
                  '        begin_not_sent(false);', call, f'        in_{p.name}_len = {p.name}_keep;']
    return o + ['    }']


def case(c, d):
    o = [f'static void case_{c.name}(void)', '{', f'    begin_case("{c.name}", VGP_{c.name});']
    if c.work and (c.node or any(s.kind == 'rows' or 'wrk_malformed' in s.text for s in c.work)):
        o.append('    case_picky = true;')
    if c.waits_for:
        o.append('    case_waits = true;')
    fill, args = fill_in(c, d)
    o += fill
    o.append(f'    CUresult r = vgp_call_{c.name}({", ".join(args)});')
    o.append('    CHECK(seen.calls == 1, "dispatched once");')
    o.append('    CHECK(r == seen.result, "result");')
    o.append(handles(c))
    o += compare(c, d)
    o += tables(c)
    o += not_sent(c, args)
    o += limits(c)
    o += [f'    check_image_size(offsetof(struct vgp_args_{c.name}, {p.name}_size));' for p in c.var_in if p.type == 'blob']
    if c.worker == 'steps' and c.ret.size:  # refused by a step: no results
        o += ['    if (seen.reply_size == 0) {', '        end_case();', '        return;', '    }']
    o += compare_out(c, d)
    for p in c.var_out:
        o += [f'    wrong_count.at = offsetof(struct vgp_ret_{c.name}, {p.name}_len);', f'    wrong_count.value = {p.max + 1};',
              f'    check_refused(vgp_call_{c.name}({", ".join(args)}));']
    return o + ['    end_case();', '}', '']


def fake_custom(c):
    """A hand-written handler's stand-in: random results within the limits."""
    o = [custom_proto(c), '{', '    (void)c;']
    if c.args.size:
        o.append('    (void)a;')
    for p in c.var_in:
        n = f'(size_t)a->{p.name}_len * {p.elem}' if p.type != 'blob' else f'a->{p.name}_size'
        o.append(f'    touch({p.name}, {n});')
    if c.ret.size:
        o.append('    rnd_bytes(r, sizeof(*r));')
    for p in c.params:
        if p.dir == 'out' and p.type == 'struct' and p.sub == LOCATION_KIND[0]:
            o.append(f'    r->{p.name}.{LOCATION_KIND[1]} &= 1;')
        elif p.dir == 'out' and p.name in kinds(c) and p not in c.var_out:
            o.append(f'    r->{p.name} &= 1;')
    for p in c.var_out:
        o.append(f'    r->{p.name}_len = pick_len({p.max});')
        if p.type == 'str':
            o += [f'    r->{p.name}_len = r->{p.name}_len ? r->{p.name}_len : 1;',
                  f'    rnd_text(o->{p.name}, r->{p.name}_len);']
        else:
            o.append(f'    rnd_bytes(o->{p.name}, (size_t)r->{p.name}_len * {p.elem});')
        if p.name in kinds(c):
            o.append(f'    rnd_kinds(o->{p.name}, r->{p.name}_len);')
    if c.ret.size:
        for f in c.ret.fields:
            if f.name.startswith('pad'):
                o.append(f'    memset(r->{f.name}, 0, sizeof(r->{f.name}));')
    return o + ['    return next_result();', '}', '']


def fake_forward(c, d):
    ps, body = [], []
    for p in c.params:
        t = p.ctype
        ps.append(f'{t}{p.name}' if t.endswith('*') else f'{t} {p.name}')
        if p.dir == 'out':
            body.append(f'    rnd_bytes({p.name}, sizeof(*{p.name}));')
        elif p.dir == 'new':
            body.append(f'    *{p.name} = ({t[:-1].strip()})(uintptr_t)0x1000;')
        elif p.type == 'struct' and t.endswith('*'):
            body.append(f'    touch({p.name}, sizeof(*{p.name}));')
        elif p.type == 'str':
            body.append(f'    touch({p.name}, strlen({p.name}) + 1);')
        else:
            body.append(f'    (void){p.name};')
    return [f'static CUresult CUDAAPI fake_{c.name}({", ".join(ps) or "void"})', '{'] + body + [
        '    return next_result();', '}', '']


def fake_type(name, d):
    """The type of what a function of the worker returns, as far as the steps tell; of the others a number or nothing is expected."""
    for s in (s for c in d.calls for s in c.work):
        if s.kind == 'rows' and s.result.startswith(f'{name}('):
            return s.text.split()[0]
        m = re.match(rf'(.*[ *])\w+ = {name}\(', s.text) if s.kind == 'with' else None
        if m:
            return m[1].strip() if '*' in m[1] else m[1].replace('const ', '').strip()
        if s.kind in ('check', 'does', 'add', 'set', 'exec', 'after') and re.match(rf'{name}\([^()]*(\([^()]*\)[^()]*)*\)$', s.text):
            return 'CUresult'
    return 'uint32_t'


def render_steps(d):
    """vgp_worker_steps.h of the tests: what the steps of handlers call in the worker, which does nothing."""
    o = [BANNER]
    for name in own_names(d):
        kind = fake_type(name, d)
        if not any(re.search(rf'\b{name}\(', text) for text in worker_texts(d)):
            o += [f'#define {name} NULL', '']  # its address is used
            continue
        o += [f'static __attribute__((unused)) {kind} fake_{name}(int none, ...)', '{', '    (void)none;',
              f'    return ({kind}){{{"1" if kind == "uint32_t" else "0"}}};', '}',
              f'#define {name}(...) fake_{name}(0, ##__VA_ARGS__)', '']
    return '\n'.join(o)


def render(d):
    o = [BANNER]
    for c in d.calls:
        if c.worker != 'steps':
            o += fake_custom(c) if c.worker == 'custom' else fake_forward(c, d)
    stepped = [n for n in names(d) if n not in {c.name for c in d.calls if c.worker == 'forward'}]
    if stepped:
        o += ['/* Its arguments do not matter: it fills nothing. */', 'static CUresult fake_step(void)', '{',
              '    return next_result();', '}', '']
    o += ['static void fake_provider(void)', '{']
    o += [f'    wrk_provider.{c.name} = fake_{c.name};' for c in d.calls if c.worker == 'forward']
    o += [f'    wrk_provider.{n} = (__typeof__(wrk_provider.{n}))(void *)fake_step;' for n in stepped]
    o += ['}', '']
    for c in d.calls:
        o += case(c, d)
    o += ['static void (*const cases[])(void) = {']
    o += [f'    case_{c.name},' for c in d.calls]
    return '\n'.join(o + ['};', ''])
