# SPDX-License-Identifier: MIT
"""vgp_provider.[ch]: the table of the provider's functions."""
from templates.common import BANNER
from templates.worker import provider_calls


def names(d):
    """What a forwarded call and the steps of a handler make, and what the description lists beside that."""
    return sorted({*d.provider, *(c.name for c in d.calls if c.worker == 'forward'),
                   *(n for c in d.calls for n in provider_calls(c))})


def render_h(d):
    o = [BANNER, '#ifndef VGP_PROVIDER_H', '#define VGP_PROVIDER_H', '', '#include <cuda.h>',
         '#include <cudaProfiler.h>', '', '#include "vgp_newer.h"', '#include "vgp_provider_ext.h"', '',
         '/* The provider: every function of the driver API that the worker calls, and the extensions of',
         ' * vgp_provider_ext.h, by name; NULL where the provider lacks it. */', 'struct vgp_provider {']
    o += [f'    __typeof__(&{n}) {n};' for n in names(d)]
    o += ['};', '',
          '/* Fills *p with find(ctx, name), e.g. dlsym. Returns how many were found. */',
          'unsigned vgp_provider_load(struct vgp_provider *p, void *(*find)(void *ctx, '
          'const char *name), void *ctx);', '', '#endif', '']
    return '\n'.join(o)


def render_c(d):
    o = [BANNER, '#include "vgp_provider.h"', '',
         'unsigned vgp_provider_load(struct vgp_provider *p, void *(*find)(void *ctx, '
         'const char *name), void *ctx)', '{', '    unsigned n = 0;']
    if not names(d):
        o += ['    (void)p;', '    (void)find;', '    (void)ctx;']
    o += [f'    n += (p->{n} = (__typeof__(p->{n}))find(ctx, "{n}")) != NULL;' for n in names(d)]
    return '\n'.join(o + ['    return n;', '}', ''])
