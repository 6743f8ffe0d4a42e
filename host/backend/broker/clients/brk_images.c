/* SPDX-License-Identifier: MIT */
/*
 * Cache of program images by SHA-256, so that later programs of this VM need not send the bytes.
 *
 * Workers are not trusted. On a miss the worker is given writable memory to receive the image in.
 * When it reports completion, the bytes are copied and the copy is hashed, a piece in each round of
 * the loop. Only a copy with the requested hash is kept, sealed against writing. No other process
 * has ever had a writable descriptor of it, and each receiver hashes it, too. A compromised worker
 * therefore cannot choose a byte of an image that another worker loads.
 *
 * Bounds: cached images, by --image-cache, least recently used evicted. Evicted images, the same
 * amount again: a worker may keep an image mapped as long as it lives. Images being filled, half of
 * it; a single image is copied at a time. An image not filled within FILLING_NS makes room for
 * others, as does an image of the client that fills most: its memory is no longer the broker's, and
 * later reports about it are ignored. Bytes cached for a client over its life: the size of the
 * cache. Descriptors: a part of those not reserved for clients (brk_images_descriptors()).
 */
#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/sha256/sha256.h"
#include "vgb_fd.h"

#define PIECE (256u << 10) /* bytes copied and hashed per round: about a millisecond */
#define FILLING_MAX 64u    /* images being filled or waiting to be checked, all clients */
/* time to fill, after which another image may take the place */
#define FILLING_NS UINT64_C(60000000000)
#define FILLING_OF_CLIENT 16u /* images a worker can receive at a time */
#define DESCRIPTORS_MAX 4096u
#define HOLDS_MAX 1024u /* images handed to a client */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

_Static_assert(VGB_IMAGE_HASH == SHA_256_BYTES, "one hash");

struct brk_images_state brk_images;

struct name {
    uint8_t hash[VGB_IMAGE_HASH];
    uint64_t size;
    /* the VM or the host's programs, which do not share images */
    const struct brk_client_ops *domain;
};

struct image {
    struct image *next; /* next less recently used image */
    struct name name;
    int fd;           /* -1: evicted */
    unsigned holders; /* clients that got it and whose workers are alive */
};

/* An image handed to a client. */
struct brk_image_hold {
    struct brk_image_hold *next; /* of this client */
    struct image *image;
};

struct filling {
    struct filling *next; /* next, requested later */
    struct name name;
    struct brk_client *client; /* NULL: gone */
    uint64_t number, begun_ns;
    int fd, copy;
    bool filled;
    uint64_t done; /* bytes copied */
    struct sha_256 sha;
};

static struct image *images; /* most recently used first */
static struct filling *fillings;
static unsigned nfillings;
static uint64_t filling_bytes, last_number;
static uint64_t held_bytes; /* bytes of evicted images that still have holders */
static struct brk_lines lines;

static bool images_same(const struct name *a, const struct name *b)
{
    return a->size == b->size && a->domain == b->domain && !memcmp(a->hash, b->hash, sizeof(a->hash));
}

/* ---- what is kept ---- */

/* Finds an image and makes it the most recently used; NULL: none. */
static struct image *find_kept(const struct name *name)
{
    for (struct image **at = &images; *at; at = &(*at)->next) {
        struct image *i = *at;

        if (!images_same(&i->name, name))
            continue;
        *at = i->next;
        i->next = images;
        images = i;
        return i;
    }
    return NULL;
}

unsigned brk_images_descriptors(void)
{
    struct rlimit r;

    if (!brk_opt.image_cache || getrlimit(RLIMIT_NOFILE, &r))
        return 0;
    return r.rlim_cur / 8 < DESCRIPTORS_MAX ? (unsigned)(r.rlim_cur / 8) : DESCRIPTORS_MAX;
}

/* A quarter of the descriptors is for images being filled and for the copy. */
static unsigned most_filling(void)
{
    const unsigned n = brk_images_descriptors() / 4;

    return n <= 1 ? 0 : n - 1 < FILLING_MAX ? n - 1 : FILLING_MAX;
}

