/* SPDX-License-Identifier: MIT */
/* Resolution of names: scopes, shadowing, ranges of registers, labels of enclosing scopes, expanded
   functions. */
#include "exec/exec_test.h"

#include <string.h>

/* In each the result is in %v. */
static const struct {
    const char *name, *functions, *body;
    uint32_t value;
    const char *refused; /* or the reason that it is not accepted */
} cases[] = {
    {"a name of a scope around", "", "mov.u32 %v, 1; { add.u32 %v, %v, 1; { add.u32 %v, %v, 1; } }", 3, NULL},
    {"a name of the same kind within", "", "mov.u32 %v, 1; { .reg .u32 %v; mov.u32 %v, 7; }", 1, NULL},
    {"a name of a scope that has ended", "", "{ .reg .u32 %x; mov.u32 %x, 7; } mov.u32 %v, %x;", 0,
     "unknown register"},
    {"a name again in a later scope", "",
     "{ .reg .u32 %x; mov.u32 %x, 7; } { .reg .u64 %x; mov.u64 %x, 8; cvt.u32.u64 %v, %x; }", 8, NULL},
    {"a range of a scope around", "",
     ".reg .u32 %r<9>; mov.u32 %r5, 5; { .reg .u32 %r<5>; mov.u32 %r4, 4; mov.u32 %v, %r5; }", 5, NULL},
    {"a range within", "",
     ".reg .u32 %r<9>; mov.u32 %r4, 40; { .reg .u32 %r<5>; mov.u32 %r4, 4; } mov.u32 %v, %r4;", 40, NULL},
    {"ranges in ranges", "",
     ".reg .u32 %r<9>; mov.u32 %r8, 1; { .reg .u32 %r<3>; { .reg .u32 %r<7>; mov.u32 %r6, 2; "
     "{ .reg .u32 %r<2>; { .reg .u32 %r<1>; add.u32 %v, %r8, %r6; } } } }",
     3, NULL},
    {"a range that ends in a digit", "",
     ".reg .u32 %r1<5>; .reg .u32 %r<12>; mov.u32 %r11, 3; mov.u32 %r5, 4; add.u32 %v, %r11, %r5;", 7, NULL},
    {"a register in place of a range's within", "",
     ".reg .u32 %r<9>; mov.u32 %r4, 40; { .reg .u32 %r4; mov.u32 %r4, 4; { mov.u32 %v, %r4; } }", 4, NULL},
    {"a range in place of a register around", "",
     ".reg .u32 %r4; mov.u32 %r4, 4; { .reg .u32 %r<9>; mov.u32 %r4, 9; } mov.u32 %v, %r4;", 4, NULL},
    {"a register that a range has, used before", "", ".reg .u32 %r<9>; mov.u32 %r4, 1; .reg .u32 %r4;", 0,
     "defined twice"},
    {"a range twice", "", ".reg .u32 %r<9>; .reg .u32 %r<4>;", 0, "defined twice"},
    {"a label of a scope around", "", "{ { bra L; } mov.u32 %v, 1; } mov.u32 %v, 2; L: add.u32 %v, %v, 0;", 0,
     NULL},
    {"a label behind, of the scope itself", "",
     "{ mov.u32 %v, 1; bra L; mov.u32 %v, 2; L: } mov.u32 %v, 3; bra E; L: mov.u32 %v, 4; E:", 3, NULL},
    {"one label in two scopes", "",
     "{ mov.u32 %v, 1; bra L; mov.u32 %v, 9; L: } { add.u32 %v, %v, 1; bra L; mov.u32 %v, 9; L: }", 2, NULL},
    {"a label of the scope around, from two within", "",
     "mov.u32 %v, 1; { bra L; } L: add.u32 %v, %v, 1; { bra M; { bra M; } } mov.u32 %v, 9; M: add.u32 %v, %v, 1;",
     3, NULL},
    {"a label named at every depth", "",
     "mov.u32 %v, 5; bra L; { bra L; { bra L; { bra L; } bra L; } } { bra L; } mov.u32 %v, 9; L:", 5, NULL},
    {"a label in a scope that has ended", "", "{ L: } bra L;", 0, "label"},
    {"a label that nothing defines", "", "{ { bra L; } } { bra L; }", 0, "label"},
    {"a label twice", "", "L: { L: } L:", 0, "defined twice"},
    {"a label twice, named within", "", "{ bra L; } L: { bra L; } L:", 0, "defined twice"},
    {"a list of targets around", "",
     "ts: .branchtargets A, B; mov.u32 %v, 1; { brx.idx %v, ts; } A: mov.u32 %v, 8; bra E; B: mov.u32 %v, 9; E:",
     9, NULL},
    {"a list of targets in a scope that has ended", "", "{ ts: .branchtargets A; A: } brx.idx %v, ts;", 0,
     "unknown list"},
    {"a list that has the name of a label", "", "ts: ts: .branchtargets A; A:", 0, "has the name of a label"},
    {"a list to branch to", "", "ts: .branchtargets A; A: bra ts;", 0, "not a label"},
    {"a list to branch to from within", "", "ts: .branchtargets A; { bra ts; } A:", 0, "not a label"},
    {"a function's own names",
     ".func (.reg .u32 %o) f(.reg .u32 %i)\n{\n.reg .u32 %r<4>; mov.u32 %r1, 5; add.u32 %o, %i, %r1; bra L; "
     "mov.u32 %o, 0; L: { bra L2; } mov.u32 %o, 0; L2: ret;\n}\n",
     ".reg .u32 %r<4>; mov.u32 %r1, 1; { call (%v), f, (%r1); } add.u32 %v, %v, %r1; bra L; mov.u32 %v, 0; L:",
     7, NULL},
    {"results without a name, one in memory and one in a register",
     ".func (.param .u32 _, .reg .u64 _) f()\n{\nret;\n}\n",
     ".reg .u64 %w; .local .u32 l<8>; st.local.u32 [l0], 9; st.local.u32 [l1], 9; st.local.u32 [l2], 9; "
     "st.local.u32 [l3], 9; st.local.u32 [l4], 9; st.local.u32 [l5], 9; st.local.u32 [l6], 9; "
     "st.local.u32 [l7], 9; call (%v, %w), f;",
     0, NULL},
    {"a result in memory, and a parameter of its name",
     ".func (.param .u32 o, .reg .u32 q) f(.reg .u32 o)\n{\nst.param.u32 [o], 4; mov.u32 q, 3; ret;\n}\n",
     ".reg .u32 %w; call (%v, %w), f, (9); add.u32 %v, %v, %w;", 7, NULL},
    {"no operand of the instruction before", "",
     ".shared .align 8 .b64 m; .reg .b64 %q; .reg .u32 %u; ld.shared.u32 %u, [m]; mbarrier.arrive.shared.b64 %q;",
     0, "with 1 operands"},
    {"a caller's names", ".func f()\n{\nmov.u32 %x, 5; ret;\n}\n", ".reg .u32 %x; call f;", 0,
     "unknown register"},
    {"a caller's label", ".func f()\n{\nbra L; ret;\n}\n", "call f; L:", 0, "label"},
};

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t *out = tm_alloc(4);
        const uint64_t param = (uintptr_t)out;
        struct sg_fault f = {0};
        char text[2048];
        struct tk t;
        bool open;

        snprintf(
            text, sizeof(text),
            ".version 8.0\n.target sm_80\n.address_size 64\n%s.visible .entry t(.param .u64 p)\n{\n"
            ".reg .u32 %%v; .reg .u64 %%p;\nmov.u32 %%v, 0;\n%s\nld.param.u64 %%p, [p];\nst.global.u32 [%%p], %%v;\n"
            "ret;\n}\n",
            cases[i].functions, cases[i].body);
        *out = UINT32_MAX;
        open = tk_open(&t, text, "t");
        if (cases[i].refused)
            t_result(cases[i].name, !open && strstr(t.diag.message, cases[i].refused), "%s",
                     open ? "accepted" : t.diag.message);
        else
            t_result(cases[i].name, open && !tk_run(&t, 1, 1, &param, &f) && *out == cases[i].value,
                     "%s%s, %u", open ? "" : t.diag.message, f.message, *out);
        tk_close(&t);
        tm_free_all();
    }
    return t_end("softgpu scopes");
}
