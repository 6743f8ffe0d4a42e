/* SPDX-License-Identifier: MIT */
/* vgpu doctor: findings of its parts, and the verdicts drawn from them. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/vgpu_cli.h"
#include "trace/events.h"

/* Causes; the numbers are exit statuses of `vgpu doctor` and never change their meaning. */
enum vgpu_cause {
    VGPU_CAUSE_NONE = 0,
    VGPU_CAUSE_NO_DEVICE = 10,     /* neither device nor socket */
    VGPU_CAUSE_NO_DRIVER = 11,     /* a vgpu-cuda device, no /dev/vgpu0 */
    VGPU_CAUSE_PERMISSION = 12,    /* permissions of the node or the socket */
    VGPU_CAUSE_NO_BACKEND = 13,    /* no process serves the socket */
    VGPU_CAUSE_CONNECT = 14,       /* the socket exists, but does not serve */
    VGPU_CAUSE_MISMATCH = 15,      /* this project's parts differ in version */
    VGPU_CAUSE_NO_NODE = 16,       /* the driver has a device without a node in /dev */
    VGPU_CAUSE_NO_LIBCUDA = 20,    /* the loader finds no libcuda.so.1 */
    VGPU_CAUSE_OTHER_LIBCUDA = 21, /* the loader finds a foreign libcuda.so.1 */
    VGPU_CAUSE_NO_CUDA = 22,       /* the program never loaded libcuda */
    VGPU_CAUSE_LIBRARY = 23,       /* another library of the program is missing */
    VGPU_CAUSE_STATIC = 24,        /* statically linked program: it loads no library */
    VGPU_CAUSE_MACHINE = 25,       /* program for another processor, or 32-bit */
    VGPU_CAUSE_C_LIBRARY = 26,     /* its C library is not glibc, or glibc is too old */
    VGPU_CAUSE_RIGHTS = 27,        /* set-id bits or capabilities: the environment is ignored */
    VGPU_CAUSE_VERSION = 30,       /* driver version too old for the runtime */
    VGPU_CAUSE_SYMBOL = 31,        /* a required entry point is missing */
    VGPU_CAUSE_TABLE = 32,         /* an export table was refused */
    VGPU_CAUSE_TABLE_EMPTY = 33,   /* the program died during its runtime's start */
    VGPU_CAUSE_QUERY = 34,         /* a call of the runtime's start-up failed */
    VGPU_CAUSE_VALIDITY = 35,      /* NVIDIA's validity check failed */
    VGPU_CAUSE_NO_DEVICES = 36,    /* cuDeviceGetCount returned 0 */
    VGPU_CAUSE_IMAGE = 40,         /* no code that this GPU can execute */
    VGPU_CAUSE_PTX = 41,           /* PTX too new, or invalid */
    VGPU_CAUSE_REFUSED = 42,       /* an unsupported call */
    VGPU_CAUSE_MEMORY = 43,        /* out of device memory */
    VGPU_CAUSE_KERNEL = 44,        /* the program's own kernel failed */
    VGPU_CAUSE_WORKER = 45,        /* the worker on the host ended */
    VGPU_CAUSE_CALL = 46,          /* another call failed */
    VGPU_CAUSE_PINNED = 47,        /* the driver's pin_limit_mib, in a VM */
    VGPU_CAUSE_PROGRAM = 50,       /* the program failed without a CUDA error */
    VGPU_CAUSE_NOT_STARTED = 51,   /* the program could not be started */
    VGPU_CAUSE_NO_TEMP = 52,       /* no writable folder for temporary files */
    VGPU_CAUSE_LAST = VGPU_CAUSE_NO_TEMP,
};

struct vgpu_finding {
    enum vgpu_cause cause; /* NONE: information only */
    char *what;            /* the finding, a sentence */
    char *seen;            /* the evidence; NULL: none */
    char *remedy;          /* remedy; NULL: none */
};

struct vgpu_findings {
    struct vgpu_finding list[64];
    size_t count;
};

