/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "main/main.h"
#include "vu.h"

static const char *header(uint32_t request, uint32_t flags, uint32_t size, unsigned nfds)
{
    struct brk_vu_header h = {.request = request, .flags = flags, .size = size};

    return brk_vu_header_check(&h, nfds);
}

static void test_headers(void **state)
{
    (void)state;
    assert_null(header(BRK_VU_GET_FEATURES, 1, 0, 0));
    assert_null(header(BRK_VU_GET_FEATURES, 1 | BRK_VU_FLAG_NEED_REPLY, 0, 0));
    assert_non_null(header(BRK_VU_GET_FEATURES, 0, 0, 0));
    assert_non_null(header(BRK_VU_GET_FEATURES, 2, 0, 0));
    assert_non_null(header(BRK_VU_GET_FEATURES, 1 | BRK_VU_FLAG_REPLY, 0, 0));
    assert_non_null(header(BRK_VU_GET_FEATURES, 1 | 16, 0, 0));
    assert_non_null(header(BRK_VU_GET_FEATURES, 1, 1, 0));
    assert_non_null(header(BRK_VU_GET_FEATURES, 1, 0, 1));
    assert_non_null(header(0, 1, 0, 0));
    assert_non_null(header(6, 1, 16, 0)); /* SET_LOG_BASE: not offered */
    assert_non_null(header(34, 1, 0, 0)); /* RESET_DEVICE: not offered */
    assert_non_null(header(41, 1, 0, 0));
    assert_non_null(header(0xffffffff, 1, 0, 0));
    assert_null(header(BRK_VU_SET_VRING_ADDR, 1, 40, 0));
    assert_non_null(header(BRK_VU_SET_VRING_ADDR, 1, 39, 0));
    assert_non_null(header(BRK_VU_SET_VRING_ADDR, 1, 41, 0));
    assert_null(header(BRK_VU_SET_VRING_KICK, 1, 8, 1));
    assert_non_null(header(BRK_VU_SET_VRING_KICK, 1, 8, 2));
    assert_null(header(BRK_VU_SET_MEM_TABLE, 1, 8 + 32 * BRK_VU_REGIONS, BRK_VU_REGIONS));
    assert_non_null(header(BRK_VU_SET_MEM_TABLE, 1, 8 + 32 * BRK_VU_REGIONS + 1, BRK_VU_REGIONS));
    assert_non_null(header(BRK_VU_SET_MEM_TABLE, 1, 8 + 32, BRK_VU_REGIONS + 1));
    assert_non_null(header(BRK_VU_SET_CONFIG, 1, 11, 0));
    assert_null(header(BRK_VU_SET_BACKEND_REQ_FD, 1, 0, 1));
    assert_non_null(header(BRK_VU_SET_BACKEND_REQ_FD, 1, 0, 0));
    assert_non_null(header(BRK_VU_SET_BACKEND_REQ_FD, 1, 0, 2));
    assert_non_null(header(BRK_VU_SET_BACKEND_REQ_FD, 1, 8, 1));
    assert_null(header(BRK_VU_GET_SHMEM_CONFIG, 1, 0, 0));
    assert_non_null(header(BRK_VU_GET_SHMEM_CONFIG, 1, 2056, 0));
    assert_non_null(header(BRK_VU_GET_SHMEM_CONFIG, 1, 0, 1));
    assert_non_null(header(43, 1, 0, 0)); /* CHECK_DEVICE_STATE: not offered */
    assert_non_null(header(45, 1, 0, 0));
    assert_non_null(header(BRK_VU_SET_CONFIG, 1, 12 + BRK_VU_CONFIG_MAX + 1, 0));
}

static const char *mem_table(uint32_t n, uint32_t size, unsigned nfds)
{
    struct brk_vu_header h = {.request = BRK_VU_SET_MEM_TABLE, .flags = 1, .size = size};
    union brk_vu_payload p;

    memset(&p, 0, sizeof(p));
    p.mem.nregions = n;
    return brk_vu_payload_check(&h, &p, nfds);
}

static const char *config(uint32_t request, uint32_t offset, uint32_t bytes, uint32_t size)
{
    struct brk_vu_header h = {.request = request, .flags = 1, .size = size};
    union brk_vu_payload p;

    memset(&p, 0, sizeof(p));
    p.config.offset = offset;
    p.config.size = bytes;
    return brk_vu_payload_check(&h, &p, 0);
}

static const char *kick(uint64_t v, unsigned nfds)
{
    struct brk_vu_header h = {.request = BRK_VU_SET_VRING_KICK, .flags = 1, .size = 8};
    union brk_vu_payload p = {.u64 = v};

    return brk_vu_payload_check(&h, &p, nfds);
}

