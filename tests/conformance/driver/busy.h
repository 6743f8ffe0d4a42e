/* SPDX-License-Identifier: MIT */
/* Threads that keep streams busy while a case runs: CONFORM_BUSY=1. */
#ifndef BUSY_H
#define BUSY_H

#include "conform.h"

bool busy_wanted(void);
void busy_begin(void);
/* usable: the case has left no error that ends its contexts. */
void busy_end(bool usable);

#endif
