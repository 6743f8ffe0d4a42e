/* SPDX-License-Identifier: MIT */
/*
 * The answer to cudart's "software validity" question (export table d4082055, slot 1). Purpose: at
 * start-up, libcudart 11 to 13 asks the driver library three times for 16 bytes and compares the
 * third answer with its own computation; a mismatch makes every runtime call return
 * cudaErrorSoftwareValidityNotEstablished (103). The value is an HMAC (RFC 2104) over MD2 (RFC
 * 1319) of facts of the calling process: driver version, process, thread, addresses of two export
 * tables, time, and the devices' UUIDs and PCI positions. Reason for answering it in the guest: all
 * inputs are local to this process, so it cannot be relayed to the host's driver; there is no way
 * to switch it off; and the calls that follow reach a genuine driver (or the software GPU, which
 * identifies itself as such). Without it no program that uses the CUDA runtime starts.
 * CONFIG_VGPU_LIBCUDA_INTEGRITY=n leaves it out; programs that use only the driver API still work
 * then. Sources: RFC 1319 and RFC 2104 for the algorithms; the key, the record layout and the
 * constant answers for the first two questions are published by the ZLUDA project
 * (github.com/vosen/ZLUDA, dark_api/src/lib.rs, Apache-2.0 or MIT). No code is taken from there.
 */
#define _GNU_SOURCE
#include "entry.h"

#include <string.h>
#include <unistd.h>

#ifdef CONFIG_VGPU_LIBCUDA_INTEGRITY

/* RFC 1319, section 3.2: the substitution table made from the digits of pi. */
static const uint8_t pi_subst[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,   243,
    192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212, 224, 22,
    103, 66,  111, 24,  138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160, 251, 245, 142,
    187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,  148, 194, 16,  137, 11,  34,  95,  33,
    128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151, 3,   255, 25,  48,  179,
    72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198, 79,  184, 56,  210, 150, 164, 125, 182,
    118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,  100, 113, 135, 32,  134, 91,  207, 101,
    230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246, 28,  70,  97,  105, 52,  64,  126, 15,
    85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249, 206, 186, 197, 234, 38,  44,  83,  13,  110,
    133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,  106, 220, 55,  200, 108, 193, 171, 250,
    36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254,
    59,  0,   29,  57,  242, 239, 183, 14,  102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,
    49,  68,  80,  180, 143, 237, 31,  26,  219, 153, 141, 51,  159, 17,  131, 20,
};

struct md2 {
    uint8_t state[48];
    uint8_t checksum[16];
    uint8_t block[16];
    unsigned used;
};

/* RFC 1319, sections 3.2 and 3.4, for one 16-byte block. */
static void md2_block(struct md2 *m, const uint8_t block[16], bool sum)
{
    unsigned t = 0;

    if (sum) {
        uint8_t last = m->checksum[15];

        for (int i = 0; i < 16; i++) {
            m->checksum[i] ^= pi_subst[block[i] ^ last];
            last = m->checksum[i];
        }
    }
    for (int i = 0; i < 16; i++) {
        m->state[16 + i] = block[i];
        m->state[32 + i] = block[i] ^ m->state[i];
    }
    for (unsigned round = 0; round < 18; round++) {
        for (int i = 0; i < 48; i++) {
            m->state[i] ^= pi_subst[t];
            t = m->state[i];
        }
        t = (t + round) & 0xff;
    }
}

static void md2_update(struct md2 *m, const void *data, size_t size)
{
    const uint8_t *p = data;

    while (size-- > 0) {
        m->block[m->used++] = *p++;
        if (m->used == 16) {
            md2_block(m, m->block, true);
            m->used = 0;
        }
    }
}

static void md2_final(struct md2 *m, uint8_t out[16])
{
    uint8_t pad[16], sum[16];
    unsigned n = 16 - m->used;

    memset(pad, (int)n, sizeof(pad));
    md2_update(m, pad, n);
    memcpy(sum, m->checksum, sizeof(sum));
    md2_block(m, sum, false);
    memcpy(out, m->state, 16);
}

