/* SPDX-License-Identifier: MIT */
/*
 * CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, as the CUDA programming guide documents them: a list of
 * numbers, or of UUIDs ("GPU-" and enough digits to name one device), separated by commas. The devices are
 * numbered in the order of the list; it ends at the first element that names no device, and shows nothing
 * when it names one twice. Numbers are read as strtol() does, so that "1x" is 1. The application's ordinals
 * are these; the wire has the host's, and the encoders translate between the two.
 */
#include "visible.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../protocol/vgp_guest_rt.h"

/* Constant after cuInit. Without a choice, ordinals are passed on as they are. */
static bool chosen;
static int host_count;
static int host_of[VCU_MAX_DEVICES];  /* by the application's ordinal */
static int shown_as[VCU_MAX_DEVICES]; /* by the host's; CU_DEVICE_INVALID: not shown */

int32_t vgp_device_sent(int32_t device)
{
    if (!chosen || device < 0)
        return device;
    return device < vcu.device_count ? host_of[device] : INT32_MAX;
}

int32_t vgp_device_got(int32_t device)
{
    if (!chosen || device < 0)
        return device;
    return device < host_count ? shown_as[device] : CU_DEVICE_INVALID;
}

/* ---- the order ---- */

static int pci_compare(const struct vcu_device *a, const struct vcu_device *b)
{
    static const int keys[] = {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                               CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (a->attributes[keys[i]] != b->attributes[keys[i]])
            return a->attributes[keys[i]] < b->attributes[keys[i]] ? -1 : 1;
    }
    return 0;
}

/* FASTEST_FIRST, the default, is the order of the host's driver. Insertion keeps equals in their order. */
static void order_devices(const char *order, const struct vcu_device *all, int n, int *sorted)
{
    bool by_bus = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;

    for (int i = 0; i < n; i++) {
        int k = i;

        for (; by_bus && k > 0 && pci_compare(&all[i], &all[sorted[k - 1]]) < 0; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = i;
    }
}

/* ---- one element ---- */

/* "GPU-01234567-89ab-cdef-0123-456789abcdef" */
static void uuid_text(const CUuuid *uuid, char text[48])
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    size_t n = 4;

    memcpy(text, "GPU-", 5);
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(text + n, 48 - n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                              b[i]);
}

static int by_uuid(const char *element, size_t size, const struct vcu_device *all, int n, const char **why)
{
    int found = -1;

    for (int i = 0; i < n; i++) {
        char text[48];

        uuid_text(&all[i].uuid, text);
        if (size > strlen(text) || strncmp(element, text, size) != 0)
            continue;
        if (found >= 0) {
            *why = "a UUID that several devices begin with";
            return -1;
        }
        found = i;
    }
    if (found < 0)
        *why = "a UUID of no device";
    return found;
}

/* The index of the device that an element names, or -1. */
static int named(const char *element, size_t size, bool uuids, const struct vcu_device *all, int n,
                 const int *sorted, const char **why)
{
    char *end;
    long number;

    if (uuids || strncmp(element, "MIG-", 4) == 0) {
        if (strncmp(element, "GPU-", 4) == 0)
            return by_uuid(element, size, all, n, why);
        *why = "no UUID of a device, in a list of UUIDs";
        return -1;
    }
    number = strtol(element, &end, 10);
    if (end == element || number < 0 || number >= n) {
        *why = end == element ? "neither a number nor a UUID" : "the number of no device";
        return -1;
    }
    return sorted[number];
}

int vcu_visible_choose(const char *text, const char *order, const struct vcu_device *all, int n,
                       int list[VCU_MAX_DEVICES], const char **why)
{
    int sorted[VCU_MAX_DEVICES];
    int count = 0;
    bool uuids;

    *why = NULL;
    order_devices(order, all, n, sorted);
    if (text == NULL) {
        memcpy(list, sorted, (size_t)n * sizeof(*list));
        return n;
    }
    while (isspace((unsigned char)*text))
        text++;
    uuids = strncmp(text, "GPU-", 4) == 0;
    for (const char *p = text; *p != '\0';) {
        size_t size = strcspn(p, ","), used = size;
        int device;

        while (used > 0 && isspace((unsigned char)p[used - 1]))
            used--;
        device = named(p, used, uuids, all, n, sorted, why);
        if (device < 0)
            break;
        for (int i = 0; i < count; i++) {
            if (list[i] == device) {
                *why = "a device that is named twice";
                return 0;
            }
        }
        list[count++] = device;
        p += size;
        while (*p == ',' || isspace((unsigned char)*p)) {
            if (*p++ == ',')
                break;
        }
        while (isspace((unsigned char)*p))
            p++;
    }
    return count;
}

/* ---- cuInit ---- */

static void keep(const int *list, int count, const struct vcu_device *all)
{
    host_count = vcu.device_count;
    for (int i = 0; i < host_count; i++)
        shown_as[i] = CU_DEVICE_INVALID;
    for (int i = 0; i < count; i++) {
        vcu.devices[i] = all[list[i]];
        host_of[i] = list[i];
        shown_as[list[i]] = i;
    }
    chosen = true;
}

CUresult vcu_visible_apply(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER"), *why;
    int list[VCU_MAX_DEVICES], n = vcu.device_count, count;
    struct vcu_device *all;
    bool same;

    chosen = false;
    if (text == NULL && order == NULL)
        return CUDA_SUCCESS;
    count = vcu_visible_choose(text, order, vcu.devices, n, list, &why);
    same = count == n;
    for (int i = 0; i < count; i++)
        same = same && list[i] == i;
    if (same)
        return CUDA_SUCCESS;
    if (count == 0)
        return VCU_REFUSE(CUDA_ERROR_NO_DEVICE, "cuInit",
                          "CUDA_VISIBLE_DEVICES=%.200s hides all %d devices%s%s", text != NULL ? text : "", n,
                          why != NULL ? ": it has " : "", why != NULL ? why : "");
    all = malloc((size_t)n * sizeof(*all));
    if (all == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(all, vcu.devices, (size_t)n * sizeof(*all));
    keep(list, count, all);
    free(all);
    vcu.device_count = count;
    if (text != NULL)
        lnk_why("cuInit", "CUDA_VISIBLE_DEVICES=%.200s shows %d of %d devices%s%s", text, count, n,
                why != NULL ? ": it ends at " : "", why != NULL ? why : "");
    return CUDA_SUCCESS;
}
