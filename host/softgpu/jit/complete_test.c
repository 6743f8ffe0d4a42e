/* SPDX-License-Identifier: MIT */
/*
 * Native code is whole or is not made: a check that finds no room in a stub, a stub without a way back, a jump
 * to what is no entry, a register that is not there each fail the compilation.
 */
#include "exec/exec_test.h"
#include "jit/memory_ops.h"

#ifdef SG_JIT

#include <stdlib.h>
#include <string.h>

#define INSNS 4

/* A compilation of four instructions, of which the first begins a block. */
static void begin(struct jit *j, struct sg_code *c)
{
    memset(j, 0, sizeof(*j));
    memset(c, 0, sizeof(*c));
    c->ninsns = INSNS;
    j->code = c;
    for (unsigned k = 0; k < JIT_VERSIONS; k++) {
        j->entry[k] = calloc(INSNS + 1, sizeof(size_t));
        if (!j->entry[k])
            abort();
        j->entry[k][0] = 16;
    }
    sg_jv_forget(j);
}

static void end(struct jit *j)
{
    for (unsigned k = 0; k < JIT_VERSIONS; k++)
        free(j->entry[k]);
    free(j->stubs);
    free(j->jumps);
    free(j->b.p);
}

static void checks_of_stub(void)
{
    struct sg_code c;
    struct jit j;
    struct stub *s;
    u32 n = 0;

    begin(&j, &c);
    s = sg_jit_stub(&j);
    if (!s)
        abort();
    for (; n < sizeof(s->jumps) / sizeof(s->jumps[0]); n++)
        sg_jit_slow(&j, s, JNE);
    sg_jit_joined(&j, s);
    sg_jit_complete(&j);
    t_result("all checks that there is room for", !j.b.failed && s->njumps == n, "refused");
    sg_jit_slow(&j, s, JNE);
    t_result("one check more than there is room for", j.b.failed && s->njumps == n, "%u checks, compiled",
             s->njumps);
    end(&j);
}

static void stubs(bool enter, bool join, const char *name)
{
    struct sg_code c;
    struct jit j;
    struct stub *s;

    begin(&j, &c);
    s = sg_jit_stub(&j);
    if (enter)
        sg_jit_slow(&j, s, JNE);
    if (join)
        sg_jit_joined(&j, s);
    sg_jit_complete(&j);
    t_result(name, j.b.failed == !(enter && join), "%s", j.b.failed ? "refused" : "compiled");
    end(&j);
}

static void jumps(u32 insn, bool good, const char *name)
{
    struct sg_code c;
    struct jit j;

    begin(&j, &c);
    sg_jit_jump_to(&j, jmp(B(&j)), insn);
    sg_jit_complete(&j);
    t_result(name, j.b.failed == !good, "%s", j.b.failed ? "refused" : "compiled");
    end(&j);
}

static void registers(void)
{
    struct sg_code c;
    struct jit j;
    bool good = true;

    begin(&j, &c);
    for (u32 k = V_SCRATCH; k < V_COUNT; k++)
        good &= sg_jv_new(&j) >= V_SCRATCH && !j.b.failed;
    sg_jv_new(&j);
    t_result("one register more than there are", good && j.b.failed, "it got one");
    end(&j);
}

int main(void)
{
    checks_of_stub();
    stubs(true, true, "a checked way");
    stubs(true, false, "a checked way without an end");
    stubs(false, true, "a checked way that nothing enters");
    jumps(0, true, "a jump to a block");
    jumps(1, false, "a jump into a block");
    jumps(JIT_EXIT, true, "a jump to the way out");
    jumps(JIT_BLOCKED, true, "a jump to the last common place");
    jumps(JIT_BLOCKED - 1, false, "a jump to no common place");
    jumps(INSNS, false, "a jump behind the code");
    registers();
    return t_end("softgpu native code");
}

#else

int main(void)
{
    t_skip("native code is whole", "there is none on this machine");
    return t_end("softgpu native code");
}

#endif
