/* SPDX-License-Identifier: MIT */
/*
 * Requirements of Python's frameworks on our GPU: variables with which just-in-time compilers pass
 * PTX on, and for JAX a device node, without which it does not try CUDA at all.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

/* --gpu auto selects the software GPU where NVIDIA's driver has no device node. */
static bool is_soft(const char *gpu)
{
    return strcmp(gpu, "soft") == 0 ||
           (strcmp(gpu, "auto") == 0 && access("/dev/nvidiactl", F_OK) != 0 && access("/dev/dxg", F_OK) != 0);
}

static bool is_python(const char *program)
{
    const char *name = strrchr(program, '/'), *end = strrchr(program, '.');

    name = name ? name + 1 : program;
    return strncmp(name, "python", 6) == 0 || (end && strcmp(end, ".py") == 0);
}

/* ---- location of JAX ---- */

static bool pattern_matches(char *pattern)
{
    glob_t found = {0};
    bool is = pattern && glob(pattern, GLOB_NOSORT, NULL, &found) == 0;

    globfree(&found);
    free(pattern);
    return is;
}

/* True if the folder above `dir`, a folder of programs, contains JAX's CUDA plugin. */
static bool has_plugin(const char *dir)
{
    return pattern_matches(vgpu_cli_format("%s/../lib/python3*/site-packages/jax_plugins/xla_cuda*", dir)) ||
           pattern_matches(
               vgpu_cli_format("%s/../local/lib/python3*/dist-packages/jax_plugins/xla_cuda*", dir));
}

/*
 * True: the folder in which execvp() finds the program, or the folder of the path as given, has the
 * plugin.
 */
static bool plugin_of(const char *program, const char *path)
{
    bool found = false;

    if (strchr(program, '/')) {
        char *dir = vgpu_cli_format("%s", program);

        *strrchr(dir, '/') = 0;
        found = has_plugin(*dir ? dir : "/");
        free(dir);
        return found;
    }
    for (const char *p = path; p && *p && !found;) {
        int n = (int)strcspn(p, ":");
        char *file = vgpu_cli_format("%.*s/%s", n, p, program);
        bool here = access(file, X_OK) == 0;

        free(file);
        if (here) {
            char *dir = vgpu_cli_format("%.*s", n, p);

            found = has_plugin(dir);
            free(dir);
            break;
        }
        p += n + (p[n] == ':');
    }
    return found;
}

/*
 * Programs of a virtual environment lie next to its interpreter; other scripts are run by the
 * python3 in PATH.
 */
static bool uses_jax(const struct vgpu_cli_list *env, const char *program)
{
    const char *path = vgpu_cli_getenv(env, "PATH"), *own = vgpu_cli_getenv(env, "PYTHONPATH");
    const char *home = vgpu_cli_getenv(env, "HOME");

    if (plugin_of(program, path))
        return true;
    if (!is_python(program))
        return false;
    if (plugin_of("python3", path))
        return true;
    for (const char *p = own; p && *p;) {
        int n = (int)strcspn(p, ":");

        if (n && pattern_matches(vgpu_cli_format("%.*s/jax_plugins/xla_cuda*", n, p)))
            return true;
        p += n + (p[n] == ':');
    }
    return home && pattern_matches(
                       vgpu_cli_format("%s/.local/lib/python3*/site-packages/jax_plugins/xla_cuda*", home));
}

/* ---- variables ---- */

/*
 * Returns XLA_FLAGS with the folder from which TensorFlow's XLA takes its ptxas (JAX passes XLA the
 * folder in CUDA_ROOT). XLA takes a value without leading "--" for the name of a file with flags,
 * and ends the program at an unknown flag; this flag is as old as XLA for GPUs. NULL: the user's
 * value is kept.
 */
static char *xla_flags(const struct vgpu_cli_list *env, const char *root)
{
    static const char flag[] = "--xla_gpu_cuda_data_dir=";
    const char *before = vgpu_cli_getenv(env, "XLA_FLAGS");
    size_t blanks = before ? strspn(before, " \t") : 0;

    if (!root || strpbrk(root, " \t\"'"))
        return NULL;
    if (!before || !before[blanks])
        return vgpu_cli_format("%s%s", flag, root);
    if (strncmp(before + blanks, "--", 2) != 0 || strstr(before, "xla_gpu_cuda_data_dir"))
        return NULL;
    return vgpu_cli_format("%s %s%s", before, flag, root);
}

