/* SPDX-License-Identifier: MIT */
/* Launch attributes, as described by cuda.h (CUlaunchAttributeID). */
#ifndef ATT_ATTRIBUTE_H
#define ATT_ATTRIBUTE_H

#include <cuda.h>
#include <stdbool.h>

enum att_launch_class {
    ATT_UNKNOWN, /* unknown, or not an attribute of launches */
    ATT_PLAIN,   /* the value is plain data */
    ATT_OBJECT,  /* the value names an event or makes a graph node updatable */
};

static inline enum att_launch_class att_launch_class(CUlaunchAttributeID id)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return ATT_PLAIN;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return ATT_OBJECT;
    default: /* CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY applies only to streams */
        return ATT_UNKNOWN;
    }
}

/* False: the attribute has no effect, although it could name an object. */
static inline bool att_launch_active(const CUlaunchAttribute *a)
{
    return a->id != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE ||
           a->value.deviceUpdatableKernelNode.deviceUpdatable != 0;
}

/* The event of an attribute that names one, or NULL. */
static inline const CUevent *att_event(const CUlaunchAttribute *a)
{
    return a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT        ? &a->value.programmaticEvent.event
           : a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ? &a->value.launchCompletionEvent.event
                                                                  : NULL;
}

/* The flags of the record of that event; cuda.h allows none outside of graphs' event nodes. */
static inline int att_event_flags(const CUlaunchAttribute *a)
{
    return a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ? a->value.programmaticEvent.flags
                                                           : a->value.launchCompletionEvent.flags;
}

/* The lowest major compute capability of devices that serve an attribute that names an event. */
static inline int att_event_capability(CUlaunchAttributeID id)
{
    return id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ? 9 : 0;
}

/* The name of an object attribute, for error messages. */
static inline const char *att_object_name(CUlaunchAttributeID id)
{
    return id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT        ? "PROGRAMMATIC_EVENT"
           : id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ? "LAUNCH_COMPLETION_EVENT"
                                                               : "DEVICE_UPDATABLE_KERNEL_NODE";
}

#endif
