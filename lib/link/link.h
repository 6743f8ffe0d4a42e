/* SPDX-License-Identifier: MIT */
/* All of lib/link: the connection to a worker, the trace, and the reported driver version. */
#ifndef LNK_LINK_H
#define LNK_LINK_H

#include "mapped.h"
#include "record.h"
#include "ring.h"
#include "trace.h"
#include "transport.h"
#include "version.h"

#endif
