/* SPDX-License-Identifier: MIT */
/*
 * The native code that the rows of operations name is what the compiler finds, and the rows of
 * control flow are those of struct jit_ctl. That each name exists and is used does not need a test:
 * sg_jit_table.c does not compile otherwise.
 */
#include "exec/exec_test.h"
#include "jit/state.h"

#include <string.h>

#ifdef SG_JIT

static const char *const column[SG_OP_COUNT] = {
#define SG_ID(id, name, native) [SG_OP_##id] = #native,
#include "exec/table/ids.h"
};

static unsigned rows, wrong;

static bool is_control(sg_fn fn)
{
    sg_fn known[sizeof(sg_jit_ctl) / sizeof(sg_fn)];

    memcpy(known, &sg_jit_ctl, sizeof(known));
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        if (known[k] == fn)
            return true;
    return false;
}

static void look_at_row(const struct sg_opdef *row)
{
    const char *native = column[row->op];
    const bool flow = !strcmp(native, "flow"), avx512 = !strncmp(native, "avx512(", 7);
    bool pure = false;
    /* Operations that share a handler share their native code, too. */
    const struct jop *o = sg_jit_find(row->fn, &pure);
    const bool ok =
        flow || !strcmp(native, "none") ? !o : o && o->avx512 == avx512 && pure == sg_op_is_pure(row);

    rows++;
    if (!ok || flow != is_control(row->fn)) {
        printf("    %s: %s\n", row->name, native);
        wrong++;
    }
}

int main(void)
{
    if (sg_jit_available()) {
        sg_op_each(look_at_row);
        t_result("native code of operations", rows == SG_OP_COUNT - 1 && !wrong, "%u rows, %u wrong", rows,
                 wrong);
    } else {
        t_skip("native code of operations", "none on this machine");
    }
    return t_end("softgpu natives");
}

#else

int main(void)
{
    t_skip("native code of operations", "none in this build");
    return t_end("softgpu natives");
}

#endif
