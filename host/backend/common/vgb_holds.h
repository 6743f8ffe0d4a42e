/* SPDX-License-Identifier: MIT */
/*
 * How a member that is a pointer to a structure is held; scripts/lint_holds.py refuses one that does not say so.
 * COUNTED   a reference (or a place among holders), which this one gives back when it lets go
 * OWNED     nothing else keeps it: it ends with this one
 * LISTED    no reference: what ends takes itself out of here first
 * LENT      no reference: what this is a part of, a call or a lock keeps it for longer
 */
#ifndef VGB_HOLDS_H
#define VGB_HOLDS_H

#define VGB_COUNTED
#define VGB_OWNED
#define VGB_LISTED
#define VGB_LENT

#endif
