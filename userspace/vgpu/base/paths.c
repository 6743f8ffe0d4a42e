/* SPDX-License-Identifier: MIT */
/*
 * Locations of the other parts: an option, an environment variable, or a path relative to the vgpu
 * binary (the build tree, or an installation with PREFIX/bin and PREFIX/lib/vgpu).
 */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

struct part {
    const char *name, *option, *variable;
    const char *candidates[3]; /* relative to the folder of the binary */
    const char *remedy;        /* in a build tree */
    const char *package;       /* package with the part, for an installed vgpu */
    const char *inside;        /* file that must be in it, for folders */
};

static const struct part parts[VGPU_PARTS] = {
    [VGPU_PART_BACKEND] = {"the backend",
                           "--backend",
                           "VGPU_BACKEND",
                           {"../../host/backend/vgpu-backend", "../lib/vgpu/vgpu-backend"},
                           "build it with `make host/backend`",
                           "vgpu-backend",
                           NULL},
    [VGPU_PART_LIBCUDA] = {"the folder with libcuda.so.1",
                           "--libcuda",
                           "VGPU_LIBCUDA_DIR",
                           {"../libcuda", "../lib/vgpu/guest", "../lib/vgpu/libcuda"},
                           "build it with `make userspace/libcuda`",
                           "vgpu-backend",
                           "libcuda.so.1"},
    [VGPU_PART_NVML] = {"the folder with libnvidia-ml.so.1",
                        "--nvml",
                        "VGPU_NVML_DIR",
                        {"../libnvidia-ml", "../lib/vgpu/guest", "../lib/vgpu/libcuda"},
                        "build it with `make userspace/libnvidia-ml`",
                        "vgpu-backend",
                        "libnvidia-ml.so.1"},
    [VGPU_PART_QEMU] = {"QEMU with vgpu-cuda",
                        "--qemu",
                        "VGPU_QEMU",
                        {"../../qemu/bin/qemu-system-x86_64", "../lib/vgpu/qemu/bin/qemu-system-x86_64"},
                        "build it with `make qemu-device`",
                        "vgpu-qemu",
                        NULL},
    [VGPU_PART_KERNEL] = {"the guest kernel",
                          "--kernel",
                          "VGPU_KERNEL",
                          {"../../guest/vmlinux", "../../guest/vmlinuz", "../lib/vgpu/vmlinux"},
                          "get it with `make guest`",
                          "vgpu-vm",
                          NULL},
    [VGPU_PART_INITRD] = {"the guest's initramfs",
                          "--initrd",
                          "VGPU_INITRD",
                          {"../../guest/initrd.cpio", "../lib/vgpu/initrd.cpio"},
                          "make it with `make guest`",
                          "vgpu-vm",
                          NULL},
    [VGPU_PART_GUEST] = {"the folder of files for guests",
                         "--guest-files",
                         "VGPU_GUEST_FILES",
                         {"../../packaging/guest/usr/lib/vgpu/guest", "../lib/vgpu/guest"},
                         "make it with `make packaging`",
                         "vgpu-backend",
                         "driver"},
    [VGPU_PART_DRIVER] = {"the guest driver",
                          "--driver",
                          "VGPU_DRIVER",
                          {"../../kernel/vgpu_drv.ko", "../lib/vgpu/vgpu_drv.ko"},
                          "build it with `make kernel/vgpu_drv`",
                          "vgpu-vm",
                          NULL},
    [VGPU_PART_PTXAS] = {"the ptxas that keeps PTX",
                         "--ptxas",
                         "VGPU_PTXAS",
                         {"ptxas/bin/ptxas", "../lib/vgpu/ptxas/bin/ptxas"},
                         "build it with `make userspace/vgpu`",
                         "vgpu-tools",
                         NULL},
    [VGPU_PART_JIT] = {"the library in front of NVRTC",
                       "--jit",
                       "VGPU_JIT",
                       {"jit/libvgpu-jit.so", "../lib/vgpu/jit/libvgpu-jit.so"},
                       "build it with `make userspace/vgpu`",
                       "vgpu-tools",
                       NULL},
};

static const char *chosen[VGPU_PARTS];

void vgpu_cli_set_path(enum vgpu_cli_part part, const char *path)
{
    chosen[part] = path;
}

const char *vgpu_cli_part_option(enum vgpu_cli_part part)
{
    return parts[part].option;
}

const char *vgpu_cli_binary_dir(void)
{
    static char dir[PATH_MAX];
    ssize_t n;

    if (dir[0])
        return dir;
    n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    if (n <= 0)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    dir[n] = 0;
    *strrchr(dir, '/') = 0;
    return dir;
}

bool vgpu_cli_installed(void)
{
    const char *dir = vgpu_cli_binary_dir();
    size_t n = strlen(dir);

    return n >= 4 && strcmp(dir + n - 4, "/bin") == 0;
}

const char *vgpu_cli_words(const char *tree, const char *installed)
{
    return vgpu_cli_installed() ? installed : tree;
}

char *vgpu_cli_page(const char *name)
{
    char *path = vgpu_cli_format("%s/../share/doc/vgpu-tools/%s", vgpu_cli_binary_dir(), name), *real;

    if (!vgpu_cli_installed())
        return vgpu_cli_format("docs/%s", name);
    real = realpath(path, NULL);
    free(path);
    return real ? real : vgpu_cli_format("the page %s of vgpu-cuda", name);
}

static char *usable_inside(const struct part *p, const char *path)
{
    char *real = realpath(path, NULL);
    char *inside;
    int rc;

    if (!real || !p->inside)
        return real;
    inside = vgpu_cli_format("%s/%s", real, p->inside);
    rc = access(inside, R_OK);
    free(inside);
    if (rc == 0)
        return real;
    free(real);
    return NULL;
}

const char *vgpu_cli_path_if_there(enum vgpu_cli_part part)
{
    const struct part *p = &parts[part];
    const char *given = chosen[part];
    const char *source = p->option;
    char *found = NULL;

    if (!given || !*given) {
        given = getenv(p->variable);
        source = p->variable;
    }
    if (given && *given) {
        found = usable_inside(p, given);
        if (!found)
            vgpu_cli_die("%s: %s is not there (given by %s)", p->name, given, source);
    }
    for (size_t i = 0; !found && i < 3 && p->candidates[i]; i++) {
        char *path = vgpu_cli_format("%s/%s", vgpu_cli_binary_dir(), p->candidates[i]);

        found = usable_inside(p, path);
        free(path);
    }
    if (found)
        chosen[part] = found;
    return found;
}

const char *vgpu_cli_path(enum vgpu_cli_part part)
{
    const struct part *p = &parts[part];
    const char *found = vgpu_cli_path_if_there(part);

    if (!found)
        vgpu_cli_die("%s is not there: %s%s, or say where it is with %s or %s", p->name,
                     vgpu_cli_words(p->remedy, "the package that has it is "), vgpu_cli_words("", p->package),
                     p->option, p->variable);
    return found;
}

static bool has_option(const struct option *options, const char *name)
{
    for (; options->name; options++) {
        if (strcmp(options->name, name) == 0)
            return true;
    }
    return false;
}

void vgpu_cli_help_paths(const struct option *options)
{
    printf("\nParts of the system (found by themselves beside vgpu):\n");
    for (int i = 0; i < VGPU_PARTS; i++) {
        if (has_option(options, parts[i].option + 2))
            printf("  %-10s PATH    %s (or $%s)\n", parts[i].option, parts[i].name, parts[i].variable);
    }
}
