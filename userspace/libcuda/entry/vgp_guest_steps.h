/* SPDX-License-Identifier: MIT */
/* What the steps of the description call in this library: included by vgp_entry.c, which is generated. */
#ifndef VGP_GUEST_STEPS_H
#define VGP_GUEST_STEPS_H

#include <string.h>

#include "../code/code.h"
#include "../code/recall.h"
#include "../core/core.h"
#include "../graph/graph.h"
#include "../memory/copy.h"
#include "../memory/memory.h"
#include "../stream/stream.h"
#include "../../../lib/driver/absent.h"
#include "../../../lib/driver/advice.h"
#include "../../../lib/driver/copy_batch.h"
#include "../../../lib/driver/coredump.h"
#include "../../../lib/driver/errors.h"
#include "../../../lib/driver/external_memory.h"
#include "../../../lib/driver/external_semaphore.h"
#include "../../../lib/driver/legacy.h"

#endif
