/* SPDX-License-Identifier: MIT */
#include "sg_exec_op.h"
const struct sg_opdef sg_ops_cvt[] = {{NULL, NULL}};
