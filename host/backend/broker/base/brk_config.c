/* SPDX-License-Identifier: MIT */
/* Settings of the broker, filled by main() before anything else runs. */
#include "base.h"

struct brk_options brk_opt;
