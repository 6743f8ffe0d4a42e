/* SPDX-License-Identifier: MIT */
/*
 * The rules of vgpu doctor that read the loader's log and the program's file: which libraries a
 * program got, and which it did not.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

#define OUR_LIBCUDA "the folder of vgpu's libcuda.so.1"

/* Returns the output's line that contains the text, to be freed; NULL: none. */
static char *line_with(const char *output, const char *text)
{
    const char *at = strstr(output, text);

    while (at && at > output && at[-1] != '\n')
        at--;
    return at ? vgpu_cli_format("%.*s", (int)strcspn(at, "\n"), at) : NULL;
}

/*
 * The loader skips some files of that name and fails at the first that it cannot load, so the last
 * file with a fault is reported.
 */
static void found_no_libcuda(struct vgpu_findings *f, const struct vgpu_ldlog *log)
{
    char *fault = NULL;
    const char *file = NULL;

    for (size_t i = 0; log->tried[i]; i++) {
        char *of_this = vgpu_cli_library_fault(log->tried[i]);

        if (!of_this)
            continue;
        free(fault);
        fault = of_this;
        file = log->tried[i];
    }
    if (fault)
        vgpu_cli_find(f, VGPU_CAUSE_OTHER_LIBCUDA,
                      vgpu_cli_format("the loader finds a libcuda.so.1 that cannot be loaded: %s", file),
                      fault,
                      vgpu_cli_is_our_libcuda(file) ? "the file is vgpu's own: mend what `seen` says"
                                                    : "remove that file, or put " OUR_LIBCUDA
                                                      " in front of its folder in LD_LIBRARY_PATH");
    else
        vgpu_cli_find(
            f, VGPU_CAUSE_NO_LIBCUDA, vgpu_cli_format("the loader finds no libcuda.so.1"), NULL,
            vgpu_cli_words("put " OUR_LIBCUDA " into LD_LIBRARY_PATH or "
                           "/etc/ld.so.conf.d, or use `vgpu run`",
                           "in a guest: install the package libcuda1-vgpu, or run install.sh of a guest "
                           "bundle (then ldconfig); on a host: `vgpu run PROGRAM`"));
    free(fault);
}

static void found_other(struct vgpu_findings *f, const struct vgpu_ldlog *log, const struct vgpu_program *p)
{
    const bool preloaded = p->preloaded && strcmp(log->libcuda, p->preloaded) == 0;

    vgpu_cli_find(f, VGPU_CAUSE_OTHER_LIBCUDA,
                  vgpu_cli_format("the program loads another libcuda: %s", log->libcuda),
                  vgpu_cli_format("found by %s", preloaded ? p->preloaded_by : log->found_by),
                  preloaded ? "take it out of LD_PRELOAD or /etc/ld.so.preload"
                            : "put " OUR_LIBCUDA " in front of it in LD_LIBRARY_PATH; a "
                              "DT_RPATH of the program comes first even then: remove it (patchelf); the "
                              "loader's cache: a file in /etc/ld.so.conf.d and ldconfig");
}

bool vgpu_cli_judge_loader(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                           const struct vgpu_ending *end)
{
    char *lib = line_with(end->text, "error while loading shared libraries: ");
    char *version = line_with(end->text, "version `GLIBC");
    bool found = true;

    if (version && strstr(version, "not found (required by")) {
        vgpu_cli_find(f, VGPU_CAUSE_C_LIBRARY,
                      vgpu_cli_format("the program needs a newer C library than this machine has"), version,
                      "use a build of it for this release of the distribution, or a newer release");
    } else if (lib && !strstr(lib, "libcuda.so")) {
        vgpu_cli_find(f, VGPU_CAUSE_LIBRARY, vgpu_cli_format("the program lacks a library"), lib,
                      "install it, or put its folder into LD_LIBRARY_PATH");
    } else if (log->libcuda && !vgpu_cli_is_our_libcuda(log->libcuda)) {
        found_other(f, log, end->program);
    } else if (!log->libcuda && (log->wanted_libcuda || lib)) {
        found_no_libcuda(f, log);
    } else {
        found = false;
    }
    free(lib);
    free(version);
    return found;
}

