# SPDX-License-Identifier: MIT
"""vgp_entry.[ch]: the exported CUDA functions; vgp_unsupported.c; the cuGetProcAddress table."""
import re
from parse import Step
from policy import forwards
from templates.common import (BANNER, HANDLES, SCALARS, entry_params, is_stream, plist)

UNSIGNED64 = ('CUdeviceptr', 'size_t', 'unsigned long long', 'cuuint64_t', 'uint64_t',
              'CUmemGenericAllocationHandle', 'CUtexObject', 'CUsurfObject')
SIGNED32 = ('int', 'CUdevice', 'int32_t')
UNSIGNED32 = ('unsigned int', 'unsigned', 'cuuint32_t', 'CUdeviceptr_v1', 'uint32_t',
              'unsigned char', 'unsigned short')
STRUCTS = ('CUmemLocation', 'CUipcMemHandle', 'CUipcEventHandle')
OPAQUE = ('CUcontext', 'CUstream', 'CUevent', 'CUmodule', 'CUfunction', 'CUlibrary', 'CUkernel',
          'CUmemoryPool', 'CUgraph', 'CUgraphExec', 'CUgraphNode', 'CUarray', 'CUmipmappedArray', 'CUuserObject', 'CUlinkState',
          'CUtexref', 'CUsurfref', 'CUgreenCtx', 'CUdevResourceDesc', 'CUexternalMemory',
          'CUexternalSemaphore')


def fmt_one(ctype, name):
    """(format, argument) of one parameter; out values of simple type are shown after `=`."""
    if ctype == 'const char *':
        return f'{name}=%s', f'{name} ? {name} : "NULL"'
    if ctype.endswith('*'):
        base = ctype[:-1].strip()
        if not base.startswith('const') and not base.endswith('*'):
            if base in UNSIGNED64:
                return (f'*{name}=%#llx',
                        f'r == CUDA_SUCCESS && {name} ? (unsigned long long)*{name} : 0ull')
            if base in OPAQUE:
                return (f'*{name}=%p', f'r == CUDA_SUCCESS && {name} ? (void *)*{name} : NULL')
            if base in SIGNED32:
                return f'*{name}=%d', f'r == CUDA_SUCCESS && {name} ? (int)*{name} : 0'
            if base in UNSIGNED32 and base != 'unsigned char':
                return f'*{name}=%u', f'r == CUDA_SUCCESS && {name} ? (unsigned)*{name} : 0u'
        return f'{name}=%p', f'(const void *){name}'
    if ctype in UNSIGNED64:
        return f'{name}=%#llx', f'(unsigned long long){name}'
    if ctype in SIGNED32:
        return f'{name}=%d', f'(int){name}'
    if ctype in UNSIGNED32:
        return f'{name}=%u', f'(unsigned){name}'
    if ctype == 'float':
        return f'{name}=%g', f'(double){name}'
    if ctype in STRUCTS:
        return f'{name}={{..}}', None
    if ctype in OPAQUE or re.search(r'(Fn|Callback|B2DSize|Handle)$', ctype):
        return f'{name}=%p', f'(void *)(uintptr_t){name}'
    return f'{name}=%d', f'(int){name}'  # enums


def trace(sym, params):
    fmts, args = [], []
    for t, n in params:
        f, a = fmt_one(t, n)
        fmts.append(f)
        if a:
            args.append(a)
    text = ' '.join(fmts)
    if not text:
        return [f'        vcu_trace_call("{sym}", r, t0, "%s", "");']
    if not args:
        return [f'        vcu_trace_call("{sym}", r, t0, "%s", "{text}");']
    return [f'        vcu_trace_call("{sym}", r, t0, "{text}",',
            '                       ' + ',\n                       '.join(args) + ');']


def wrapper(sym, name, params, per_thread, caller):
    call = f'vcu_{name}({", ".join(n for _, n in params)})'
    o = [f'CUresult CUDAAPI {sym}({plist(params)})', '{',
         '    uint64_t t0 = __builtin_expect(lnk_trace_on, 0) ? lnk_trace_now() : 0;']
    if caller:
        o.append('    vcu_caller = __builtin_return_address(0);')
    if per_thread:
        o += ['    vcu_per_thread++;', f'    CUresult r = {call};', '    vcu_per_thread--;']
    else:
        o.append(f'    CUresult r = {call};')
    o += ['    if (__builtin_expect(lnk_trace_on, 0))'] + trace(sym, params)
    o += ['    if (__builtin_expect(r != CUDA_SUCCESS, 0))', f'        vcu_logs_failure("{sym}", r);']
    return o + ['    return r;', '}', '']


