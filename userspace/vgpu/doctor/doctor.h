/* SPDX-License-Identifier: MIT */
/* vgpu doctor: what its parts find out, and what they make of it. */
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
    VGPU_CAUSE_PERMISSION = 12,    /* of the node or the socket */
    VGPU_CAUSE_NO_BACKEND = 13,    /* the socket has nobody behind it */
    VGPU_CAUSE_CONNECT = 14,       /* it is there, but does not serve */
    VGPU_CAUSE_MISMATCH = 15,      /* our parts are of different versions */
    VGPU_CAUSE_NO_NODE = 16,       /* the driver has a device, this /dev has not its node */
    VGPU_CAUSE_NO_LIBCUDA = 20,    /* the loader finds no libcuda.so.1 */
    VGPU_CAUSE_OTHER_LIBCUDA = 21, /* it finds another one than ours */
    VGPU_CAUSE_NO_CUDA = 22,       /* the program never asked for it */
    VGPU_CAUSE_LIBRARY = 23,       /* another library of the program is missing */
    VGPU_CAUSE_STATIC = 24,        /* the program is linked statically: it loads no library */
    VGPU_CAUSE_MACHINE = 25,       /* it is for another processor, or a 32-bit program */
    VGPU_CAUSE_C_LIBRARY = 26,     /* its C library is not glibc, or an older one than it needs */
    VGPU_CAUSE_RIGHTS = 27,        /* set-id bits or capabilities: the loader ignores the environment */
    VGPU_CAUSE_VERSION = 30,       /* the driver version is too old for the runtime */
    VGPU_CAUSE_SYMBOL = 31,        /* an entry point that is needed is not there */
    VGPU_CAUSE_TABLE = 32,         /* an export table was refused */
    VGPU_CAUSE_TABLE_EMPTY = 33,   /* the program died while its runtime started */
    VGPU_CAUSE_QUERY = 34,         /* a call of the runtime's start failed */
    VGPU_CAUSE_VALIDITY = 35,      /* NVIDIA's validity check */
    VGPU_CAUSE_NO_DEVICES = 36,    /* cuDeviceGetCount said 0 */
    VGPU_CAUSE_IMAGE = 40,         /* no code in it that this GPU can execute */
    VGPU_CAUSE_PTX = 41,           /* PTX that is too new, or wrong */
    VGPU_CAUSE_REFUSED = 42,       /* a call that is not served */
    VGPU_CAUSE_MEMORY = 43,        /* out of device memory */
    VGPU_CAUSE_KERNEL = 44,        /* the program's own kernel failed */
    VGPU_CAUSE_WORKER = 45,        /* the worker on the host ended */
    VGPU_CAUSE_CALL = 46,          /* another call failed */
    VGPU_CAUSE_PINNED = 47,        /* the driver's pin_limit_mib, in a VM */
    VGPU_CAUSE_PROGRAM = 50,       /* the program failed, CUDA did not */
    VGPU_CAUSE_NOT_STARTED = 51,   /* the program could not be started */
    VGPU_CAUSE_NO_TEMP = 52,       /* no folder for temporary files may be written to */
    VGPU_CAUSE_LAST = VGPU_CAUSE_NO_TEMP,
};

struct vgpu_finding {
    enum vgpu_cause cause; /* NONE: worth knowing, nothing wrong */
    char *what;            /* one sentence */
    char *seen;            /* the evidence; NULL: none */
    char *remedy;          /* what to do; NULL: nothing */
};

struct vgpu_findings {
    struct vgpu_finding list[64];
    size_t count;
};

/* Adds a finding; the texts are kept. */
void vgpu_cli_find(struct vgpu_findings *f, enum vgpu_cause cause, char *what, const char *seen,
                   const char *remedy);
/* The word for a cause, as --json has it. */
const char *vgpu_cli_cause_name(enum vgpu_cause cause);

/* What the dynamic loader did (LD_DEBUG=libs), over all processes of the program. */
struct vgpu_ldlog {
    bool any;            /* there was a log: the program is dynamically linked */
    bool wanted_libcuda; /* libcuda.so.1 was looked for */
    bool wanted_cudart;  /* so was a libcudart */
    char *libcuda;       /* the file that was loaded, NULL = none */
    char *tried[32]; /* files of that name that the loader looked at, in its order; NULL behind the last */
    char *found_by;  /* how: "LD_LIBRARY_PATH", "RUNPATH of ...", "the loader's cache", ... */
    char *cudart;    /* file of a libcudart that was loaded */
    char *missing_symbol;  /* a cu* symbol that was looked up and is nowhere */
    char *missing_library; /* one of NVIDIA's libraries that was looked for, and none of that name loaded */
};
void vgpu_cli_ldlog_read(struct vgpu_ldlog *log, const char *folder);
/* True if the file is our libcuda. */
bool vgpu_cli_is_our_libcuda(const char *path);

/* The program, as its file and the environment show it before it runs. */
struct vgpu_program {
    const char *name;
    struct vgpu_cli_program file;
    bool names_cuda; /* the name of libcuda or libcudart is somewhere in it */
    char *preloaded; /* a library that is put in front and brings CUDA's driver API, not ours; NULL: none */
    const char *preloaded_by; /* LD_PRELOAD, or a file */
};
/* Reads the program's file and what is preloaded into it. */
void vgpu_cli_program_read(struct vgpu_findings *f, struct vgpu_program *p, const struct vgpu_cli_list *env,
                           const char *name);
/* Why the loader cannot load a file, to be freed; NULL: it can, or there is none of that name. */
char *vgpu_cli_library_fault(const char *path);

/* What is wrong with device, driver, node and socket; true: something may work. */
bool vgpu_cli_doctor_machine(struct vgpu_findings *f);
/* A connection to a backend's socket, or -errno. */
int vgpu_cli_doctor_connect(const char *path);
/* What the backend at the other end says of its workers; older ones say nothing. */
void vgpu_cli_doctor_sandbox(struct vgpu_findings *f, int fd);

/* What the program's end looked like. */
struct vgpu_ending {
    bool started;
    int status;       /* wait status */
    const char *text; /* the end of its output; never NULL */
    const struct vgpu_program *program;
};

/* Verdicts on the libraries that a program loaded, or that it needs and did not get; true: one was found. */
bool vgpu_cli_judge_loader(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                           const struct vgpu_ending *end);
/* Why a program made no call of CUDA, or none that failed. `traced`: libcuda or libnvidia-ml wrote a trace;
   `failed`: the program did not end well. */
void vgpu_cli_judge_silence(struct vgpu_findings *f, const struct vgpu_ldlog *log,
                            const struct vgpu_ending *end, bool traced, bool failed);
/* The program could not be started: exec gave `err`. */
void vgpu_cli_judge_exec(struct vgpu_findings *f, const struct vgpu_program *p,
                         const struct vgpu_cli_list *env, int err);

/* Reads the trace and draws conclusions, in order of importance. */
void vgpu_cli_judge(struct vgpu_findings *f, const struct vgpu_cli_events *events,
                    const struct vgpu_ldlog *log, const struct vgpu_ending *end);

#endif
