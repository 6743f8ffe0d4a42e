/* SPDX-License-Identifier: MIT */
/* Which of the host's devices the application sees, and in what order (visible.c). */
#ifndef VCU_VISIBLE_H
#define VCU_VISIBLE_H

#include "core.h"

/*
 * What CUDA_VISIBLE_DEVICES (`text`, NULL: not set) and CUDA_DEVICE_ORDER (`order`, or NULL) make of n
 * devices: fills list[] with indices into `all` and returns how many there are. *why is a static text for
 * the element at which the list ended early, or NULL.
 */
int vcu_visible_choose(const char *text, const char *order, const struct vcu_device *all, int n,
                       int list[VCU_MAX_DEVICES], const char **why);

/* Where a device was found: the index of its place, and its number there. */
struct vcu_found {
    int place, ordinal;
};

/*
 * A process uses the devices of one place: keeps of list[], which has indices of found[], those at the place of the
 * first, and makes them ordinals there. Returns how many are left. named_all: the application has named each, so
 * that the list ends, with *why, at the first that is elsewhere.
 */
int vcu_visible_at_place(int *list, int count, const struct vcu_found *found, bool named_all,
                         const char **why);

/* Keeps of vcu.devices the `count` in list[], in that order, of `total` that there are at all places. Says on the
   trace when that changes anything. CUDA_ERROR_NO_DEVICE: nothing is left. */
CUresult vcu_visible_show(const int *list, int count, int total, const char *why);

/* Keeps of vcu.devices what the environment shows, in its order; says on the trace when that changes
   anything. CUDA_ERROR_NO_DEVICE: nothing is left. Called by cuInit, before there are contexts. */
CUresult vcu_visible_apply(void);

/* Connects to a place and learns its devices, without the units and the recorder; the caller disconnects. */
typedef CUresult vcu_look_fn(const struct lnk_place *place);

/*
 * Chooses the place to connect to. Where there are several and CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER is set,
 * it looks at their devices one after another: look() leaves them in vcu.devices, leave() ends the connection.
 * An error is what cuInit returns.
 */
CUresult vcu_place_choose(vcu_look_fn *look, void (*leave)(void), const struct lnk_place **place);

/* The place to try when that one has no devices; NULL: it was chosen by the environment, or was the last. */
const struct lnk_place *vcu_place_after(const struct lnk_place *place);

/* Says on the trace which one is used, where there are several. */
void vcu_place_tell(const struct lnk_place *place);

/* True if the environment asks for another choice than the one that was made. */
bool vcu_place_stale(void);

/* Keeps of vcu.devices, those of the chosen place, what the environment shows. */
CUresult vcu_place_show_devices(void);

#endif