/* True: the program's own file shows why libcuda is not loaded. */
static bool judge_file(struct vgpu_findings *f, const struct vgpu_program *p, bool loader_seen)
{
    const struct vgpu_cli_program *file = &p->file;

    if (!vgpu_cli_program_is_ours(file))
        vgpu_cli_find(f, VGPU_CAUSE_MACHINE,
                      file->elf_class == ELFCLASS32
                          ? vgpu_cli_format("%s is a 32-bit program", p->name)
                          : vgpu_cli_format("%s is a program for another processor", p->name),
                      vgpu_cli_format("%s: ELF machine %u", file->path, file->machine),
                      "use its build for x86-64: libcuda is for 64-bit programs of this processor only");
    else if (strstr(file->loader, "ld-musl") && !file->is_script)
        vgpu_cli_find(f, VGPU_CAUSE_C_LIBRARY,
                      vgpu_cli_format("%s is linked with musl, and libcuda needs glibc", p->name),
                      file->loader, "use its build for glibc (not Alpine's)");
    else if (file->is_elf && file->is_static && !loader_seen)
        vgpu_cli_find(
            f, VGPU_CAUSE_STATIC,
            vgpu_cli_format("%s is linked statically: it loads no library, so no libcuda", p->name),
            file->path,
            "use a build of it that is linked dynamically (libcudart may be static); where it starts "
            "others, examine those");
    else if (file->takes_rights && !loader_seen)
        vgpu_cli_find(
            f, VGPU_CAUSE_RIGHTS,
            vgpu_cli_format("%s changes its rights: the loader ignores LD_LIBRARY_PATH and LD_DEBUG",
                            p->name),
            file->path,
            "a copy without the set-id bit or the capabilities (cp does that), or libcuda.so.1 in a "
            "folder of /etc/ld.so.conf.d");
    else
        return false;
    return true;
}

void vgpu_cli_judge_exec(struct vgpu_findings *f, const struct vgpu_program *p,
                         const struct vgpu_cli_list *env, int err)
{
    if (err == EACCES || !judge_file(f, p, true))
        vgpu_cli_find(
            f, VGPU_CAUSE_NOT_STARTED,
            vgpu_cli_format("%s cannot be run: %s", p->name, vgpu_cli_program_why_not(env, p->name, err)),
            p->file.path, "check the path, and that it is executable on this machine");
}

static void found_missing(struct vgpu_findings *f, const struct vgpu_ldlog *log)
{
    vgpu_cli_find(f, VGPU_CAUSE_LIBRARY,
                  vgpu_cli_format("the program looked for %s, did not find it, and goes on without it",
                                  log->missing_library),
                  "no file of that name, of whatever version, was loaded",
                  "install that library (a package of NVIDIA's toolkit of that version, or of the Python "
                  "package index), or put its folder into LD_LIBRARY_PATH");
}

static void found_no_cuda(struct vgpu_findings *f, const struct vgpu_ldlog *log, const struct vgpu_program *p)
{
    const bool has = log->wanted_cudart || p->names_cuda;

    vgpu_cli_find(
        f, VGPU_CAUSE_NO_CUDA, vgpu_cli_format("the program never asked for libcuda.so.1"),
        log->wanted_cudart ? "it did look for a libcudart"
        : p->names_cuda    ? "libcuda is named in its file: it has CUDA, and did not come to it"
                           : "its file does not name libcuda",
        has ? "it ends before that, or is told not to use the GPU: its own messages, its options, "
              "CUDA_VISIBLE_DEVICES"
            : "it is built without CUDA: install its build with CUDA (for Python the package's variant for "
              "CUDA); or it has CUDA in a library or module that it did not load");
}

void vgpu_cli_judge_silence(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                            const struct vgpu_ending *end, bool traced, bool failed)
{
    const struct vgpu_program *p = end->program;

    if (!traced && p->preloaded)
        vgpu_cli_find(f, VGPU_CAUSE_OTHER_LIBCUDA,
                      vgpu_cli_format("the program is given another libcuda: %s", p->preloaded),
                      vgpu_cli_format("found by %s", p->preloaded_by),
                      "take it out of LD_PRELOAD or /etc/ld.so.preload");
    else if (!traced && judge_file(f, p, log->any))
        return;
    else if (log->libcuda && log->missing_symbol)
        vgpu_cli_find(
            f, VGPU_CAUSE_SYMBOL,
            vgpu_cli_format("the program looks up %s, which libcuda does not export", log->missing_symbol),
            log->libcuda,
            vgpu_cli_format("a program for a newer driver API than 13.5, or for a private entry "
                            "point: %s lists what is exported",
                            vgpu_cli_page("calls.md")));
    else if (log->missing_library)
        found_missing(f, log);
    else if (!log->wanted_libcuda && !traced)
        found_no_cuda(f, log, p);
    else if (failed)
        vgpu_cli_find(f, VGPU_CAUSE_PROGRAM, vgpu_cli_format("the program failed and made no call of CUDA"),
                      NULL, "look at the program's own messages");
}
