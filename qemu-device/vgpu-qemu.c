/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-qemu: runs the distribution's QEMU with the vgpu-cuda device, in place of
 * qemu-system-x86_64, also as libvirt's <emulator>. QEMU has no interface for out-of-tree devices,
 * and its structures differ between builds. The device is therefore compiled for one build of QEMU
 * (build-object.sh), identified by its build id, and preloaded into exactly that build.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_NO_DEVICE 125 /* as env(1): the program itself was not run */
#define ID_MAX 64u         /* bytes of a build id */

static const char usage[] =
    "usage: vgpu-qemu [--vgpu-which] [QEMU'S OPTIONS]\n"
    "Runs the distribution's qemu-system-x86_64 with the device vgpu-cuda added to it.\n"
    "  --vgpu-which        print the program and the device's object, and run nothing\n"
    "  --vgpu-help         this text; --help is QEMU's\n"
    "Environment:\n"
    "  VGPU_QEMU_BINARY    the QEMU (default /usr/bin/qemu-system-x86_64)\n"
    "  VGPU_QEMU_OBJECTS   folder with vgpu-cuda-BUILDID.so (default: ../lib/vgpu/qemu beside this program,\n"
    "                      then the folder objects beside it)\n"
    "Exit status: QEMU's; 125: there is no object for this QEMU, or it cannot be run.\n";

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("vgpu-qemu: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(EXIT_NO_DEVICE);
}

/* Reads the build id from a note segment, as text. */
static bool id_of_notes(const unsigned char *p, size_t size, char *text)
{
    while (size >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr n;
        size_t name, desc;

        memcpy(&n, p, sizeof(n));
        name = ((size_t)n.n_namesz + 3) & ~(size_t)3;
        desc = ((size_t)n.n_descsz + 3) & ~(size_t)3;
        if (name > size - sizeof(n) || desc > size - sizeof(n) - name)
            return false;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(p + sizeof(n), "GNU", 4) && n.n_descsz &&
            n.n_descsz <= ID_MAX) {
            for (size_t i = 0; i < n.n_descsz; i++)
                sprintf(text + 2 * i, "%02x", p[sizeof(n) + name + i]);
            return true;
        }
        p += sizeof(n) + name + desc;
        size -= sizeof(n) + name + desc;
    }
    return false;
}

/* Reads the build id of a file. NULL, or the reason of the failure. */
static const char *build_id(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const unsigned char *file;
    const Elf64_Ehdr *e;
    struct stat st;
    bool found = false;

    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &st) || st.st_size < (off_t)sizeof(*e))
        return "not a program";
    file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return strerror(errno);
    e = (const void *)file;
    if (memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_ident[EI_CLASS] != ELFCLASS64 ||
        e->e_ident[EI_DATA] != ELFDATA2LSB)
        return "not an ELF program of 64 bits (a script? then VGPU_QEMU_BINARY names the program that it runs)";
    for (unsigned i = 0; i < e->e_phnum && !found; i++) {
        const uint64_t size = (uint64_t)st.st_size, at = e->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
        Elf64_Phdr h;

        if (e->e_phoff > size || at > size - sizeof(h))
            break;
        memcpy(&h, file + at, sizeof(h));
        if (h.p_type == PT_NOTE && h.p_offset <= size && h.p_filesz <= size - h.p_offset)
            found = id_of_notes(file + h.p_offset, h.p_filesz, text);
    }
    munmap((void *)(uintptr_t)file, (size_t)st.st_size);
    return found ? NULL : "it has no build id";
}

/* Reads the directory of this program. */
static void own_folder(char *dir, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", dir, size - 1);

    if (n <= 0)
        die("cannot find out where this program is: is /proc mounted?");
    dir[n] = '\0';
    *strrchr(dir, '/') = '\0';
}

static void find_object(const char *id, char *path, size_t size)
{
    static const char *const places[] = {"../lib/vgpu/qemu", "objects"};
    const char *given = getenv("VGPU_QEMU_OBJECTS");
    char dir[PATH_MAX];

    path[0] = '\0';
    if (given && *given) {
        snprintf(path, size, "%s/vgpu-cuda-%s.so", given, id);
        return;
    }
    own_folder(dir, sizeof(dir));
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, size, "%s/%s/vgpu-cuda-%s.so", dir, places[i], id);
        if (!access(path, R_OK))
            return;
    }
}

/* Ends the program: which remedies there are depends on where it is, installed or in the build tree. */
static void __attribute__((noreturn)) no_object(const char *qemu, const char *id)
{
    char dir[PATH_MAX], path[2 * PATH_MAX], *own;

    own_folder(dir, sizeof(dir));
    snprintf(path, sizeof(path), "%s/../lib/vgpu/qemu", dir);
    own = realpath(path, NULL);
    if (!own)
        die("the device was not built for this QEMU (%s, build id %s): build it for it with `make qemu-object`, take "
            "the version of QEMU that it was built for, or use the QEMU that is built with the device", qemu, id);
    snprintf(path, sizeof(path), "%s/bin/qemu-system-x86_64", own);
    die("there is no device for this QEMU (%s, build id %s): install a version of qemu-system-x86 that %s/*.txt name, or a "
        "newer package vgpu-qemu%s%s", qemu, id, own, access(path, X_OK) ? "" : ", or run the QEMU that has the device: ",
        access(path, X_OK) ? "" : path);
}

int main(int argc, char **argv)
{
    const char *qemu = getenv("VGPU_QEMU_BINARY"), *before = getenv("LD_PRELOAD"), *wrong;
    char id[2 * ID_MAX + 1], object[2 * PATH_MAX], *real, *preload = NULL;

    if (argc > 1 && !strcmp(argv[1], "--vgpu-help")) {
        fputs(usage, stdout);
        return 0;
    }
    if (!qemu || !*qemu)
        qemu = "/usr/bin/qemu-system-x86_64";
    wrong = build_id(qemu, id);
    if (wrong)
        die("%s: %s", qemu, wrong);
    find_object(id, object, sizeof(object));
    real = realpath(object, NULL);
    if (!real)
        no_object(qemu, id);
    if (strpbrk(real, " :"))
        die("%s: a path with a blank or a colon cannot be preloaded", real);
    if (argc > 1 && !strcmp(argv[1], "--vgpu-which")) {
        printf("%s\n%s\n", qemu, real);
        return 0;
    }
    /*
     * The object removes itself from the environment, so programs started by QEMU do not have its
     * symbols.
     */
    if (asprintf(&preload, "%s%s%s", real, before && *before ? ":" : "", before ? before : "") < 0)
        die("no memory");
    setenv("LD_PRELOAD", preload, 1);
    execv(qemu, argv);
    die("%s: %s", qemu, strerror(errno));
}
