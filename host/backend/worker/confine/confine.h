/* SPDX-License-Identifier: MIT */
/*
 * Sandbox of a worker, entered in two steps. wrk_sandbox_begin(), single-threaded and before the
 * provider is loaded, applies everything that binds only the calling thread and is inherited by
 * later threads. wrk_sandbox_narrow(), before the first guest byte, installs the filter for the
 * provider that was found.
 */
#ifndef WRK_CONFINE_H
#define WRK_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* policies/worker-*.seccomp, converted to C by the Makefile. */
extern const char wrk_policy_soft[];
extern const char wrk_policy_nvidia[];
extern const char wrk_policy_nvidia_start[]; /* the same plus what cuInit needs, until a client is served */
extern const char wrk_policy_mps[];          /* worker-nvidia.seccomp plus connections to MPS */
extern const char wrk_policy_mps_start[];

enum wrk_sandbox_mode {
    WRK_SANDBOX_ENFORCE, /* all layers the host supports; fails without the mandatory ones */
    WRK_SANDBOX_LOG,     /* system calls the filter would refuse are logged and made; no Landlock */
    WRK_SANDBOX_OFF,
};
/* Parses "enforce", "log" or "off" into *mode; false for any other text. */
bool wrk_sandbox_mode_parse(const char *text, enum wrk_sandbox_mode *mode);

#define WRK_LAYERS_TEXT 240

struct wrk_sandbox {
    enum wrk_sandbox_mode mode;
    /* path or name of the library; may be replaced by wrk_sandbox_begin() */
    const char *provider;
    /* /proc/self/fd/N of the folder mounted as /dev/shm in a mount namespace; or NULL */
    const char *shm;
    const char *cache; /* folder writable by the provider, or NULL */
    const char *mps;   /* folder with MPS sockets that may be connected to, or NULL */
    int sock;          /* socket to the broker, 0: none, and no mapper */
    /* the user id of a root broker's workers is derived from this pid */
    pid_t broker;
    bool has_shm;                 /* out: /dev/shm is private */
    bool own_net;                 /* out: has its own network namespace */
    char layers[WRK_LAYERS_TEXT]; /* out: layers in force, as text */
    char own_path[32];
};

/* 0, or -1 with a message in err. */
int wrk_sandbox_begin(struct wrk_sandbox *s, char *err, size_t err_size);
int wrk_sandbox_narrow(struct wrk_sandbox *s, bool soft, char *err, size_t err_size);

/* Installs the filter described by `policy` for all threads. `starting`: further filters may follow
 * (this adds nothing else to the policy). 0, or -1 with a message in err. */
int wrk_sandbox_filter(const char *policy, bool starting, char *err, size_t err_size);
/* The same, except that refused calls are logged by name and made. Later threads only. */
int wrk_sandbox_filter_log(const char *policy, char *err, size_t err_size);

/* ---- wrk_confine.c: user id, namespaces, capabilities ---- */

/* Appends a word to the list of layers. */
void wrk_layer_add(struct wrk_sandbox *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets user id and namespaces as far as the host allows. True: the process has a private view of
 * the file system. */
bool wrk_confine(struct wrk_sandbox *s);
/* Permanently drops capabilities, dumpability and the right to gain privileges. */
int wrk_confine_rights(struct wrk_sandbox *s, char *err, size_t err_size);

/* ---- wrk_mapper.c ---- */

/*
 * Starts the mapper: a process that shares this process's memory but not its descriptors, and whose
 * every mmap(2) call is decided by the broker. Announces it to the broker (VGB_M_MAPPER). 0; 1: not
 * supported by this host, with a short reason in err; -1: failed to start, with a message in err.
 */
int wrk_mapper_start(int sock, pid_t broker, char *err, size_t err_size);

/* ---- wrk_landlock.c ---- */

/* Enters Landlock on this thread. Returns its version, 0: not supported by this kernel. */
int wrk_landlock_enter(const struct wrk_sandbox *s);
/* Calls fn for each path that a worker may use, with the access allowed; see wrk_landlock.c. */
enum wrk_access { WRK_READ, WRK_DEVICE, WRK_WRITE };
void wrk_sandbox_paths(const struct wrk_sandbox *s,
                       void (*fn)(void *arg, const char *path, enum wrk_access access), void *arg);

/* ---- wrk_hmm.c ---- */

/* Allows devices whose kernels can reach all memory of this process. To be called before the
 * provider starts. */
void wrk_hmm_allow(void);
/* 0, or -1 with a message: such a device exists and is not allowed. */
int wrk_hmm_check(char *err, size_t err_size);

#endif