static void test_payloads(void **state)
{
    const uint32_t c = sizeof(struct vgpu_config);

    (void)state;
    assert_null(mem_table(2, 8 + 64, 2));
    assert_null(mem_table(0, 8, 0));
    assert_non_null(mem_table(2, 8 + 64, 1));
    assert_non_null(mem_table(2, 8 + 63, 2));
    assert_non_null(mem_table(BRK_VU_REGIONS + 1, 8 + 32 * BRK_VU_REGIONS, BRK_VU_REGIONS));
    assert_non_null(mem_table(0xffffffff, 8 + 32, 1));
    assert_null(config(BRK_VU_GET_CONFIG, 0, c, 12 + c));
    assert_null(config(BRK_VU_GET_CONFIG, c, 0, 12));
    assert_non_null(config(BRK_VU_GET_CONFIG, 0, c + 1, 12 + c + 1));
    assert_non_null(config(BRK_VU_GET_CONFIG, 1, c, 12 + c));
    assert_non_null(config(BRK_VU_SET_CONFIG, 0xffffffff, 1, 13));
    assert_non_null(config(BRK_VU_SET_CONFIG, 0, c, 12 + c - 1));
    assert_null(kick(5, 1));
    assert_null(kick(5 | BRK_VU_NOFD, 0));
    assert_non_null(kick(5, 0));
    assert_non_null(kick(5 | BRK_VU_NOFD, 1));
    assert_non_null(kick(1u << 9, 1));
}

static void test_config_negotiation(void **state)
{
    struct vgpu_config offer, set;

    (void)state;
    brk_vu_config_offer(&offer);
    assert_int_equal(offer.max_clients, 64);
    set = offer;
    assert_null(brk_vu_config_check(&offer, &set));
    set.max_clients = 1;
    assert_null(brk_vu_config_check(&offer, &set));
    set.max_clients = 65;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set.max_clients = 0;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set = offer;
    set.window_size = 4 << 20;
    assert_null(brk_vu_config_check(&offer, &set));
    set.window_size = 2 << 20;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set.window_size = 6 << 20;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set.window_size = UINT64_C(1) << 31;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set = offer;
    set.max_pin_runs = VGPU_MAX_PIN_RUNS + 1;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set = offer;
    set.magic = 0;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set = offer;
    set.abi_version = 2;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set = offer;
    set.reserved[2] = 1;
    assert_non_null(brk_vu_config_check(&offer, &set));
}

static void test_quota_negotiation(void **state)
{
    struct vgpu_config offer, set;

    (void)state;
    brk_vu_config_offer(&offer);
    offer.vram_quota = 100;
    set = offer;
    set.vram_quota = 99;
    assert_null(brk_vu_config_check(&offer, &set));
    set.vram_quota = 101;
    assert_non_null(brk_vu_config_check(&offer, &set));
    set.vram_quota = 0; /* none */
    assert_non_null(brk_vu_config_check(&offer, &set));
    offer.vram_quota = 0;
    set.vram_quota = 7;
    assert_null(brk_vu_config_check(&offer, &set));
}

static void test_quotas(void **state)
{
    struct brk_quota_pool q = {.limit = 100};

    (void)state;
    assert_true(brk_quota_move(&q, 0, 60));
    assert_false(brk_quota_move(&q, 0, 41));
    assert_true(brk_quota_move(&q, 0, 40));
    assert_int_equal(q.used, 100);
    assert_false(brk_quota_move(&q, 60, UINT64_MAX));
    assert_true(brk_quota_move(&q, 60, 10));
    assert_true(brk_quota_move(&q, 40, 0));
    assert_int_equal(q.used, 10);
    q.limit = 5; /* lowered below what is used: nothing more, but less */
    assert_false(brk_quota_move(&q, 10, 11));
    assert_true(brk_quota_move(&q, 10, 9));
    /* Also without a limit: a holder's claim must not make the sum wrap, nor leave nothing to the other holders. */
    q.limit = 0;
    assert_false(brk_quota_move(&q, 9, UINT64_MAX));
    assert_false(brk_quota_move(&q, 9, BRK_PART_MAX + 1));
    assert_int_equal(q.used, 9);
    assert_true(brk_quota_move(&q, 9, BRK_PART_MAX));
    for (unsigned i = 1; i < 1u << 15; i++)
        assert_true(brk_quota_move(&q, 0, BRK_PART_MAX));
    assert_int_equal(q.used, (UINT64_C(1) << 15) * BRK_PART_MAX);
}

static void test_sizes(void **state)
{
    uint64_t n;

    (void)state;
    assert_true(brk_parse_size("0", &n) && n == 0);
    assert_true(brk_parse_size("16M", &n) && n == 16 << 20);
    assert_true(brk_parse_size("1T", &n) && n == UINT64_C(1) << 40);
    assert_false(brk_parse_size("", &n));
    assert_false(brk_parse_size("-1", &n));
    assert_false(brk_parse_size("1MB", &n));
    assert_false(brk_parse_size("M", &n));
    assert_false(brk_parse_size("99999999999999999999", &n));
    assert_false(brk_parse_size("99999999999T", &n));
}

int main(void)
{
    brk_opt.max_clients = 64;
    brk_opt.window_size = 16 << 20;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_config_negotiation),
        cmocka_unit_test(test_quota_negotiation),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_sizes),
    };

    return cmocka_run_group_tests_name("vhost-user messages", tests, NULL, NULL);
}
