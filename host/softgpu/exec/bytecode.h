/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's interface to the front end and the native-code compiler: instructions and
 * state, decoded kernels, the table of operations, the profile.
 */
#ifndef SG_BYTECODE_H
#define SG_BYTECODE_H

#include "exec/code.h"
#include "exec/core.h"
#include "exec/mma.h"
#include "exec/profile.h"
#include "exec/tcgen05/tcgen05.h"
#include "exec/wgmma/wgmma.h"

#endif
