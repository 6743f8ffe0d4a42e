/* SPDX-License-Identifier: MIT */
/* Addresses and accesses, for emitters of memory instructions (ptx/select/sg_select_access.c). */
#ifndef SG_PTX_SELECT_ACCESS_H
#define SG_PTX_SELECT_ACCESS_H

#include "ptx/select/select.h"

struct sg_addr {
    uint32_t op;
    int64_t off;
    enum sg_space space; /* space of the access: may differ from the written space */
    bool uniform_param;  /* kernel parameter at a constant offset */
    bool narrow;         /* 32-bit address */
};

/* The address in operand i of an access to that space. Returns d->err. */
int sg_select_address(struct sg_dec *d, uint32_t i, enum sg_space sp, struct sg_addr *x);
/* The aux of an access to vec elements of type t (exec/core.h). spin: it may be part of a spin loop. */
uint32_t sg_access_aux(enum sg_type t, uint32_t vec, const struct sg_addr *x, bool write, bool spin);
/* The number of elements that the modifiers name: 1, 2, 4 or 8. */
uint32_t sg_take_vec(struct sg_dec *d);
/* The registers of a vector operand, or the single register. */
int sg_vector_elements(struct sg_dec *d, uint32_t i, uint32_t vec, struct sg_opel el[SG_MAX_VEC]);
/* A load of up to 4 elements. */
int sg_select_load(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                   const struct sg_addr *x, bool spin);
/* A store of up to 4 elements. */
int sg_select_store(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                    const struct sg_addr *x, bool spin);
/* Checks that the address of a vector of two halves is aligned to both together. */
void sg_check_whole(struct sg_dec *d, enum sg_type t, const struct sg_addr *x, bool write);

#endif
