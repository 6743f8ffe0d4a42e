/* SPDX-License-Identifier: MIT */
/* Filters in front of the provider and their order. */
#include "main.h"

/*
 * From the library to the handlers: a filter calls the library through those before it. No two replace
 * the same function. The order matters where one calls what another replaces:
 * - memory is next to the library: what it asks of cuMemGetInfo() is what the library says.
 * - graphs destroys events of its own, so it is below ipc, which looks for events that are shared.
 * - ipc, limits, pools and streams call nothing but what they replace; they stay above what counts memory.
 */
const struct wrk_filter wrk_filters[] = {
    {"memory", wrk_memory_filter}, {"graphs", wrk_exec_filter}, {"ipc", wrk_ipc_filter},
    {"limits", wrk_limits_filter}, {"pools", wrk_pool_filter},  {"streams", wrk_streams_filter},
};
const unsigned wrk_filters_count = sizeof(wrk_filters) / sizeof(wrk_filters[0]);
_Static_assert(sizeof(wrk_filters) / sizeof(wrk_filters[0]) <= WRK_FILTERS_MAX, "room for all");

void wrk_filters_install(struct wrk_worker *w)
{
    wrk_filters_apply(w, wrk_filters, wrk_filters_count);
}
