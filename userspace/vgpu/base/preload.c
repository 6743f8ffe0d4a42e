/* SPDX-License-Identifier: MIT */
/* Preloads libvgpu-jit.so (jit/) into the user's program, unless that would harm it. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

/*
 * The loader prints a warning for a library of another class than the program, and the run-time
 * library of gcc's AddressSanitizer ends a program with any library loaded before it. Scripts are
 * taken for programs of this class.
 */
static bool program_refuses(const struct vgpu_cli_list *env, const char *program)
{
    static const char sanitizer[] = "libasan.so.";
    char *path = vgpu_cli_program_path(env, program);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat st;
    bool refuses = false;
    const char *file;

    free(path);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf32_Ehdr)) {
        close(fd);
        return false;
    }
    file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return false;
    if (memcmp(file, ELFMAG, SELFMAG) == 0) {
        refuses = file[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
                  memmem(file, (size_t)st.st_size, sanitizer, strlen(sanitizer)) != NULL;
    }
    munmap((void *)file, (size_t)st.st_size);
    return refuses;
}

char *vgpu_cli_preload(const struct vgpu_cli_list *env, const char *library, const char *program)
{
    const char *before = vgpu_cli_getenv(env, "LD_PRELOAD");

    if (!library || program_refuses(env, program) || (before && strstr(before, library)))
        return NULL;
    if (strpbrk(library, " :")) { /* the loader has no quoting for these */
        vgpu_cli_say("%s cannot be preloaded: its path has a blank or a colon", library);
        return NULL;
    }
    return before && *before ? vgpu_cli_format("%s:%s", before, library) : vgpu_cli_format("%s", library);
}
