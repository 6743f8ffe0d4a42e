/* SPDX-License-Identifier: MIT */
/*
 * vgpu guest-bundle: collects the files that a guest without our packages needs in a folder or
 * archive.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

static void bundle_help(void)
{
    printf("usage: vgpu guest-bundle --out DIR|FILE.tar[.gz|.xz|.zst]\n"
           "\n"
           "Writes what a guest needs whose distribution has no packages of vgpu-cuda: the driver's\n"
           "source, libcuda.so.1, libnvidia-ml.so.1, the vgpu command, udev rule, configuration, and\n"
           "install.sh, which installs all that in the guest (as root; its head has the options).\n"
           "\n"
           "  --out PATH   a folder that is not there yet, or an archive, which has the folder vgpu-guest\n"
           "  --help       this text\n");
}

/* Runs a program of the system and waits for it; exits with its status unless that is 0. */
static void run_program(const char *const *words)
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

/* Copies the contents of `from` and this program into `to`, an existing empty folder. */
static void fill_file(const char *from, const char *to)
{
    char *all = vgpu_cli_format("%s/.", from), *lib = vgpu_cli_format("%s/lib", to);
    char *bin = vgpu_cli_format("%s/bin", to), *self = vgpu_cli_format("%s/bin/vgpu", to);
    char *program = realpath("/proc/self/exe", NULL); /* resolved here: in cp it would name cp */
    char *cuda = vgpu_cli_format("%s/libcuda.so.1", to), *nvml = vgpu_cli_format("%s/libnvidia-ml.so.1", to);

    if (!program)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    run_program((const char *[]){"cp", "-R", "--", all, to, NULL});
    if ((mkdir(lib, 0755) && errno != EEXIST) || (mkdir(bin, 0755) && errno != EEXIST))
        vgpu_cli_die("%s: %s", to, strerror(errno));
    run_program((const char *[]){"mv", "--", cuda, nvml, lib, NULL});
    run_program((const char *[]){"cp", "--", program, self, NULL});
    run_program((const char *[]){"chmod", "755", to, self, NULL});
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

/*
 * True: the name has the suffix of another archive format (.tar.X, in either case), which must not
 * become a folder's name.
 */
static bool is_other_archive(const char *path)
{
    static const char *const ends[] = {"zip",  "7z",  "rar", "bz2", "tbz",  "tbz2", "lz4", "gz",
                                       "tgz",  "xz",  "txz", "zst", "tzst", "lz",   "tlz", "lzo",
                                       "lzma", "z",   "taz", "br",  "tar",  "iso",  "img", "cpio",
                                       "deb",  "rpm", "jar", "cab", "ar",   "qcow2"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *end = strrchr(name, '.');

    if (!end || end == name)
        return false;
    if (end - name > 4 && strncasecmp(end - 4, ".tar", 4) == 0)
        return true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (strcasecmp(end + 1, ends[i]) == 0)
            return true;
    }
    return false;
}

/* Returns the value of --out; NULL: --help was given. */
static const char *bundle_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"out", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const char *out = NULL;
    int option;

    while ((option = vgpu_cli_getopt("guest-bundle", argc, argv, "", options)) != -1) {
        if (option == 'h')
            return NULL;
        out = optarg;
    }
    if (optind != argc)
        vgpu_cli_wrong("guest-bundle: '%s' is not understood; see `vgpu guest-bundle --help`", argv[optind]);
    if (!out)
        vgpu_cli_wrong("guest-bundle: --out PATH is needed; see `vgpu guest-bundle --help`");
    if (!*out || *out == '-')
        vgpu_cli_wrong("guest-bundle: --out '%s' is not a path; see `vgpu guest-bundle --help`", out);
    return out;
}

int vgpu_cli_bundle(int argc, char **argv)
{
    const char *out = bundle_options(argc, argv), *from;

    if (!out) {
        bundle_help();
        return 0;
    }
    if (!is_archive(out) && is_other_archive(out))
        vgpu_cli_wrong(
            "--out %s: archives are .tar, .tar.gz, .tgz, .tar.xz, .txz and .tar.zst; a folder has none of "
            "the other endings of archives",
            out);
    from = vgpu_cli_path(VGPU_PART_GUEST);
    if (!is_archive(out)) {
        /* Nothing is overwritten: a mistyped path must not fill an unrelated folder. */
        if (mkdir(out, 0755))
            vgpu_cli_die("%s: %s", out, strerror(errno));
        fill_file(from, out);
    } else {
        char *folder = vgpu_cli_format("%s/vgpu-guest", vgpu_cli_temp_dir());

        if (mkdir(folder, 0755))
            vgpu_cli_die("%s: %s", folder, strerror(errno));
        fill_file(from, folder);
        run_program((const char *[]){"tar", "--owner=0", "--group=0", "--numeric-owner", "-C",
                                     vgpu_cli_temp_dir(), "-caf", out, "vgpu-guest", NULL});
    }
    printf("%s: in the guest, as root: sh install.sh\n", out);
    vgpu_cli_cleanup();
    return 0;
}
