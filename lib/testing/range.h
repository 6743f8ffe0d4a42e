/* SPDX-License-Identifier: MIT */
/* What tests use of cmocka 2, for the older ones: its assert_in_range() is deprecated. */
#ifndef VGPU_TESTING_RANGE_H
#define VGPU_TESTING_RANGE_H

#include <cmocka.h>

/* Fails unless minimum <= value <= maximum, all taken as unsigned. */
#ifndef assert_uint_in_range
#define assert_uint_in_range(value, minimum, maximum) assert_in_range(value, minimum, maximum)
#endif

#endif
