/* SPDX-License-Identifier: MIT */
/*
 * The operations of the interpreter, a number each. Their rows are in the .def files of ops/ and cdp/,
 * one for each operation: number, name, native code, types or operands and effects, and the expression where
 * there is one. From a row come the number here, the handler and the entry of the table
 * (rows.h), with which instructions are made (ptx/sg_ptx_emit.c) and verified (sg_verify.c). The front
 * end (ptx/select/families.def) and the native code generators name operations by these numbers, so
 * that a misspelt name does not compile. The name of a number is SG_OP_ and the operation's with '_' for '.'.
 */
#ifndef SG_EXEC_OPS_H
#define SG_EXEC_OPS_H

enum sg_op {
    SG_OP_NONE,
#define SG_ID(id, name, native) SG_OP_##id,
#include "exec/table/ids.h"
    SG_OP_COUNT
};

#endif
