/* SPDX-License-Identifier: MIT */
#include "sg_exec_op.h"
const struct sg_opdef SG_TABLE(half)[] = {{NULL, NULL}};
