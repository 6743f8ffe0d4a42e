/* SPDX-License-Identifier: MIT */
/*
 * The slots of an export table that are not served. Each slot has its own function, so that a
 * caller's refusal names the table and the slot: callers of cuGetExportTable use no names, and a
 * function shared by several slots could not distinguish them.
 */
#ifndef VCU_EXPORT_SLOTS_H
#define VCU_EXPORT_SLOTS_H

/* Entries of every table in memory, regardless of its size word: a newer caller that expects a
 * longer table reaches a refusal, not the data behind the table. */
#define VCU_TABLE_SLOTS 100

/* Reports the called slot; returns CUDA_ERROR_NOT_SUPPORTED. `table` is "6bd5fb6c (NAME)". */
int vcu_slot_refused(const char *table, int slot);

/* Two digits, "00" to "99", as a number. */
#define VCU_SLOT_NUMBER(digits) (1##digits - 100)

#define VCU_SLOT_FUNCTION(table, digits) \
    static int table##_slot_##digits(void) \
    { \
        return vcu_slot_refused(table##_label, VCU_SLOT_NUMBER(digits)); \
    }
#define VCU_SLOT_ENTRY(table, digits) (const void *)table##_slot_##digits,

#define VCU_TEN(what, table, d) \
    what(table, d##0) what(table, d##1) what(table, d##2) what(table, d##3) what(table, d##4) \
        what(table, d##5) what(table, d##6) what(table, d##7) what(table, d##8) what(table, d##9)
#define VCU_HUNDRED(what, table) \
    VCU_TEN(what, table, 0) \
    VCU_TEN(what, table, 1) \
    VCU_TEN(what, table, 2) \
    VCU_TEN(what, table, 3) \
    VCU_TEN(what, table, 4) \
    VCU_TEN(what, table, 5) \
    VCU_TEN(what, table, 6) VCU_TEN(what, table, 7) VCU_TEN(what, table, 8) VCU_TEN(what, table, 9)

/* Defines the refusals of a table; `label` is its name on the trace. */
#define VCU_TABLE_REFUSALS(table, label) \
    static const char table##_label[] = label; \
    VCU_HUNDRED(VCU_SLOT_FUNCTION, table)

/* First part of a table's initialiser: every slot refuses. Designated initialisers after it replace
 * the slots that are served. */
#define VCU_ALL_REFUSED(table) VCU_HUNDRED(VCU_SLOT_ENTRY, table)

/* Slot 0 of most tables: the number of bytes that the table has. */
#define VCU_SIZE_WORD(slots) ((const void *)(uintptr_t)((slots) * sizeof(void *)))

#endif