def checks(c):
    o = [f'    CUresult r = {"vcu_check_init" if c.noctx else "vcu_check_context"}();',
         '    if (r != CUDA_SUCCESS)', '        return r;']
    for p in c.params:
        pointer = p.dir == 'out' or (p.dir == 'new') or p.type in ('str', 'bytes') or (
            p.type == 'struct' and 'value' not in p.attrs)
        if pointer and p.ctype.endswith('*') and 'null' not in p.attrs:
            o += [f'    if (!{p.name})', '        return CUDA_ERROR_INVALID_VALUE;']
        if p.type in SCALARS and p.dir == 'in' and 'mask' in p.attrs:
            o += [f'    if ({p.name} & ~{p.attrs["mask"]}u)',
                  '        return CUDA_ERROR_INVALID_VALUE;']
    for p in c.params:
        if p.type != 'handle' or p.dir not in ('in', 'del'):
            continue
        err = {'context': 'CUDA_ERROR_INVALID_CONTEXT', 'green': 'CUDA_ERROR_INVALID_CONTEXT', 'texture': 'CUDA_ERROR_INVALID_VALUE',
               'surface': 'CUDA_ERROR_INVALID_VALUE'}.get(p.sub, 'CUDA_ERROR_INVALID_HANDLE')
        h = f'(uintptr_t){p.name}'
        if is_stream(p):
            if 'own' in p.attrs:
                o += [f'    r = vcu_check_own_stream({p.name});', '    if (r != CUDA_SUCCESS)', '        return r;']
                continue
            cond, err = f'!vcu_stream_ok({p.name})', f'vcu_stream_error({p.name})'
        elif p.sub == 'func':
            cond = f'!vcu_func_ok({p.name})'
        elif 'null' in p.attrs:
            cond = f'{p.name} && !vgp_handle_live({h}, {HANDLES[p.sub]})'
        else:
            cond = f'!vgp_handle_live({h}, {HANDLES[p.sub]})'
            if p.sub == 'stream':
                err = f'vcu_stream_error({p.name})'
        o += [f'    if ({cond})', f'        return {err};']
    return o


def forwarded(c):
    """The expression that forwards a call whose parameters have been checked."""
    return f'vgp_call_{c.name}({", ".join(f"vcu_stream({p.name})" if is_stream(p) else p.name for p in c.params)})'


def forward_body(c):
    return [f'CUresult vcu_{c.name}({plist(entry_params(c))})', '{'] + checks(c) + [f'    return {forwarded(c)};', '}', '']


def placed(x, params, how):
    """The statements by which an entry point says where its node goes, and the variable that takes the new node."""
    def named(ctype):
        return next((n for t, n in params if t == ctype), None)
    if how == 'add':
        node, args = named('CUgraphNode *'), (named('CUgraph'), named('const CUgraphNode *'),
                                              named('const CUgraphEdgeData *') or 'NULL', named('size_t'))
        call = f'vcu_where_add(CALL, {node}, &where, {", ".join(args)})'
    else:
        node, target = None, named('CUgraphNode')
        call = f'vcu_where_set(&where, {target})' if how == 'set' else \
            f'vcu_where_exec(&where, {named("CUgraphExec")}, {target})'
    return ['    struct vgp_where where;', '    uint64_t node = 0;', f'    CUresult r = {call};',
            '    if (r != CUDA_SUCCESS)', '        return r;'], node


