/* SPDX-License-Identifier: MIT */
/* Table of limits: a name for the option, for `vgpu ctl` and for messages about a limit reached. */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct brk_limit brk_limits[BRK_L_COUNT] = {
    [BRK_L_VRAM] = {"vram-quota", 1, UINT64_MAX, true, true},
    [BRK_L_PIN] = {"pin-quota", 1, UINT64_MAX, true, true},
    [BRK_L_BLOBS] = {"blob-quota", 1, UINT64_MAX, true, true},
    [BRK_L_CLIENTS] = {"max-clients", 1, VGPU_MAX_CLIENTS, false, false},
    [BRK_L_RATE] = {"start-rate", 1, 10000, true, false},
    [BRK_L_MEMORY] = {"client-memory", 64 << 20, UINT64_MAX, true, true},
    /* Waiters, readers, and some threads for the provider. */
    [BRK_L_THREADS] = {"client-threads", 32, 1 << 20, true, false},
    [BRK_L_STREAMS] = {"client-streams", 1, 1 << 20, true, false},
    [BRK_L_HANDLES] = {"client-handles", 64, 1 << 28, true, false},
    [BRK_L_PRINTF] = {"client-printf", 4096, UINT64_MAX, true, true},
    [BRK_L_IMAGE] = {"client-image", 4096, VGP_BLOB_MAX, true, true},
    [BRK_L_COMPILE] = {"client-compile-time", 1, 86400, true, false},
    [BRK_L_QUEUE] = {"client-queue", 64, 1 << 20, true, false},
    [BRK_L_TIME] = {"client-time-limit", 1, 86400, true, false},
    [BRK_L_WEIGHT] = {"weight", 1, BRK_WEIGHT_MAX, false, false},
    [BRK_L_CAP] = {"cap", 1, 100, true, false},
    [BRK_L_CLIENT_WEIGHT] = {"client-weight", 1, BRK_WEIGHT_MAX, false, false},
    [BRK_L_CLIENT_CAP] = {"client-cap", 1, 100, true, false},
    [BRK_L_CLIENT_PRIORITY] = {"client-priority", 0, BRK_PRIORITY_MAX, false, false},
};

bool brk_limit_is_client(enum brk_limit_id id)
{
    return (id >= BRK_L_MEMORY && id < BRK_L_WEIGHT) || (id >= BRK_L_CLIENT_WEIGHT && id < BRK_L_COUNT);
}

bool brk_limit_is_share(enum brk_limit_id id)
{
    return id >= BRK_L_WEIGHT && id < BRK_L_COUNT;
}

bool brk_parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end) {
        const char *u = strchr(units, *end);

        if (!u || end[1])
            return false;
        unsigned shift = 10 * (unsigned)(u - units + 1);
        if (n > UINT64_MAX >> shift)
            return false;
        n <<= shift;
    }
    *bytes = n;
    return true;
}

enum brk_limit_id brk_limit_find(const char *name)
{
    unsigned i = 0;

    while (i < BRK_L_COUNT && strcmp(brk_limits[i].name, name))
        i++;
    return (enum brk_limit_id)i;
}

bool brk_limit_parse(enum brk_limit_id id, const char *text, uint64_t *value, char *want)
{
    const struct brk_limit *l = &brk_limits[id];

    if (brk_parse_size(text, value) && ((l->none && !*value) || (*value >= l->low && *value <= l->high)))
        return true;
    if (l->high == UINT64_MAX)
        snprintf(want, 80, "0 for no limit, or a size from %llu on", (unsigned long long)l->low);
    else
        snprintf(want, 80, "%s%llu to %llu", l->none ? "0 for no limit, or " : "", (unsigned long long)l->low,
                 (unsigned long long)l->high);
    return false;
}

uint64_t brk_limit_of_client(const struct vgb_limits *l, enum brk_limit_id id)
{
    switch (id) {
    case BRK_L_MEMORY:
        return l->memory;
    case BRK_L_THREADS:
        return l->threads;
    case BRK_L_STREAMS:
        return l->streams;
    case BRK_L_HANDLES:
        return l->handles;
    case BRK_L_PRINTF:
        return l->printf_fifo;
    case BRK_L_IMAGE:
        return l->image;
    case BRK_L_COMPILE:
        return l->compile_s;
    case BRK_L_QUEUE:
        return l->queue;
    case BRK_L_TIME:
        return l->time_s;
    default:
        return 0;
    }
}

void brk_limit_to_client(struct vgb_limits *l, enum brk_limit_id id, uint64_t value)
{
    switch (id) {
    case BRK_L_MEMORY:
        l->memory = value;
        break;
    case BRK_L_THREADS:
        l->threads = (uint32_t)value;
        break;
    case BRK_L_STREAMS:
        l->streams = (uint32_t)value;
        break;
    case BRK_L_HANDLES:
        l->handles = (uint32_t)value;
        break;
    case BRK_L_PRINTF:
        l->printf_fifo = value;
        break;
    case BRK_L_IMAGE:
        l->image = value;
        break;
    case BRK_L_COMPILE:
        l->compile_s = (uint32_t)value;
        break;
    case BRK_L_QUEUE:
        l->queue = (uint32_t)value;
        break;
    case BRK_L_TIME:
        l->time_s = (uint32_t)value;
        break;
    default:
        break;
    }
}

uint64_t brk_limit_get(const struct brk_options *o, enum brk_limit_id id)
{
    switch (id) {
    case BRK_L_VRAM:
        return o->vram_quota;
    case BRK_L_PIN:
        return o->pin_quota;
    case BRK_L_BLOBS:
        return o->blob_quota;
    case BRK_L_CLIENTS:
        return o->max_clients;
    case BRK_L_RATE:
        return o->start_rate;
    case BRK_L_WEIGHT:
        return o->weight;
    case BRK_L_CAP:
        return o->cap;
    case BRK_L_CLIENT_WEIGHT:
        return o->client_weight;
    case BRK_L_CLIENT_CAP:
        return o->client_cap;
    case BRK_L_CLIENT_PRIORITY:
        return o->client_priority;
    default:
        return brk_limit_of_client(&o->limits, id);
    }
}

void brk_limit_put(struct brk_options *o, enum brk_limit_id id, uint64_t value)
{
    switch (id) {
    case BRK_L_VRAM:
        o->vram_quota = value;
        break;
    case BRK_L_PIN:
        o->pin_quota = value;
        break;
    case BRK_L_BLOBS:
        o->blob_quota = o->limits.blobs = value;
        break;
    case BRK_L_CLIENTS:
        o->max_clients = (uint32_t)value;
        break;
    case BRK_L_RATE:
        o->start_rate = (unsigned)value;
        break;
    case BRK_L_WEIGHT:
        o->weight = (uint32_t)value;
        break;
    case BRK_L_CAP:
        o->cap = (uint32_t)value;
        break;
    case BRK_L_CLIENT_WEIGHT:
        o->client_weight = (uint32_t)value;
        break;
    case BRK_L_CLIENT_CAP:
        o->client_cap = (uint32_t)value;
        break;
    case BRK_L_CLIENT_PRIORITY:
        o->client_priority = (uint32_t)value;
        break;
    default:
        brk_limit_to_client(&o->limits, id, value);
        break;
    }
}
