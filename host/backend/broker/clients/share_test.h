/* SPDX-License-Identifier: MIT */
/* What workers ask of the broker about objects that they share, and its answers. */
#ifndef BRK_SHARE_TEST_H
#define BRK_SHARE_TEST_H

#include "worker_test.h"
#include "vgb_fd.h"

static inline void start(struct worker *w, const struct brk_client_ops *vm, uint64_t vram)
{
    worker_open(w, vm);
    w->client.vram = vram;
    assert_true(brk_quota_move(&brk_vram, 0, vram));
}

/* As the broker does when a worker has ended. */
static inline void end(struct worker *w)
{
    brk_share_client_gone(&w->client);
    assert_int_equal(w->client.nshares, 0);
    assert_int_equal(w->client.nshare_fds, 0);
    assert_int_equal(w->client.nholds, 0);
    assert_int_equal(w->client.shared_bytes, 0);
    brk_quota_move(&brk_vram, w->client.vram, 0);
    worker_close(w);
}

/* Status of the answer; *fd: what came with it, -1: nothing. */
static inline uint32_t ask(struct worker *w, struct vgb_msg *m, int *fd)
{
    unsigned n = 1;

    assert_true(brk_share_message(&w->client, m));
    *fd = -1;
    assert_int_equal(vgb_msg_recv(w->sock, m, fd, &n, MSG_DONTWAIT), 1);
    assert_int_equal(m->type, VGB_M_SHARED);
    return m->status;
}

static inline uint32_t make(struct worker *w, uint32_t kind, uint64_t length, uint8_t *token, int *fd)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_NEW, .flags = kind, .length = length};
    uint32_t status;

    memset(m.share.payload, 0x5a, sizeof(m.share.payload));
    status = ask(w, &m, fd);
    memcpy(token, m.share.token, VGB_TOKEN);
    return status;
}

static inline uint32_t open_it(struct worker *w, uint32_t kind, const uint8_t *token, int *fd)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_OPEN, .flags = kind};

    memcpy(m.share.token, token, VGB_TOKEN);
    return ask(w, &m, fd);
}

static inline bool drop(struct worker *w, const uint8_t *token)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_DROP};

    memcpy(m.share.token, token, VGB_TOKEN);
    if (!brk_share_message(&w->client, &m))
        return false;
    /* The maker of the memory answers its program only after the broker has forgotten the token. */
    struct vgb_msg a;
    unsigned n = 0;

    assert_int_equal(vgb_msg_recv(w->sock, &a, NULL, &n, MSG_DONTWAIT), 1);
    assert_int_equal(a.type, VGB_M_SHARED);
    assert_int_equal(a.status, VGPU_S_OK);
    return true;
}

#endif