static unsigned most_kept(void)
{
    return brk_images_descriptors() - brk_images_descriptors() / 4;
}

/* Called after an eviction or the end of a holder. */
static void free_unheld(struct image *i)
{
    if (i->fd < 0 && !i->holders)
        free(i);
}

/* Least recently used image that may be evicted; NULL: evicting any would not free memory. */
static struct image **to_evict(void)
{
    struct image **found = NULL;

    for (struct image **at = &images; *at; at = &(*at)->next) {
        if (!(*at)->holders || vgp_range_ok(held_bytes, (*at)->name.size, brk_opt.image_cache))
            found = at;
    }
    return found;
}

static void evict_image(struct image **at)
{
    struct image *i = *at;

    *at = i->next;
    brk_images.bytes -= i->name.size;
    brk_images.count--;
    brk_foreign_close(i->fd); /* may free all of its pages */
    i->fd = -1;
    held_bytes += i->holders ? i->name.size : 0;
    free_unheld(i);
}

static bool make_room(uint64_t size)
{
    struct image **at;

    while (brk_images.bytes + size > brk_opt.image_cache || brk_images.count >= most_kept()) {
        at = to_evict();
        if (!at)
            return false;
        evict_image(at);
        brk_images.evicted++;
    }
    return true;
}

/* Takes the descriptor over. */
static void keep_image(const struct name *name, int fd)
{
    struct image *i = malloc(sizeof(*i));

    if (!i || !make_room(name->size)) {
        free(i);
        brk_foreign_close(fd);
        return;
    }
    *i = (struct image){.next = images, .name = *name, .fd = fd};
    images = i;
    brk_images.bytes += name->size;
    brk_images.count++;
    brk_images.kept++;
}

/* Records that the client gets the image. False: it has too many, or no memory. */
static bool take_hold(struct brk_client *c, struct image *i)
{
    struct brk_image_hold *h = c->image_holds;

    while (h && h->image != i)
        h = h->next;
    if (h)
        return true;
    h = c->nimage_holds < HOLDS_MAX ? malloc(sizeof(*h)) : NULL;
    if (!h)
        return false;
    *h = (struct brk_image_hold){.next = c->image_holds, .image = i};
    c->image_holds = h;
    c->nimage_holds++;
    i->holders++;
    return true;
}

void brk_images_worker_gone(struct brk_client *c)
{
    struct brk_image_hold *h;

    while ((h = c->image_holds)) {
        struct image *i = h->image;

        c->image_holds = h->next;
        i->holders--;
        held_bytes -= i->fd < 0 && !i->holders ? i->name.size : 0;
        free_unheld(i);
        free(h);
    }
    c->nimage_holds = 0;
}

/* ---- what workers fill ---- */

