/* SPDX-License-Identifier: MIT */
/* What the backends of this host say of themselves (host/backend/broker/clients/status.c). */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/* What a client, or all of a backend's, have used since it began. */
struct smi_use {
    unsigned long long calls, waits, errors; /* records: all, with a reply, failed */
    unsigned long long copied;               /* bytes */
    unsigned long long cpu_ms, throttled_ms;
};

struct smi_client {
    long worker;
    unsigned guest;            /* pid in the guest */
    unsigned long long memory; /* bytes */
    char name[128];
    bool paced; /* weight and cap hold */
    unsigned weight, cap;
    struct smi_use use;
    int percent; /* of one processor since the last reading; -1: unknown */
};

#define SMI_LIMITS_MAX 32
struct smi_backend {
    long pid;
    char where[512]; /* its socket */
    char name[256];  /* of the virtual machine */
    char device[256];
    struct smi_use use;
    unsigned long long now_ms, gpu_memory, vram_used, pin_used, blob_used, paced, soft;
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

#define SMI_REFUSED_MAX 16u
struct smi_status {
    struct smi_backend *backends;
    size_t count;
    unsigned silent;  /* backends of other users */
    unsigned refused; /* sockets that are not believed; of the first ones the name and why */
    char refusals[SMI_REFUSED_MAX][200];
};

/* Asks every backend of this host; a text that is not understood is passed over. `before`: an earlier reading, for the
 * percentages, or NULL. To be freed by smi_status_free(). */
void smi_status_read(struct smi_status *s, const struct smi_status *before);
void smi_status_free(struct smi_status *s);
/* A limit by the name of its option; 0: none, or no such limit. */
unsigned long long smi_status_limit(const struct smi_backend *b, const char *name);
/* The device memory that the backend's clients may have: the quota, else the device's. Bytes, 0: unknown. */
unsigned long long smi_status_memory(const struct smi_backend *b);
/* What the clients say that they have of it, which may be anything: at most ULLONG_MAX. */
unsigned long long smi_status_used(const struct smi_backend *b);

#endif
