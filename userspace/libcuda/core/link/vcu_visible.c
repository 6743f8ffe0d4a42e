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

#include "../../../../protocol/vgp_guest_rt.h"

/* Constant after cuInit. Without a selection, ordinals are passed on unchanged. */
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
        if (found >= 0 && memcmp(&all[i].uuid, &all[found].uuid, sizeof(all[i].uuid)) == 0)
            continue; /* one GPU behind two backends: the first */
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
static int named_device(const char *element, size_t size, bool uuids, const struct vcu_device *all, int n,
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
        device = named_device(p, used, uuids, all, n, sorted, why);
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

/* ---- one place ---- */

int vcu_visible_at_place(int *list, int count, const struct vcu_found *found, bool named_all,
                         const char **why)
{
    int n = 0;

    for (int i = 0; i < count; i++) {
        if (found[list[i]].place == found[list[0]].place) {
            list[n++] = list[i];
        } else if (named_all) {
            *why = "a device of another backend than the first";
            break;
        }
    }
    for (int i = 0; i < n; i++)
        list[i] = found[list[i]].ordinal;
    return n;
}

/* ---- cuInit ---- */

static void visible_keep(const int *list, int count, const struct vcu_device *all)
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

CUresult vcu_visible_show(const int *list, int count, int total, const char *why)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    struct vcu_device *all;
    bool same = count == vcu.device_count;

    chosen = false;
    for (int i = 0; i < count; i++)
        same = same && list[i] == i;
    if (same && count == total)
        return CUDA_SUCCESS;
    if (count == 0)
        return VCU_REFUSE(CUDA_ERROR_NO_DEVICE, "cuInit",
                          "CUDA_VISIBLE_DEVICES=%.200s hides all %d devices%s%s", text != NULL ? text : "",
                          total, why != NULL ? ": it has " : "", why != NULL ? why : "");
    all = malloc((size_t)vcu.device_count * sizeof(*all));
    if (all == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(all, vcu.devices, (size_t)vcu.device_count * sizeof(*all));
    visible_keep(list, count, all);
    free(all);
    vcu.device_count = count;
    if (text != NULL)
        lnk_why("cuInit", "CUDA_VISIBLE_DEVICES=%.200s shows %d of %d devices%s%s", text, count, total,
                why != NULL ? ": it ends at " : "", why != NULL ? why : "");
    return CUDA_SUCCESS;
}

CUresult vcu_visible_apply(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER"), *why;
    int list[VCU_MAX_DEVICES], count;

    chosen = false;
    if (text == NULL && order == NULL)
        return CUDA_SUCCESS;
    count = vcu_visible_choose(text, order, vcu.devices, vcu.device_count, list, &why);
    return vcu_visible_show(list, count, vcu.device_count, why);
}

/* ---- the choice of a place ---- */

/*
 * Several backends: /dev/vgpu0 and /dev/vgpu1, or a VGPU_SOCKET of two paths. Their devices are
 * numbered place by place, for CUDA_VISIBLE_DEVICES as for NVML. A process is connected to a single
 * place, with all handles, addresses and contexts: the place of the first device that
 * CUDA_VISIBLE_DEVICES names, else the first place. No handle or address of one backend can reach
 * another, as there is no second connection.
 */

static struct lnk_place places[LNK_PLACES_MAX];
static unsigned place_count;

/* The choice, and the environment that determined it. `listed`: list[] is valid. */
static struct {
    char *text, *order;
    bool listed;
    int list[VCU_MAX_DEVICES], count, total;
    const char *why;
} choice;

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static char *copy_of(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

/* A plain number names a device already seen: later devices do not change the result. */
static bool seen_enough(const char *text, const char *order, int total)
{
    char *end;
    long number;

    if (text == NULL || order != NULL)
        return false;
    number = strtol(text, &end, 10);
    return end != text && *end == '\0' && number >= 0 && number < total;
}

/*
 * The devices of all places. A place whose backend is gone, or that the user may not open, has
 * none; cuInit returns any other error, such as a backend at its limit of clients, because the
 * numbers must not depend on it.
 */
static CUresult look_at_all(vcu_look_fn *look, void (*leave)(void), struct vcu_device *all,
                            struct vcu_found *found)
{
    int total = 0;

    for (unsigned i = 0; i < place_count && !seen_enough(choice.text, choice.order, total); i++) {
        CUresult res = look(&places[i]);

        if (res == CUDA_ERROR_NO_DEVICE)
            continue;
        if (res != CUDA_SUCCESS)
            return res;
        for (int k = 0; k < vcu.device_count && total < VCU_MAX_DEVICES; k++, total++) {
            all[total] = vcu.devices[k];
            found[total] = (struct vcu_found){(int)i, k};
        }
        leave();
    }
    choice.total = total;
    return total == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

static CUresult look_and_choose(vcu_look_fn *look, void (*leave)(void), const struct lnk_place **place)
{
    struct vcu_device *all = calloc(VCU_MAX_DEVICES, sizeof(*all));
    struct vcu_found found[VCU_MAX_DEVICES];
    CUresult res;

    if (all == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = look_at_all(look, leave, all, found);
    if (res == CUDA_SUCCESS)
        choice.count =
            vcu_visible_choose(choice.text, choice.order, all, choice.total, choice.list, &choice.why);
    free(all);
    if (res != CUDA_SUCCESS)
        return res;
    *place = &places[0];
    if (choice.count != 0) {
        *place = &places[found[choice.list[0]].place];
        choice.count =
            vcu_visible_at_place(choice.list, choice.count, found, choice.text != NULL, &choice.why);
    }
    choice.listed = true;
    return CUDA_SUCCESS;
}

CUresult vcu_place_choose(vcu_look_fn *look, void (*leave)(void), const struct lnk_place **place)
{
    free(choice.text);
    free(choice.order);
    memset(&choice, 0, sizeof(choice));
    choice.text = copy_of(getenv("CUDA_VISIBLE_DEVICES"));
    choice.order = copy_of(getenv("CUDA_DEVICE_ORDER"));
    place_count = lnk_places(places);
    if (place_count == 0) {
        lnk_transport_none(&vcu.transport);
        return VCU_REFUSE(CUDA_ERROR_NO_DEVICE, "cuInit", "%s", vcu.transport.why);
    }
    *place = &places[0];
    if (place_count == 1 || (choice.text == NULL && choice.order == NULL))
        return CUDA_SUCCESS;
    return look_and_choose(look, leave, place);
}

const struct lnk_place *vcu_place_after(const struct lnk_place *place)
{
    return choice.listed || place + 1 == places + place_count ? NULL : place + 1;
}

void vcu_place_tell(const struct lnk_place *place)
{
    if (place_count > 1)
        lnk_why("cuInit", "%u backends are here; this process uses %s: CUDA_VISIBLE_DEVICES chooses",
                place_count, place->path);
}

bool vcu_place_stale(void)
{
    return place_count > 1 && (!same_text(choice.text, getenv("CUDA_VISIBLE_DEVICES")) ||
                               !same_text(choice.order, getenv("CUDA_DEVICE_ORDER")));
}

CUresult vcu_place_show_devices(void)
{
    if (place_count <= 1 || !choice.listed)
        return vcu_visible_apply();
    /* A backend restarted since then may have fewer devices. */
    for (int i = 0; i < choice.count; i++) {
        if (choice.list[i] >= vcu.device_count)
            choice.count = i;
    }
    return vcu_visible_show(choice.list, choice.count, choice.total, choice.why);
}