def steps_body(d, x, params):
    o, gives, has_r = [f'CUresult vcu_{x.name}({plist(params)})', '{'], [], False
    text = ' '.join(s.text + ' ' + s.result for s in x.steps)
    why = re.search(r'&why\b', text)
    place = []
    for s in x.steps:
        if s.kind == 'place':
            place, node = placed(x, params, s.text)
            has_r = True
            if node:
                gives.append(f'*{node} = (CUgraphNode)(uintptr_t)node')
    text += ' '.join(place)
    around = forwards(x)
    steps = x.steps
    if around:
        place, has_r = checks(x), True
        steps = [s for s in steps if s.kind != 'then'] + [Step('answer', forwarded(x), '', x.path, x.line)]
        text += forwarded(x)
    o += [f'    (void){n};' for _, n in params if not re.search(rf'\b{n}\b', text)]
    if why:
        o.append('    const char *why = NULL;')
    o += place
    gives += [s for s in x.steps if s.kind in ('then', 'give')]
    failed = 'vcu_refuse(CALL, r, why)' if why else 'r'
    adds = [s.text for s in x.steps if s.kind == 'place'] == ['add']
    minted = None

    def ends(condition, r):
        """Where the condition is true the entry point ends, without the handle that was minted."""
        end = [f'        return vcu_where_added(&where, {r}, &node);' if adds else f'        return {r};']
        if minted:
            return [f'    if ({condition}) {{', f'        vgp_handle_drop({minted});'] + end + ['    }']
        return [f'    if ({condition})'] + end

    def result(expr, answer=False):
        nonlocal has_r
        if adds and answer:  # what becomes of the new node, and of the handle that was minted for it
            lines = [f'    {"" if has_r else "CUresult "}r = vcu_where_added(&where, {expr}, &node);', '    if (r != CUDA_SUCCESS)',
                     f'        return {failed};']
        else:
            lines = [f'    {"" if has_r else "CUresult "}r = {expr};'] + ends('r != CUDA_SUCCESS', failed)
        has_r = True
        return lines
    answered = False
    for s in steps:
        expr = s.text
        if s.kind == 'let':
            o.append(f'    {expr};')
        elif s.kind == 'mint':
            minted, kind = s.text.split()
            o += [f'    const uint64_t {minted} = vgp_handle_mint({HANDLES[kind]});', f'    if (!{minted})',
                  '        return CUDA_ERROR_OUT_OF_MEMORY;']
        elif s.kind == 'object':
            name, kind, of = s.text.split(None, 2)
            record = d.records[kind]
            o += [f'    {record.ctype}{name} = ' + re.sub(r'\bOF\b', lambda _: of, record.lookup) + ';'] + ends(f'{name} == NULL', record.result)
        elif s.kind == 'fault':
            o.append('    VCU_FAULT("call", CALL);')
        elif s.kind == 'done':
            o += ends(expr, 'CUDA_SUCCESS')
        elif s.kind == 'enter':
            o += result(expr)
        elif s.kind == 'zero':
            ctype = next(t for t, n in params if n == expr).removesuffix('*').strip()
            o += [f'    if ({expr} != NULL)', f'        *{expr} = ({ctype}){{0}};']
        elif s.kind == 'refuse':
            o += ends(expr, f'vcu_refuse(CALL, {s.result}, {s.why})' if s.why else s.result)
        elif s.kind == 'answer':
            if gives or why or minted:
                o += result(expr, True)
            else:
                o.append(f'    return {expr};')
                answered = True
    for s in gives:
        if isinstance(s, str):
            o.append(f'    {s};')
        elif s.kind == 'then':
            o += result(s.text)
        else:
            what, _, unless = s.text.partition(' unless ')
            o += [f'    if (!({unless}))', f'        {what};'] if unless else [f'    {what};']
    if not answered:
        o.append('    return CUDA_SUCCESS;')
    call = re.sub(r'_v\d+$', '', x.name)
    return [re.sub(r'\bCALL\b', f'"{call}"', ln) for ln in o] + ['}', '']


def exports(d):
    """(name, params, per_thread, supported) of every exported function with a known signature."""
    out = []
    for c in d.calls:
        if c.entry != 'none':
            out.append((c.name, entry_params(c), c.per_thread, c))
    for x in d.locals:
        out.append((x.name, x.cparams, x.per_thread, x))
    return out


