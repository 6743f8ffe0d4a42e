/* SPDX-License-Identifier: MIT */
/* The line of the source that a line of PTX is of: marked by "mov.u32 %r0, N;", which the tests
   look for. */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define FUNC(name, body) ".visible .entry " name "()\n{\n.reg .b32 %r<2>;\n" body "ret;\n}\n"
#define MARK(n) "mov.u32 %r0, " #n ";\n"

/* The line of MARK(n), from 1 on; 0: there is none. */
static uint32_t line_of(const char *text, unsigned n)
{
    char mark[32];
    const char *at;
    uint32_t line = 1;

    snprintf(mark, sizeof(mark), "mov.u32 %%r0, %u;", n);
    at = strstr(text, mark);
    for (const char *s = text; at && s < at; s++)
        line += *s == '\n';
    return at ? line : 0;
}

/* want: NULL: nothing is known. */
static void at_line(const char *name, const char *text, uint32_t line, const char *want)
{
    char got[SG_SOURCE_MAX] = "";
    struct sg_module *m = NULL;
    struct sg_diag diag = {0};
    bool known =
        !sg_module_parse(text, strlen(text), &m, &diag) && sg_module_source(m, line, got, sizeof(got));

    t_result(name, m && (want ? known && !strcmp(got, want) : !known), "line %u: %s%s", line,
             known ? got : "nothing", diag.message);
    sg_module_free(m);
}

static void at(const char *name, const char *text, unsigned mark, const char *want)
{
    at_line(name, text, line_of(text, mark), want);
}

static void lines(void)
{
    const char *t =
        HEAD FUNC("a", MARK(1) ".loc 1 10 0\n" MARK(2) ".loc\t2 20 7 // x\n" MARK(3)) FUNC("b", MARK(4)) FUNC(
            "c",
            ".loc 1 30 3, function_name $L__info_string0, inlined_at 2 40 9\n" MARK(
                5) ".loc 1 31 3, function_name $L+7, inlined_at 2 41 9\n" MARK(6) ".loc 1 50 1\n" MARK(7)) ".file 1 \"/x/a b.cu\"\n.file 2 \"b.h\", 7, 8\n";
    const char *top = HEAD ".file 1 \"first.cu\"\n" FUNC("a", ".loc 1 3 1\n" MARK(1));

    at("before the first .loc", t, 1, NULL);
    at("behind a .loc", t, 2, "/x/a b.cu:10");
    at("another file", t, 3, "b.h:20");
    at("a function without line information", t, 4, NULL);
    at("inlined", t, 5, "/x/a b.cu:30, inlined at b.h:40");
    at("inlined, the name with an offset", t, 6, "/x/a b.cu:31, inlined at b.h:41");
    at("behind what was inlined", t, 7, "/x/a b.cu:50");
    at("the file is named first", top, 1, "first.cu:3");
    at_line("no line", t, 0, NULL);
    at_line("the head", t, 2, NULL);
    at_line("behind the end", t, 100000, NULL);
}

/* Linked texts: each has its own numbering of files. */
static void linked(void)
{
    const char *texts[] = {HEAD FUNC("a", ".loc 1 10 0\n" MARK(1)) ".file 1 \"a.cu\"\n",
                           HEAD ".file 1 \"b.cu\" /* that\ngoes on */\n" FUNC("b", ".loc 1 20 0\n" MARK(2)),
                           HEAD FUNC("c", ".loc 1 30 0\n" MARK(3)),
                           HEAD FUNC("d", MARK(4)) ".file 1 \"d.cu\"\n"};
    struct sg_ptx_input in[4];
    struct sg_diag diag;
    char *text = NULL;
    size_t len;

    for (uint32_t i = 0; i < 4; i++)
        in[i] = (struct sg_ptx_input){texts[i], strlen(texts[i]), "x", false};
    t_result("texts with line information are linked", !sg_ptx_link(in, 4, &text, &len, &diag), "%s",
             diag.message);
    if (!text)
        return;
    at("the first text", text, 1, "a.cu:10");
    at("the second", text, 2, "b.cu:20");
    at("one without", text, 4, NULL);
    free(text);
}

static void odd(void)
{
    static char longest[2 * SG_SOURCE_MAX + 200];
    char got[16];
    struct sg_module *m = NULL;
    struct sg_diag diag;
    const char *t = HEAD FUNC("a", ".loc 1 12345 0\n" MARK(1)) ".file 1 \"a-long-name.cu\"\n";

    at("a .loc without numbers",
       HEAD FUNC("a", ".loc\n.loc 1\n.loc 1 2\n.loc x 1 2\n.loc 1 9999999999999999999 0\n" MARK(
                          1)) ".file 1 \"a\"\n",
       1, "a:9999999999999999999");
    at("a file that is not named", HEAD FUNC("a", ".loc 3 1 1\n" MARK(1)) ".file 1 \"a\"\n", 1, NULL);
    at("inlined nowhere", HEAD FUNC("a", ".loc 1 2 3, inlined_at\n" MARK(1)) ".file 1 \"a\"\n", 1, NULL);
    at("inlined at a file that is not named",
       HEAD FUNC("a", ".loc 1 2 3, inlined_at 9 8 7\n" MARK(1)) ".file 1 \"a\"\n", 1, "a:2");
    strcpy(longest, HEAD FUNC("a", ".loc 1 1 1\n" MARK(1)) ".file 1 \"");
    memset(longest + strlen(longest), 'x', SG_SOURCE_MAX);
    strcat(longest, "\"\n");
    at("a name that is too long", longest, 1, NULL);
    t_result("a place that is cut",
             !sg_module_parse(t, strlen(t), &m, &diag) &&
                 sg_module_source(m, line_of(t, 1), got, sizeof(got)) && !strcmp(got, "a-long-name.cu:"),
             "%s", got);
    sg_module_free(m);
}

int main(void)
{
    lines();
    linked();
    odd();
    return t_end("softgpu source");
}
