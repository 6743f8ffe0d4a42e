/* SPDX-License-Identifier: MIT */
/*
 * In builds with ThreadSanitizer (san.sh). Its mmap() of gcc 12 does not know MAP_FIXED_NOREPLACE: of an address that it
 * has for itself it makes address 0, and ends the process. As a hint the address is moved, and each caller looks at
 * where its memory is.
 */
#include_next <sys/mman.h>
#undef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0
