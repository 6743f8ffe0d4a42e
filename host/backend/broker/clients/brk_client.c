/* SPDX-License-Identifier: MIT */
/* Clients: a guest process each, independent of the transport. */
#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgb_deadline.h"
#include "vgb_fd.h"

/* maximum workers tried for a client: a spare worker may be killed while it is being assigned */
#define TRIES_MAX 3u
/* minimum interval between requests to workers to free room for images */
#define BLOBS_WANTED_MS 1000

static struct brk_lines lines;

static void grant_waiting(void);
static void client_reserve(struct brk_client *c, uint64_t want, uint64_t least);

/* Number of clients, except those whose killed worker is yet to be reaped. */
static unsigned living_clients(void)
{
    unsigned n = 0;

    for (struct brk_client *c = brk_client_first(); c; c = c->next)
        n += c->state != BRK_C_ENDING;
    return n;
}

static void release_quotas(struct brk_client *c)
{
    brk_share_client_gone(c);
    brk_images_client_gone(c);
    brk_images_worker_gone(c);
    brk_quota_move(&brk_vram, c->vram + c->shared_over, 0);
    brk_quota_move(&brk_pins, c->pinned, 0);
    brk_quota_move(&brk_blobs, c->blobs, 0);
    c->vram = c->shared_over = c->pinned = c->wants = c->blobs = 0;
    brk_regions_gone(c);
    grant_waiting();
}

static void close_foreign(int *fd)
{
    if (*fd >= 0)
        brk_foreign_close(*fd);
    *fd = -1;
}

/* Releases everything but the structure itself, which the transport may still read. */
static void retire_client(struct brk_client *c)
{
    brk_client_unlist(c);
    release_quotas(c);
    brk_totals_gone(c);
    if (!brk_client_count())
        brk_books_log();
    if (c->shared)
        munmap(c->shared, VGP_PAGE);
    if (c->wake.fd >= 0)
        brk_loop_del(&c->wake);
    vgb_close(&c->wake.fd);
    /* the last close of a socket client's window frees its pages */
    close_foreign(&c->window_fd);
    close_foreign(&c->doorbell); /* in a VM, a descriptor of any kind sent by the front end */
}

/* Edge-triggered, and never read: the worker shares the description and its flags, so it can make a
 * read block. */
static void on_wake(struct brk_source *s, uint32_t events)
{
    struct brk_client *c = (void *)((char *)s - offsetof(struct brk_client, wake));

    (void)events;
    c->ops->wake(c);
}

static void send_start(struct brk_client *c)
{
    struct vgb_msg m = {
        .type = VGB_M_START, .offset = c->window_offset, .length = c->window_size, .value = brk_vram.limit};
    int fds[3] = {c->window_fd, c->doorbell, c->wake.fd};

    memcpy(m.text, c->label, sizeof(c->label));
    c->limits = brk_opt.limits; /* as they are now: it may have waited for a worker */
    c->priority = brk_opt.client_priority;
    m.limits = c->limits;
    m.flags = (brk_pace_by_turns() ? VGB_START_TURNS : 0) | (brk_opt.image_cache ? VGB_START_IMAGES : 0);
    c->state = BRK_C_STARTING;
    c->clean = false;
    c->tries++;
    brk_proc_send(c->proc, &m, fds, c->wake.fd >= 0 ? 3 : 2);
}

static void client_cleared(struct brk_client *c, bool ok);

/* Takes a worker for a client whose window is zero. */
static void client_wait(struct brk_client *c)
{
    c->state = BRK_C_WAITING;
    c->proc = brk_pool_take(c);
    if (c->proc)
        send_start(c);
}

/* Maximum wait for the first clearing of a window, ms. Clearings of one file take turns: after many
 * programs of a VM have ended, the last clearing can end later than a worker starts. */
static unsigned clearing_ms(const struct brk_client *c)
{
    return c->impatient || brk_opt.long_call_ms < c->create_ms ? c->create_ms : brk_opt.long_call_ms;
}

