# SPDX-License-Identifier: MIT
"""What the software GPU takes from the description: entry points that are another one by another name (aliases.c), and
the declarations of calls that the toolkit's cuda.h does not have yet (newer.h, which libcuda and the worker use as well)."""
import re
from templates.common import BANNER, plist
from templates.entry import exports


def newer(d):
    """(version, name, params, per_thread) of the calls that a later CUDA has brought."""
    return [(int(x.added), name, params, per_thread) for name, params, per_thread, x in exports(d) if x.added]


def render_newer(d):
    o = [BANNER, '/* Calls that a later CUDA has brought than the one whose headers this is built with. */',
         '#ifndef VGP_NEWER_H', '#define VGP_NEWER_H', '', '#include <cuda.h>', '',
         '/* The newest CUDA whose entry points are all described: the driver version that is offered. */',
         f'#define VGP_API_VERSION {max(int(x.added or 0) for x in d.calls + d.locals + d.unsupported)}',
         '/* One more than its last CUdevice_attribute, as cuda.h 13.5 has them. */', '#define VGP_DEVICE_ATTRIBUTE_END 162', '',
         '#if CUDA_VERSION < 13010',
         '/* As cuda.h 13.5 has it; before 13.5, localityDomainId is reserved as well. */',
         'typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st {',
         '    unsigned int smCount;', '    unsigned int coscheduledSmCount;', '    unsigned int preferredCoscheduledSmCount;',
         '    unsigned int flags;', '    unsigned int localityDomainId;', '    unsigned int reserved[11];',
         '} CU_DEV_SM_RESOURCE_GROUP_PARAMS;', '#endif', '']
    for version, name, params, per_thread in sorted(newer(d)):
        o.append(f'#if CUDA_VERSION < {version}')
        base = re.sub(r'_v\d+$', '', name)
        for suffix in [''] + ([f'_{per_thread}'] if per_thread else []):
            o += [f'CUresult CUDAAPI {name}{suffix}({plist(params)});',
                  f'typedef CUresult (CUDAAPI *PFN_{base}_v{version}{suffix})({plist(params)});']
        o += ['#endif', '']
    return '\n'.join(o + ['#endif', ''])


# What the guest's checks are called here (api/api.h).
CHECKS = {'vcu_check_init': 'sg_check_init', 'vcu_check_context': 'sg_check_context', 'vcu_check_device': 'sg_check_device'}


def shared(x):
    """Are the steps about nothing that only the guest has: other entry points, conversions, and checks that both sides know?"""
    steps = getattr(x, 'steps', [])
    text = ' '.join(s.text for s in steps)
    return bool(steps) and re.search(r'\b(vcu_cu[A-Z]|cua_)\w+\(', text) and all(s.kind not in ('place', 'mint', 'object', 'fault', 'done') for s in steps) and \
        all(re.match(r'vcu_cu[A-Z]|vcu_refuse$', n) or n in CHECKS for n in re.findall(r'\b(?:v[cg][up]|lnk)_\w+', text))


def translated(text, name):
    text = re.sub(r'\bvcu_refuse\(CALL, (\w+), (\w+)\)', rf'sg_fail(\1, "{name}: %s", \2)', text)
    text = re.sub(r'\b(vcu_check_\w+)\(', lambda m: CHECKS[m[1]] + '(', text)
    return re.sub(r'\bvcu_(cu[A-Z]\w*)\(', r'\1(', text)


def alias(x, params):
    name = re.sub(r'_v\d+$', '', x.name)
    o = [f'WEAK CUresult CUDAAPI {x.name}({plist(params)})', '{']
    said = ' '.join(s.text for s in x.steps)
    why = '&why' in said
    o += [f'    (void){n};' for _, n in params if not re.search(rf'\b{n}\b', said)]
    if len(x.steps) == 1 and not why:
        return o + [f'    return {translated(x.steps[0].text, name)};', '}', '']
    o += ['    const char *why = NULL;'] if why else []
    o += ['    CUresult r;'] if any(s.kind in ('enter', 'answer', 'then') for s in x.steps) else []
    o += [f'    {s.text};' for s in x.steps if s.kind == 'let']
    failed = f'why ? sg_fail(r, "{name}: %s", why) : r' if why else 'r'
    for s in x.steps:
        if s.kind in ('enter', 'answer', 'then'):
            o += [f'    r = {translated(s.text, name)};', '    if (r != CUDA_SUCCESS)', f'        return {failed};']
        elif s.kind == 'refuse':
            o += [f'    if ({s.text})', f'        return sg_fail({s.result}, "{name}: %s", {s.why});' if s.why else f'        return {s.result};']
        elif s.kind == 'give':
            what, _, unless = s.text.partition(' unless ')
            o += [f'    if (!({unless}))', f'        {what};'] if unless else [f'    {what};']
    return o + ['    return CUDA_SUCCESS;', '}', '']


def render_aliases(d, own):
    """own: the names that the software GPU's table describes."""
    o = [BANNER, '/* Entry points that need no device: another one by another name (older versions), what both sides answer alike, and the',
         ' * variants for the per-thread default stream of calls that are given their stream. A definition by hand takes the place of one here. */',
         '#include "api/api.h"', '#include "lib/driver/driver.h"', '', '#include <cudaProfiler.h>', '',
         '#define WEAK __attribute__((weak))', '']
    for name, params, per_thread, x in exports(d):
        if name not in own and shared(x):
            o += alias(x, params)
        if per_thread == 'ptsz' and any(t == 'CUstream' for t, _ in params):
            args = ', '.join(f'SG_PTSZ({n})' if t == 'CUstream' else n for t, n in params)
            o += [f'WEAK CUresult CUDAAPI {name}_ptsz({plist(params)})', '{', f'    return {name}({args});', '}', '']
    return '\n'.join(o)
