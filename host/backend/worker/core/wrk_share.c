/* SPDX-License-Identifier: MIT */
/*
 * Objects shared with other workers of this VM. The broker creates the memory and issues the
 * tokens; a provider with support for it (the software GPU) requests them through sg_share_ops.
 * Providers with their own handles (NVIDIA's driver) do not use this: the broker stores the bytes
 * of their handles.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vgb_fd.h"
#include <linux/types.h>

#include "vgpu_device.h"

struct dropped {
    VGB_OWNED struct dropped *next;
    uint8_t token[VGB_TOKEN];
};

/* The channel to the broker belongs to the dispatcher: drops by other threads are queued here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dropped *dropped;
static uint8_t latest[VGB_TOKEN];
static bool made_one; /* dispatcher only, as `latest` */

/* Requests memory from the broker; a descriptor, -1: refused, -2: no memory. */
static int share_ask(struct wrk_worker *w, struct vgb_msg *m)
{
    /* The provider shares objects in calls made by the dispatcher; requests from other threads
     * fail. */
    if (!pthread_equal(pthread_self(), w->quota.dispatcher))
        return -2;
    wrk_share_flush(w); /* drops may make room */
    int fd = wrk_control_share(w, m);

    if (m->status == VGPU_S_OK)
        return fd;
    vgb_close(&fd);
    return m->status == VGPU_S_INVALID ? -1 : -2;
}

static int op_create(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_NEW, .flags = kind, .length = bytes};
    int fd;

    if (kind < VGB_SHARE_MEMORY || kind > VGB_SHARE_EVENT)
        return -1;
    fd = share_ask(arg, &m);
    if (fd < 0)
        return -1;
    memcpy(token, m.share.token, VGB_TOKEN);
    memcpy(latest, m.share.token, VGB_TOKEN);
    made_one = true;
    *holder = (uint32_t)m.value;
    return fd;
}

static int op_open(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_OPEN, .flags = kind};
    int fd;

    if (kind < VGB_SHARE_MEMORY || kind > VGB_SHARE_EVENT)
        return -1;
    memcpy(m.share.token, token, VGB_TOKEN);
    fd = share_ask(arg, &m);
    if (fd >= 0)
        *holder = (uint32_t)m.value;
    return fd;
}

static void op_close(void *arg, const uint8_t *token)
{
    wrk_share_drop(arg, token);
}

void wrk_share_init(struct wrk_worker *w)
{
    static const struct sg_share_ops ops = {op_create, op_open, op_close, NULL, NULL};

    if (wrk_provider.sg_set_share)
        wrk_provider.sg_set_share(&ops, w);
}

void wrk_share_holder_gone(void)
{
    if (wrk_provider.sg_share_holder_gone)
        wrk_provider.sg_share_holder_gone();
}

uint32_t wrk_share_handle_types(void)
{
    return wrk_provider.sg_set_share ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
}

bool wrk_share_latest(uint8_t *token)
{
    memcpy(token, latest, VGB_TOKEN);
    return made_one;
}

void wrk_share_forget(void)
{
    made_one = false;
}

int wrk_share_open(struct wrk_worker *w, const uint8_t *token, uint64_t *length)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_OPEN, .flags = VGB_SHARE_FD};
    int fd;

    memcpy(m.share.token, token, VGB_TOKEN);
    fd = share_ask(w, &m);
    *length = m.length;
    return fd;
}

void wrk_share_drop(struct wrk_worker *w, const uint8_t *token)
{
    if (pthread_equal(pthread_self(), w->quota.dispatcher)) {
        wrk_control_drop(w, token);
        return;
    }
    struct dropped *d = malloc(sizeof(*d));

    if (!d)
        return; /* kept until this worker ends */
    memcpy(d->token, token, VGB_TOKEN);
    pthread_mutex_lock(&lock);
    d->next = dropped;
    dropped = d;
    pthread_mutex_unlock(&lock);
    vgb_eventfd_signal(w->doorbell);
}

bool wrk_share_pending(void)
{
    pthread_mutex_lock(&lock);
    bool pending = dropped != NULL;

    pthread_mutex_unlock(&lock);
    return pending;
}

void wrk_share_flush(struct wrk_worker *w)
{
    pthread_mutex_lock(&lock);
    struct dropped *list = dropped;

    dropped = NULL;
    pthread_mutex_unlock(&lock);
    while (list) {
        struct dropped *d = list;

        list = d->next;
        wrk_control_drop(w, d->token);
        free(d);
    }
}

CUresult wrk_share_put(struct wrk_worker *w, const void *payload, uint64_t device_bytes, uint8_t *token)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_NEW, .flags = VGB_SHARE_PAYLOAD, .length = device_bytes};

    memcpy(m.share.payload, payload, VGB_PAYLOAD);
    share_ask(w, &m);
    if (m.status != VGPU_S_OK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(token, m.share.token, VGB_TOKEN);
    return CUDA_SUCCESS;
}

CUresult wrk_share_get(struct wrk_worker *w, const uint8_t *token, void *payload)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_OPEN, .flags = VGB_SHARE_PAYLOAD};

    memcpy(m.share.token, token, VGB_TOKEN);
    share_ask(w, &m);
    if (m.status != VGPU_S_OK)
        return m.status == VGPU_S_INVALID ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_MAP_FAILED;
    memcpy(payload, m.share.payload, VGB_PAYLOAD);
    return CUDA_SUCCESS;
}
