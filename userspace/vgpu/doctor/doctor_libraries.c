/* SPDX-License-Identifier: MIT */
/*
 * vgpu doctor: files that the loader finds or is told to preload: why a file cannot be loaded, and
 * which symbols LD_PRELOAD adds.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

#define PROBE_SECONDS 10 /* time limit of a library's constructors, s */

/* True: the library itself defines the name. */
static bool library_defines(void *library, const char *name)
{
    void *at = dlsym(library, name); /* also searches its dependencies */
    struct link_map *map;
    Dl_info of;

    return at && dladdr(at, &of) && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
           (ElfW(Addr))of.dli_fbase == map->l_addr;
}

/* Loads a library in a child process, since its constructors run. Answers: 'c': exports CUDA's
 * driver API; 'n': does not; 'e' and the loader's message: cannot be loaded. Empty: the child ended
 * early. */
static void library_probe(const char *path, char *answer, size_t size)
{
    int way[2], status;
    pid_t pid;
    ssize_t n;

    answer[0] = '\0';
    if (pipe(way))
        return;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char text[600];
        void *library;

        alarm(PROBE_SECONDS);
        library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        snprintf(text, sizeof(text), library ? "%s" : "e%.500s",
                 library ? library_defines(library, "cuInit") ? "c" : "n" : dlerror());
        _exit(write(way[1], text, strlen(text)) < 0);
    }
    close(way[1]);
    n = pid > 0 ? read(way[0], answer, size - 1) : 0;
    answer[n > 0 ? n : 0] = '\0';
    close(way[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
}

/* Returns why a file is no library for programs of this machine; NULL: its ELF header is valid. */
static const char *no_library(const char *path)
{
    struct vgpu_cli_list none = {0};
    struct vgpu_cli_program file;
    struct stat st;
    const char *why = NULL;

    if (lstat(path, &st) != 0)
        return NULL; /* a missing file is no fault */
    if (stat(path, &st) != 0)
        return "a link to a file that is not there";
    if (access(path, R_OK) != 0)
        return "this user may not read it";
    vgpu_cli_program_look(&file, &none, path);
    if (file.is_folder)
        why = "a folder";
    else if (st.st_size == 0)
        why = "an empty file";
    else if (!file.is_elf)
        why = "no ELF file";
    else if (file.elf_class != ELFCLASS64)
        why = "a library for 32-bit programs";
    else if (!vgpu_cli_program_is_ours(&file))
        why = "a library for another processor";
    free(file.path);
    return why;
}

char *vgpu_cli_library_fault(const char *path)
{
    const char *head = no_library(path);
    char answer[600];

    if (head)
        return vgpu_cli_format("%s is %s", path, head);
    if (access(path, F_OK) != 0)
        return NULL;
    library_probe(path, answer, sizeof(answer));
    if (answer[0] == 'e')
        return vgpu_cli_format("%s", answer + 1);
    return answer[0] ? NULL : vgpu_cli_format("%s ends the process that loads it", path);
}

/* Checks an entry of LD_PRELOAD or of /etc/ld.so.preload. */
static void preload_entry(struct vgpu_findings *f, struct vgpu_program *p, const char *path, const char *from)
{
    const char *head = no_library(path);
    char answer[600];

    if (!strchr(path, '/'))
        return; /* found by search: covered by the loader's log */
    if (head || access(path, F_OK) != 0) {
        vgpu_cli_find(f, VGPU_CAUSE_NONE,
                      vgpu_cli_format("%s names %s, which the loader leaves out", from, path),
                      head ? head : "it is not there", "take it out");
        return;
    }
    library_probe(path, answer, sizeof(answer));
    if (answer[0] == 'c' && !p->preloaded && !vgpu_cli_is_our_libcuda(path)) {
        p->preloaded = vgpu_cli_format("%s", path);
        p->preloaded_by = from;
    }
}

static void preload_list(struct vgpu_findings *f, struct vgpu_program *p, char *list, const char *from)
{
    for (char *save = NULL, *path = strtok_r(list, " :\t\n", &save); path;
         path = strtok_r(NULL, " :\t\n", &save))
        preload_entry(f, p, path, from);
}

void vgpu_cli_program_read(struct vgpu_findings *f, struct vgpu_program *p, const struct vgpu_cli_list *env,
                           const char *name)
{
    const char *preload = vgpu_cli_getenv(env, "LD_PRELOAD");
    FILE *file = fopen("/etc/ld.so.preload", "re");
    char text[4096];
    size_t n;

    memset(p, 0, sizeof(*p));
    p->name = name;
    vgpu_cli_program_look(&p->file, env, name);
    p->names_cuda = p->file.path && (vgpu_cli_file_has(p->file.path, "libcuda.so") ||
                                     vgpu_cli_file_has(p->file.path, "libcudart"));
    if (preload) {
        char *list = vgpu_cli_format("%s", preload);

        preload_list(f, p, list, "LD_PRELOAD");
        free(list);
    }
    if (file) {
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        preload_list(f, p, text, "/etc/ld.so.preload");
        fclose(file);
    }
}
