/* SPDX-License-Identifier: MIT */
/*
 * Objects created by a worker that other workers of the same VM (or host session) may open: memory
 * and events shared by guest processes. The broker issues tokens of 256 random bits and creates the
 * memory itself, sealed in length. It thus accepts no descriptor from a worker, and a worker that
 * opens an object knows its kind.
 *
 * Quota: the creator has reserved the bytes before. A worker that reserves less afterwards stays
 * charged for what it shares (brk_share_charge()). When it drops the object while other clients hold
 * the memory, the bytes are charged here until the last holder has gone.
 *
 * A compromised worker can keep the descriptor of an object that nobody holds any more. The pages
 * that it fills there are no memory of the broker's: they count, like all others that it fills
 * without asking, in its control group.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgb_fd.h"

#define MADE_MAX 1024u  /* objects created by a client and not dropped */
#define HOLDS_MAX 4096u /* objects of other clients that it has opened */
#define TOTAL_MAX 8192u /* objects of all clients */
#define BYTES_MAX (UINT64_C(1) << 46)
/* Maximum that the provider may add to the reserved bytes: rounding to a page, and an internal
 * page. */
#define ROUNDING (2 * (uint64_t)VGP_PAGE)

struct hold {
    struct hold *next;
    struct brk_client *client;
    unsigned count;
};

struct share {
    struct share *next;
    struct vgb_share_words words;
    enum vgb_share_kind kind;
    uint64_t length;
    uint64_t charged; /* bytes charged here */
    int fd;           /* -1: PAYLOAD */
    /* transport of the creator: the VM or the host's programs */
    const struct brk_client_ops *domain;
    struct brk_client *maker; /* NULL: dropped it, or gone */
    struct hold *holds;
};

static struct share *shares;
static unsigned nshares, nfds; /* nfds: those with a descriptor */
static uint32_t last_holder;

unsigned brk_share_count(void)
{
    return nshares;
}

static uint64_t beyond_rounding(const struct share *s)
{
    return s->length > ROUNDING ? s->length - ROUNDING : 0;
}

uint64_t brk_share_charge(const struct brk_client *c, uint64_t vram)
{
    return brk_vram.limit && c->shared_bytes > vram ? c->shared_bytes : vram;
}

void brk_share_settle(struct brk_client *c)
{
    const uint64_t over = brk_share_charge(c, c->vram) - c->vram;

    brk_quota_force(&brk_vram, c->shared_over, over);
    c->shared_over = over;
}

const char *brk_share_tally(uint64_t *charged)
{
    unsigned n = 0, fds = 0;

    *charged = 0;
    for (struct brk_client *c = brk_client_first(); c; c = c->next)
        c->tally = (struct brk_share_tally){0};
    for (const struct share *s = shares; s; s = s->next) {
        n++;
        fds += s->fd >= 0;
        *charged += s->charged;
        for (const struct hold *h = s->holds; h; h = h->next)
            h->client->tally.holds += h->client != s->maker;
        if (s->maker) {
            s->maker->tally.made++;
            s->maker->tally.fds += s->fd >= 0;
            s->maker->tally.bytes += beyond_rounding(s);
        }
    }
    return n != nshares ? "shared objects" : fds != nfds ? "shared descriptors" : NULL;
}

