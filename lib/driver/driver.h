/* SPDX-License-Identifier: MIT */
/* All of lib/driver. */
#ifndef CUA_DRIVER_H
#define CUA_DRIVER_H

#include "absent.h"
#include "advice.h"
#include "copy_batch.h"
#include "coredump.h"
#include "errors.h"
#include "external_memory.h"
#include "external_semaphore.h"
#include "graph.h"
#include "legacy.h"
#include "memory_operation.h"
#include "pointer.h"

#endif
