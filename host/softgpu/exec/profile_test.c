/* SPDX-License-Identifier: MIT */
/* VGPU_SOFT_PROFILE: the file's contents after some launches, and the file of a second process. */
#define _GNU_SOURCE
#include "exec/exec_test.h"
#include "jit/jit.h"
#include "exec/profile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One warp: add a number by a handler (a reduction in shared memory), twice, and end: 5
   instructions. */
static const char *const text =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry profiled()\n{\n.reg .b32 %r<4>;\n.shared .align 4 .b8 s[128];\n"
    "mov.u32 %r1, s;\nred.shared.add.u32 [%r1], 1;\nred.shared.add.u32 [%r1], 2;\nret;\n}\n";

#define LAUNCHES 4
#define BLOCKS 3000 /* in each: enough for the threads of the pool to count at the same time */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *p = calloc(1, (1u << 20) + 1);

    if (f && p && fread(p, 1, 1u << 20, f) == 0)
        p[0] = '\0';
    if (f)
        fclose(f);
    return p;
}

static void launches(const char *path)
{
    unsigned long long ns = 0, n = 0, blocks = 0, insns = 0;
    char native[8] = "", *got, *line, *calls;
    double each = 0, per = 0;
    struct sg_fault f;
    struct tk t;
    bool ok = tk_open(&t, text, "profiled");

    for (int i = 0; i < LAUNCHES && ok; i++)
        ok = !tk_run(&t, BLOCKS, 32, NULL, &f);
    got = read_file(path);
    line = got ? strchr(got, '\n') : NULL;
    line = line ? strchr(line + 1, '\n') : NULL; /* behind the two lines of the head */
    ok = ok && line &&
         sscanf(line, "%llu %llu %llu %llu %lf %7s", &ns, &n, &blocks, &insns, &each, native) == 6;
    t_result("a kernel's launches, blocks and instructions",
             ok && ns && n == LAUNCHES && blocks == LAUNCHES * BLOCKS && insns >= blocks * 3,
             "%llu ns, %llu launches, %llu blocks, %llu instructions", ns, n, blocks, insns);
    t_result("the kernel's name", ok && strstr(line, " profiled"), "no line has it");
    calls = ok ? strstr(line, "atom.add.b32") : NULL;
    if (!sg_jit_available()) {
        t_skip("calls of handlers from native code", "no native code on this processor");
    } else {
        while (calls && calls > line && calls[-1] != '\n')
            calls--;
        ok = ok && calls && sscanf(calls, "%lf", &per) == 1 && per == 2.0 * BLOCKS;
        t_result("calls of handlers from native code", ok && !strcmp(native, "yes"),
                 "native \"%s\", %.1f calls", native, per);
    }
    free(got);
    tk_close(&t);
}

int main(void)
{
    char dir[] = "/tmp/sg-profile-XXXXXX", path[64], second[72];
    int status = -1;
    pid_t pid;

    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/p", dir);
    snprintf(second, sizeof(second), "%s.1", path);
    t_result("off without the option", !sg_profile_on(), "it is on");
    setenv("VGPU_SOFT_PROFILE", path, 1);
    pid = fork();
    if (!pid) {
        sg_exec_prepare();
        _exit(!sg_profile_on());
    }
    waitpid(pid, &status, 0);
    t_result("a process writes to the path", !status && !access(path, F_OK), "status %d", status);
    sg_exec_prepare();
    t_result("the next one beside it", sg_profile_on() && !access(second, F_OK), "no %s", second);
    launches(second);
    unlink(path);
    unlink(second);
    rmdir(dir);
    tm_free_all();
    return t_end("softgpu profile");
}
