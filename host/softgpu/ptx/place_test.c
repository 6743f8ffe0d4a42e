/* SPDX-License-Identifier: MIT */
/*
 * Line and column of an error, behind everything that may stand before it: the words of a program's author begin with them.
 * The error is where the text has an @.
 */
#include "exec/exec_test.h"
#include "ptx/module.h"

#include <string.h>

#define HEAD ".version 9.0\n.target sm_100\n.address_size 64\n"

static const struct {
    const char *name, *before;
} cases[] = {
    {"at a line's begin", ""},
    {"behind blanks", "   "},
    {"behind tabs", "\t\t "},
    {"behind statements", "mov.u32 %r1, 1; add.u32 %r1, %r1, 2; "},
    {"behind a comment", "/* one */ "},
    {"behind a comment of two lines", "/* one\ntwo */ "},
    {"behind a comment of lines without an indent", "/* one\n\n\n*/"},
    {"behind two comments of lines", "/*\n*/ /*\n\n*/ "},
    {"behind a comment with stars", "/***\n ***/"},
    {"behind a comment to the line's end", "// one\n  "},
    {"behind a line of the preprocessor", "\n# 7 \"file.cu\"\n  "},
    {"behind lines that end as in DOS", "mov.u32 %r1, 1;\r\n  "},
    {"behind a scope", "{\n.reg .u32 %x;\n} "},
    {"behind a .loc", ".file 1 \"a.cu\"\n.loc 1 2 3\n "},
};

static void test_case(const char *name, const char *before)
{
    char text[1024];
    struct sg_module *m = NULL;
    struct sg_diag d = {0};
    uint32_t line = 1, column = 1;
    int r;

    snprintf(text, sizeof(text), HEAD ".entry t()\n{\n.reg .b32 %%r<3>;\n%s@ mov.u32 %%r1, 2;\nret;\n}\n",
             before);
    for (const char *p = text; *p != '@' || strncmp(p, "@ mov", 5); p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    *strstr(text, "@ mov") = '^';
    r = sg_module_parse(text, strlen(text), &m, &d);
    if (!r)
        r = sg_kernel_prepare(sg_module_kernel(m, 0), &d);
    t_result(name, r && d.line == line && d.column == column, "result %d at %u:%u instead of %u:%u: %s", r,
             d.line, d.column, line, column, d.message);
    sg_module_free(m);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        test_case(cases[i].name, cases[i].before);
    return t_end("softgpu places of errors");
}
