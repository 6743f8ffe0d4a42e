/* SPDX-License-Identifier: MIT */
/* Description of the calls as data (build/generated/vgp_fields.c): for code that interprets the
 * bytes of records and replies without being either side of the protocol. */
#ifndef VGP_FIELDS_H
#define VGP_FIELDS_H

#include <stdint.h>

/* Encoding of a field in or behind the fixed part. */
enum vgp_field_form {
    VGP_FORM_FIXED = 0, /* `size` bytes at `offset` */
    VGP_FORM_FLOAT = 1, /* the same, a float */
    VGP_FORM_ARRAY = 2, /* u32 count at `offset`; elements of `size` bytes follow the fixed part */
    VGP_FORM_STR = 3,   /* the same, bytes with their NUL */
    VGP_FORM_BLOB = 4,  /* the same; count 0 where the bytes went ahead as a blob */
};

enum vgp_field_meaning {
    VGP_MEANS_PLAIN = 0,
    VGP_MEANS_HANDLE = 1, /* a handle, or an object number chosen by the worker */
    VGP_MEANS_ADDR = 2,   /* an address of device memory or of memory shared with the device */
    VGP_MEANS_WORDS = 3,  /* bytes whose aligned 64-bit words may be addresses */
    VGP_MEANS_VARIES = 4, /* a result that may differ between GPUs or runs */
    VGP_MEANS_OPAQUE = 5, /* bytes opaque to the guest, passed out and back in */
    /* an array of VGP_MEANS_HANDLE, whose number may differ between GPUs */
    VGP_MEANS_OBJECTS = 6,
};

struct vgp_field {
    const char *name;
    uint8_t form;    /* enum vgp_field_form */
    uint8_t meaning; /* enum vgp_field_meaning */
    uint16_t offset; /* from the start of the fixed part */
    uint16_t size;   /* bytes of the field or of an element */
    uint32_t max;    /* maximum number of elements; fixed fields: 0 */
};

struct vgp_call_fields {
    uint16_t number;
    const char *name;
    const struct vgp_field *in; /* in the order of the variable parts */
    uint32_t in_count;
    const struct vgp_field *out;
    uint32_t out_count;
    uint32_t args_fixed, ret_fixed; /* bytes */
};

/* NULL: no such call. */
const struct vgp_call_fields *vgp_fields_of(uint16_t call);

#endif
