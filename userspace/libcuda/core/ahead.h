/* SPDX-License-Identifier: MIT */
/*
 * Calls that core makes by itself ahead of a record of the program. The files that decide that such
 * a call is needed are below the encoders, the files that make it above them; vcu_client.c connects
 * the two when the library is loaded. None of these is on the path of a launch.
 */
#ifndef VCU_AHEAD_H
#define VCU_AHEAD_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct vcu_owed;

struct vcu_ahead_ops {
    /* Performs the owed wait. */
    void (*settle_wait)(const struct vcu_owed *owed);
    /* Marks the end of the owed wait by its event. False: it cannot be marked. */
    bool (*mark_wait)(struct vcu_owed *owed);
    /* cuStreamQuery of the legacy stream. */
    CUresult (*ask_legacy)(void);
    /* Sends the parked frees. */
    void (*send_parked)(void);
    /* Waits until the stream at that place of vcu_room has room, or its context. */
    void (*make_room)(uint64_t stream, uint32_t place, uint32_t context);
    /* As vgp_blob_send(). */
    CUresult (*send_blob)(const void *data, uint64_t size, uint32_t *blob_id);
};
/* Set before the first call. */
extern const struct vcu_ahead_ops *vcu_ahead;

/* ---- vcu_settle.c ---- */

void vcu_settle_wait(const struct vcu_owed *owed);
bool vcu_mark_wait(struct vcu_owed *owed);
CUresult vcu_ask_legacy(void);

/* ---- vcu_ahead.c ---- */

void vcu_make_room(uint64_t stream, uint32_t place, uint32_t context);
CUresult vcu_blob_send(const void *data, uint64_t size, uint32_t *blob_id);

#endif
