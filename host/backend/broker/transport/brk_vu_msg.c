/* SPDX-License-Identifier: MIT */
/* The valid forms of each vhost-user message, as a table instead of code in the handlers. */
#include "vu.h"

static const struct row {
    const char *name;
    uint16_t min, max; /* payload bytes */
    uint8_t fds_min, fds_max;
} rows[] = {
    [BRK_VU_GET_FEATURES] = {"GET_FEATURES", 0, 0, 0, 0},
    [BRK_VU_SET_FEATURES] = {"SET_FEATURES", 8, 8, 0, 0},
    [BRK_VU_SET_OWNER] = {"SET_OWNER", 0, 0, 0, 0},
    [BRK_VU_RESET_OWNER] = {"RESET_OWNER", 0, 0, 0, 0},
    [BRK_VU_SET_MEM_TABLE] = {"SET_MEM_TABLE", 8, sizeof(struct brk_vu_payload_mem), 0, BRK_VU_REGIONS},
    [BRK_VU_SET_VRING_NUM] = {"SET_VRING_NUM", 8, 8, 0, 0},
    [BRK_VU_SET_VRING_ADDR] = {"SET_VRING_ADDR", 40, 40, 0, 0},
    [BRK_VU_SET_VRING_BASE] = {"SET_VRING_BASE", 8, 8, 0, 0},
    [BRK_VU_GET_VRING_BASE] = {"GET_VRING_BASE", 8, 8, 0, 0},
    [BRK_VU_SET_VRING_KICK] = {"SET_VRING_KICK", 8, 8, 0, 1},
    [BRK_VU_SET_VRING_CALL] = {"SET_VRING_CALL", 8, 8, 0, 1},
    [BRK_VU_SET_VRING_ERR] = {"SET_VRING_ERR", 8, 8, 0, 1},
    [BRK_VU_GET_PROTOCOL_FEATURES] = {"GET_PROTOCOL_FEATURES", 0, 0, 0, 0},
    [BRK_VU_SET_PROTOCOL_FEATURES] = {"SET_PROTOCOL_FEATURES", 8, 8, 0, 0},
    [BRK_VU_GET_QUEUE_NUM] = {"GET_QUEUE_NUM", 0, 0, 0, 0},
    [BRK_VU_SET_VRING_ENABLE] = {"SET_VRING_ENABLE", 8, 8, 0, 0},
    [BRK_VU_SET_BACKEND_REQ_FD] = {"SET_BACKEND_REQ_FD", 0, 0, 1, 1},
    [BRK_VU_GET_CONFIG] = {"GET_CONFIG", 12, sizeof(struct brk_vu_payload_config), 0, 0},
    [BRK_VU_SET_CONFIG] = {"SET_CONFIG", 12, sizeof(struct brk_vu_payload_config), 0, 0},
    [BRK_VU_GET_SHMEM_CONFIG] = {"GET_SHMEM_CONFIG", 0, 0, 0, 0},
};

_Static_assert(sizeof(struct brk_vu_header) == 12, "vhost-user header");
_Static_assert(sizeof(struct brk_vu_payload_mem) == 8 + 32 * BRK_VU_REGIONS, "memory table");
_Static_assert(sizeof(struct brk_vu_payload_addr) == 40, "ring addresses");
_Static_assert(sizeof(struct brk_vu_payload_shmem) == 8 + 8 * BRK_VU_SHMEM_REGIONS, "sizes of regions");
_Static_assert(sizeof(struct brk_vu_payload_mmap) == 40, "mapping of a region");

static const struct row *row_of(uint32_t request)
{
    if (request >= sizeof(rows) / sizeof(rows[0]) || !rows[request].name)
        return NULL;
    return &rows[request];
}

const char *brk_vu_request_name(uint32_t request)
{
    const struct row *r = row_of(request);

    return r ? r->name : "unknown request";
}

const char *brk_vu_header_check(const struct brk_vu_header *h, unsigned nfds)
{
    const struct row *r = row_of(h->request);

    if (!r)
        return "unknown request";
    if ((h->flags & 3) != BRK_VU_VERSION)
        return "unknown protocol version";
    if (h->flags & BRK_VU_FLAG_REPLY || h->flags & ~(3u | BRK_VU_FLAG_NEED_REPLY))
        return "flags that a request cannot have";
    if (h->size < r->min || h->size > r->max)
        return "payload size out of range";
    if (nfds < r->fds_min || nfds > r->fds_max)
        return "number of descriptors out of range";
    return NULL;
}

const char *brk_vu_payload_check(const struct brk_vu_header *h, const union brk_vu_payload *p, unsigned nfds)
{
    switch (h->request) {
    case BRK_VU_SET_MEM_TABLE:
        if (p->mem.nregions > BRK_VU_REGIONS || p->mem.nregions != nfds)
            return "as many regions as descriptors are needed";
        if (h->size < 8 + p->mem.nregions * sizeof(struct brk_vu_region))
            return "memory table shorter than its regions";
        return NULL;
    case BRK_VU_SET_VRING_KICK:
    case BRK_VU_SET_VRING_CALL:
    case BRK_VU_SET_VRING_ERR:
        if (p->u64 & ~(uint64_t)(BRK_VU_NOFD | 0xff))
            return "bits that are not defined";
        return !!(p->u64 & BRK_VU_NOFD) == !nfds ? NULL : "descriptor missing or too many";
    case BRK_VU_GET_CONFIG:
    case BRK_VU_SET_CONFIG:
        if (!vgp_range_ok(p->config.offset, p->config.size, sizeof(struct vgpu_config)))
            return "range is outside the configuration";
        if (h->size != 12 + p->config.size)
            return "configuration payload of another size";
        return NULL;
    default:
        return NULL;
    }
}