/* A patient driver waits for the worker as long as if the window had been zero. */
static void client_first_wait(struct brk_client *c)
{
    c->patience_ns = (c->impatient ? c->begun_ns : vgb_now_ns()) + VGB_MS_TO_NS(c->create_ms);
    client_wait(c);
}

struct brk_client *brk_client_create(const struct brk_client_setup *s, uint32_t *status)
{
    *status = VGPU_S_QUOTA;
    /* Ended clients are not counted, but are bounded too. */
    if (living_clients() >= brk_opt.max_clients || brk_client_count() >= 2 * brk_opt.max_clients) {
        brk_totals.clients_refused++;
        vgb_log_limited(brk_lines_of(&lines, -1), VGB_WARN,
                        "a client is refused: %u are served, the limit is --max-clients", living_clients());
        return NULL;
    }
    *status = VGPU_S_NO_MEMORY;
    struct brk_client *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->ops = s->ops;
    c->transport = s->transport;
    c->slot = s->slot;
    c->lines = s->lines;
    c->impatient = s->impatient;
    c->window_offset = s->window_offset;
    c->window_size = s->window_size;
    c->slice = s->events;
    c->begun_ns = vgb_now_ns();
    c->wake.fd = -1;
    memcpy(c->label, s->label, strnlen(s->label, VGPU_LABEL_LEN));
    c->window_fd = fcntl(s->window_fd, F_DUPFD_CLOEXEC, 3);
    c->doorbell = fcntl(s->doorbell, F_DUPFD_CLOEXEC, 3);
    brk_client_list(c);
    if (c->window_fd < 0 || c->doorbell < 0)
        goto fail;
    void *p = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, c->window_fd, (off_t)c->window_offset);
    if (p == MAP_FAILED)
        goto fail;
    c->shared = p;
    if (s->events) {
        c->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        c->wake.ready = on_wake;
        if (c->wake.fd < 0 || brk_loop_add(&c->wake, EPOLLIN | EPOLLET))
            goto fail;
    }
    c->create_ms = s->create_ms;
    c->patience_ns = c->begun_ns + VGB_MS_TO_NS(clearing_ms(c));
    c->state = BRK_C_CLEARING;
    if (c->slice && !brk_window_clear(c, client_cleared))
        goto fail;
    *status = VGPU_S_OK;
    brk_totals.clients++;
    if (!c->clearing)
        client_first_wait(c);
    return c;
fail:
    retire_client(c);
    free(c);
    return NULL;
}

void brk_client_worker_ready(struct brk_client *c, struct brk_proc *p)
{
    c->proc = p;
    send_start(c);
}

static void client_end_now(struct brk_client *c)
{
    retire_client(c); /* first: answers sent by ops->ended() promise that this is done */
    c->ops->ended(c);
    free(c);
}

/* The worker is gone. A socket client's window is its own file, and may still be read there for the
 * reason of its death. */
static void client_end(struct brk_client *c)
{
    if (c->slice && !c->clean)
        brk_window_give_back(c);
    client_end_now(c);
}

static void client_cleared(struct brk_client *c, bool ok)
{
    c->clean = ok;
    if (c->state == BRK_C_ENDING) {
        client_end_now(c);
    } else if (ok && c->tries) {
        client_wait(c);
    } else if (ok) {
        client_first_wait(c);
    } else {
        retire_client(c);
        c->ops->created(c, VGPU_S_NO_MEMORY);
        free(c);
    }
}

void brk_client_destroy(struct brk_client *c)
{
    bool gone = !c->proc;

    c->state = BRK_C_ENDING;
    c->ending_ns = vgb_now_ns();
    brk_pace_gone(c);
    if (!gone) {
        /* The program has exited: its shared objects can no longer be opened. Its device memory is
         * free once the worker is reaped; until then, allocations that need it wait. What it has
         * pinned stays mapped until then, too (brk_regions.c). */
        brk_share_client_gone(c);
        brk_images_client_gone(c);
        c->wants = 0;
        c->cpu_ns = brk_usage_cpu(c->proc);
        brk_proc_kill(c->proc);
        if (c->stuck)
            c->ops->stuck(c);
        return; /* brk_client_worker_gone() goes on */
    }
    if (!c->clearing) {
        client_end(c);
        return;
    }
    if (c->stuck)
        c->ops->stuck(c); /* client_cleared() goes on */
}

