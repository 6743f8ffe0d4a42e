/* SPDX-License-Identifier: MIT */
/* Addresses that programs reserve (cuMemAddressReserve). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "memory/memory.h"

/* Away from the arena and from what the kernel maps by itself, so that a guest's own mappings and these
 * addresses do not meet. */
#define SG_RESERVE_HINT 0x300000000000ull
#define SG_RESERVE_END 0x700000000000ull
#define SG_RESERVE_TRIES 4096

/* No others: where the system would put it instead, or whether an address elsewhere is free, says where the
 * process has its own things. */
void *sg_mem_reserve(uint64_t want, uint64_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t next = SG_RESERVE_HINT;
    void *found = MAP_FAILED;
    uint64_t at = want;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < SG_RESERVE_TRIES; i++) {
        if (at >= SG_RESERVE_HINT && at < SG_RESERVE_END && size <= SG_RESERVE_END - at) {
            /* Not writable: nothing is there, and it must not count as this process's memory (RLIMIT_DATA). */
            found = mmap((void *)at, size, PROT_READ,
                         MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (found == (void *)at)
                break;
            if (found != MAP_FAILED)
                munmap(found, size);
            found = MAP_FAILED;
        }
        if (next >= SG_RESERVE_END || size > SG_RESERVE_END - next)
            next = SG_RESERVE_HINT;
        at = next;
        next += size;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
