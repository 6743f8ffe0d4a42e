/* SPDX-License-Identifier: MIT */
#ifndef VGB_VERSION_H
#define VGB_VERSION_H

#define VGB_VERSION "0.1.0"

#endif
