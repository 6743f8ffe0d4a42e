/* SPDX-License-Identifier: MIT */
/*
 * Golden records: the output of the guest's generated encoders for every call, with arguments
 * derived from the names of the fields. One line per record: number, name, bytes, whether a reply
 * is wanted, a hash of the bytes; for some records also the bytes. check.sh compares the output
 * with golden_records.tsv. Entries of existing calls are never regenerated, as old guests keep
 * sending these bytes. The cases are generated from the description for each run
 * (gen/templates/golden.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_guest.h"

static uint64_t hash(const void *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
    return h;
}

static uint64_t value(const char *key)
{
    return hash(key, strlen(key));
}

static void fill(void *p, size_t n, const char *key)
{
    uint64_t v = value(key);

    for (size_t i = 0; i < n; i++) {
        v = v * 6364136223846793005ull + 1442695040888963407ull;
        ((uint8_t *)p)[i] = (uint8_t)(v >> 56);
    }
}

static void text(char *p, size_t n, const char *key)
{
    fill(p, n, key);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + (uint8_t)p[i] % 26);
    p[n - 1] = 0;
}

static uint64_t handle(enum vgp_handle_type type, const char *key)
{
    return VGP_HANDLE(type, 7, value(key) % 1000);
}

/* The record under construction; printed when published. */
static struct {
    const char *name;
    uint16_t number;
    uint32_t size;
    bool reply;
    unsigned minted, printed;
    uint8_t args[VGP_RECORD_MAX] __attribute__((aligned(16)));
} rec;

static void begin(const char *name)
{
    rec.name = name;
    rec.minted = 0;
}

static void print(void)
{
    printf("%#06x\t%s\t%u\t%s\t%016llx", rec.number, rec.name, rec.size, rec.reply ? "reply" : "silent",
           (unsigned long long)hash(rec.args, rec.size));
    if (rec.printed++ % 16 == 0 && rec.size <= 128) {
        printf("\t");
        for (uint32_t i = 0; i < rec.size; i++)
            printf("%02x", rec.args[i]);
    }
    printf("\n");
}

/* ---- library functions called by the encoders ---- */

void vgp_stream_count(struct vgp_submit *s, uint64_t stream)
{
    (void)s, (void)stream;
}

bool vgp_submit_silent(struct vgp_submit *s, uint32_t since, uint64_t dst, uint64_t pitch, uint64_t width,
                       uint64_t height, uint32_t element, bool streamed, uint64_t stream)
{
    (void)s, (void)since, (void)dst, (void)pitch, (void)width, (void)height, (void)element, (void)streamed,
        (void)stream;
    return false;
}

CUresult vgp_submit_begin(struct vgp_submit *s, uint16_t call, uint32_t bytes, bool want_reply)
{
    if (bytes > VGP_RECORD_MAX - sizeof(struct vgp_record)) {
        printf("%s: a record of %u bytes\n", rec.name, bytes);
        exit(1);
    }
    rec.size = (bytes + 15) & ~15u;
    rec.number = call;
    rec.reply = want_reply;
    /* As the rings do: bytes that the encoder must write are not zeroed. */
    memset(rec.args, 0xa5, sizeof(rec.args));
    memset(rec.args, 0, bytes < 512 ? bytes : 512);
    memset(rec.args + bytes, 0, rec.size - bytes);
    s->args = rec.args;
    return CUDA_SUCCESS;
}

CUresult vgp_submit_publish(struct vgp_submit *s)
{
    (void)s;
    print();
    return CUDA_SUCCESS;
}

CUresult vgp_submit_async(struct vgp_submit *s)
{
    return vgp_submit_publish(s);
}

CUresult vgp_submit_collect(struct vgp_submit *s, const void **payload, uint32_t *bytes)
{
    (void)s;
    (void)payload;
    *bytes = 0;
    return CUDA_ERROR_UNKNOWN; /* no results to decode */
}

void vgp_submit_end(struct vgp_submit *s)
{
    (void)s;
}

CUresult vgp_blob_send(const void *data, uint64_t bytes, uint32_t *blob_id)
{
    (void)data;
    *blob_id = (uint32_t)bytes + 11;
    return CUDA_SUCCESS;
}

/* A different ordinal on the wire, so that a field without translation is detected. */
int32_t vgp_device_sent(int32_t device)
{
    return device ^ 0x55;
}

int32_t vgp_device_got(int32_t device)
{
    return device ^ 0x55;
}

uint64_t vgp_handle_mint(enum vgp_handle_type type)
{
    return VGP_HANDLE(type, 3, 100 + rec.minted++);
}

bool vgp_handle_live(uint64_t h, enum vgp_handle_type type)
{
    return VGP_HANDLE_TYPE(h) == (unsigned)type;
}

void vgp_handle_drop(uint64_t h)
{
    (void)h;
}

#include "vgp_golden_cases.h"

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cases[i]();
    return 0;
}
