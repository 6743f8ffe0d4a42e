/* SPDX-License-Identifier: MIT */
/*
 * Contents of registers that none of a kernel's lanes has set: shfl and mma read registers of diverged
 * lanes. These may hold values of earlier launches, but never data of this process, whose heap provides
 * the memory: blocks and warps are structures with pointers.
 */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define VALUES 64u /* live registers of the kernel */
#define LANES 32u

/* Lane 0 alone sets VALUES registers, and stores the other lanes' contents: out[lane -
   1][register]. */
static char *look_text(void)
{
    char *text = malloc(64 << 10), *p = text;

    p += sprintf(p,
                 HEAD
                 ".visible .entry t(.param .u64 in)\n{\n.reg .pred %%p<3>;\n.reg .b32 %%r<%u>;\n"
                 ".reg .b32 %%s<5>;\n.reg .b64 %%rd<3>;\nld.param.u64 %%rd1, [in];\nmov.u32 %%s1, %%tid.x;\n"
                 "setp.ne.u32 %%p1, %%s1, 0;\n@%%p1 bra E;\nadd.u64 %%rd2, %%rd1, %u;\n",
                 VALUES, 4 * VALUES);
    for (uint32_t i = 0; i < VALUES; i++)
        p += sprintf(p, "ld.global.u32 %%r%u, [%%rd1+%u];\n", i, 4 * i);
    p += sprintf(p, "mov.u32 %%s2, 0;\nL: add.u32 %%s2, %%s2, 1;\n");
    for (uint32_t i = 0; i < VALUES; i++)
        p += sprintf(p, "shfl.sync.idx.b32 %%s3, %%r%u, %%s2, 31, 1;\nst.global.u32 [%%rd2+%u], %%s3;\n", i,
                     4 * i);
    p += sprintf(p, "add.u64 %%rd2, %%rd2, %u;\nsetp.lt.u32 %%p2, %%s2, 31;\n@%%p2 bra L;\n", 4 * VALUES);
    for (uint32_t i = 0; i < VALUES; i++)
        p += sprintf(p, "st.global.u32 [%%rd1+%u], %%r%u;\n", 4 * i, i);
    sprintf(p, "E: ret;\n}\n");
    return text;
}

/* Is run with many blocks and warps. */
static const char *const before_text = HEAD
    ".visible .entry t(.param .u64 in)\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nld.param.u64 %rd1, [in];\n"
    "ld.global.u32 %r1, [%rd1];\nbar.sync 0;\nst.global.u32 [%rd1], %r1;\nret;\n}\n";

/* True if memory of this process lies at the address. */
static bool is_mapped(uint64_t at)
{
    FILE *f = fopen("/proc/self/maps", "r");
    unsigned long long begin, end;
    char line[512];
    bool found = false;

    while (f && !found && fgets(line, sizeof(line), f))
        found = sscanf(line, "%llx-%llx", &begin, &end) == 2 && at >= begin && at < end;
    if (f)
        fclose(f);
    return found;
}

/* Number of addresses of this process, mem's excluded, that the kernel has stored; *at: an example. */
static uint32_t addresses(const uint32_t *mem, uint64_t *at)
{
    const uint64_t self = (uintptr_t)mem;
    uint32_t n = 0;

    for (uint32_t reg = 0; reg < VALUES; reg++)
        for (uint32_t lane = 2; lane < LANES; lane += 2) {
            const uint64_t v = mem[lane * VALUES + reg] | (uint64_t)mem[(lane + 1) * VALUES + reg] << 32;

            if (v - self <= 4 * VALUES * LANES || !is_mapped(v))
                continue;
            *at = v;
            n++;
        }
    return n;
}

static void residue(const char *name, struct tk *before, struct tk *look, uint32_t *mem, uint32_t blocks)
{
    struct {
        void *p;
    } prm = {mem};
    struct sg_fault f = {0};
    uint64_t at = 0;
    uint32_t n;
    int r = 0;

    memset(mem, 0, 4 * VALUES * LANES);
    if (blocks)
        r = tk_run(before, blocks, 1024, &prm, &f);
    t_cooperative = false;
    memset(t_cluster, 0, sizeof(t_cluster));
    if (!r)
        r = tk_run(look, 1, LANES, &prm, &f);
    n = addresses(mem, &at);
    t_result(name, !r && !n, "result %d %s; %u addresses of the process, such as %#llx", r, f.message, n,
             (unsigned long long)at);
}

int main(void)
{
    struct tk before = {0}, look = {0};
    char *text = look_text();
    uint32_t *mem = tm_alloc(4 * VALUES * LANES);

    /* memory reused by malloc() contains addresses */
    for (size_t n = 4096; n <= 1 << 20; n += 4096) {
        void **p = malloc(n);

        for (size_t i = 0; p && i < n / sizeof(*p); i++)
            p[i] = p;
        free(p);
    }
    if (!text || !tk_open(&look, text, "t") || !tk_open(&before, before_text, "t")) {
        t_result("kernels", false, "not translated");
        return t_end("softgpu residue");
    }
    residue("the first launch of a thread", &before, &look, mem, 0);
    residue("after many warps", &before, &look, mem, 1);
    t_cooperative = true;
    residue("after blocks side by side", &before, &look, mem, 8);
    t_cluster[0] = 4;
    t_cluster[1] = t_cluster[2] = 1;
    residue("after clusters", &before, &look, mem, 8);
    tk_close(&before);
    tk_close(&look);
    free(text);
    tm_free_all();
    return t_end("softgpu residue");
}