void vgpu_cli_python_env(struct vgpu_cli_list *env, const char *gpu, const char *program)
{
    const char *ptxas = is_soft(gpu) ? vgpu_cli_path_if_there(VGPU_PART_PTXAS) : NULL;
    const char *jit = is_soft(gpu) ? vgpu_cli_path_if_there(VGPU_PART_JIT) : NULL;
    const bool jax = uses_jax(env, program);
    char *preload = vgpu_cli_preload(env, jit, program);
    char *root = ptxas ? vgpu_cli_format("%s", ptxas) : NULL, *said = NULL, *flags;

    for (int i = 0; root && i < 2; i++) /* ROOT/bin/ptxas */
        *strrchr(root, '/') = 0;
    flags = xla_flags(env, root);

    const struct {
        const char *name, *value;
        bool extends; /* the value extends the user's */
    } switches[] = {
        {"LD_PRELOAD", preload, true},
        {"TRITON_PTXAS_PATH", ptxas, false},
        {"TRITON_PTXAS_BLACKWELL_PATH", ptxas, false},
        {"CUDA_ROOT", jax ? root : NULL, false},
        {"XLA_FLAGS", flags, true},
    };

    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        char *more;

        if (!switches[i].value || (vgpu_cli_getenv(env, switches[i].name) && !switches[i].extends))
            continue;
        vgpu_cli_setenv(env, switches[i].name, switches[i].value);
        more = vgpu_cli_format("%s %s=%s", said ? said : "", switches[i].name, switches[i].value);
        free(said);
        said = more;
    }
    if (said && (vgpu_cli_verbose || is_python(program)))
        vgpu_cli_say("so that just-in-time compilers hand over PTX, which the software GPU executes:%s",
                     said);
    /*
     * The check reads CUPTI's version, which needs export tables of the driver that only profilers
     * use.
     */
    if (jax && !vgpu_cli_getenv(env, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK")) {
        vgpu_cli_setenv(env, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1");
        vgpu_cli_say("JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1: JAX would ask CUPTI, which is not served");
    }
    free(said);
    free(flags);
    free(root);
    free(preload);
}

/* ---- the device node ---- */

bool vgpu_cli_wants_node(const struct vgpu_cli_list *env, const char *program)
{
    return access("/dev/nvidia0", F_OK) != 0 && access("/dev/nvidiactl", F_OK) != 0 &&
           access("/dev/dxg", F_OK) != 0 && uses_jax(env, program);
}

/*
 * Makes one entry of /dev appear in `dir`: links are copied, other files are bind-mounted. Entries
 * that cannot be are omitted.
 */
static void mirror_file(const char *dir, const char *name)
{
    char *from = vgpu_cli_format("/dev/%s", name), *to = vgpu_cli_format("%s/%s", dir, name);
    char target[PATH_MAX];
    struct stat st;
    ssize_t n;
    int fd;

    if (lstat(from, &st) != 0) {
        /* removed meanwhile */
    } else if (S_ISLNK(st.st_mode)) {
        n = readlink(from, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        if (n <= 0 || symlink(target, to) != 0)
            vgpu_cli_say("%s: %s", to, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0755) != 0 || mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
            rmdir(to);
    } else {
        fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd >= 0)
            close(fd);
        if (mount(from, to, NULL, MS_BIND, NULL) != 0)
            unlink(to);
    }
    free(from);
    free(to);
}

void vgpu_cli_node_prepare(void *dir)
{
    char *node = vgpu_cli_format("%s/nvidia0", (char *)dir);
    struct dirent *e;
    DIR *dev;
    int fd;

    if (!vgpu_cli_own_mounts(MS_SLAVE) || mount("vgpu", dir, "tmpfs", MS_NOSUID, "size=1m,mode=755") != 0 ||
        !(dev = opendir("/dev"))) {
        vgpu_cli_say(
            "this host lets nobody have a /dev of one's own (%s): without /dev/nvidia0 JAX stays on the CPU",
            strerror(errno));
        return;
    }
    while ((e = readdir(dev))) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            mirror_file(dir, e->d_name);
    }
    closedir(dev);
    fd = open(node, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    if (fd >= 0)
        close(fd);
    if (mount(dir, "/dev", NULL, MS_MOVE, NULL) != 0)
        vgpu_cli_say("/dev: %s", strerror(errno));
    free(node);
}
