/* SPDX-License-Identifier: MIT */
/*
 * vgpu cdi: describes the GPU for container engines (Container Device Interface 0.5.0). The file
 * names the device nodes, or a backend's socket, and our libraries, for the engine to put into a
 * container. No hook is needed: the libraries are mounted into folders that loaders search without
 * a cache, and into those named by LD_LIBRARY_PATH of NVIDIA's images.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vgpu_cli.h"
#include "../../lib/json/json.h"
#include "../../lib/terminal/terminal.h"

#define NODES_MAX 64
#define SOCKET "/run/vgpu.sock" /* in the container */

static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64"};

static void cdi_help(void)
{
    printf(
        "usage: vgpu cdi generate [--output FILE] [--socket PATH]\n"
        "\n"
        "Writes what podman, docker and Kubernetes need to give the GPU to containers, in the format of the\n"
        "Container Device Interface, kind nvidia.com/gpu: `podman run --device nvidia.com/gpu=all ...`.\n"
        "\n"
        "  -o, --output FILE   write it there, as a whole or not at all (/etc/cdi/vgpu.json, /var/run/cdi/...);\n"
        "                      its folder is made if need be; default: standard output\n"
        "  -s, --socket PATH   containers reach the backend that listens there (vgpu-backend --listen) instead\n"
        "                      of /dev/vgpu0, /dev/vgpu1, ...: for hosts\n"
        "      --root DIR      look for devices in DIR/dev: for tests\n");
    printf("  -h, --help          this text\n"
           "\n"
           "Exit status: 0; 2 wrong use; 6 no device is here; 125 another error.\n");
}

static void refuse_path(const char *path)
{
    char *shown = vgpu_cli_format("%s", path);

    vgpu_cli_harmless(shown);
    vgpu_cli_die("%s: the path is not UTF-8, and a CDI file cannot name it", shown);
}

/*
 * Prints a path as a JSON string. The engine decodes UTF-8 and opens what it gets, so the characters
 * are not escaped byte by byte as in the output for readers of this tree (lib/json).
 */
static void print_path(FILE *f, const char *path)
{
    const char *whole = path;
    char escape[JSN_ESCAPE_MAX];
    uint32_t point;

    fputc('"', f);
    for (unsigned n; *path; path += n) {
        n = trm_decode((const unsigned char *)path, &point);
        if (!n)
            refuse_path(whole);
        if (n == 1)
            fwrite(escape, 1, jsn_escape(escape, *path), f);
        else
            fwrite(path, 1, n, f);
    }
    fputc('"', f);
}

static void print_mount(FILE *f, const char *host, const char *inside, const char *options, bool *first)
{
    fprintf(f, "%s\n      {\"hostPath\": ", *first ? "" : ",");
    print_path(f, host);
    fprintf(f, ", \"containerPath\": ");
    print_path(f, inside);
    fprintf(f, ", \"options\": [%s]}", options);
    *first = false;
}

/* Writes a mount of the library's file for each of the folders. */
static void mount_library(FILE *f, enum vgpu_cli_part part, const char *name, bool *first)
{
    char *path = vgpu_cli_format("%s/%s", vgpu_cli_path(part), name), *real = realpath(path, NULL);

    if (!real)
        vgpu_cli_die("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char *inside = vgpu_cli_format("%s/%s", folders[i], name);

        print_mount(f, real, inside, "\"ro\", \"nosuid\", \"nodev\", \"bind\"", first);
        free(inside);
    }
    free(real);
    free(path);
}

static void mount_program(FILE *f, const char *path, const char *inside, bool *first)
{
    char *real = realpath(path, NULL);

    if (real && access(real, X_OK) == 0)
        print_mount(f, real, inside, "\"ro\", \"nosuid\", \"nodev\", \"bind\"", first);
    free(real);
}

static void write_device(FILE *f, const char *name, const unsigned *nodes, unsigned n, const char *socket)
{
    fprintf(f, "    {\"name\": \"%s\", \"containerEdits\": {", name);
    if (socket) {
        fprintf(f, "\"env\": [\"VGPU_SOCKET=" SOCKET "\"]");
    } else {
        fprintf(f, "\"deviceNodes\": [");
        for (unsigned i = 0; i < n; i++)
            fprintf(f, "%s{\"path\": \"/dev/vgpu%u\"}", i ? ", " : "", nodes[i]);
        fprintf(f, "]");
    }
    fprintf(f, "}}");
}

