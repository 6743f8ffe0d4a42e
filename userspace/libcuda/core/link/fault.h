/* SPDX-License-Identifier: MIT */
/*
 * Faults on request, to test their reporting (vgpu doctor) and the reaction of programs. VGPU_FAULT
 * is a list NAME=VALUE,...; VALUE is a CUresult number unless noted:
 *   hide.NAME=1        cuGetProcAddress does not find NAME
 *   table=CODE         every cuGetExportTable after cuInit returns CODE; CODE "unset": it succeeds
 *                      and leaves the caller's pointer alone
 *   table.XXXXXXXX=... the same for the table whose id starts with these eight hexadecimal digits
 *   call.NAME=CODE     NAME fails: cuInit, cuModuleGetLoadingMode, cuDeviceGetCount, cuDeviceGet,
 *                      cuDeviceGetName, cuDeviceGetUuid, cuDeviceTotalMem
 *   attribute.N=CODE   cuDeviceGetAttribute fails for attribute N
 *   devices=N          only N devices are shown, at most as many as there are
 *   pinned=BYTES       no more than that is shared as pinned memory, as with pin_limit_mib in a VM
 *   pinned.errno=N     the driver's error number beyond that (105, ENOBUFS)
 *   elsewhere=N  the first N addresses of each pinned area are taken as ones that the worker has in use
 *   room=N             the streams of a context share room for N launches, as with NVIDIA's driver for 960
 *   integrity=CODE     the validity check of NVIDIA's runtime fails; "wrong": it gets a wrong answer
 * Without the variable each question is one predictable branch.
 */
#ifndef VCU_FAULT_H
#define VCU_FAULT_H

#include <stdbool.h>
#include <stddef.h>

extern const char *vcu_fault_spec; /* NULL: none; set once, by the library's constructor */
void vcu_fault_init(void);
/* The value of KIND or KIND.NAME (name NULL: KIND); false when it is not requested. */
bool vcu_fault_find(const char *kind, const char *name, char *value, size_t room);
/* Same, as a number. */
bool vcu_fault_number(const char *kind, const char *name, int *value);

/* `VCU_FAULT("call", "cuX")` in the body of cuX: returns the requested error, traced. */
#define VCU_FAULT(kind, name) \
    do { \
        int fault_; \
\
        if (__builtin_expect(vcu_fault_spec != NULL, 0) && vcu_fault_number(kind, name, &fault_)) \
            return (CUresult)fault_; \
    } while (0)

#endif
