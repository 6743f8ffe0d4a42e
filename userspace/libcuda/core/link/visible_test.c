/* SPDX-License-Identifier: MIT */
/* CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: which devices a list names, and the ordinals that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../protocol/vgp_guest_rt.h"
#include "visible.h"

/* Four devices; the bus numbers fall, and the first two have UUIDs that begin alike. */
static void make_devices(struct vcu_device *d)
{
    memset(d, 0, 4 * sizeof(*d));
    for (int i = 0; i < 4; i++) {
        memset(d[i].uuid.bytes, i < 2 ? 0xab : 0x10 * i, 16);
        d[i].uuid.bytes[15] = (char)i;
        d[i].attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = 9 - i;
        d[i].total_memory = (uint64_t)i;
    }
    d[3].attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] = 1;
}

/* The devices selected by `text`, as digits. */
static const char *shown(const char *text, const char *order)
{
    static struct vcu_device d[4];
    static char digits[VCU_MAX_DEVICES + 1];
    int list[VCU_MAX_DEVICES], n;
    const char *why;

    make_devices(d);
    n = vcu_visible_choose(text, order, d, 4, list, &why);
    for (int i = 0; i < n; i++)
        digits[i] = (char)('0' + list[i]);
    digits[n] = '\0';
    return digits;
}

static void test_numbers(void **state)
{
    (void)state;
    assert_string_equal(shown(NULL, NULL), "0123");
    assert_string_equal(shown("", NULL), "");
    assert_string_equal(shown("  ", NULL), "");
    assert_string_equal(shown("2", NULL), "2");
    assert_string_equal(shown("2,0", NULL), "20");
    assert_string_equal(shown(" 2 , 0 ", NULL), "20");
    assert_string_equal(shown("+1", NULL), "1");
    assert_string_equal(shown("1gpu2,2", NULL), "12"); /* read as strtol() does */
    assert_string_equal(shown("-1", NULL), "");
    assert_string_equal(shown("0,2,-1,1", NULL), "02"); /* ends at the first that is none */
    assert_string_equal(shown("0,4,1", NULL), "0");
    assert_string_equal(shown("0,99999999999999999999,1", NULL), "0");
    assert_string_equal(shown("NoDevFiles", NULL), "");
    assert_string_equal(shown(",1", NULL), "");
    assert_string_equal(shown("1,,2", NULL), "1");
    assert_string_equal(shown("1,", NULL), "1");
    assert_string_equal(shown("1,2,1", NULL), ""); /* twice: nothing */
}

static void test_uuids(void **state)
{
    (void)state;
    assert_string_equal(shown("GPU-20202020-2020-2020-2020-202020202002", NULL), "2");
    assert_string_equal(shown("GPU-20", NULL), "2");
    assert_string_equal(shown("GPU-30,GPU-20", NULL), "32");
    assert_string_equal(shown("GPU-20 ,\tGPU-30", NULL), "23");
    assert_string_equal(shown("GPU-ab", NULL), ""); /* two begin so */
    assert_string_equal(shown("GPU-abababab-abab-abab-abab-ababababab01", NULL), "1");
    assert_string_equal(shown("GPU-", NULL), "");
    assert_string_equal(shown("GPU-20202020-2020-2020-2020-2020202020020", NULL), ""); /* too long */
    assert_string_equal(shown("GPU-20,GPU-77,GPU-30", NULL), "2");
    assert_string_equal(shown("GPU-20,GPU-2", NULL), ""); /* the same device */
    assert_string_equal(shown("GPU-20,3", NULL), "2");    /* no mixture */
    assert_string_equal(shown("3,GPU-20", NULL), "3");
    assert_string_equal(shown("MIG-GPU-20/1/0", NULL), "");
}

static void test_order(void **state)
{
    (void)state;
    assert_string_equal(shown(NULL, "PCI_BUS_ID"), "2103"); /* the domain counts before the bus */
    assert_string_equal(shown(NULL, "FASTEST_FIRST"), "0123");
    assert_string_equal(shown(NULL, "other"), "0123");
    assert_string_equal(shown("0,3", "PCI_BUS_ID"), "23"); /* numbers count in that order */
}