/* Tells the guest through the window, on which it may sleep and which it reads on waking. */
static void mark_dead(struct brk_client *c, uint32_t reason, const char *text)
{
    struct vgp_window_shared *s = c->shared;

    strncpy(s->dead_text, text, sizeof(s->dead_text) - 1);
    s->dead_text[sizeof(s->dead_text) - 1] = '\0';
    s->dead_reason = reason;
    __atomic_store_n(&s->worker_state, VGP_WORKER_DEAD, __ATOMIC_SEQ_CST);
    __atomic_exchange_n(&s->guest_sleeps, 0, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&s->wake_seq, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &s->wake_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void brk_client_stuck(struct brk_client *c)
{
    enum brk_client_state was = c->state;

    c->stuck = true;
    if (was == BRK_C_SERVING) {
        c->state = BRK_C_DEAD;
        mark_dead(c, VGPU_DEAD_KILLED, "the worker was killed, and the host cannot end it");
    } else {
        c->state = BRK_C_ENDING; /* the transport never saw this client */
    }
    c->ops->stuck(c);
    if (was == BRK_C_SERVING)
        c->ops->dead(c, VGPU_DEAD_KILLED);
    grant_waiting(); /* its memory will not be released soon */
}

/* Reports a clearing that exceeds its deadline: the slot stays taken until the clearing ends. True
 * while a deadline is pending. */
static bool clearing_expire(struct brk_client *c, uint64_t now_ns)
{
    if (!c->clearing || c->stuck)
        return false;
    if (c->state == BRK_C_CLEARING ? now_ns <= c->patience_ns
                                   : now_ns - c->ending_ns <= VGB_MS_TO_NS(VGB_CLEAR_MS))
        return true;
    vgb_log_limited(brk_lines_of(&lines, c->lines), VGB_ERROR,
                    "client %u (%s) keeps its slot: the file of the windows does not let it be cleared",
                    c->slot, c->label);
    brk_client_stuck(c);
    return false;
}

bool brk_client_expire(uint64_t now_ns)
{
    struct brk_client *next;
    bool wait = false;

    for (struct brk_client *c = brk_client_first(); c; c = next) {
        next = c->next;
        if (c->wants && c->wants_until_ns && c->state == BRK_C_SERVING) {
            client_reserve(c, c->wants, c->wants);
            wait |= c->wants != 0;
        }
        wait |= clearing_expire(c, now_ns);
        if (c->state != BRK_C_WAITING)
            continue;
        if (now_ns <= c->patience_ns) {
            wait = true;
            continue;
        }
        vgb_log_limited(brk_lines_of(&lines, c->lines), VGB_WARN,
                        "client %u (%s): no worker was ready in time", c->slot, c->label);
        retire_client(c);
        c->ops->created(c, VGPU_S_WORKER);
        free(c);
    }
    return wait;
}

void brk_client_worker_gone(struct brk_client *c, uint32_t reason, const char *text, bool said)
{
    enum brk_client_state was = c->state;

    c->proc = NULL;
    if (was == BRK_C_ENDING) {
        client_end(c);
        return;
    }
    brk_totals.workers_lost++;
    vgb_log_limited(brk_lines_of(&lines, c->lines), VGB_WARN, "client %u (%s): %s", c->slot, c->label, text);
    if (was == BRK_C_DEAD) { /* it was stuck: all callbacks were made */
        c->stuck = false;
        release_quotas(c);
        return;
    }
    /* It had not begun to serve the client: try another worker, unless it reported a reason. */
    if (was == BRK_C_STARTING && !said && c->tries < TRIES_MAX && vgb_now_ns() < c->patience_ns &&
        brk_window_clear(c, client_cleared)) {
        c->state = BRK_C_CLEARING;
        return;
    }
    if (was == BRK_C_STARTING) {
        retire_client(c);
        c->ops->created(c, VGPU_S_WORKER);
        free(c);
        return;
    }
    c->state = BRK_C_DEAD;
    brk_pace_gone(c);
    release_quotas(c);
    mark_dead(c, reason, text);
    c->ops->dead(c, reason);
}

void brk_client_new_doorbell(struct brk_client *c, int fd)
{
    struct vgb_msg m = {.type = VGB_M_DOORBELL};
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (copy < 0)
        return;
    close_foreign(&c->doorbell);
    c->doorbell = copy;
    if (c->proc && c->state != BRK_C_WAITING)
        brk_proc_send(c->proc, &m, &copy, 1);
}

/* ---- what the worker says; believed only where its state allows it ---- */

/* Images may stay in transit indefinitely, as programs need not send the rest. No client gets all
 * of the room: each request leaves a quarter of the room that other clients do not use. */
static bool move_blobs(struct brk_client *c, uint64_t to)
{
    uint64_t others = brk_blobs.used - c->blobs, limit = brk_blobs.limit;

    if (limit && to > c->blobs && (others > limit || to > (limit - others) / 4 * 3))
        return false;
    if (!brk_quota_move(&brk_blobs, c->blobs, to))
        return false;
    c->blobs = to;
    return true;
}

/* A client was refused room: has the workers of other clients drop stalled images for later
 * requests. */
static void want_blobs(const struct brk_client *refused)
{
    static uint64_t said_ns;
    const struct vgb_msg m = {.type = VGB_M_BLOBS_WANTED};
    const uint64_t now = vgb_now_ns();

    if (said_ns && now - said_ns < VGB_MS_TO_NS(BLOBS_WANTED_MS))
        return;
    said_ns = now;
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (c != refused && c->blobs && c->state == BRK_C_SERVING)
            brk_proc_send(c->proc, &m, NULL, 0);
    }
}

/* Answers a RESERVE of room for images: `want` bytes, or at least `least`. */
static void reserve_blobs(struct brk_client *c, uint64_t want, uint64_t least)
{
    struct vgb_msg a = {.type = VGB_M_GRANT, .status = VGPU_S_OK};

    if (!move_blobs(c, want) && (least >= want || !move_blobs(c, least))) {
        a.status = VGPU_S_QUOTA;
        want_blobs(c);
        vgb_log_limited(
            brk_lines_of(&lines, c->lines), VGB_WARN,
            "client %u (%s): images of %llu bytes are on their way, %llu of them its own: room for %llu "
            "is refused: the limit is --blob-quota, and a quarter of what is left stays for others",
            c->slot, c->label, (unsigned long long)brk_blobs.used, (unsigned long long)c->blobs,
            (unsigned long long)least);
    }
    a.value = c->blobs;
    brk_proc_send(c->proc, &a, NULL, 0);
}

static void grant_client(struct brk_client *c, uint32_t status, uint32_t reason)
{
    struct vgb_msg a = {.type = VGB_M_GRANT, .status = status, .reason = reason, .value = c->vram};

    brk_proc_send(c->proc, &a, NULL, 0);
}

static bool over_quota(const struct brk_client *c, uint64_t share)
{
    return brk_vram.limit && !vgp_range_ok(brk_vram.used - c->vram - c->shared_over, share, brk_vram.limit);
}

static void refuse_memory(struct brk_client *c, uint64_t share)
{
    const char *why = share > BRK_PART_MAX   ? "no GPU has so much"
                      : over_quota(c, share) ? "the limit is --vram-quota"
                                             : "the GPU's other VMs have the rest (--memory-policy)";
    bool own = share > BRK_PART_MAX || over_quota(c, share);

    brk_totals.memory_refused++;
    vgb_log_limited(
        brk_lines_of(&lines, c->lines), VGB_WARN,
        "client %u (%s): device memory refused, %llu bytes where %llu of all clients are in use: %s", c->slot,
        c->label, (unsigned long long)share, (unsigned long long)brk_vram.used, why);
    grant_client(c, VGPU_S_QUOTA, own ? VGB_REFUSED_QUOTA : VGB_REFUSED_GPU);
}

/* Moves the client's charge to that of a reservation of `to` bytes. False: refused. */
static bool move_vram(struct brk_client *c, uint64_t to)
{
    const uint64_t charge = brk_share_charge(c, to);

    if (!brk_quota_move(&brk_vram, c->vram + c->shared_over, charge))
        return false;
    c->vram = to;
    c->shared_over = charge - to;
    return true;
}

/* Answers a RESERVE of `want` bytes, or at least `least`; deferred if memory is about to be
 * released. */
static void client_reserve(struct brk_client *c, uint64_t want, uint64_t least)
{
    bool ok = move_vram(c, want) || (least < want && move_vram(c, least));

    c->wants = 0;
    for (struct brk_client *e = brk_client_first(); e && !ok; e = e->next) {
        if (e->state == BRK_C_ENDING && (e->vram || e->shared_over) && !e->stuck) {
            c->wants = least;
            return;
        }
    }
    uint64_t now = vgb_now_ns();

    if (!ok && least > c->vram && brk_opt.memory_wait_ms && !vgp_range_ok(0, brk_vram.limit, least - 1)) {
        c->wants_until_ns =
            c->wants_until_ns ? c->wants_until_ns : now + VGB_MS_TO_NS(brk_opt.memory_wait_ms);
        if (now < c->wants_until_ns) {
            c->wants = least; /* brk_client_expire() asks again */
            return;
        }
    }
    c->wants_until_ns = 0;
    if (!ok) {
        refuse_memory(c, least);
        return;
    }
    grant_client(c, VGPU_S_OK, 0);
}

/* Minimum of a RESERVE: all bytes if the worker names none, or more than it wants. */
static uint64_t least_of(const struct vgb_msg *m)
{
    return m->length && m->length < m->value ? m->length : m->value;
}

static void grant_waiting(void)
{
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (c->wants && c->state == BRK_C_SERVING)
            client_reserve(c, c->wants, c->wants);
    }
}

