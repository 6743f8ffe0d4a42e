/* SPDX-License-Identifier: MIT */
/* Copies through pieces of the staging area, several under way: one side fills a piece while the other one empties another. */
#include "copy.h"
#include "stores.h"

#include <string.h>

#include "../../../lib/bulk/bulk.h"
#include "vgp_guest.h"

/* Pieces of a copy in flight: one at each side and one or two between them. More would only use
 * more cache (measured: 4 pieces of 128 KiB are as fast as any other choice, or faster). */
#define IN_FLIGHT 4
/* Minimum size in bytes of uploads that are divided into several pieces while they are measured,
 * although one piece would do. */
#define MEASURED_MIN (64u << 10)
#define MEASURED_PIECE (16u << 10)
#define ROW_PAST_MIN 4096u /* minimum row size, bytes, for which stores past the caches pay */

static uint64_t wire_address(const struct vcu_copy_end *e, uint64_t z, uint64_t y, uint64_t x)
{
    return e->array ? e->addr : vcu_copy_row_at(e, z, y) + x;
}

static void copy_row(uint8_t *to, const uint8_t *from, uint64_t n, bool past)
{
    if (past && n >= ROW_PAST_MIN)
        blk_copy_past(to, from, n);
    else
        memcpy(to, from, n);
}

/* A rectangle of rows [y, y + rows) and bytes [x, x + width) of plane z, small enough for a piece.
 */
struct piece {
    uint64_t z, y, x, width, rows;
    uint64_t room; /* bytes that it may have */
};

static void pack_piece(uint8_t *packed, const struct vcu_copy_end *e, const struct piece *p, bool to_host,
                       bool past)
{
    atomic_fetch_add_explicit(&vcu_bytes_copied, p->width * p->rows, memory_order_relaxed);
    for (uint64_t i = 0; i < p->rows; i++) {
        uint8_t *row = (uint8_t *)(uintptr_t)vcu_copy_row_at(e, p->z, p->y + i) + p->x;

        if (to_host)
            copy_row(row, packed + i * p->width, p->width, past);
        else
            copy_row(packed + i * p->width, row, p->width, past);
    }
}

void vcu_copy_pack(uint8_t *packed, const struct vcu_copy_end *e, uint64_t z, uint64_t y, uint64_t x,
                   uint64_t width, uint64_t rows, bool to_host)
{
    const struct piece p = {.z = z, .y = y, .x = x, .width = width, .rows = rows};

    pack_piece(packed, e, &p, to_host, false);
}

static uint64_t bytes_of(const struct vcu_copy *c)
{
    return c->width * c->height * c->depth;
}

/* The piece at p->z, p->y, p->x. */
static void measure_piece(const struct vcu_copy *c, struct piece *p)
{
    p->width = c->width - p->x;
    p->rows = 1;
    if (p->width > p->room)
        p->width = p->room;
    else if (p->x == 0)
        p->rows = p->room / c->width;
    if (p->rows > c->height - p->y)
        p->rows = c->height - p->y;
}

static void first_piece(const struct vcu_copy *c, struct piece *p, bool measured)
{
    const uint64_t bytes = bytes_of(c);

    *p = (struct piece){.room = vcu_chunk_size()};
    if (measured && bytes >= MEASURED_MIN && bytes <= p->room)
        p->room = MEASURED_PIECE;
    measure_piece(c, p);
}

/* The piece behind p; false at the end. */
static bool next_piece(const struct vcu_copy *c, struct piece *p)
{
    if (p->x + p->width < c->width) {
        p->x += p->width;
    } else {
        p->x = 0;
        p->y += p->rows;
        if (p->y == c->height) {
            p->y = 0;
            p->z++;
        }
    }
    if (p->z == c->depth)
        return false;
    measure_piece(c, p);
    return true;
}

/* Errors of pieces: the first is kept. */
static void keep_first(CUresult *all, CUresult one)
{
    if (*all == CUDA_SUCCESS)
        *all = one;
}

struct flight {
    struct vcu_chunk *chunk;
    struct piece p;
};

/* Waits for the oldest of the pieces under way and gives it back. */
static CUresult staged_finish(const struct flight *f)
{
    CUresult res = vgp_recv_vgpCopy(vcu_chunk_submit(f->chunk), NULL, NULL);

    vcu_chunk_give(f->chunk);
    return res;
}

static CUresult send_up(const struct vcu_copy *c, const struct flight *f, enum vgp_observed observed)
{
    const struct piece *p = &f->p;

    return vgp_send_vgpCopy(vcu_chunk_submit(f->chunk), true,
                            (struct vgp_intent){.observed = (uint8_t)observed}, vcu_copy_wire_kind(&c->dst),
                            VGP_COPY_STAGING, wire_address(&c->dst, p->z, p->y, p->x),
                            vcu_copy_wire_pitch(&c->dst, p->z, p->y, p->x),
                            vcu_copy_wire_height(&c->dst, p->rows), vcu_chunk_offset(f->chunk), p->width,
                            p->rows, p->width, p->rows, 1, c->stream, VGP_WHEN_COMPLETE, NULL, 0);
}