void vcu_md2_digest(const void *data, size_t size, uint8_t out[16])
{
    struct md2 m = {0};

    md2_update(&m, data, size);
    md2_final(&m, out);
}

/* RFC 2104 with a key of exactly one block. */
static void hmac_begin(struct md2 *m, const uint8_t key[16])
{
    uint8_t pad[16];

    memset(m, 0, sizeof(*m));
    for (int i = 0; i < 16; i++)
        pad[i] = key[i] ^ 0x36;
    md2_update(m, pad, sizeof(pad));
}

static void hmac_end(struct md2 *m, const uint8_t key[16], uint8_t out[16])
{
    struct md2 outer = {0};
    uint8_t inner[16], pad[16];

    md2_final(m, inner);
    for (int i = 0; i < 16; i++)
        pad[i] = key[i] ^ 0x5c;
    md2_update(&outer, pad, sizeof(pad));
    md2_update(&outer, inner, sizeof(inner));
    md2_final(&outer, out);
}

void vcu_hmac_md2(const uint8_t key[16], const void *data, size_t size, uint8_t out[16])
{
    struct md2 m;

    hmac_begin(&m, key);
    md2_update(&m, data, size);
    hmac_end(&m, key, out);
}

static const uint8_t validity_key[16] = {
    0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
};

/* The hashed record, 48 bytes: cudart.md section 2 has the measurements. */
struct validity_record {
    uint32_t driver_version;
    uint32_t question;
    uint32_t process;
    uint32_t thread;
    const void *cudart_table;
    const void *integrity_table;
    const void *function;
    uint64_t unix_seconds;
};
_Static_assert(sizeof(struct validity_record) == 48, "validity record");

struct validity_device {
    uint8_t uuid[16];
    int32_t pci_domain, pci_bus, pci_device;
};
_Static_assert(sizeof(struct validity_device) == 28, "validity device");

int vcu_integrity_check(const void *const *cudart, const void *const *integrity, uint32_t version,
                        uint64_t unix_seconds, uint8_t out[16])
{
    struct validity_record rec = {
        .driver_version = (uint32_t)vcu_client_version(),
        .question = version,
        .process = (uint32_t)getpid(),
        .thread = (uint32_t)pthread_self(),
        .cudart_table = cudart,
        .integrity_table = integrity,
        .function = integrity[1],
        .unix_seconds = unix_seconds,
    };
    struct md2 m;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return (int)res;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (version % 10 < 2) {
        /* The first two answers are constants that are not compared. */
        uint64_t first = version % 10 == 0 ? 0x3341181C03CB675Cull : 0x1841181C03CB675Cull;
        uint64_t second = 0x8ED383AA1F4CD1E8ull;

        memcpy(out, &first, 8);
        memcpy(out + 8, &second, 8);
        return CUDA_SUCCESS;
    }
    hmac_begin(&m, validity_key);
    md2_update(&m, &rec, sizeof(rec));
    for (int i = 0; i < vcu.device_count; i++) {
        const struct vcu_device *d = &vcu.devices[i];
        struct validity_device dev = {
            .pci_domain = d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID],
            .pci_bus = d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
            .pci_device = d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID],
        };

        memcpy(dev.uuid, d->uuid.bytes, sizeof(dev.uuid));
        md2_update(&m, &dev, sizeof(dev));
    }
    hmac_end(&m, validity_key, out);
    return CUDA_SUCCESS;
}

#else

int vcu_integrity_check(const void *const *cudart, const void *const *integrity, uint32_t version,
                        uint64_t unix_seconds, uint8_t out[16])
{
    (void)cudart;
    (void)integrity;
    (void)version;
    (void)unix_seconds;
    (void)out;
    lnk_why("cuGetExportTable", "the runtime's validity check is left out of this build "
                                "(CONFIG_VGPU_LIBCUDA_INTEGRITY=n)");
    return CUDA_ERROR_NOT_SUPPORTED;
}

#endif
