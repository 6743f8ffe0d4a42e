/* SPDX-License-Identifier: MIT */
/* The rules of vgpu doctor that read the loader's log: which libraries a program got, and which not. */
#include <string.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

bool vgpu_cli_judge_loader(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                           const struct vgpu_ending *end)
{
    const char *lib = strstr(end->text, "error while loading shared libraries: ");

    if (lib && !strstr(lib, "libcuda.so")) {
        vgpu_cli_find(f, VGPU_CAUSE_LIBRARY, vgpu_cli_format("the program lacks a library"),
                      vgpu_cli_format("%.*s", (int)strcspn(lib, "\n"), lib),
                      "install it, or put its folder into LD_LIBRARY_PATH");
        return true;
    }
    if (log->libcuda && !vgpu_cli_is_our_libcuda(log->libcuda)) {
        vgpu_cli_find(f, VGPU_CAUSE_OTHER_LIBCUDA,
                      vgpu_cli_format("the program loads another libcuda: %s", log->libcuda),
                      vgpu_cli_format("found by %s", log->found_by),
                      "put the folder of vgpu's libcuda.so.1 in front of it in LD_LIBRARY_PATH; a "
                      "DT_RPATH of the program comes first even then: remove it (patchelf); the "
                      "loader's cache: a file in /etc/ld.so.conf.d and ldconfig");
        return true;
    }
    if ((log->wanted_libcuda && !log->libcuda) || (lib && strstr(lib, "libcuda.so"))) {
        vgpu_cli_find(f, VGPU_CAUSE_NO_LIBCUDA, vgpu_cli_format("the loader finds no libcuda.so.1"), NULL,
                      "put the folder of vgpu's libcuda.so.1 into LD_LIBRARY_PATH or "
                      "/etc/ld.so.conf.d, or use `vgpu run`");
        return true;
    }
    return false;
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

void vgpu_cli_judge_silence(struct vgpu_findings *f, const struct vgpu_ldlog *log, bool traced, bool failed)
{
    if (log->libcuda && log->missing_symbol) {
        vgpu_cli_find(
            f, VGPU_CAUSE_SYMBOL,
            vgpu_cli_format("the program looks up %s, which libcuda does not export", log->missing_symbol),
            log->libcuda,
            "a program for a newer driver API than 13.5, or for a private entry "
            "point: docs/calls.md lists what is exported");
    } else if (log->missing_library) {
        found_missing(f, log);
    } else if (!log->wanted_libcuda && !traced) {
        vgpu_cli_find(f, VGPU_CAUSE_NO_CUDA, vgpu_cli_format("the program never asked for libcuda.so.1"),
                      log->wanted_cudart ? "it did look for a libcudart" : NULL,
                      "it ends before that, or is built without CUDA, or is told not to use it "
                      "(CUDA_VISIBLE_DEVICES, an option), or is statically linked");
    } else if (failed) {
        vgpu_cli_find(f, VGPU_CAUSE_PROGRAM, vgpu_cli_format("the program failed and made no call of CUDA"),
                      NULL, "look at the program's own messages");
    }
}
