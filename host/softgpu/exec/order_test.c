/* SPDX-License-Identifier: MIT */
/* The order of blocks: equal bits for any number of threads; concurrent launches. */
#include "exec/exec_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define REGS ".reg .pred %p<4>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<8>;\n.reg .f32 %f<4>;\n"

/* out[0] += f(thread), with values whose sum depends on the order */
static const char *const sum_text =
    HEAD ".visible .entry t(.param .u64 p)\n{\n" REGS
         "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
         "mad.lo.u32 %r4, %r1, %r2, %r3;\nmul.lo.u32 %r5, %r4, 2654435761;\nshr.u32 %r6, %r5, 8;\n"
         "cvt.rn.f32.u32 %f1, %r6;\nand.b32 %r7, %r5, 15;\nshl.b32 %r7, 1, %r7;\n"
         "cvt.rn.f32.u32 %f2, %r7;\ndiv.rn.f32 %f1, %f1, %f2;\nred.global.add.f32 [%rd1], %f1;\nret;\n}\n";

/* The same without atomics: a tree in shared memory, one result for each block. */
static const char *const tree_text =
    HEAD ".visible .entry t(.param .u64 p)\n{\n" REGS ".shared .align 4 .b8 s[512];\n"
         "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
         "mad.lo.u32 %r4, %r1, %r2, %r3;\nmul.lo.u32 %r5, %r4, 2654435761;\ncvt.rn.f32.u32 %f1, %r5;\n"
         "mov.u32 %r8, s;\nmad.lo.u32 %r8, %r3, 4, %r8;\nst.shared.f32 [%r8], %f1;\nmov.u32 %r9, 64;\n"
         "L: bar.sync 0;\nsetp.ge.u32 %p1, %r3, %r9;\n@%p1 bra N;\nmad.lo.u32 %r10, %r9, 4, %r8;\n"
         "ld.shared.f32 %f2, [%r10];\nld.shared.f32 %f1, [%r8];\nadd.rn.f32 %f1, %f1, %f2;\n"
         "st.shared.f32 [%r8], %f1;\nN: shr.u32 %r9, %r9, 1;\nsetp.ne.u32 %p1, %r9, 0;\n@%p1 bra L;\n"
         "setp.ne.u32 %p1, %r3, 0;\n@%p1 ret;\nmad.wide.u32 %rd2, %r1, 4, %rd1;\n"
         "st.global.f32 [%rd2], %f1;\nret;\n}\n";

/* Cooperative: every block counts itself at p[a] and waits for the blocks of both launches at
   p[b]. */
static const char *const meet_text =
    HEAD ".visible .entry t(.param .u64 p, .param .u32 want)\n{\n" REGS
         "ld.param.u64 %rd1, [p];\nld.param.u32 %r1, [want];\natom.global.add.u32 %r2, [%rd1], 1;\n"
         "L: ld.volatile.global.u32 %r3, [%rd1];\nsetp.lt.u32 %p1, %r3, %r1;\n@%p1 bra L;\nret;\n}\n";

/* Every block waits until p[0] is not 0. */
static const char *const wait_text =
    HEAD ".visible .entry t(.param .u64 p)\n{\n" REGS
         "ld.param.u64 %rd1, [p];\nL: ld.volatile.global.u32 %r3, [%rd1];\nsetp.eq.u32 %p1, %r3, 0;\n"
         "@%p1 bra L;\nret;\n}\n";

/*
 * Block 0 writes vectors of equal elements, block 1 reads them and counts those that are not equal.
 * %s: head, registers; the vector's type, then its registers; the last compares the outer elements.
 */
static const char *const pair_text =
    "%s.visible .entry t(.param .u64 p)\n{\n%s"
    "ld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %%ctaid.x;\nmov.u32 %%r2, %%tid.x;\nmul.wide.u32 %%rd2, %%r2, 16;\n"
    "add.u64 %%rd3, %%rd1, %%rd2;\nmov.u32 %%r9, 0;\nsetp.ne.u32 %%p1, %%r1, 0;\n@%%p1 bra R;\n"
    "W: add.u32 %%r9, %%r9, 1;\nmov.u32 %%r4, %%r9;\ncvt.u64.u32 %%rd4, %%r9;\n"
    "st.volatile.global.%s [%%rd3], %s;\nsetp.lt.u32 %%p2, %%r9, 40000;\n@%%p2 bra W;\nret;\n"
    "R: add.u32 %%r9, %%r9, 1;\nld.volatile.global.%s %s, [%%rd3];\n%s\n"
    "@%%p3 atom.global.add.u32 %%r8, [%%rd1 + 512], 1;\nsetp.lt.u32 %%p2, %%r9, 40000;\n@%%p2 bra R;\nret;\n}\n";