def render_h(d):
    o = [BANNER, '#ifndef VGP_ENTRY_H', '#define VGP_ENTRY_H', '', '#include "vgp_guest_rt.h"', '#include "vgp_newer.h"', '',
         '/* What the entry points do, by hand or generated; same parameters as in cuda.h. The exports, which trace,',
         ' * call these. A per-thread variant does so with vcu_per_thread set. */']
    o += [f'CUresult vcu_{name}({plist(params)});' for name, params, _, _ in exports(d)]
    return '\n'.join(o + ['', '#endif', ''])


def render_c(d):
    o = [BANNER, '#include "vgp_guest.h"', '#include "vgp_entry.h"', '#include "vgp_guest_steps.h"', '']
    for name, params, per_thread, x in exports(d):
        if x.entry == 'steps':
            o += steps_body(d, x, params)
        elif x.entry == 'forward':
            o += forward_body(x)
        caller = getattr(x, 'caller', False)
        o += wrapper(name, name, params, False, caller)
        if per_thread:
            o += wrapper(f'{name}_{per_thread}', name, params, True, caller)
    return '\n'.join(o)


def render_unsupported(d):
    o = [BANNER, '/* Exported names that this version refuses. cuda.h is not included: the parameters do not matter here. */', '',
         'int vgp_unsupported(const char *name, const char *why);', '']
    for k, reason in d.reasons.items():
        if any(u.reason == k for u in d.unsupported):
            o.append(f'static const char why_{k}[] = "{reason.text}";')
    o.append('')
    for u in d.unsupported:
        for s in [u.name] + ([f'{u.name}_{u.per_thread}'] if u.per_thread else []):
            o += [f'int {s}(void);', f'int {s}(void)', '{',
                  f'    return vgp_unsupported("{s}", why_{u.reason});', '}', '']
    return '\n'.join(o)


def all_symbols(d):
    """name -> supported, of every export."""
    out = {}
    for name, _, per_thread, _ in exports(d):
        out[name] = True
        if per_thread:
            out[f'{name}_{per_thread}'] = True
    for u in d.unsupported:
        out[u.name] = False
        if u.per_thread:
            out[f'{u.name}_{u.per_thread}'] = False
    return out


def render_procaddr(d, rows):
    syms = all_symbols(d)
    table, variants = {}, {}
    known = [(name, per_thread, x) for name, _, per_thread, x in exports(d)]
    for name, per_thread, x in known + [(u.name, u.per_thread, u) for u in d.unsupported]:
        if x.added:  # of a later CUDA than the table is of
            base = re.sub(r'_v\d+$', '', name)
            rows = rows + [(base, x.added, s, name + s) for s in [''] + ([f'_{per_thread}'] if per_thread else [])]
    for base, version, suffix, sym in rows:
        if sym not in syms:
            continue
        if suffix:
            variants[(base, sym[:-len(suffix)])] = (int(version), sym)
        else:
            table[(base, int(version))] = sym
    o = [BANNER, '#include <stddef.h>', '#include <stdbool.h>', '',
         '/* Declared without parameters: only the addresses are wanted. */']
    o += [f'extern void {s}(void);' for s in sorted(syms)]
    o += ['', '/* The layout is that of vgp_guest_rt.h; cuda.h would clash with the declarations. */',
          'struct vgp_proc {', '    const char *name;', '    int version;', '    void *fn;',
          '    void *fn_per_thread;', '    const char *symbol;', '    bool supported;', '};',
          'extern const struct vgp_proc vgp_procs[];', 'extern const unsigned vgp_proc_count;', '',
          'const struct vgp_proc vgp_procs[] = {']
    keys = sorted(table)
    for base, version in keys:
        sym = table[(base, version)]
        variant = variants.get((base, sym))
        fn2 = f'(void *){variant[1]}' if variant else 'NULL'
        o.append(f'    {{"{base}", {version}, (void *){sym}, {fn2}, "{sym}", '
                 f'{"true" if syms[sym] else "false"}}},')
    o += ['};', f'const unsigned vgp_proc_count = {len(keys)};', '']
    return '\n'.join(o)


def render_map(d):
    o = ['/* Generated by protocol/gen from the description of the calls. Do not edit. */', '{',
         '  global:']
    o += [f'    {s};' for s in sorted(all_symbols(d))]
    return '\n'.join(o + ['  local: *;', '};', ''])
