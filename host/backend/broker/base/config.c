/* SPDX-License-Identifier: MIT */
/* The settings of the broker, which main() fills before anything else runs. */
#include "base.h"

struct brk_options brk_opt;
