/* SPDX-License-Identifier: MIT */
/* Chain of filters between the handlers and the provider's library. */
#include "provider.h"

void wrk_filters_apply(struct wrk_worker *w, const struct wrk_filter *filters, unsigned n)
{
    /* Functions below each filter, called by it until the process exits. */
    static struct vgp_provider below[WRK_FILTERS_MAX];
    static unsigned used;

    for (unsigned i = 0; i < n && used < WRK_FILTERS_MAX; i++) {
        struct vgp_provider *next = &below[used++];

        *next = wrk_provider;
        filters[i].wrap(w, &wrk_provider, next);
    }
}
