/* SPDX-License-Identifier: MIT */
/* Support of the interpreter's tests; see exec/exec_test.h. */
#include "exec/exec_test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_ALLOCS 256

volatile uint64_t sg_mem_generation = 1;
static struct {
    uint8_t *p;
    size_t size;
    bool mapped;
} allocs[MAX_ALLOCS];
static unsigned nallocs;

int t_passed, t_failed, t_skipped;
char t_output[65536];
size_t t_output_len;
uint64_t t_watchdog = 2000000000ull;
uint32_t t_stack;
volatile int t_abort;
bool t_cooperative;
uint32_t t_cluster[3];
const struct sg_texture *(*t_texture)(void *textures, uint64_t handle, bool surface);

bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit)
{
    (void)mem;
    (void)write;
    for (unsigned i = 0; i < nallocs; i++) {
        uint64_t b = (uintptr_t)allocs[i].p;

        if (addr >= b && addr - b <= allocs[i].size && size <= allocs[i].size - (addr - b)) {
            *hit = (struct sg_mem_range){b, b + allocs[i].size, sg_mem_generation, true};
            return true;
        }
    }
    return false;
}

void *tm_alloc(size_t size)
{
    void *p = aligned_alloc(256, (size + 255) & ~(size_t)255);

    if (!p || nallocs == MAX_ALLOCS)
        abort();
    memset(p, 0, size);
    allocs[nallocs].p = p;
    allocs[nallocs++].size = size;
    return p;
}

void *tm_reserve(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED || nallocs == MAX_ALLOCS)
        abort();
    allocs[nallocs].p = p;
    allocs[nallocs].mapped = true;
    allocs[nallocs++].size = size;
    return p;
}

void tm_free_last(void)
{
    nallocs--;
    if (allocs[nallocs].mapped)
        munmap(allocs[nallocs].p, allocs[nallocs].size);
    else
        free(allocs[nallocs].p);
    allocs[nallocs].mapped = false;
    sg_mem_generation++;
}

void tm_free_all(void)
{
    while (nallocs)
        tm_free_last();
    sg_mem_generation++;
}

/* SG_TEST_TEXTS=FILE: every text that a test runs, for the list of instructions that have a
   test. */
static void remember(const char *text)
{
    const char *path = getenv("SG_TEST_TEXTS");
    FILE *f = path ? fopen(path, "a") : NULL;

    if (!f)
        return;
    fputs(text, f);
    fclose(f);
}

bool tk_open(struct tk *t, const char *text, const char *kernel)
{
    memset(t, 0, sizeof(*t));
    remember(text);
    if (sg_module_parse(text, strlen(text), &t->m, &t->diag)) {
        printf("parse: line %u column %u: %s\n", t->diag.line, t->diag.column, t->diag.message);
        return false;
    }
    for (uint32_t i = 0; i < sg_module_global_count(t->m); i++) {
        struct sg_global_info g;

        sg_module_get_global(t->m, i, &g);
        sg_module_set_global_address(t->m, i, (uintptr_t)tm_alloc(g.size ? g.size : 1));
    }
    if (sg_module_init_globals(t->m, &t->diag)) {
        printf("init: line %u: %s\n", t->diag.line, t->diag.message);
        return false;
    }
    t->k = kernel ? sg_module_find_kernel(t->m, kernel) : sg_module_kernel(t->m, 0);
    if (!t->k) {
        printf("no kernel\n");
        return false;
    }
    if (sg_kernel_prepare(t->k, &t->diag)) {
        printf("decode: line %u column %u: %s\n", t->diag.line, t->diag.column, t->diag.message);
        return false;
    }
    return true;
}

void tk_close(struct tk *t)
{
    sg_module_free(t->m);
    memset(t, 0, sizeof(*t));
}

static void print(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    if (len > sizeof(t_output) - 1 - t_output_len)
        len = sizeof(t_output) - 1 - t_output_len;
    memcpy(t_output + t_output_len, text, len);
    t_output_len += len;
    t_output[t_output_len] = 0;
}

int tk_run3(struct tk *t, const uint32_t grid[3], const uint32_t block[3], uint32_t dyn, const void *params,
            struct sg_fault *f)
{
    struct sg_launch l = {
        .kernel = t->k,
        .grid = {grid[0], grid[1], grid[2]},
        .block = {block[0], block[1], block[2]},
        .dynamic_shared = dyn,
        .params = params,
        .cooperative = t_cooperative,
        .cluster = {t_cluster[0], t_cluster[1], t_cluster[2]},
        .max_instructions = t_watchdog,
        .stack_bytes = t_stack,
        .abort_flag = &t_abort,
        .print = print,
        .texture = t_texture,
    };

    return sg_exec_launch(&l, f);
}

int tk_run(struct tk *t, uint32_t grid, uint32_t block, const void *params, struct sg_fault *f)
{
    return tk_run3(t, (uint32_t[3]){grid, 1, 1}, (uint32_t[3]){block, 1, 1}, 0, params, f);
}

/* A name as one word: all test programs' results are summed from lines in cmocka's format. */
static const char *word(const char *name)
{
    static char buf[256];
    size_t n = 0;

    for (; *name && n < sizeof(buf) - 1; name++) {
        char c = *name;
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        buf[n++] = ok ? c : '_';
    }
    buf[n] = 0;
    return buf;
}

void t_result(const char *name, bool ok, const char *fmt, ...)
{
    va_list ap;

    if (ok) {
        printf("[       OK ] %s\n", name);
        t_passed++;
        return;
    }
    printf("[  FAILED  ] %s\n    %s: ", word(name), name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n[  FAILED  ] %s\n", word(name));
    t_failed++;
}

void t_skip(const char *name, const char *why)
{
    printf("[  SKIPPED ] %s\nnot run: %s: %s\n[  SKIPPED ] %s\n", word(name), name, why, word(name));
    t_skipped++;
}

void t_variant(int argc, char **argv)
{
    const bool native = t_started_as(argc, argv, "native_avx");

    if (t_started_as(argc, argv, "base"))
        setenv("VGPU_SOFT_ISA", "base", 1);
    else if (t_started_as(argc, argv, "avx2"))
        setenv("VGPU_SOFT_ISA", "avx2", 1);
    else if (t_started_as(argc, argv, "avx512"))
        setenv("VGPU_SOFT_ISA", "avx512", 1);
    if (!native && (t_started_as(argc, argv, "avx2") || t_started_as(argc, argv, "avx512")))
        setenv("VGPU_SOFT_JIT", "0", 1);
}

bool t_started_as(int argc, char **argv, const char *word)
{
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;

    return argc && strstr(slash ? slash : argv[0], word);
}

int t_end(const char *suite)
{
    printf("%s: %d passed, %d failed, %d skipped\n", suite, t_passed, t_failed, t_skipped);
    return t_failed ? 1 : 0;
}