void brk_client_message(struct brk_client *c, const struct vgb_msg *m)
{
    if (m->type == VGB_M_SERVING && c->state == BRK_C_STARTING) {
        c->state = BRK_C_SERVING;
        brk_pace_client(c);
        brk_adjust_serves(c);
        c->ops->created(c, VGPU_S_OK);
    } else if (c->state != BRK_C_SERVING) {
        if (c->state != BRK_C_ENDING && c->state != BRK_C_DEAD)
            brk_proc_kill(c->proc);
    } else if (m->type == VGB_M_RESERVE && m->flags == VGB_RESERVE_BLOBS) {
        reserve_blobs(c, m->value, least_of(m));
    } else if (m->type == VGB_M_RESERVE && m->flags == VGB_RESERVE_HELD && c->reports &&
               m->value <= BRK_PART_MAX) {
        /* Memory allocated while there was no quota was never requested: it is not refused now. */
        c->reports--;
        brk_quota_force(&brk_vram, c->vram, m->value > c->vram ? m->value : c->vram);
        c->vram = m->value > c->vram ? m->value : c->vram;
        brk_share_settle(c);
        grant_client(c, VGPU_S_OK, 0);
    } else if (m->type == VGB_M_WORK && brk_pace_message(c, m)) {
        return;
    } else if (m->type == VGB_M_RESERVE && m->flags == VGB_RESERVE_DEVICE) {
        client_reserve(c, m->value, least_of(m));
    } else if (m->type == VGB_M_ASK_USAGE) {
        brk_usage_answer(c->proc, brk_client_first());
    } else if (m->type >= VGB_M_SHARE_NEW && m->type <= VGB_M_SHARE_DROP && brk_share_message(c, m)) {
        return;
    } else if ((m->type == VGB_M_IMAGE_ASK || m->type == VGB_M_IMAGE_FILLED) && brk_images_message(c, m)) {
        return;
    } else if (brk_region_message(c, m)) {
        return;
    } else {
        vgb_log_limited(brk_lines_of(&lines, c->lines), VGB_WARN, "client %u: worker said %u out of turn",
                        c->slot, m->type);
        brk_proc_kill(c->proc);
    }
}
