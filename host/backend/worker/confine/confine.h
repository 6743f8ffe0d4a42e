/* SPDX-License-Identifier: MIT */
/*
 * What a worker gives up. First wrk_sandbox_begin(), with one thread, before the provider is loaded:
 * everything that binds the calling thread only, so that each thread that comes later inherits it.
 * Then, before the first guest byte, wrk_sandbox_narrow(): the filter of the provider that was found.
 */
#ifndef WRK_CONFINE_H
#define WRK_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* policies/worker-*.seccomp, made into C by the Makefile. */
extern const char wrk_policy_soft[];
extern const char wrk_policy_nvidia[];
extern const char wrk_policy_mps[]; /* worker-nvidia.seccomp, and connections to MPS */

enum wrk_sandbox_mode {
    WRK_SANDBOX_ENFORCE, /* all layers that the host allows; refused without the mandatory ones */
    WRK_SANDBOX_LOG,     /* calls that the filter would refuse are logged and made; no Landlock */
    WRK_SANDBOX_OFF,
};
/* "enforce", "log" or "off" into *mode; false: none of them. */
bool wrk_sandbox_mode_parse(const char *text, enum wrk_sandbox_mode *mode);

#define WRK_LAYERS_TEXT 240

struct wrk_sandbox {
    enum wrk_sandbox_mode mode;
    const char *provider; /* path or name of the library; wrk_sandbox_begin() may replace it */
    const char *shm;      /* /proc/self/fd/N: what /dev/shm is where a mount namespace can be had; or NULL */
    const char *cache;    /* folder that the provider may write to, or NULL */
    const char *mps;      /* folder with the sockets of MPS, which may be connected to, or NULL */
    int sock;             /* to the broker, 0: none, and no mapper */
    pid_t broker;         /* workers of a root broker get a user id that is made from this number */
    bool has_shm;         /* out: /dev/shm is private */
    bool own_net;         /* out: a network namespace of its own */
    char layers[WRK_LAYERS_TEXT]; /* out: what is in force, for people */
    char own_path[32];
};

/* 0, or -1 with a sentence in err. */
int wrk_sandbox_begin(struct wrk_sandbox *s, char *err, size_t err_size);
int wrk_sandbox_narrow(struct wrk_sandbox *s, bool soft, char *err, size_t err_size);

/*
 * Installs the filter that `policy` describes, for all threads. `starting`: further filters may
 * follow (and nothing else is added to what the policy allows). 0, or -1 with a sentence in err.
 */
int wrk_sandbox_filter(const char *policy, bool starting, char *err, size_t err_size);
/* The same, but what the policy refuses is logged by name and made. Later threads only. */
int wrk_sandbox_filter_log(const char *policy, char *err, size_t err_size);

/* ---- confine.c: user id, namespaces, capabilities ---- */

/* Adds a word to the list of layers. */
void wrk_layer_add(struct wrk_sandbox *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* User id, namespaces; takes what it can get. True: the files that are seen are a private view. */
bool wrk_confine(struct wrk_sandbox *s);
/* No capabilities, not dumpable, no new privileges, for good. */
int wrk_confine_rights(struct wrk_sandbox *s, char *err, size_t err_size);

/* ---- mapper.c ---- */

/*
 * Starts the mapper: a process that shares this one's memory and not its descriptors, whose every call of mmap(2) the
 * broker decides. It tells the broker itself (VGB_M_MAPPER). 0; 1: this host has none to give, a few words in err;
 * -1: it could not be started, a sentence in err.
 */
int wrk_mapper_start(int sock, pid_t broker, char *err, size_t err_size);

/* ---- landlock.c ---- */

/* The version of Landlock that binds this thread from now on, 0: this kernel has none. */
int wrk_landlock_enter(const struct wrk_sandbox *s);
/* Calls fn for each path that a worker may use, with what may be done there; see landlock.c. */
enum wrk_access { WRK_READ, WRK_DEVICE, WRK_WRITE };
void wrk_sandbox_paths(const struct wrk_sandbox *s,
                       void (*fn)(void *arg, const char *path, enum wrk_access access), void *arg);

/* ---- hmm.c ---- */

/* Devices whose kernels reach all memory of this process are served. Before the provider starts. */
void wrk_hmm_allow(void);
/* 0, or -1 with a sentence: there is such a device, and it is not allowed. */
int wrk_hmm_check(char *err, size_t err_size);

#endif
