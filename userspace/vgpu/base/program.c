/* SPDX-License-Identifier: MIT */
/* Properties of a program's file (ELF class, machine and loader), and why it cannot be run. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#define PROGRAM_HEADERS_MAX 64

char *vgpu_cli_program_path(const struct vgpu_cli_list *env, const char *name)
{
    if (strchr(name, '/'))
        return access(name, F_OK) == 0 ? vgpu_cli_format("%s", name) : NULL;
    for (const char *p = vgpu_cli_getenv(env, "PATH"); p && *p;) {
        int n = (int)strcspn(p, ":");
        char *file = vgpu_cli_format("%.*s/%s", n ? n : 1, n ? p : ".", name);

        if (access(file, X_OK) == 0)
            return file;
        free(file);
        p += n + (p[n] == ':');
    }
    return NULL;
}

/* Reads a part of the file as a string; beyond the end of the file it is empty. */
static void program_text(int fd, char *to, size_t size, uint64_t at)
{
    ssize_t n = at > INT64_MAX ? -1 : pread(fd, to, size - 1, (off_t)at);

    to[n < 0 ? 0 : n] = '\0';
}

static void elf_headers(struct vgpu_cli_program *p, int fd, uint64_t at, unsigned count)
{
    const bool wide = p->elf_class == ELFCLASS64;

    p->is_static = true;
    for (unsigned i = 0; i < count && i < PROGRAM_HEADERS_MAX; i++) {
        Elf64_Phdr h = {0};
        Elf32_Phdr narrow = {0};

        if (wide ? pread(fd, &h, sizeof(h), (off_t)(at + i * sizeof(h))) != sizeof(h)
                 : pread(fd, &narrow, sizeof(narrow), (off_t)(at + i * sizeof(narrow))) != sizeof(narrow))
            return;
        if ((wide ? h.p_type : narrow.p_type) != PT_INTERP)
            continue;
        p->is_static = false;
        program_text(fd, p->loader, sizeof(p->loader), wide ? h.p_offset : narrow.p_offset);
    }
}

static void program_elf(struct vgpu_cli_program *p, int fd)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
    } h = {{0}};

    if (pread(fd, &h, sizeof(h), 0) < (ssize_t)sizeof(h.narrow) || memcmp(h.ident, ELFMAG, SELFMAG) != 0)
        return;
    p->is_elf = true;
    p->elf_class = h.ident[EI_CLASS];
    p->machine = h.wide.e_machine; /* at the same offset in both classes */
    if (p->elf_class == ELFCLASS64)
        elf_headers(p, fd, h.wide.e_phoff, h.wide.e_phnum);
    else
        elf_headers(p, fd, h.narrow.e_phoff, h.narrow.e_phnum);
}

static void program_script(struct vgpu_cli_program *p, int fd)
{
    char line[sizeof(p->loader)], *at = line + 2;

    program_text(fd, line, sizeof(line), 0);
    if (strncmp(line, "#!", 2) != 0)
        return;
    at += strspn(at, " \t");
    at[strcspn(at, " \t\n")] = '\0';
    p->is_script = true;
    snprintf(p->loader, sizeof(p->loader), "%s", at);
}

bool vgpu_cli_file_has(const char *path, const char *text)
{
    const size_t size = strlen(text), room = 1 << 16;
    char *buf = vgpu_cli_alloc(room);
    size_t keep = 0, n;
    bool found = false;
    FILE *f = fopen(path, "re");

    while (f && !found && (n = fread(buf + keep, 1, room - keep, f)) > 0) {
        n += keep;
        found = memmem(buf, n, text, size) != NULL;
        keep = n < size ? n : size;
        memmove(buf, buf + n - keep, keep);
    }
    if (f)
        fclose(f);
    free(buf);
    return found;
}

void vgpu_cli_program_look(struct vgpu_cli_program *p, const struct vgpu_cli_list *env, const char *name)
{
    struct stat st;
    int fd;

    memset(p, 0, sizeof(*p));
    p->path = vgpu_cli_program_path(env, name);
    if (!p->path || stat(p->path, &st) != 0)
        return;
    p->is_folder = S_ISDIR(st.st_mode);
    p->is_executable = access(p->path, X_OK) == 0;
    if (!S_ISREG(st.st_mode))
        return;
    p->takes_rights = ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
                      ((st.st_mode & S_ISGID) && st.st_gid != getgid()) ||
                      (getuid() != 0 && getxattr(p->path, "security.capability", NULL, 0) > 0);
    fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    program_elf(p, fd);
    if (!p->is_elf)
        program_script(p, fd);
    close(fd);
}

bool vgpu_cli_program_is_ours(const struct vgpu_cli_program *p)
{
    return !p->is_elf || (p->elf_class == ELFCLASS64 && p->machine == EM_X86_64);
}

static char *why_absent(const struct vgpu_cli_program *p, const char *name)
{
    if (!p->path && !strchr(name, '/') && access(name, F_OK) == 0)
        return vgpu_cli_format("no folder of PATH has it; the file of this folder is ./%s", name);
    if (!p->path && !strchr(name, '/'))
        return vgpu_cli_format("no folder of PATH has it");
    if (p->path && p->loader[0] && access(p->loader, F_OK) != 0)
        return vgpu_cli_format(
            "%s %s is not there%s",
            p->is_script ? "the interpreter of its first line," : "the loader that it names,", p->loader,
            p->loader[strlen(p->loader) - 1] == '\r'
                ? " (a line that ends as on Windows: remove the carriage returns)"
                : "");
    return NULL;
}

char *vgpu_cli_program_why_not(const struct vgpu_cli_list *env, const char *name, int err)
{
    struct vgpu_cli_program p;
    char *why = NULL;

    vgpu_cli_program_look(&p, env, name);
    if (err == ENOENT)
        why = why_absent(&p, name);
    else if (err == EACCES && p.is_folder)
        why = vgpu_cli_format("it is a folder");
    else if (err == EACCES && p.path && !p.is_executable)
        why = vgpu_cli_format("it is not executable (chmod +x)");
    free(p.path);
    if (!why)
        return vgpu_cli_format("%s", strerror(err));
    for (char *c = why; *c; c++) {
        if ((unsigned char)*c < ' ')
            *c = '?';
    }
    return why;
}
