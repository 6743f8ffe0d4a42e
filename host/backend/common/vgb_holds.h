/* SPDX-License-Identifier: MIT */
/*
 * How a pointer member holds its structure; scripts/lint_holds.py rejects members without a kind.
 * COUNTED   a reference (or an entry among holders), released by the owner of the member
 * OWNED     the only reference: the object ends with the owner of the member
 * LISTED    no reference: the object removes itself from the member before it ends
 * LENT      no reference: the containing object, a call or a lock keeps the object alive longer
 */
#ifndef VGB_HOLDS_H
#define VGB_HOLDS_H

#define VGB_COUNTED
#define VGB_OWNED
#define VGB_LISTED
#define VGB_LENT

#endif
