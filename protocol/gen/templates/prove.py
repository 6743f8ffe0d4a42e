# SPDX-License-Identifier: MIT
"""vgp_prove.c: statements about every decoder of the worker, for CBMC (prove.sh)."""
from templates import provider, worker
from templates.common import BANNER

GROUP = 24  # calls that are proved together
ROOM = 48   # bytes of a record beyond its fixed part: a few elements

HEAD = '''
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

uint32_t nondet_u32(void);

/* Where a decoder copies to and from is checked, not what: replies are large. */
static void copied(const void *to, const void *from, uint64_t n)
{
    __CPROVER_assert(__CPROVER_w_ok(to, n), "what is written has room");
    __CPROVER_assert(!from || __CPROVER_r_ok(from, n), "what is copied can be read");
}
#define memcpy(to, from, n) copied(to, from, n)
#define memset(to, byte, n) copied(to, NULL, n)

/* What the worker and the provider answer is anything. */
#include "vgp_worker.c"

CUresult nondet_result(void);

struct vgp_provider wrk_provider;
static bool refused;

CUresult wrk_malformed(struct wrk_call *c, const char *fmt, ...)
{
    (void)fmt;
    refused = c->malformed = true;
    return CUDA_ERROR_INVALID_VALUE;
}

/* A record as the ring gives it: header checked, any bytes, as many as its row allows. */
static struct wrk_call *call_of(uint32_t size)
{
    static struct wrk_call c;

    c.args = malloc(size);
    __CPROVER_assume(c.args != NULL);
    c.args_size = size;
    c.malformed = c.deferred = false;
    c.reply_size = 0;
    refused = false;
    return &c;
}
'''


def stub(c):
    """What a handler written by hand is given: all that was announced can be read."""
    o = [worker.custom_proto(c), '{', '    (void)c;']
    if c.args.size:
        o.append('    (void)a;')
    for p in c.var_in:
        size = f'a->{p.name}_size' if p.type == 'blob' else f'(uint64_t)a->{p.name}_len * {p.elem}'
        if p.type == 'blob':
            o.append(f'    if (!a->{p.name}_blob)')
        o.append(('    ' if p.type == 'blob' else '') +
                 f'    __CPROVER_assert(__CPROVER_r_ok({p.name}, {size}), "{c.name}: {p.name} can be read");')
    o += [f'    (void){v};' for v, there in (('r', c.ret.size), ('o', c.var_out)) if there]
    return o + ['    return nondet_result();', '}', '']


def statement(c):
    o = [f'static void of_{c.name}(uint32_t size)', '{', '    struct wrk_call *c = call_of(size);']
    if c.args.size:
        o.append(f'    const struct vgp_args_{c.name} *a = (const void *)c->args;')
    o += ['', f'    handle_{c.name}(c);']
    parts = [str(c.args.size)]
    for p in c.var_in:
        parts.append(f'vgp_round8((uint64_t)a->{p.name}_len * {p.elem})')
        o.append(f'    __CPROVER_assert(refused || a->{p.name}_len <= {p.max}, "{c.name}: {p.name} obeys its limit");')
    o += [f'    __CPROVER_assert(refused || vgp_round16({" + ".join(parts)}) == size, '
          f'"{c.name}: the record is what its parts add up to");', '}', '',
          f'static void prove_{c.name}(void)', '{']
    first, most = -(-c.args.size // 16) * 16, -(-c.args_max // 16) * 16
    o += [f'    of_{c.name}({n});' for n in range(first, min(most, first + ROOM) + 1, 16)]
    return o + ['}', '']


def render(d):
    calls = d.calls
    o = [BANNER + HEAD]
    for c in calls:
        if c.worker == 'custom':
            o += stub(c)
    for c in calls:
        o += statement(c)
    o += ['static void provide(void)', '{']
    o += [f'    wrk_provider.{n} = {n};' for n in provider.names(d)]
    o += ['}', '']
    for k in range(0, len(calls), GROUP):
        o += [f'void prove_group_{k // GROUP}(void)', '{', '    provide();', '    switch (nondet_u32()) {']
        for i, c in enumerate(calls[k:k + GROUP]):
            o += [f'    case {i}:', f'        prove_{c.name}();', '        break;']
        o += ['    }', '}', '']
    for c in calls:
        o += [f'void alone_{c.name}(void)', '{', '    provide();', f'    prove_{c.name}();', '}', '']
    return '\n'.join(o)
