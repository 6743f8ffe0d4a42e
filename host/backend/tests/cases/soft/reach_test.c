/* SPDX-License-Identifier: MIT */
/*
 * What a guest learns of the worker's own memory by asking: nothing. A real worker with the software GPU; every call
 * that takes an address is asked at every edge of every mapping of the worker, as /proc/PID/maps shows them, and must
 * answer as it does where nothing is mapped. $BACKEND_DIR/../softgpu has the software GPU.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

#define PAGE 4096ull
#define AREA (1ull << 35)         /* no answer about a pin depends on anything finer */
#define NOTHING 0x123400000000ull /* no worker has anything there */
#define RESERVED (2ull << 20)
#define RESERVED_ALL (1ull << 44) /* all reservations of the software GPU lie in one range of that size */
#define EDGES 4096

static struct broker b;
static struct guest g;
static uint64_t device; /* PAGE bytes of the guest's own */
static uint64_t edges[EDGES];
static unsigned nedges;

/* ---- the calls that take an address ---- */

static int ask_memset(uint64_t va)
{
    return guest_memset(&g, va, 0x55, 8, 0);
}

static int ask_memset_rows(uint64_t va)
{
    struct vgp_args_cuMemsetD2D8_v2 a = {
        .dstDevice = va, .dstPitch = 64, .uc = 0x55, .Width = 8, .Height = 2};

    return guest_call(&g, VGP_cuMemsetD2D8_v2, &a, sizeof(a), NULL, NULL);
}

static int copy(uint32_t dst_kind, uint64_t dst, uint32_t src_kind, uint64_t src, uint64_t rows)
{
    struct vgp_args_vgpCopy a = {.dstKind = dst_kind,
                                 .srcKind = src_kind,
                                 .dst = dst,
                                 .dstPitch = 64,
                                 .dstHeight = rows,
                                 .src = src,
                                 .srcPitch = 64,
                                 .srcHeight = rows,
                                 .widthBytes = 8,
                                 .height = rows,
                                 .depth = 1,
                                 .when = VGP_WHEN_COMPLETE};

    return guest_call(&g, VGP_vgpCopy, &a, sizeof(a), NULL, NULL);
}

static int ask_copy_to(uint64_t va)
{
    return copy(VGP_COPY_DEVICE, va, VGP_COPY_DEVICE, device, 1);
}

static int ask_copy_from(uint64_t va)
{
    return copy(VGP_COPY_DEVICE, device, VGP_COPY_DEVICE, va, 1);
}

static int ask_copy_rows(uint64_t va)
{
    return copy(VGP_COPY_DEVICE, device, VGP_COPY_DEVICE, va, 2);
}

static int ask_copy_into_reply(uint64_t va)
{
    return copy(VGP_COPY_REPLY, 0, VGP_COPY_DEVICE, va, 1);
}

static int ask_copy_from_staging(uint64_t va)
{
    return copy(VGP_COPY_DEVICE, va, VGP_COPY_STAGING, 0, 1);
}

static int ask_copy_as_host(uint64_t va)
{
    return copy(VGP_COPY_DEVICE, device, VGP_COPY_HOST, va, 1);
}

static int ask_copy_between_hosts(uint64_t va)
{
    return copy(VGP_COPY_STAGING, 0, VGP_COPY_HOST, va, 1);
}

static int ask_peer(uint64_t va)
{
    struct vgp_args_vgpCopyPeer a = {.dst = device,
                                     .src = va,
                                     .dstContext = g.context,
                                     .srcContext = g.context,
                                     .widthBytes = 8,
                                     .height = 1,
                                     .depth = 1};

    return guest_call(&g, VGP_vgpCopyPeer, &a, sizeof(a), NULL, NULL);
}

static int ask_managed(uint64_t va)
{
    struct vgp_args_vgpPointerManaged a = {.addr = va};

    return guest_call(&g, VGP_vgpPointerManaged, &a, sizeof(a), NULL, NULL);
}

static int ask_decompress(uint64_t va)
{
    struct vgp_args_vgpPointerDecompress a = {.address = va};

    return guest_call(&g, VGP_vgpPointerDecompress, &a, sizeof(a), NULL, NULL);
}

