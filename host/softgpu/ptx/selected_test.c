/* SPDX-License-Identifier: MIT */
/*
 * Each operation of ptx/select/families.def is selected by an instruction of tests-ptx/operations.txt:
 * a row that nothing can select is neither run nor tested. Operations that a selector names itself
 * are made where they are named.
 */
#include "exec/exec_test.h"
#include "ptx/select/families.h"

#include <stdio.h>
#include <string.h>

static bool selected[SG_OP_COUNT];
static unsigned rows, missing;

const struct sg_opdef *__real_sg_op_row(enum sg_op op);
const struct sg_opdef *__wrap_sg_op_row(enum sg_op op);

/* Called for each instruction that is made (sg_emit_x()). */
const struct sg_opdef *__wrap_sg_op_row(enum sg_op op)
{
    if (op < SG_OP_COUNT)
        selected[op] = true;
    return __real_sg_op_row(op);
}

static void decode_line(const char *line)
{
    char text[1024];
    struct tk t;

    snprintf(text, sizeof(text),
             ".version 9.0\n.target sm_100a\n.address_size 64\n.global .align 16 .b8 gb[64];\n"
             ".const .align 16 .b8 kb[64];\n.visible .entry t(.param .u64 P)\n{\n.reg .pred p<8>;\n"
             ".reg .b8 c<8>;\n.reg .b16 h<8>;\n.reg .u16 us<8>;\n.reg .s16 ss<8>;\n.reg .b32 b<8>;\n"
             ".reg .u32 u<8>;\n.reg .s32 s<8>;\n.reg .f32 f<8>;\n.reg .b64 d<8>;\n.reg .u64 ul<8>;\n"
             ".reg .s64 sl<8>;\n.reg .f64 dd<8>;\n.reg .f16 hh<8>;\n"
             "%s\nret;\n}\n",
             line);
    if (!tk_open(&t, text, "t")) {
        t_result(line, false, "%s", t.diag.message);
        return;
    }
    tk_close(&t);
    tm_free_all();
}

static void look_at_ops(const struct sg_typed_ops *ops)
{
    for (unsigned k = 0; ops && k < SG_TY_COUNT; k++) {
        const enum sg_op op = (enum sg_op)ops->op[k];

        if (op == SG_OP_NONE)
            continue;
        rows++;
        if (!selected[op]) {
            printf("    %s: never selected\n", __real_sg_op_row(op)->name);
            missing++;
        }
    }
}

static void look_at_family(const struct sg_family_ops *f)
{
    for (unsigned v = 0; v < SG_V_COUNT; v++)
        look_at_ops(f->of[v]);
}

static void look_at_pairs(const struct sg_paired_ops *p)
{
    for (unsigned to = 0; to < SG_TY_COUNT; to++)
        look_at_ops(p->to[to]);
}

int main(int argc, char **argv)
{
    FILE *list = fopen(argc > 1 ? argv[1] : SG_OPERATIONS, "r");
    char line[256];

    while (list && fgets(line, sizeof(line), list)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && line[0] != '#')
            decode_line(line);
    }
    if (list)
        fclose(list);
#define FAMILY(name, ...) look_at_family(&sg_fam_##name);
#define PAIRS(name, ...) look_at_pairs(&sg_pairs_##name);
#include "ptx/select/families.def"
    t_result("operations of families", rows > 700 && !missing, "%u of %u never selected", missing, rows);
    return t_end("softgpu selection");
}