/* Constant time, independent of the first wrong byte. */
static bool same_token(const uint8_t *a, const uint8_t *b)
{
    uint8_t differ = 0;

    for (unsigned i = 0; i < VGB_TOKEN; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

static struct share *share_find(const uint8_t *token)
{
    struct share *s = shares;

    while (s && !same_token(s->words.token, token))
        s = s->next;
    return s;
}

static struct hold **hold_of(struct share *s, const struct brk_client *c)
{
    struct hold **at = &s->holds;

    while (*at && (*at)->client != c)
        at = &(*at)->next;
    return at;
}

static bool take_hold(struct share *s, struct brk_client *c)
{
    struct hold *h = *hold_of(s, c);

    if (!h) {
        h = calloc(1, sizeof(*h));
        if (!h)
            return false;
        h->client = c;
        h->next = s->holds;
        s->holds = h;
    }
    h->count++;
    return true;
}

/*
 * Maximum objects with a descriptor: half of this process's descriptors, minus those for images;
 * the other half is for clients. A single client gets an eighth of them, so that seven more still
 * find some.
 */
static bool descriptor_left(const struct brk_client *c)
{
    struct rlimit r;
    uint64_t all;

    if (getrlimit(RLIMIT_NOFILE, &r))
        return false;
    all = r.rlim_cur / 2 - brk_images_descriptors();
    return nfds < all && c->nshare_fds < (all < 8 ? 1 : all / 8);
}

static void share_free(struct share *s)
{
    for (struct share **at = &shares; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            nshares--;
            break;
        }
    }
    brk_quota_force(&brk_vram, s->charged, 0);
    nfds -= s->fd >= 0;
    if (s->fd >= 0)
        brk_foreign_close(s->fd); /* may free all of its pages */
    free(s);
}

/* The creator dropped it. The rest of its holders are charged together. */
static void maker_leaves(struct share *s)
{
    s->maker->nshares--;
    s->maker->nshare_fds -= s->fd >= 0;
    s->maker->shared_bytes -= beyond_rounding(s);
    if (s->maker->state != BRK_C_ENDING) /* otherwise as its other memory, when its worker is reaped */
        brk_share_settle(s->maker);
    s->maker = NULL;
    if (s->holds &&
        (s->kind == VGB_SHARE_MEMORY || s->kind == VGB_SHARE_FD || s->kind == VGB_SHARE_PAYLOAD)) {
        s->charged = s->length;
        brk_quota_force(&brk_vram, 0, s->charged);
    }
}

/* True if that is the number of a client, other than `gone`, that holds the event. */
static bool is_holder(const struct share *s, uint32_t holder, const struct brk_client *gone)
{
    for (const struct hold *h = s->holds; h; h = h->next) {
        if (h->client != gone && h->client->holder == holder)
            return true;
    }
    return false;
}

/*
 * The page's content is arbitrary, written by its holders: it is updated, but never relied on. A
 * client that ends may have entered any number; only numbers that the broker knows to be holders
 * remain, so that no client waits for a client that never had the event or has left it. It may also
 * have entered records in the name of other holders: these are notified and complete records they
 * did not make (the software GPU's runtime/sg_ipc_event.c).
 */
static void leave_event(struct share *s, const struct brk_client *gone)
{
    struct vgb_event_head *head = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);

    if (head == MAP_FAILED)
        return; /* clients waiting for it keep waiting; not logged, as memory is short */
    for (unsigned i = 0; i < sizeof(head->holders) / sizeof(head->holders[0]); i++) {
        uint32_t entered = __atomic_load_n(&head->holders[i], __ATOMIC_SEQ_CST);

        if (entered && !is_holder(s, entered, gone))
            __atomic_compare_exchange_n(&head->holders[i], &entered, 0, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_add(&head->wake, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &head->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    munmap(head, VGP_PAGE);
    for (struct hold *h = s->holds; h; h = h->next)
        h->client->holder_gone |= h->client != gone;
}

/* Notified once, however many events it shared with the client: it checks all of its own. */
static void tell_holders(void)
{
    const struct vgb_msg m = {.type = VGB_M_HOLDER_GONE};

    for (struct share *s = shares; s; s = s->next) {
        for (struct hold *h = s->holds; h; h = h->next) {
            if (h->client->holder_gone && h->client->proc)
                brk_proc_send(h->client->proc, &m, NULL, 0);
            h->client->holder_gone = false;
        }
    }
}

static void drop_hold(struct share *s, struct hold **at)
{
    struct hold *h = *at;

    if (s->maker == h->client)
        maker_leaves(s);
    else
        h->client->nholds--;
    *at = h->next;
    free(h);
    if (!s->holds)
        share_free(s);
}

void brk_share_client_gone(struct brk_client *c)
{
    bool left = false;

    for (struct share *s = shares, *next; s; s = next) {
        struct hold **at = hold_of(s, c);

        next = s->next;
        /* It may still have the page of an event that it dropped. */
        if (s->kind == VGB_SHARE_EVENT && s->domain == c->ops && (*at || c->left_event)) {
            leave_event(s, c);
            left = true;
        }
        if (*at)
            drop_hold(s, at);
    }
    /* Its worker may write to these pages until it is reaped: this is repeated then. */
    c->left_event |= left;
    tell_holders();
}

static int share_memory(uint64_t length, bool now)
{
    int fd = memfd_create("vgpu-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    /* allocated now: the broker's later write must not fail. */
    if (fd >= 0 && (ftruncate(fd, (off_t)length) || (now && fallocate(fd, 0, 0, (off_t)length)) ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)))
        vgb_close(&fd);
    return fd;
}

static void share_answer(struct brk_client *c, const struct share *s, uint32_t status)
{
    struct vgb_msg a = {.type = VGB_M_SHARED, .status = status};

    if (s) {
        a.length = s->length;
        a.value = c->holder;
        a.share = s->words;
    }
    brk_proc_send(c->proc, &a, s ? &s->fd : NULL, s && s->fd >= 0 ? 1 : 0);
}

static uint32_t share_create(struct brk_client *c, const struct vgb_msg *m, struct share **out)
{
    struct share *s;
    bool paged = m->flags != VGB_SHARE_PAYLOAD;

    if (c->nshares >= MADE_MAX || nshares >= TOTAL_MAX || (paged && !descriptor_left(c)))
        return VGPU_S_QUOTA;
    s = calloc(1, sizeof(*s));
    if (!s)
        return VGPU_S_NO_MEMORY;
    s->kind = (enum vgb_share_kind)m->flags;
    s->length = m->length;
    s->domain = c->ops;
    s->fd = paged ? share_memory(m->length, m->flags == VGB_SHARE_EVENT) : -1;
    memcpy(s->words.payload, m->share.payload, VGB_PAYLOAD);
    if (brk_vram.limit && !vgp_range_ok(c->shared_bytes, beyond_rounding(s), c->vram)) {
        vgb_close(&s->fd);
        free(s);
        return VGPU_S_QUOTA; /* more than it has reserved */
    }
    if ((paged && s->fd < 0) || getrandom(s->words.token, VGB_TOKEN, 0) != VGB_TOKEN || !take_hold(s, c)) {
        vgb_close(&s->fd);
        free(s);
        return VGPU_S_NO_MEMORY;
    }
    s->maker = c;
    c->nshares++;
    c->nshare_fds += paged;
    nfds += paged;
    c->shared_bytes += beyond_rounding(s);
    s->next = shares;
    shares = s;
    nshares++;
    *out = s;
    return VGPU_S_OK;
}

/* Objects of another VM or of another kind are not found. */
static uint32_t open_one(struct brk_client *c, const struct vgb_msg *m, struct share **out)
{
    struct share *s = share_find(m->share.token);
    bool more;

    if (!s || s->domain != c->ops || s->kind != m->flags || (!s->maker && s->kind != VGB_SHARE_FD))
        return VGPU_S_INVALID;
    more = !*hold_of(s, c);
    if (more && c->nholds >= HOLDS_MAX)
        return VGPU_S_QUOTA;
    if (!take_hold(s, c))
        return VGPU_S_NO_MEMORY;
    c->nholds += more;
    *out = s;
    return VGPU_S_OK;
}

static bool well_formed(const struct vgb_msg *m)
{
    if (m->flags < VGB_SHARE_MEMORY || m->flags >= VGB_SHARE_KINDS)
        return false;
    if (m->type == VGB_M_SHARE_OPEN || m->flags == VGB_SHARE_PAYLOAD)
        return m->length <= BYTES_MAX;
    return m->length && m->length % VGP_PAGE == 0 && m->length <= BYTES_MAX &&
           (m->flags != VGB_SHARE_EVENT || m->length == VGP_PAGE);
}

bool brk_share_message(struct brk_client *c, const struct vgb_msg *m)
{
    struct share *s = NULL;
    uint32_t status;

    if (m->type == VGB_M_SHARE_DROP) {
        s = share_find(m->share.token);
        struct hold **at = s ? hold_of(s, c) : NULL;

        if (!at || !*at)
            return false;
        if (--(*at)->count == 0) {
            c->left_event |= s->kind == VGB_SHARE_EVENT && (s->holds != *at || (*at)->next);
            drop_hold(s, at);
        }
        share_answer(c, NULL, VGPU_S_OK);
        return true;
    }
    if (!well_formed(m))
        return false;
    if (!c->holder)
        c->holder = ++last_holder ? last_holder : ++last_holder;
    status = m->type == VGB_M_SHARE_NEW ? share_create(c, m, &s) : open_one(c, m, &s);
    share_answer(c, s, status);
    return true;
}