static void write_file(FILE *f, const unsigned *nodes, unsigned n, const char *socket)
{
    bool first = true;
    char name[16];

    fprintf(f, "{\n  \"cdiVersion\": \"0.5.0\",\n  \"kind\": \"nvidia.com/gpu\",\n  \"devices\": [\n");
    for (unsigned i = 0; i < (socket ? 1 : n); i++) {
        snprintf(name, sizeof(name), "%u", socket ? 0 : nodes[i]);
        write_device(f, name, &nodes[i], 1, socket);
        fprintf(f, ",\n");
    }
    write_device(f, "all", nodes, n, socket);
    /* "void" disables NVIDIA's own container runtime. */
    fprintf(
        f,
        "\n  ],\n  \"containerEdits\": {\n    \"env\": [\"NVIDIA_VISIBLE_DEVICES=void\"],\n    \"mounts\": [");
    if (socket)
        print_mount(f, socket, SOCKET, "\"rw\", \"nosuid\", \"nodev\", \"noexec\", \"bind\"", &first);
    mount_library(f, VGPU_PART_LIBCUDA, "libcuda.so.1", &first);
    mount_library(f, VGPU_PART_NVML, "libnvidia-ml.so.1", &first);
    mount_program(f, "/proc/self/exe", "/usr/bin/vgpu", &first);
    mount_program(f, "/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", &first);
    fprintf(f, "\n    ]\n  }\n}\n");
}

/*
 * Makes the folder of a file, which the engine's package may not have created (/etc/cdi), without
 * its parents.
 */
static void make_folder(const char *path)
{
    char *folder = vgpu_cli_format("%s", path), *end = strrchr(folder, '/');

    if (end && end > folder) {
        *end = '\0';
        mkdir(folder, 0755); /* an error is reported when the file is opened */
    }
    free(folder);
}

/* Engines read the folder at any time, so a complete file is renamed into place. */
static void write_to(const char *path, const char *text, size_t size)
{
    char *fresh = vgpu_cli_format("%s.%ld.tmp", path, (long)getpid());
    FILE *f = fopen(fresh, "wxe"); /* "x": in /tmp the name may be another user's link */
    bool ok;

    if (!f && errno == ENOENT) {
        make_folder(path);
        f = fopen(fresh, "wxe");
    }
    if (!f)
        vgpu_cli_die("--output %s: %s", path, strerror(errno));
    ok = fwrite(text, 1, size, f) == size;
    if (fclose(f) || !ok || rename(fresh, path)) {
        int why = errno;

        unlink(fresh);
        vgpu_cli_die("--output %s: %s", path, strerror(why));
    }
    free(fresh);
}

static unsigned find_nodes(const char *root, unsigned *nodes)
{
    unsigned n = 0;

    for (unsigned i = 0; i < NODES_MAX; i++) {
        char *path = vgpu_cli_format("%s/dev/vgpu%u", root, i);
        struct stat st;

        /*
         * Not access(2): under DevicePolicy= the kernel denies it for devices that the unit may not
         * open.
         */
        if (stat(path, &st) == 0)
            nodes[n++] = i;
        free(path);
    }
    return n;
}

int vgpu_cli_cdi(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"socket", required_argument, NULL, 's'},
                                            {"root", required_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *output = NULL, *socket = NULL, *root = "";
    char *text = NULL;
    size_t size = 0;
    FILE *f;
    unsigned nodes[NODES_MAX], n = 0;
    struct stat st;
    int c;

    while ((c = vgpu_cli_getopt("cdi", argc, argv, "o:s:h", options)) != -1) {
        if (c == 'h') {
            cdi_help();
            return 0;
        } else if (c == 'o') {
            output = optarg;
        } else if (c == 's') {
            socket = optarg;
        } else {
            root = optarg;
        }
    }
    if (optind + 1 != argc || strcmp(argv[optind], "generate")) {
        vgpu_cli_say("cdi: `generate` is needed, and nothing else; see `vgpu cdi --help`");
        return 2;
    }
    if (socket && (*socket != '/' || stat(socket, &st) || !S_ISSOCK(st.st_mode))) {
        vgpu_cli_say("cdi: --socket %s: not the absolute path of a socket", socket);
        return 2;
    }
    if (!socket && !(n = find_nodes(root, nodes))) {
        vgpu_cli_say(
            "cdi: there is no /dev/vgpu0 here, nor another; on a host name the socket of a backend with --socket");
        return 6;
    }
    /* In memory first: a missing part ends the command, which then has written nothing. */
    f = open_memstream(&text, &size);
    if (!f)
        vgpu_cli_die("%s", strerror(errno));
    write_file(f, nodes, n, socket);
    if (fclose(f))
        vgpu_cli_die("%s", strerror(ENOMEM));
    if (output)
        write_to(output, text, size);
    else
        fwrite(text, 1, size, stdout);
    free(text);
    return 0;
}
