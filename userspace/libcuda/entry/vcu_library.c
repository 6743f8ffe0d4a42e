/* SPDX-License-Identifier: MIT */
/* Loading of the library: the list of units and their order. */
#include "../graph/graph.h"
#include "../code/code.h"
#include "../memory/memory.h"
#include "../stream/stream.h"
#include "entry.h"

static const struct vcu_unit_ops *const units[] = {
    &vcu_cls_unit, /* first: the program's destructors may still use objects that later units release */
    &vcu_semas_unit,
    &vcu_staging_unit,
    &vcu_managed_unit,
    &vcu_memory_unit,
    &vcu_module_unit,
    &vcu_hostfunc_unit,
    &vcu_graph_unit,
    &vcu_copy_node_unit,
    &vcu_slab_unit,
    &vcu_array_unit,
    NULL,
};

__attribute__((constructor)) static void library_loaded(void)
{
    vcu_client_loaded(units);
}
