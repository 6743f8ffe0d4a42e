/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: the guest's configuration, from the broker's offer and the
 * properties. The offer comes from another process: every field is checked, and
 * none is asserted on.
 */
#include "qemu/osdep.h"
#include "vgpu-cuda.h"

QEMU_BUILD_BUG_ON(sizeof(struct vgpu_config) != 64);
QEMU_BUILD_BUG_ON(VGC_MAX_CLIENTS > VGPU_MAX_CLIENTS);

bool vgc_check_limits(const VgcLimits *limits, Error **errp)
{
    if (limits->clients < 1 || limits->clients > VGC_MAX_CLIENTS) {
        error_setg(errp, "vgpu-cuda: clients=%u is out of range: use 1 to %u",
                   limits->clients, VGC_MAX_CLIENTS);
        return false;
    }
    if (limits->window_size < VGC_MIN_WINDOW_SIZE ||
        !is_power_of_2(limits->window_size)) {
        error_setg(errp,
                   "vgpu-cuda: window-size=%" PRIu64 " is not a power of two "
                   "of at least %" PRIu64 " bytes",
                   limits->window_size, (uint64_t)VGC_MIN_WINDOW_SIZE);
        return false;
    }
    if (limits->window_size > VGC_MAX_BAR_SIZE / pow2ceil(limits->clients)) {
        error_setg(errp,
                   "vgpu-cuda: clients=%u times window-size=%" PRIu64 " is "
                   "more than %" PRIu64 " bytes: lower one of them",
                   limits->clients, limits->window_size,
                   (uint64_t)VGC_MAX_BAR_SIZE);
        return false;
    }
    return true;
}

bool vgc_check_timeout(uint32_t ms, Error **errp)
{
    if (ms < VGC_MIN_ANSWER_TIMEOUT || ms > VGC_MAX_ANSWER_TIMEOUT) {
        error_setg(errp,
                   "vgpu-cuda: answer-timeout=%u is out of range: use %u to %u "
                   "milliseconds",
                   ms, VGC_MIN_ANSWER_TIMEOUT, VGC_MAX_ANSWER_TIMEOUT);
        return false;
    }
    return true;
}

/* Returns the smaller of two quotas, where 0 means no quota. */
static uint64_t vgc_min_quota(uint64_t a, uint64_t b)
{
    if (!a || !b) {
        return a ? a : b;
    }
    return MIN(a, b);
}

static bool vgc_check_version(const struct vgpu_config *offer, Error **errp)
{
    uint32_t version = le32_to_cpu(offer->abi_version);

    if (le32_to_cpu(offer->magic) != VGPU_CONFIG_MAGIC) {
        error_setg(errp,
                   "vgpu-cuda: the peer on the chardev is not a vgpu broker "
                   "(magic 0x%08x, expected 0x%08x): connect it to "
                   "vgpu-backend",
                   le32_to_cpu(offer->magic), VGPU_CONFIG_MAGIC);
        return false;
    }
    if (version != VGPU_DEVICE_ABI_VERSION) {
        error_setg(errp,
                   "vgpu-cuda: the broker speaks device ABI version %u, this "
                   "QEMU speaks version %u: update %s",
                   version, VGPU_DEVICE_ABI_VERSION,
                   version > VGPU_DEVICE_ABI_VERSION ?
                   "QEMU's vgpu-cuda device" : "vgpu-backend");
        return false;
    }
    return true;
}

/*
 * Fields that no broker of this ABI version can send mean a broken broker: the
 * error names the field.
 */
static bool vgc_check_offer(const struct vgpu_config *offer, Error **errp)
{
    uint32_t clients = le32_to_cpu(offer->max_clients);
    uint32_t runs = le32_to_cpu(offer->max_pin_runs);
    uint64_t window = le64_to_cpu(offer->window_size);
    const char *field = NULL;

    if (clients < 1 || clients > VGPU_MAX_CLIENTS) {
        field = "max_clients";
    } else if (runs < 1 || runs > VGPU_MAX_PIN_RUNS) {
        field = "max_pin_runs";
    } else if (window < VGC_MIN_WINDOW_SIZE || !is_power_of_2(window)) {
        field = "window_size";
    } else if (!buffer_is_zero(offer->reserved, sizeof(offer->reserved))) {
        field = "reserved";
    }
    if (field) {
        error_setg(errp,
                   "vgpu-cuda: the broker's configuration is malformed (%s): "
                   "update vgpu-backend",
                   field);
        return false;
    }
    return true;
}

bool vgc_merge_config(const struct vgpu_config *offer, const VgcLimits *limits,
                      struct vgpu_config *out, Error **errp)
{
    uint32_t offered;

    if (!vgc_check_version(offer, errp) || !vgc_check_offer(offer, errp)) {
        return false;
    }

    /*
     * The queues are created before the offer is known, so their number cannot
     * follow the offer.
     */
    offered = le32_to_cpu(offer->max_clients);
    if (offered < limits->clients) {
        error_setg(errp,
                   "vgpu-cuda: the broker serves %u clients, fewer than "
                   "clients=%u: use clients=%u or raise the limit of "
                   "vgpu-backend",
                   offered, limits->clients, offered);
        return false;
    }

    *out = (struct vgpu_config) {
        .magic = cpu_to_le32(VGPU_CONFIG_MAGIC),
        .abi_version = cpu_to_le32(VGPU_DEVICE_ABI_VERSION),
        .max_clients = cpu_to_le32(limits->clients),
        .max_pin_runs = cpu_to_le32(
            MIN(le32_to_cpu(offer->max_pin_runs), limits->pin_runs)),
        .window_size = cpu_to_le64(
            MIN(le64_to_cpu(offer->window_size), limits->window_size)),
        .vram_quota = cpu_to_le64(
            vgc_min_quota(le64_to_cpu(offer->vram_quota), limits->vram_quota)),
        .pin_quota = cpu_to_le64(
            vgc_min_quota(le64_to_cpu(offer->pin_quota), limits->pin_quota)),
    };
    return true;
}

uint64_t vgc_bar_size(const struct vgpu_config *config)
{
    return pow2ceil(le32_to_cpu(config->max_clients) *
                    le64_to_cpu(config->window_size));
}

VgcLimits vgc_config_limits(const struct vgpu_config *config)
{
    return (VgcLimits) {
        .clients = le32_to_cpu(config->max_clients),
        .window_size = le64_to_cpu(config->window_size),
        .vram_quota = le64_to_cpu(config->vram_quota),
        .pin_quota = le64_to_cpu(config->pin_quota),
        .pin_runs = le32_to_cpu(config->max_pin_runs),
    };
}