static const char *const pair_forms[][4] = {
    {"v2.u32", "{%r4, %r4}", "{%r5, %r6}", "setp.ne.u32 %p3, %r5, %r6;"},
    {"v4.u32", "{%r4, %r4, %r4, %r4}", "{%r5, %r10, %r11, %r6}", "setp.ne.u32 %p3, %r5, %r6;"},
    {"v2.u64", "{%rd4, %rd4}", "{%rd5, %rd6}", "setp.ne.u64 %p3, %rd5, %rd6;"},
};

static const unsigned counts[] = {1, 2, 5};

static void same_bits(const char *name, const char *text, unsigned blocks)
{
    uint32_t *p = tm_alloc(4096), first[1024];
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;
    int r = 0;

    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "%s", t.diag.message);
        return;
    }
    for (unsigned k = 0; k < 9; k++) { /* each count thrice: it must not be luck */
        sg_exec_set_threads(counts[k % 3]);
        memset(p, 0, 4096);
        r |= tk_run(&t, blocks, 128, &p, &f);
        if (!k)
            memcpy(first, p, 4096);
        ok &= !memcmp(first, p, 4096);
    }
    t_result(name, ok && !r && first[0], "result %d %s", r, f.message);
    tk_close(&t);
}

/* A vector is a single access: no reader sees part of it. */
static void whole_vectors(const char *const form[4])
{
    uint32_t *p = tm_alloc(4096);
    struct sg_fault f = {0};
    char text[4096], name[64];
    struct tk t;
    int r;

    snprintf(text, sizeof(text), pair_text, HEAD, REGS, form[0], form[1], form[0], form[2], form[3]);
    snprintf(name, sizeof(name), "%s is read and written at once", form[0]);
    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "%s", t.diag.message);
        return;
    }
    sg_exec_set_threads(2);
    memset(p, 0, 4096);
    r = tk_run(&t, 2, 32, &p, &f);
    t_result(name, !r && p[128] == 0 && p[0] == 40000, "result %d %s, %u torn", r, f.message, p[128]);
    tk_close(&t);
}

struct job {
    struct tk t;
    struct {
        void *p;
        uint32_t want;
    } params;
    unsigned grid;
    bool cooperative;
    int result;
    pthread_t thread;
};

static void *job_main(void *arg)
{
    struct job *j = arg;
    struct sg_fault f;
    struct sg_launch l = {
        .kernel = j->t.k,
        .grid = {j->grid, 1, 1},
        .block = {32, 1, 1},
        .params = &j->params,
        .cooperative = j->cooperative,
    };

    j->result = sg_exec_launch(&l, &f);
    return NULL;
}

static bool start(struct job *j, const char *text, uint32_t *p, uint32_t want, unsigned grid,
                  bool cooperative)
{
    memset(j, 0, sizeof(*j));
    if (!tk_open(&j->t, text, "t"))
        return false;
    j->params.p = p;
    j->params.want = want;
    j->grid = grid;
    j->cooperative = cooperative;
    return !pthread_create(&j->thread, NULL, job_main, j);
}

/* A deadlock here ends by the time limit of the whole program. */
static void side_by_side(unsigned threads)
{
    uint32_t *p = tm_alloc(64);
    struct job j[4];
    char name[64];
    bool ok = true;

    sg_exec_set_threads(threads);
    memset(p, 0, 64);
    for (int i = 0; i < 3; i++) /* three launches; each block waits for the blocks of all three */
        ok &= start(&j[i], meet_text, p, 3 * 7 * 32, 7, true);
    for (int i = 0; i < 3 && ok; i++) {
        pthread_join(j[i].thread, NULL);
        ok &= !j[i].result;
    }
    snprintf(name, sizeof(name), "cooperative launches that meet, %u threads", threads);
    t_result(name, ok && p[0] == 3 * 7 * 32, "%u", p[0]);

    memset(p, 0, 64);
    ok = start(&j[0], wait_text, p + 8, 0, 64, false) && /* keeps every thread that it gets */
         start(&j[1], meet_text, p, 2 * 9 * 32, 9, true) && start(&j[2], meet_text, p, 2 * 9 * 32, 9, true);
    for (int i = 1; i < 3 && ok; i++) {
        pthread_join(j[i].thread, NULL);
        ok &= !j[i].result;
    }
    __atomic_store_n(p + 8, 1, __ATOMIC_SEQ_CST);
    if (ok)
        pthread_join(j[0].thread, NULL);
    snprintf(name, sizeof(name), "the same beside a kernel that waits, %u threads", threads);
    t_result(name, ok && !j[0].result && p[0] == 2 * 9 * 32, "%u", p[0]);
}

int main(void)
{
    same_bits("float atomics, 1, 2 and 5 threads", sum_text, 200);
    same_bits("reduction without atomics, 1, 2 and 5 threads", tree_text, 1000);
    for (int i = 0; i < 3; i++)
        whole_vectors(pair_forms[i]);
    for (int i = 0; i < 3; i++)
        side_by_side(counts[i]);
    tm_free_all();
    return t_end("softgpu order");
}
