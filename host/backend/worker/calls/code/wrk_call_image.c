/* SPDX-License-Identifier: MIT */
/* Images of code from the wire: checked, and made ready for the provider. */
#include "../calls.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* The header, as long as it says that it is, its tables, and every section with bytes in the file
 * lie inside the image. */
static bool elf_ok(const uint8_t *p, uint64_t n)
{
    Elf64_Ehdr eh;
    Elf64_Shdr sh;
    Elf64_Phdr ph;
    uint64_t sections; /* 0: none, or more than fit the field, and the first one says how many */

    if (n < sizeof(eh))
        return false;
    memcpy(&eh, p, sizeof(eh));
    if (eh.e_ehsize < sizeof(eh) || eh.e_ehsize > n || eh.e_phnum == PN_XNUM)
        return false;
    sections = eh.e_shnum;
    if (!sections && eh.e_shoff) {
        if (!vgp_range_ok(eh.e_shoff, sizeof(sh), n))
            return false;
        memcpy(&sh, p + eh.e_shoff, sizeof(sh));
        sections = sh.sh_size;
    }
    if (sections > n / sizeof(sh))
        return false;
    if ((sections && eh.e_shentsize != sizeof(sh)) || (eh.e_phnum && eh.e_phentsize != sizeof(ph)) ||
        !vgp_range_ok(eh.e_shoff, sections * sizeof(sh), n) ||
        !vgp_range_ok(eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(ph), n))
        return false;
    for (uint64_t i = 0; i < sections; i++) {
        memcpy(&sh, p + eh.e_shoff + i * sizeof(sh), sizeof(sh));
        if (sh.sh_type != SHT_NULL && sh.sh_type != SHT_NOBITS && !vgp_range_ok(sh.sh_offset, sh.sh_size, n))
            return false;
    }
    for (unsigned i = 0; i < eh.e_phnum; i++) {
        memcpy(&ph, p + eh.e_phoff + i * sizeof(ph), sizeof(ph));
        if (!vgp_range_ok(ph.p_offset, ph.p_filesz, n))
            return false;
    }
    return true;
}

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

/* Size of the fat binary at p according to its header; 0: larger than the n bytes sent. */
static uint64_t fatbin_size(const uint8_t *p, uint64_t n)
{
    uint16_t head;
    uint64_t body;

    if (n < 16)
        return 0;
    memcpy(&head, p + 6, sizeof(head));
    memcpy(&body, p + 8, sizeof(body));
    return head >= 16 && vgp_range_ok(head, body, n) ? head + body : 0;
}

/* Start of the fat binary after that at `at`; 0: none. */
static uint64_t fatbin_next(const uint8_t *p, uint64_t n, uint64_t at)
{
    uint64_t next = (at + fatbin_size(p + at, n - at) + 7) & ~7ull;
    uint32_t magic;

    if (next <= at || next >= n || n - next < 16)
        return 0;
    memcpy(&magic, p + next, sizeof(magic));
    return magic == FATBIN_MAGIC ? next : 0;
}

/*
 * The provider is not told how large the image is: what the image says of itself must fit. A fatbin
 * wrapper holds pointers, which must never come from a guest: libcuda has taken it off, and sends
 * the fat binaries of an image compiled with -rdc=true one after the other.
 */
static const char *image_wrong(const uint8_t *p, uint64_t n)
{
    uint32_t magic = 0;

    if (n < sizeof(magic))
        return n ? NULL : "the image is empty";
    memcpy(&magic, p, sizeof(magic));
    if (magic == WRAPPER_MAGIC)
        return "the image is a fat binary wrapper, which holds a pointer";
    if (magic == FATBIN_MAGIC) {
        uint64_t at = 0;

        do {
            if (!fatbin_size(p + at, n - at))
                return n < 16 ? "the fat binary is cut short" : "the fat binary claims more than was sent";
            at = fatbin_next(p, n, at);
        } while (at);
    }
    if (!memcmp(&magic, ELFMAG, SELFMAG) && !elf_ok(p, n))
        return "the ELF image claims more than was sent";
    return NULL;
}

/* Image as passed to the provider. Inline images are copied with padding, as PTX is a string to the
 * provider. Several fat binaries get the wrapper that nvcc would have created. */
struct image {
    const void *data;
    uint64_t size; /* bytes at data that the provider may read */
    void *copy;
};

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void **more; /* of the linked objects, ended by NULL */
};

static bool image_open(struct image *m, const void *data, uint64_t size, bool is_blob)
{
    const uint8_t *p = data;
    uint64_t objects = 0, at = 0, room = 0;
    uint32_t magic = 0;
    struct wrapper *w;

    m->data = data;
    m->size = size;
    m->copy = NULL;
    memcpy(&magic, data, size < sizeof(magic) ? size : sizeof(magic));
    while (magic == FATBIN_MAGIC && (at = fatbin_next(p, size, at)) != 0)
        objects++;
    if (is_blob && !objects)
        return true; /* wrk_blob_append() has put a NUL behind it */
    if (objects)
        room = sizeof(*w) + (objects + 1) * sizeof(void *);
    m->copy = calloc(1, room + (is_blob ? 0 : size + 64));
    if (!m->copy)
        return false;
    if (!is_blob) {
        memcpy((uint8_t *)m->copy + room, data, size);
        m->data = p = (uint8_t *)m->copy + room;
    }
    if (!objects)
        return true;
    w = m->copy;
    *w = (struct wrapper){WRAPPER_MAGIC, 2, p, (const void **)(w + 1)};
    at = 0;
    for (uint64_t i = 0; i < objects; i++) {
        at = fatbin_next(p, size, at);
        w->more[i] = p + at;
    }
    m->data = w;
    m->size = room; /* which points to the rest */
    return true;
}

CUresult wrk_image_take(struct wrk_call *c, const void **image, uint64_t *size, bool is_blob, void **copy)
{
    struct image m;

    const char *wrong = wrk_image_refused(*size);

    *copy = NULL;
    if (wrong) {
        wrk_notify_detail(c->w, wrong);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    wrong = image_wrong(*image, *size);
    if (wrong) {
        wrk_notify_detail(c->w, wrong);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (!image_open(&m, *image, *size, is_blob))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *image = m.data;
    *size = m.size;
    *copy = m.copy;
    return CUDA_SUCCESS;
}
