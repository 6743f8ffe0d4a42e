/* SPDX-License-Identifier: MIT */
/* vgpu guest-bundle: what a guest needs, in one folder or archive, for guests without our packages. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

static void help(FILE *f)
{
    fprintf(f,
            "usage: vgpu guest-bundle --out DIR|FILE.tar[.gz|.xz|.zst]\n"
            "\n"
            "Writes what a guest needs whose distribution has no packages of vgpu-cuda: the driver's\n"
            "source, libcuda.so.1, libnvidia-ml.so.1, the vgpu command, udev rule, configuration, and\n"
            "install.sh, which installs all that in the guest (as root; its head has the options).\n"
            "\n"
            "  --out PATH   a folder that is not there yet, or an archive, which has the folder vgpu-guest\n"
            "  --help       this text\n");
}

/* Runs a program of the system and waits; dies with its exit status unless that is 0. */
static void run(const char *const *words)
{
    struct vgpu_cli_list argv = {0};
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}};
    pid_t pid;
    int status = 0;

    for (; *words; words++)
        vgpu_cli_add(&argv, "%s", *words);
    spawn.argv = argv.items;
    pid = vgpu_cli_spawn(&spawn);
    if (pid < 0)
        vgpu_cli_die("cannot run %s: %s", argv.items[0], strerror((int)-pid));
    if (!vgpu_cli_reap(pid, &status) || status != 0)
        vgpu_cli_die("%s has failed; nothing is complete", argv.items[0]);
}

/* FROM's contents and this program into TO, which is there and empty. */
static void fill(const char *from, const char *to)
{
    char *all = vgpu_cli_format("%s/.", from), *lib = vgpu_cli_format("%s/lib", to);
    char *bin = vgpu_cli_format("%s/bin", to), *self = vgpu_cli_format("%s/bin/vgpu", to);
    char *program = realpath("/proc/self/exe", NULL); /* of this process, not of cp */
    char *cuda = vgpu_cli_format("%s/libcuda.so.1", to), *nvml = vgpu_cli_format("%s/libnvidia-ml.so.1", to);

    if (!program)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    run((const char *[]){"cp", "-R", "--", all, to, NULL});
    if ((mkdir(lib, 0755) && errno != EEXIST) || (mkdir(bin, 0755) && errno != EEXIST))
        vgpu_cli_die("%s: %s", to, strerror(errno));
    run((const char *[]){"mv", "--", cuda, nvml, lib, NULL});
    run((const char *[]){"cp", "--", program, self, NULL});
    run((const char *[]){"chmod", "755", to, self, NULL});
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_archive(const char *path)
{
    static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.zst"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (ends_with(path, ends[i]))
            return true;
    }
    return false;
}

/* A name that promises an archive is not to become a folder. */
static bool is_other_archive(const char *path)
{
    static const char *const ends[] = {".zip", ".7z",  ".rar", ".bz2", ".tbz2", ".lz4", ".gz",
                                       ".xz",  ".zst", ".iso", ".img", ".cpio", ".deb", ".rpm"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (ends_with(path, ends[i]))
            return true;
    }
    return false;
}

int vgpu_cli_bundle(int argc, char **argv)
{
    const char *out = NULL, *from;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        help(stdout);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--out") == 0)
        out = argv[2];
    else if (argc == 2 && strncmp(argv[1], "--out=", 6) == 0)
        out = argv[1] + 6;
    if (!out || !*out || *out == '-') {
        help(stderr);
        return VGPU_CLI_USAGE;
    }
    if (!is_archive(out) && is_other_archive(out))
        vgpu_cli_wrong(
            "--out %s: archives are .tar, .tar.gz, .tgz, .tar.xz, .txz and .tar.zst; a folder has none of "
            "the other endings of archives",
            out);
    from = vgpu_cli_path(VGPU_PART_GUEST);
    if (!is_archive(out)) {
        /* Nothing that is there is overwritten: not a folder of something else by a slip. */
        if (mkdir(out, 0755))
            vgpu_cli_die("%s: %s", out, strerror(errno));
        fill(from, out);
    } else {
        char *folder = vgpu_cli_format("%s/vgpu-guest", vgpu_cli_temp_dir());

        if (mkdir(folder, 0755))
            vgpu_cli_die("%s: %s", folder, strerror(errno));
        fill(from, folder);
        run((const char *[]){"tar", "--owner=0", "--group=0", "--numeric-owner", "-C", vgpu_cli_temp_dir(),
                             "-caf", out, "vgpu-guest", NULL});
    }
    printf("%s: in the guest, as root: sh install.sh\n", out);
    vgpu_cli_cleanup();
    return 0;
}
