/* SPDX-License-Identifier: MIT */
/*
 * Reads the output of glibc's loader with LD_DEBUG=libs: which file became libcuda.so.1, and how it
 * was found. No other source covers RPATH, RUNPATH, dlopen() from anywhere and the cache alike.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

/* A string contained in our libcuda.so.1 and in no other. */
static const char mark[] = "VGPU_TRACE_JSON";

bool vgpu_cli_is_our_libcuda(const char *path)
{
    return vgpu_cli_file_has(path, mark);
}

static void note_tried(struct vgpu_ldlog *log, const char *path)
{
    size_t i = 0;
    const size_t last = sizeof(log->tried) / sizeof(log->tried[0]) - 1;

    while (i < last && log->tried[i] && strcmp(log->tried[i], path) != 0)
        i++;
    if (i < last && !log->tried[i])
        log->tried[i] = vgpu_cli_format("%s", path);
}

static char *copy_text(const char *text, size_t n)
{
    return vgpu_cli_format("%.*s", (int)n, text);
}

/* Returns the part after the last ": ", or the whole line, without the leading process number. */
static const char *line_body(const char *line)
{
    const char *p = strchr(line, ':');

    if (!p)
        return line;
    for (p++; *p == ' ' || *p == '\t'; p++)
        ;
    return p;
}

/*
 * Notes how a library was found: " search path=A:B\t\t(LD_LIBRARY_PATH)" or " search
 * cache=/etc/ld.so.cache".
 */
static void note_search(char how[256], const char *text)
{
    const char *open = strrchr(text, '('), *close = open ? strchr(open, ')') : NULL;

    if (strncmp(text, "search cache=", 13) == 0)
        snprintf(how, 256, "the loader's cache (/etc/ld.so.conf.d, ldconfig)");
    else if (strncmp(text, "search path=", 12) == 0 && close)
        snprintf(how, 256, "%.*s", (int)(close - open - 1), open + 1);
    else if (strncmp(text, "search path=", 12) == 0)
        snprintf(how, 256, "a folder that was used before");
}

/* NVIDIA's libraries that programs load with dlopen() and can do without. */
static const char *const stems[] = {"libcudart.so.", "libcublas.so.", "libcublasLt.so.",  "libcudnn.so.",
                                    "libcufft.so.",  "libcurand.so.", "libcusolver.so.",  "libcusparse.so.",
                                    "libnvrtc.so.",  "libnccl.so.",   "libnvJitLink.so.", "libcupti.so."};
#define STEMS (sizeof(stems) / sizeof(stems[0]))

static struct {
    char *name; /* latest name that was searched for */
    bool loaded;
} asked[STEMS];

/* Returns the index of a file name in stems, or -1. */
static int stem_of(const char *name)
{
    for (size_t i = 0; i < STEMS; i++) {
        if (strncmp(name, stems[i], strlen(stems[i])) == 0)
            return (int)i;
    }
    return -1;
}

static void note_asked(const char *name)
{
    int i = stem_of(name);

    if (i < 0)
        return;
    free(asked[i].name);
    asked[i].name = vgpu_cli_format("%.*s", (int)strcspn(name, " \t[;"), name);
}

/* Programs try several versions of a library; any version found is enough. */
static void note_missing(struct vgpu_ldlog *log)
{
    for (size_t i = 0; i < STEMS; i++) {
        if (asked[i].name && !asked[i].loaded && !log->missing_library)
            log->missing_library = asked[i].name;
    }
}

static void read_one(struct vgpu_ldlog *log, FILE *f)
{
    char *line = NULL, how[256] = "an absolute path", libcuda_how[256] = "";
    bool looking_for_it = false;
    char link[2];
    size_t room = 0;
    ssize_t n;

    while ((n = getline(&line, &room, f)) > 0) {
        const char *text, *at;

        line[strcspn(line, "\n")] = '\0';
        log->any = true;
        text = line_body(line);
        note_search(how, text);
        if (strncmp(text, "find library=", 13) == 0) {
            snprintf(how, sizeof(how), "the default folders");
            looking_for_it = strncmp(text + 13, "libcuda.so", 10) == 0;
            log->wanted_libcuda |= looking_for_it;
            log->wanted_cudart |= strncmp(text + 13, "libcudart.so", 12) == 0;
            note_asked(text + 13);
        } else if (looking_for_it && strncmp(text, "trying file=", 12) == 0) {
            snprintf(libcuda_how, sizeof(libcuda_how), "%s", how);
            if (access(text + 12, F_OK) == 0 || readlink(text + 12, link, sizeof(link)) > 0)
                note_tried(log, text + 12);
        } else if (strncmp(text, "calling init: ", 14) == 0) {
            const char *base = strrchr(text, '/');

            if (base && stem_of(base + 1) >= 0)
                asked[stem_of(base + 1)].loaded = true;
            log->torch |= base && strcmp(base, "/libtorch_cuda.so") == 0;
            if (base && strncmp(base, "/libcuda.so", 11) == 0 && !log->libcuda) {
                log->libcuda = copy_text(text + 14, strlen(text + 14));
                log->found_by = copy_text(*libcuda_how ? libcuda_how : "an absolute path", 250);
                log->wanted_libcuda = true;
            } else if (base && strncmp(base, "/libcudart.so", 13) == 0 && !log->cudart) {
                log->cudart = copy_text(text + 14, strlen(text + 14));
                log->wanted_cudart = true;
            }
        } else if ((at = strstr(text, "undefined symbol: cu")) && !log->missing_symbol) {
            log->missing_symbol = copy_text(at + 18, strcspn(at + 18, " \t,("));
        }
    }
    free(line);
}

void vgpu_cli_ldlog_read(struct vgpu_ldlog *log, const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    memset(log, 0, sizeof(*log));
    while (d && (e = readdir(d))) {
        char *path;
        FILE *f;

        if (strncmp(e->d_name, "ld.", 3) != 0)
            continue;
        path = vgpu_cli_format("%s/%s", folder, e->d_name);
        f = fopen(path, "re");
        if (f) {
            read_one(log, f);
            fclose(f);
        }
        free(path);
    }
    if (d)
        closedir(d);
    note_missing(log);
}
