/* SPDX-License-Identifier: MIT */
/* Status reports of this host's backends (host/backend/broker/clients/brk_status.c). */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/* Usage of a client, or of all clients of a backend, since its start. */
struct smi_use {
    unsigned long long calls, waits, errors; /* number of records: all, with a reply, failed */
    unsigned long long copied;               /* bytes copied */
    unsigned long long cpu_ms, throttled_ms;
};

struct smi_client {
    long worker;
    unsigned guest;            /* process id in the guest */
    unsigned long long memory; /* bytes */
    char name[128];
    bool paced; /* weight and cap are in effect */
    unsigned weight, cap;
    struct smi_use use;
    int percent; /* percent of a processor since the last reading; -1: unknown */
};

#define SMI_LIMITS_MAX 32
/* Maximum of --max-clients. A compromised backend may report more: each client costs the reader
 * time and memory, and is a series of its own in a metrics store. */
#define SMI_CLIENTS_MAX 256u
struct smi_backend {
    long pid;
    char where[512]; /* socket */
    char name[256];  /* name of the virtual machine, else of its socket */
    bool named;      /* the machine has a name of its own */
    char device[256];
    struct smi_use use;
    unsigned long long now_ms, gpu_memory, vram_used, pin_used, blob_used, paced, soft;
    unsigned long long pool_ready, pool_target, pool_misses;
    unsigned long long image_kept, image_hits, image_hit_bytes, image_refused;
    unsigned long long clients_started, clients_refused, memory_refused, workers_lost;
    struct {
        char name[40];
        unsigned long long value;
    } limits[SMI_LIMITS_MAX];
    unsigned nlimits;
    struct smi_client *clients;
    size_t nclients;
    int percent;
};

/* A backend that does not answer: stopped, or waiting for a device. */
struct smi_mute {
    long pid;       /* 0: unknown, its queue is full */
    char name[256]; /* empty: unknown */
    char where[512];
};

#define SMI_REFUSED_MAX 16u
#define SMI_MUTES_MAX 64u
struct smi_status {
    struct smi_backend *backends;
    size_t count;
    struct smi_mute *mutes;
    unsigned nmutes;
    unsigned silent;  /* backends of other users */
    unsigned refused; /* number of rejected sockets; name and reason of the first */
    char refusals[SMI_REFUSED_MAX][200];
};

/* Queries all backends of this host; a malformed report is skipped. `before`: an earlier reading,
 * for the percentages, or NULL. Free with smi_status_free(). */
void smi_status_read(struct smi_status *s, const struct smi_status *before);
void smi_status_free(struct smi_status *s);
/* Returns the name for display and labels: "-" if nothing is known. */
const char *smi_mute_name(const struct smi_mute *m);
/* Returns a limit by its option's name; 0: unlimited, or no such limit. */
unsigned long long smi_status_limit(const struct smi_backend *b, const char *name);
/* Returns the device memory available to the backend's clients, bytes: the quota, else the
 * device's. 0: unknown. */
unsigned long long smi_status_memory(const struct smi_backend *b);
/*
 * Returns the device memory in use as reported by clients, bytes; unverified, saturates at
 * ULLONG_MAX.
 */
unsigned long long smi_status_used(const struct smi_backend *b);

#endif
