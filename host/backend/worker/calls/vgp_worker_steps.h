/* SPDX-License-Identifier: MIT */
/* What the steps of the description call in this worker: included by vgp_worker.c, which is generated. */
#ifndef VGP_WORKER_STEPS_H
#define VGP_WORKER_STEPS_H

#include "calls/calls.h"
#include "core/core.h"
#include "graph/graph.h"
#include "memory/memory.h"

#endif