CUresult vcu_copy_upload_staged(const struct vcu_copy *c, enum vgp_observed observed)
{
    struct vcu_stores stores = vcu_stores_plan(false, bytes_of(c), !c->async && vcu_wait_may_owe(c->stream));
    struct flight under_way[IN_FLIGHT], f;
    unsigned head = 0, tail = 0;
    CUresult all = CUDA_SUCCESS;
    bool more = true;

    for (first_piece(c, &f.p, stores.timed); more && all == CUDA_SUCCESS; more = next_piece(c, &f.p)) {
        CUresult res;

        if (tail - head == IN_FLIGHT)
            keep_first(&all, staged_finish(&under_way[head++ % IN_FLIGHT]));
        /* While holding pieces, never wait for those of other threads: finish an own piece
         * instead. */
        while ((f.chunk = vcu_chunk_take(tail != head)) == NULL && tail != head)
            keep_first(&all, staged_finish(&under_way[head++ % IN_FLIGHT]));
        if (f.chunk == NULL)
            return lnk_ring_dead(&vcu.ring);
        pack_piece(vcu_chunk_data(f.chunk), &c->src, &f.p, false, stores.kind & BLK_TO_PIECE);
        res = send_up(c, &f, observed);
        if (res != CUDA_SUCCESS) {
            vcu_chunk_give(f.chunk);
            keep_first(&all, res);
        } else if (c->async) {
            vcu_chunk_give_later(f.chunk); /* the source has been read: async promises no more */
        } else {
            under_way[tail++ % IN_FLIGHT] = f;
        }
    }
    while (head != tail)
        keep_first(&all, staged_finish(&under_way[head++ % IN_FLIGHT]));
    if (all == CUDA_SUCCESS)
        vcu_stores_end(&stores);
    return all;
}

bool vcu_copy_to_be_measured(const struct vcu_copy *c)
{
    return vcu_stores_unsure(false, bytes_of(c));
}

static CUresult send_down(const struct vcu_copy *c, const struct flight *f)
{
    const struct piece *p = &f->p;

    return vgp_send_vgpCopy(
        vcu_chunk_submit(f->chunk), true, (struct vgp_intent){.observed = VGP_OBSERVED_WAITS},
        VGP_COPY_STAGING, vcu_copy_wire_kind(&c->src), vcu_chunk_offset(f->chunk), p->width, p->rows,
        wire_address(&c->src, p->z, p->y, p->x), vcu_copy_wire_pitch(&c->src, p->z, p->y, p->x),
        vcu_copy_wire_height(&c->src, p->rows), p->width, p->rows, 1, c->stream, VGP_WHEN_COMPLETE, NULL, 0);
}

/* Waits for the oldest of the pieces under way and hands its bytes to the program, unless there was an error. */
static void take_down(const struct vcu_copy *c, const struct flight *f, const struct vcu_stores *stores,
                      CUresult *all)
{
    keep_first(all, vgp_recv_vgpCopy(vcu_chunk_submit(f->chunk), NULL, NULL));
    if (*all == CUDA_SUCCESS)
        pack_piece(vcu_chunk_data(f->chunk), &c->dst, &f->p, true, stores->kind & BLK_FROM_PIECE);
    vcu_chunk_give(f->chunk);
}

CUresult vcu_copy_download_staged(const struct vcu_copy *c)
{
    struct vcu_stores stores = vcu_stores_plan(true, bytes_of(c), vcu_wait_may_owe(c->stream));
    struct flight under_way[IN_FLIGHT], f;
    unsigned head = 0, tail = 0;
    CUresult all = CUDA_SUCCESS;
    bool more = true;

    first_piece(c, &f.p, false);
    atomic_fetch_add_explicit(&vcu_bytes_lead, f.p.width * f.p.rows, memory_order_relaxed);
    while (more || head != tail) {
        f.chunk = NULL;
        if (more && tail - head < IN_FLIGHT)
            f.chunk = vcu_chunk_take(tail != head);
        if (f.chunk != NULL) {
            CUresult res = send_down(c, &f);

            if (res != CUDA_SUCCESS) {
                vcu_chunk_give(f.chunk);
                keep_first(&all, res);
                more = false;
                continue;
            }
            under_way[tail++ % IN_FLIGHT] = f;
            more = next_piece(c, &f.p);
            continue;
        }
        if (head == tail) /* no piece in flight and none available: the worker is gone */
            return all != CUDA_SUCCESS ? all : lnk_ring_dead(&vcu.ring);
        take_down(c, &under_way[head++ % IN_FLIGHT], &stores, &all);
        more = more && all == CUDA_SUCCESS;
    }
    if (all == CUDA_SUCCESS)
        vcu_stores_end(&stores);
    return all;
}