static int ask_sync_memops(uint64_t va)
{
    struct vgp_args_vgpPointerSetSync a = {.addr = va, .on = 1};

    return guest_call(&g, VGP_vgpPointerSetSync, &a, sizeof(a), NULL, NULL);
}

static int ask_ipc(uint64_t va)
{
    struct vgp_args_cuIpcGetMemHandle a = {.dptr = va};

    return guest_call(&g, VGP_cuIpcGetMemHandle, &a, sizeof(a), NULL, NULL);
}

static int ask_free(uint64_t va)
{
    return guest_free(&g, va);
}

static int ask_prefetch(uint64_t va)
{
    struct vgp_args_cuMemPrefetchAsync_v2 a = {
        .devPtr = va, .count = PAGE, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

    return guest_call(&g, VGP_cuMemPrefetchAsync_v2, &a, sizeof(a), NULL, NULL);
}

/* Writes a word of 32 bits. */
static int ask_stream_write(uint64_t va)
{
    struct vgp_args_vgpStreamMemOps a = {
        .operations_len = 1, .addresses_len = 1, .values_len = 1, .operationFlags_len = 1};
    const uint64_t lists[4] = {CU_STREAM_MEM_OP_WRITE_VALUE_32, va, 0x55, 0};

    guest_submit(&g, VGP_vgpStreamMemOps, 0, &a, sizeof(a), lists, sizeof(lists));
    return guest_wait(&g, 0, NULL, NULL, 60000);
}

/* Where the reservation is that this hint gets, which is given back. */
static uint64_t reserved_for(uint64_t hint)
{
    struct vgp_args_cuMemAddressReserve a = {.size = RESERVED, .addr = hint};
    const void *p;
    uint64_t at;

    assert_int_equal(guest_call(&g, VGP_cuMemAddressReserve, &a, sizeof(a), &p, NULL), 0);
    at = ((const struct vgp_ret_cuMemAddressReserve *)p)->ptr;
    struct vgp_args_cuMemAddressFree f = {.ptr = at, .size = RESERVED};
    assert_int_equal(guest_call(&g, VGP_cuMemAddressFree, &f, sizeof(f), NULL, NULL), 0);
    return at;
}

/* Shares a page of ours that it says is at va; is it there in the worker, too? */
static bool kept(uint64_t va)
{
    static uint32_t region;
    struct vgp_sock_map m = {.type = VGP_SOCK_MAP, .region = ++region, .va = va, .length = PAGE};
    struct vgp_sock_mapped answer;
    int fd = memfd_create("reach", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool there;

    assert_true(fd >= 0 && !ftruncate(fd, (off_t)PAGE) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    assert_int_equal(vgb_send_fds(g.sock, &m, sizeof(m), &fd, 1, 0), sizeof(m));
    assert_int_equal(recv(g.sock, &answer, sizeof(answer), 0), sizeof(answer));
    close(fd);
    assert_int_equal(answer.status, 0);
    there = answer.worker_va == va;
    m = (struct vgp_sock_map){.type = VGP_SOCK_UNMAP, .region = region};
    assert_int_equal(send(g.sock, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
    assert_int_equal(recv(g.sock, &answer, sizeof(answer), 0), sizeof(answer));
    return there;
}

/* ---- the worker's mappings ---- */

static void read_edges(void)
{
    unsigned long long low, high;
    char path[64], line[600];

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)worker_of_client(b.pid));
    FILE *f = fopen(path, "re");
    nedges = 0;
    while (f && nedges + 2 <= EDGES && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx-%llx", &low, &high) != 2 || high >> 47)
            continue;
        edges[nedges++] = low;
        edges[nedges++] = high;
    }
    if (f)
        fclose(f);
}

/* A page of the same area that is far from every mapping; 0: there is none. */
static uint64_t elsewhere(uint64_t va)
{
    const uint64_t step = AREA / 64;

    for (uint64_t page = va & ~(AREA - 1), i = 0; i < 64; i++, page += step) {
        bool clear = page != 0;

        for (unsigned k = 0; k < nedges; k += 2)
            clear &= page + step <= edges[k] || page >= edges[k + 1] + step;
        if (clear)
            return page;
    }
    return 0;
}

static int setup(void **state)
{
    static const char *extra[4];

    (void)state;
    extra[0] = "--provider";
    extra[1] = soft_provider();
    if (access(extra[1], R_OK)) {
        print_error("%s: not built\n", extra[1]);
        return -1;
    }
    if (broker_start(&b, extra) || guest_connect(&g, b.sock, "reach") || guest_context(&g) ||
        guest_alloc(&g, PAGE, &device))
        return -1;
    /* The worker has used all that it uses: results, staging, what copies need. */
    if (copy(VGP_COPY_STAGING, 0, VGP_COPY_DEVICE, device, 2) ||
        copy(VGP_COPY_REPLY, 0, VGP_COPY_DEVICE, device, 2))
        return -1;
    read_edges();
    return nedges > 100 ? 0 : -1; /* the tests run as root: the maps of a worker can be read */
}

static int teardown(void **state)
{
    (void)state;
    guest_close(&g);
    return broker_stop(&b);
}

/* No call has an effect, and each answers as if nothing were there. */
static void test_calls(void **state)
{
    static const struct {
        const char *name;
        int (*ask)(uint64_t va);
        bool works; /* with the guest's own memory: what is asked is a question of the address alone */
    } calls[] = {
#define CALL(name, works) {#name, ask_##name, works}
        CALL(memset, true),
        CALL(memset_rows, true),
        CALL(copy_to, true),
        CALL(copy_from, true),
        CALL(copy_rows, true),
        CALL(copy_into_reply, true),
        CALL(copy_from_staging, true),
        CALL(peer, true),
        CALL(stream_write, true),
        CALL(managed, true),
        CALL(sync_memops, true),
        CALL(ipc, true),
        CALL(decompress, true),
        CALL(copy_as_host, false),
        CALL(copy_between_hosts, false),
        CALL(free, false),
        CALL(prefetch, false),
#undef CALL
    };
    unsigned asked = 0;

    (void)state;
    for (unsigned k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
        const int nothing = calls[k].ask(NOTHING);

        if (nothing <= 0 || (calls[k].works && calls[k].ask(device) != 0))
            fail_msg("%s: %d where nothing is", calls[k].name, nothing);
        for (unsigned i = 0; i < nedges; i++) {
            for (int step = -2; step <= 1; step++) {
                const uint64_t va = edges[i] + (uint64_t)(int64_t)step * (i % 2 ? 8 : (int64_t)PAGE / 2);
                int r;

                if (va >= device - PAGE && va < device + 2 * PAGE)
                    continue;
                r = calls[k].ask(va & ~7ull);
                if (r != nothing)
                    fail_msg("%s at %#llx: %d, and %d where nothing is", calls[k].name,
                             (unsigned long long)va, r, nothing);
                asked++;
            }
        }
    }
    assert_true(asked > 1000);
    assert_int_equal(copy(VGP_COPY_STAGING, 0, VGP_COPY_DEVICE, device, 1),
                     0); /* nothing has hurt the worker */
}

static void test_hints(void **state)
{
    const uint64_t first = reserved_for(0);
    unsigned asked = 0;

    (void)state;
    for (unsigned i = 0; i < nedges; i++) {
        for (int step = -2; step <= 2; step++) {
            const uint64_t hint = (edges[i] & ~(RESERVED - 1)) + (uint64_t)(int64_t)step * RESERVED;

            if (hint + RESERVED >= first && hint < first + RESERVED_ALL)
                continue; /* one of the reservations' own */
            if (reserved_for(hint) != first)
                fail_msg("a hint of %#llx is not answered as any other", (unsigned long long)hint);
            asked++;
        }
    }
    assert_true(asked > 200);
}

static void test_pins(void **state)
{
    unsigned asked = 0;

    (void)state;
    for (unsigned i = 0; i < nedges; i++) {
        for (int step = -1; step <= 1; step++) {
            const uint64_t va = edges[i] + (uint64_t)(int64_t)step * PAGE, other = elsewhere(va);

            if (va < 16 * PAGE || (va + PAGE) >> 47 || !other)
                continue;
            if (kept(va) != kept(other))
                fail_msg("a pin at %#llx is not answered as one at %#llx", (unsigned long long)va,
                         (unsigned long long)other);
            asked++;
        }
    }
    assert_true(asked > 100);
    assert_true(kept(NOTHING)); /* where it may be: at its own address */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_pins),
    };

    return cmocka_run_group_tests_name("reach", tests, setup, teardown);
}
