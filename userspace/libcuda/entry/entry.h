/* SPDX-License-Identifier: MIT */
/*
 * The highest folder: look-ups by programs and NVIDIA's libraries, and entry points that build on
 * all other folders.
 */
#ifndef VCU_ENTRY_H
#define VCU_ENTRY_H

#include "../core/core.h"

/* ---- vcu_export_table.c --------------------------------------------------------------------- */

/* The slot tables returned by cuGetExportTable, exposed to the test. */
const void *vcu_export_table_find(const CUuuid *id);
/* Runs the destructors of context-local storage. */
extern const struct vcu_unit_ops vcu_cls_unit;

/* ---- vcu_integrity.c ------------------------------------------------------------------------ */

/* Slot 1 of the table d4082055. cudart, integrity: the tables 6bd5fb6c and d4082055, whose addresses
 * are part of the answer. Returns a CUresult. */
int vcu_integrity_check(const void *const *cudart, const void *const *integrity, uint32_t version,
                        uint64_t unix_seconds, uint8_t out[16]);
/* RFC 1319 and RFC 2104, exposed to the unit test. */
void vcu_md2_digest(const void *data, size_t size, uint8_t out[16]);
void vcu_hmac_md2(const uint8_t key[16], const void *data, size_t size, uint8_t out[16]);

#endif
