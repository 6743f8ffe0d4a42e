/* SPDX-License-Identifier: MIT */
/* Findings of vgpu doctor, and the texts for their causes. */
#include <string.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

static const struct {
    enum vgpu_cause cause;
    const char *name;
} names[] = {
    {VGPU_CAUSE_NONE, "ok"},
    {VGPU_CAUSE_NO_DEVICE, "no-device"},
    {VGPU_CAUSE_NO_DRIVER, "driver-not-loaded"},
    {VGPU_CAUSE_PERMISSION, "permission"},
    {VGPU_CAUSE_NO_BACKEND, "backend-not-reachable"},
    {VGPU_CAUSE_CONNECT, "does-not-serve"},
    {VGPU_CAUSE_MISMATCH, "parts-do-not-match"},
    {VGPU_CAUSE_NO_NODE, "node-missing"},
    {VGPU_CAUSE_NO_LIBCUDA, "libcuda-not-found"},
    {VGPU_CAUSE_OTHER_LIBCUDA, "other-libcuda"},
    {VGPU_CAUSE_NO_CUDA, "libcuda-not-asked-for"},
    {VGPU_CAUSE_LIBRARY, "library-missing"},
    {VGPU_CAUSE_STATIC, "static-program"},
    {VGPU_CAUSE_MACHINE, "other-machine"},
    {VGPU_CAUSE_C_LIBRARY, "other-c-library"},
    {VGPU_CAUSE_RIGHTS, "environment-ignored"},
    {VGPU_CAUSE_VERSION, "driver-version"},
    {VGPU_CAUSE_SYMBOL, "entry-point-missing"},
    {VGPU_CAUSE_TABLE, "export-table-refused"},
    {VGPU_CAUSE_TABLE_EMPTY, "export-table-incomplete"},
    {VGPU_CAUSE_QUERY, "start-up-call-failed"},
    {VGPU_CAUSE_VALIDITY, "validity-check"},
    {VGPU_CAUSE_NO_DEVICES, "no-devices"},
    {VGPU_CAUSE_IMAGE, "no-usable-code"},
    {VGPU_CAUSE_PTX, "ptx-not-accepted"},
    {VGPU_CAUSE_REFUSED, "call-refused"},
    {VGPU_CAUSE_MEMORY, "out-of-memory"},
    {VGPU_CAUSE_KERNEL, "kernel-failed"},
    {VGPU_CAUSE_WORKER, "worker-ended"},
    {VGPU_CAUSE_CALL, "call-failed"},
    {VGPU_CAUSE_PINNED, "pinned-memory-limit"},
    {VGPU_CAUSE_PROGRAM, "program-failed"},
    {VGPU_CAUSE_NOT_STARTED, "program-not-started"},
    {VGPU_CAUSE_NO_TEMP, "no-temporary-folder"},
};

const char *vgpu_cli_cause_name(enum vgpu_cause cause)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].cause == cause)
            return names[i].name;
    }
    return "?";
}

/* Names of files and the output of a program or its loader are untrusted text. */
static char *harmless_copy(const char *text)
{
    char *copy = text ? vgpu_cli_format("%s", text) : NULL;

    if (copy)
        vgpu_cli_harmless(copy);
    return copy;
}

void vgpu_cli_find(struct vgpu_findings *f, enum vgpu_cause cause, char *what, const char *seen,
                   const char *remedy)
{
    if (f->count == sizeof(f->list) / sizeof(f->list[0]))
        return;
    vgpu_cli_harmless(what);
    f->list[f->count++] = (struct vgpu_finding){cause, what, harmless_copy(seen), harmless_copy(remedy)};
}

static const char *const table_names[][2] = {
    {"6bd5fb6c", "CUDART_INTERFACE"},
    {"a094798c", "TOOLS_RUNTIME_CALLBACK_HOOKS"},
    {"42d85a81", "TOOLS_TLS"},
    {"c693336e", "CONTEXT_LOCAL_STORAGE"},
    {"263e8860", "CONTEXT_CHECKS"},
    {"d4082055", "INTEGRITY_CHECK"},
    {"21318c60", "TOOLS_CONTEXT (cuBLAS)"},
    {"1734dc26", "of cublasLt"},
    {"6e163fbe", "TOOLS_MODULE (cuFFT)"},
    {"f8cff951", "of the runtime's log"},
};

const char *vgpu_cli_table_name(const char *why)
{
    for (size_t i = 0; why && i < sizeof(table_names) / sizeof(table_names[0]); i++) {
        if (strstr(why, table_names[i][0]))
            return table_names[i][1];
    }
    return "of no public name";
}