/* Adds a finding; takes over the texts. */
void vgpu_cli_find(struct vgpu_findings *f, enum vgpu_cause cause, char *what, const char *seen,
                   const char *remedy);
/* Returns the name of a cause, as in --json. */
const char *vgpu_cli_cause_name(enum vgpu_cause cause);

/* Actions of the dynamic loader (LD_DEBUG=libs), over all processes of the program. */
struct vgpu_ldlog {
    bool any;              /* a log exists: the program is dynamically linked */
    bool wanted_libcuda;   /* libcuda.so.1 was searched for */
    bool wanted_cudart;    /* a libcudart was searched for */
    char *libcuda;         /* the loaded file; NULL: none */
    char *tried[32];       /* tried files of that name, in order, NULL-terminated */
    char *found_by;        /* "LD_LIBRARY_PATH", "RUNPATH of ...", "the loader's cache", ... */
    char *cudart;          /* the libcudart file that was loaded */
    char *missing_symbol;  /* a cu* symbol that was not found */
    char *missing_library; /* an NVIDIA library not found in any version searched for */
    bool torch;            /* PyTorch's kernel library was loaded */
};
void vgpu_cli_ldlog_read(struct vgpu_ldlog *log, const char *folder);
/* True if the file is this project's libcuda. */
bool vgpu_cli_is_our_libcuda(const char *path);

/* Properties of the program from its file and the environment, before it runs. */
struct vgpu_program {
    const char *name;
    struct vgpu_cli_program file;
    bool names_cuda;          /* contains the name of libcuda or libcudart */
    char *preloaded;          /* preloaded foreign library with CUDA's driver API; NULL: none */
    const char *preloaded_by; /* LD_PRELOAD, or a file */
};
/* Reads the program's file and its preloaded libraries. */
void vgpu_cli_program_read(struct vgpu_findings *f, struct vgpu_program *p, const struct vgpu_cli_list *env,
                           const char *name);
/*
 * Returns the reason why the loader cannot load a file, to be freed; NULL: it can, or there is no
 * such file.
 */
char *vgpu_cli_library_fault(const char *path);

/* Checks device, driver, node and socket. True: at least one of the ways to a GPU may work. */
bool vgpu_cli_doctor_machine(struct vgpu_findings *f);
/* Connects to a backend's socket. Returns the descriptor, or -errno. */
int vgpu_cli_doctor_connect(const char *path);
/* Adds the backend's text about its workers, read from `fd`; older backends send none. */
void vgpu_cli_doctor_sandbox(struct vgpu_findings *f, int fd);

/* Returns the name of the export table whose UUID the text contains. */
const char *vgpu_cli_table_name(const char *why);
/* True if the text names the option of a limit of vgpu-backend. */
bool vgpu_cli_names_limit(const char *text);
/* Returns the remedy for the limit that the text names; NULL: no limit is named. */
const char *vgpu_cli_limit_remedy(const char *text);

/* The end of the program. */
struct vgpu_ending {
    bool started;
    int status;       /* wait status */
    const char *text; /* end of the program's output; never NULL */
    const struct vgpu_program *program;
};

/* Adds verdicts on the libraries that a program loaded, or needed and did not get. True: a verdict
 * was found. */
bool vgpu_cli_judge_loader(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                           const struct vgpu_ending *end);
/* Adds verdicts on a program without CUDA calls, or without failed ones. `traced`: libcuda or
 * libnvidia-ml wrote a trace; `failed`: the program did not end successfully. */
void vgpu_cli_judge_silence(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                            const struct vgpu_ending *end, bool traced, bool failed);
/* Adds the verdict on a program that could not be started: exec failed with `err`. */
void vgpu_cli_judge_exec(struct vgpu_findings *f, const struct vgpu_program *p,
                         const struct vgpu_cli_list *env, int err);

/* Reads the trace and adds verdicts, in order of importance. */
void vgpu_cli_judge(struct vgpu_findings *f, const struct vgpu_cli_events *events,
                    const struct vgpu_ldlog *log, const struct vgpu_ending *end);

#endif