/* A NUL follows the image: PTX is a string to the provider. */
static int image_memory(uint64_t size, int seals)
{
    int fd = memfd_create("vgpu-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, (off_t)size + 1) || (seals && fcntl(fd, F_ADD_SEALS, seals))))
        vgb_close(&fd);
    return fd;
}

static void drop_filling(struct filling *f)
{
    struct filling **at = &fillings;

    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    nfillings--;
    filling_bytes -= f->name.size;
    if (f->client)
        f->client->nfilling--;
    if (f->fd >= 0)
        brk_foreign_close(f->fd);
    if (f->copy >= 0)
        brk_foreign_close(f->copy);
    free(f);
}

static bool is_stale(const struct filling *f, uint64_t now_ns)
{
    return !f->filled && now_ns - f->begun_ns >= FILLING_NS;
}

/* First stale image of the client (NULL: any client); NULL: none. */
static struct filling *find_stale(const struct brk_client *c, uint64_t now_ns)
{
    struct filling *f = fillings;

    while (f && (!is_stale(f, now_ns) || (c && f->client != c)))
        f = f->next;
    return f;
}

/* True if its worker may fill this image, given a place. */
static bool may_fill(const struct brk_client *c, const struct name *name)
{
    if (c->image_lies || !vgp_range_ok(c->image_bytes, name->size, brk_opt.image_cache) ||
        name->size > brk_opt.image_cache / 2)
        return false;
    for (const struct filling *f = fillings; f; f = f->next) {
        if (f->client == c && images_same(&f->name, name))
            return false; /* threads of the same program load the same image */
    }
    return true;
}

/* True if there is a place, or would be without stale images. */
static bool has_place(uint64_t size, bool without_stale, uint64_t now_ns)
{
    uint64_t n = nfillings, sum = filling_bytes;

    for (const struct filling *f = fillings; f && without_stale; f = f->next) {
        n -= is_stale(f, now_ns);
        sum -= is_stale(f, now_ns) ? f->name.size : 0;
    }
    return n < most_filling() && vgp_range_ok(sum, size, brk_opt.image_cache / 2);
}

static void give_up(struct filling *f)
{
    f->client->nstale++; /* its worker has yet to report on it */
    drop_filling(f);
}

static uint64_t bytes_of(const struct brk_client *c)
{
    uint64_t sum = 0;

    for (const struct filling *f = fillings; f; f = f->next)
        sum += f->client == c ? f->name.size : 0;
    return sum;
}

/*
 * Image to displace: it frees enough, and its client has the most of the scarce resource and more
 * than this client would have; NULL: none. Clients that repeat the same requests before their
 * images are stale thus keep no more than their part.
 */
static struct filling *find_richer(const struct brk_client *c, uint64_t size)
{
    const bool places = nfillings >= most_filling();
    uint64_t most = places ? c->nfilling + 1 : bytes_of(c) + size;
    struct filling *found = NULL;

    for (struct filling *f = fillings; f; f = f->next) {
        const uint64_t has = f->filled ? 0 : places ? f->client->nfilling : bytes_of(f->client);

        if (has > most && vgp_range_ok(filling_bytes - f->name.size, size, brk_opt.image_cache / 2)) {
            most = has;
            found = f;
        }
    }
    return found;
}

/*
 * Makes a place for an image that the client may fill: drops stale images as needed, the client's
 * own if it is at its limit; else an image of a client that has more. False: no place can be made.
 */
static bool make_place(const struct brk_client *c, uint64_t size)
{
    const uint64_t now = vgb_now_ns();
    const bool full = c->nfilling >= FILLING_OF_CLIENT;
    struct filling *richer = NULL;

    if ((full && !find_stale(c, now)) || (!has_place(size, true, now) && !(richer = find_richer(c, size))))
        return false;
    if (richer)
        give_up(richer);
    if (full)
        give_up(find_stale(c, now));
    for (struct filling *f; !has_place(size, false, now) && (f = find_stale(NULL, now));)
        give_up(f);
    return has_place(size, false, now);
}

/* NULL: the worker has to receive it in its own memory. */
static struct filling *begin_filling(struct brk_client *c, const struct name *name)
{
    struct filling *f, **at = &fillings;

    if (!may_fill(c, name) || !make_place(c, name->size))
        return NULL;
    f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->fd = image_memory(name->size, SEALS);
    if (f->fd < 0) {
        free(f);
        return NULL;
    }
    f->name = *name;
    f->client = c;
    f->number = ++last_number;
    f->begun_ns = vgb_now_ns();
    f->copy = -1;
    while (*at)
        at = &(*at)->next;
    *at = f;
    nfillings++;
    filling_bytes += name->size;
    c->nfilling++;
    c->image_bytes += name->size;
    return f;
}

static struct filling *find_filling(const struct brk_client *c, uint64_t number)
{
    struct filling *f = fillings;

    while (f && (f->client != c || f->number != number || f->filled))
        f = f->next;
    return f;
}

/* ---- checking ---- */

/* Copies the next piece and hashes the copy. False: failed. */
static bool copy_piece(struct filling *f)
{
    static uint8_t piece[PIECE];
    const uint64_t left = f->name.size - f->done;
    const size_t want = left < PIECE ? (size_t)left : PIECE;

    if (pread(f->fd, piece, want, (off_t)f->done) != (ssize_t)want ||
        pwrite(f->copy, piece, want, (off_t)f->done) != (ssize_t)want)
        return false;
    sha_256_add(&f->sha, piece, want);
    f->done += want;
    return true;
}

static bool begin_copy(struct filling *f)
{
    sha_256_begin(&f->sha);
    f->copy = image_memory(f->name.size, 0);
    return f->copy >= 0;
}

static void end_copy(struct filling *f)
{
    uint8_t hash[SHA_256_BYTES];

    sha_256_end(&f->sha, hash);
    if (memcmp(hash, f->name.hash, sizeof(hash)) != 0) {
        brk_images.refused++;
        if (f->client)
            f->client->image_lies = true;
        vgb_log_limited(brk_lines_of(&lines, f->client ? f->client->lines : -1), VGB_WARN,
                        "client %s: an image has not the hash that was said: it is not kept%s",
                        f->client ? f->client->label : "that has ended",
                        f->client ? ", nor are further ones of this client" : "");
    } else if (!fcntl(f->copy, F_ADD_SEALS, SEALS | F_SEAL_WRITE)) {
        keep_image(&f->name, f->copy);
        f->copy = -1;
    }
    drop_filling(f);
}

/* Image being copied, else the complete image requested first. NULL: none is complete. */
static struct filling *next_to_check(void)
{
    struct filling *first = NULL;

    for (struct filling *f = fillings; f; f = f->next) {
        if (f->copy >= 0)
            return f;
        first = !first && f->filled ? f : first;
    }
    return first;
}

int brk_images_tick(int timeout_ms)
{
    struct filling *f = next_to_check();

    if (!f)
        return timeout_ms;
    if ((f->copy < 0 && (find_kept(&f->name) || !begin_copy(f))) || !copy_piece(f))
        drop_filling(f); /* another client was first, or no memory */
    else if (f->done == f->name.size)
        end_copy(f);
    return 0;
}

/* ---- what workers say ---- */

static void answer_ask(struct brk_client *c, const struct name *name)
{
    struct vgb_msg a = {.type = VGB_M_IMAGE, .status = VGPU_S_OK, .length = name->size};
    struct image *i = find_kept(name);
    const struct filling *f = NULL;
    const bool given = i && take_hold(c, i);

    if (given) {
        brk_images.hits++;
        brk_images.hit_bytes += name->size;
    } else {
        brk_images.misses++;
        f = i ? NULL : begin_filling(c, name);
        a.status = VGPU_S_INVALID;
        a.value = f ? f->number : 0;
    }
    brk_proc_send(c->proc, &a, given ? &i->fd : f ? &f->fd : NULL, given || f ? 1 : 0);
}

bool brk_images_message(struct brk_client *c, const struct vgb_msg *m)
{
    struct name name = {.size = m->length, .domain = c->ops};
    struct filling *f;

    if (!brk_opt.image_cache)
        return false;
    if (m->type == VGB_M_IMAGE_ASK) {
        if (m->length < VGP_BLOB_OFFER || m->length > VGP_BLOB_MAX)
            return false;
        memcpy(name.hash, m->image.hash, sizeof(name.hash));
        answer_ask(c, &name);
        return true;
    }
    f = find_filling(c, m->value);
    if (m->status > 1 || (!f && !c->nstale))
        return false;
    if (!f) {
        c->nstale--;
        return true;
    }
    f->filled = true;
    if (m->status)
        drop_filling(f);
    return true;
}

void brk_images_client_gone(struct brk_client *c)
{
    for (struct filling *f = fillings, *next; f; f = next) {
        next = f->next;
        if (f->client != c)
            continue;
        if (!f->filled) {
            drop_filling(f);
            continue;
        }
        c->nfilling--;
        f->client = NULL;
    }
}

void brk_images_stop(void)
{
    while (fillings)
        drop_filling(fillings);
    while (images)
        evict_image(&images);
}
