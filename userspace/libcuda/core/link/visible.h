/* SPDX-License-Identifier: MIT */
/* Selection and order of the host's devices for the application (vcu_visible.c). */
#ifndef VCU_VISIBLE_H
#define VCU_VISIBLE_H

#include "../core.h"

/*
 * Applies CUDA_VISIBLE_DEVICES (`text`, NULL: not set) and CUDA_DEVICE_ORDER (`order`, or NULL) to
 * n devices: fills list[] with indices into `all` and returns their number. *why is a static text
 * for the element at which the list ended early, or NULL.
 */
int vcu_visible_choose(const char *text, const char *order, const struct vcu_device *all, int n,
                       int list[VCU_MAX_DEVICES], const char **why);

/* Origin of a device: the index of its place, and its number there. */
struct vcu_found {
    int place, ordinal;
};

/*
 * A process uses the devices of one place: keeps those entries of list[], indices of found[], that
 * are at the place of the first entry, and converts them to ordinals there. Returns the number of
 * remaining entries. named_all: the application has named each device, so the list ends, with *why,
 * at the first device of another place.
 */
int vcu_visible_at_place(int *list, int count, const struct vcu_found *found, bool named_all,
                         const char **why);

/* Reduces vcu.devices to the `count` in list[], in that order; `total` is the number at all places.
 * Reports a change on the trace. CUDA_ERROR_NO_DEVICE: none is left. */
CUresult vcu_visible_show(const int *list, int count, int total, const char *why);

/* Reduces vcu.devices to the devices that the environment selects, in its order; reports a change
 * on the trace. CUDA_ERROR_NO_DEVICE: none is left. Called by cuInit, before contexts exist. */
CUresult vcu_visible_apply(void);

/* Connects to a place and queries its devices, without the units and the recorder; the caller
 * disconnects. */
typedef CUresult vcu_look_fn(const struct lnk_place *place);

/*
 * Chooses the place to connect to. With several places and CUDA_VISIBLE_DEVICES or
 * CUDA_DEVICE_ORDER set, it examines their devices one place after another: look() leaves them in
 * vcu.devices, leave() ends the connection. cuInit returns an error of this function.
 */
CUresult vcu_place_choose(vcu_look_fn *look, void (*leave)(void), const struct lnk_place **place);

/* The place to try when the given place has no devices; NULL: the place was chosen by the
 * environment, or was the last. */
const struct lnk_place *vcu_place_after(const struct lnk_place *place);

/* Reports the used place on the trace when there are several. */
void vcu_place_tell(const struct lnk_place *place);

/* True if the environment now requests a different choice from the one made. */
bool vcu_place_stale(void);

/* Reduces vcu.devices, those of the chosen place, to the devices that the environment selects. */
CUresult vcu_place_show_devices(void);

#endif
