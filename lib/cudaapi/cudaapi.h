/* SPDX-License-Identifier: MIT */
/* All of lib/cudaapi. */
#ifndef CUA_CUDAAPI_H
#define CUA_CUDAAPI_H

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
