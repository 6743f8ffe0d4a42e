/* SPDX-License-Identifier: MIT */
/*
 * Consistency checks of the broker's accounts: each quota equals the sum of its holders, each count
 * the length of its list, and a client without a worker holds nothing. The result is in the status
 * ("books"), so that every test that runs a broker can check it, and in the log when the last
 * client has gone; no decision depends on it.
 */
#include "clients.h"

#include <stdio.h>

static char text[160];

static const char *count_mismatch(const char *what, uint64_t counted, uint64_t said)
{
    snprintf(text, sizeof(text), "%s: %llu are counted, %llu are held", what, (unsigned long long)said,
             (unsigned long long)counted);
    return text;
}

/* Regions of one client: their number, calls and bytes. */
static const char *check_regions(const struct brk_client *c)
{
    uint64_t bytes = 0, calls = 0, n = 0;

    for (const struct brk_client_region *r = c->regions; r; r = r->next) {
        bytes += r->length;
        calls += r->ncalls;
        n++;
    }
    if (n != c->nregions)
        return count_mismatch("regions of a client", n, c->nregions);
    if (calls != c->ncalls)
        return count_mismatch("calls of a client's mapper", calls, c->ncalls);
    if (c->pinned != bytes)
        return count_mismatch("pinned bytes of a client", bytes, c->pinned);
    return NULL;
}

static const char *check_shares(const struct brk_client *c)
{
    const struct brk_share_tally *t = &c->tally;

    if (t->made != c->nshares)
        return count_mismatch("shared objects of a client", t->made, c->nshares);
    if (t->fds != c->nshare_fds)
        return count_mismatch("shared descriptors of a client", t->fds, c->nshare_fds);
    if (t->holds != c->nholds)
        return count_mismatch("opened objects of a client", t->holds, c->nholds);
    if (t->bytes != c->shared_bytes)
        return count_mismatch("shared bytes of a client", t->bytes, c->shared_bytes);
    return NULL;
}

static const char *check_client(const struct brk_client *c)
{
    const char *why = check_regions(c);

    if (!why)
        why = check_shares(c);
    if (!why && c->state == BRK_C_DEAD && !c->proc &&
        (c->vram || c->shared_over || c->pinned || c->blobs || c->wants || c->regions || c->nshares ||
         c->nholds))
        why = count_mismatch("bytes of a client whose worker is gone", 0, c->vram + c->pinned + c->blobs);
    return why;
}

const char *brk_books_wrong(struct brk_books *b)
{
    uint64_t vram = 0, pinned = 0, blobs = 0, charged = 0;
    const char *why;

    *b = (struct brk_books){.shares = brk_share_count()};
    why = brk_share_tally(&charged);
    for (const struct brk_client *c = brk_client_first(); c; c = c->next) {
        b->clients++;
        b->ending += c->state == BRK_C_ENDING && !c->stuck;
        b->regions += c->nregions;
        vram += c->vram + c->shared_over;
        pinned += c->pinned;
        blobs += c->blobs;
        if (!why)
            why = check_client(c);
    }
    if (why)
        return why;
    if (b->clients != brk_client_count())
        return count_mismatch("clients", b->clients, brk_client_count());
    if (!b->clients && b->shares)
        return count_mismatch("shared objects without clients", 0, b->shares);
    if (vram + charged != brk_vram.used)
        return count_mismatch("bytes of device memory", vram + charged, brk_vram.used);
    if (pinned != brk_pins.used)
        return count_mismatch("pinned bytes", pinned, brk_pins.used);
    return blobs == brk_blobs.used ? NULL : count_mismatch("bytes of images", blobs, brk_blobs.used);
}

void brk_books_log(void)
{
    struct brk_books b;
    const char *why = brk_books_wrong(&b);

    if (why)
        vgb_log(VGB_ERROR, "accounts are wrong: %s", why);
}