static void test_ordinals(void **state)
{
    (void)state;
    make_devices(vcu.devices);
    vcu.device_count = 4;
    assert_int_equal(vgp_device_sent(7), 7); /* nothing chosen: as they are */
    assert_int_equal(vgp_device_got(3), 3);
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    assert_int_equal(vcu_visible_apply(), CUDA_SUCCESS);
    assert_int_equal(vcu.device_count, 2);
    assert_int_equal(vcu.devices[0].total_memory, 3);
    assert_int_equal(vcu.devices[1].total_memory, 1);
    assert_int_equal(vgp_device_sent(0), 3);
    assert_int_equal(vgp_device_sent(1), 1);
    assert_int_equal(vgp_device_sent(2), INT32_MAX); /* never a device that is hidden */
    assert_int_equal(vgp_device_sent(-1), -1);
    assert_int_equal(vgp_device_got(3), 0);
    assert_int_equal(vgp_device_got(1), 1);
    assert_int_equal(vgp_device_got(0), CU_DEVICE_INVALID);
    assert_int_equal(vgp_device_got(60), CU_DEVICE_INVALID);
    assert_int_equal(vgp_location_sent(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), 0);
    assert_int_equal(vgp_location_sent(CU_MEM_LOCATION_TYPE_DEVICE, 0), 3);
    make_devices(vcu.devices);
    vcu.device_count = 4;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(vcu_visible_apply(), CUDA_ERROR_NO_DEVICE);
    unsetenv("CUDA_VISIBLE_DEVICES"); /* a later cuInit of the process, after a failed one */
    assert_int_equal(vcu_visible_apply(), CUDA_SUCCESS);
    assert_int_equal(vgp_device_sent(2), 2);
}

/* Six devices at three places: the devices left for a process that uses one place. */
static void test_places(void **state)
{
    static const struct vcu_found found[6] = {{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}, {2, 2}};
    static const struct {
        int list[6], count;
        bool named;
        int left, want[3];
        bool early;
    } rows[] = {
        {{0, 1, 2, 3, 4, 5}, 6, false, 2, {0, 1}, false}, /* by the order alone: those of the first's place */
        {{4, 0, 3, 5}, 4, false, 3, {1, 0, 2}, false},
        {{4, 3}, 2, true, 2, {1, 0}, false},
        {{4, 0, 3}, 3, true, 1, {1}, true}, /* by name: ends at the first elsewhere */
        {{2}, 1, true, 1, {0}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *why = NULL;
        int list[6];

        memcpy(list, rows[i].list, sizeof(list));
        assert_int_equal(vcu_visible_at_place(list, rows[i].count, found, rows[i].named, &why), rows[i].left);
        assert_memory_equal(list, rows[i].want, (size_t)rows[i].left * sizeof(int));
        assert_int_equal(why != NULL, rows[i].early);
    }
}

/* One GPU behind two backends is not ambiguous. */
static void test_same_gpu(void **state)
{
    static struct vcu_device d[4];
    int list[VCU_MAX_DEVICES];
    const char *why;

    (void)state;
    make_devices(d);
    d[3].uuid = d[2].uuid;
    assert_int_equal(vcu_visible_choose("GPU-20", NULL, d, 4, list, &why), 1);
    assert_int_equal(list[0], 2);
    assert_int_equal(vcu_visible_choose("GPU-ab", NULL, d, 4, list, &why), 0);
}

/* One of two devices at this place, of three at all. */
static void test_show(void **state)
{
    static const int second[] = {1}, both[] = {0, 1};

    (void)state;
    make_devices(vcu.devices);
    vcu.device_count = 2;
    assert_int_equal(vcu_visible_show(both, 2, 3, NULL), CUDA_SUCCESS);
    assert_int_equal(vcu.device_count, 2);
    assert_int_equal(vgp_device_sent(1), 1);
    assert_int_equal(vgp_device_sent(2), INT32_MAX); /* the third is not here */
    assert_int_equal(vcu_visible_show(second, 1, 3, NULL), CUDA_SUCCESS);
    assert_int_equal(vcu.device_count, 1);
    assert_int_equal(vgp_device_sent(0), 1);
    assert_int_equal(vcu_visible_show(second, 0, 3, "no such device"), CUDA_ERROR_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_uuids),  cmocka_unit_test(test_order),
        cmocka_unit_test(test_ordinals), cmocka_unit_test(test_places), cmocka_unit_test(test_show),
        cmocka_unit_test(test_same_gpu),
    };

    return cmocka_run_group_tests_name("visible", tests, NULL, NULL);
}
