/* SPDX-License-Identifier: BSD-3-Clause */
/* Faster ways to compute the CRC-32 of Ethernet than by tables (crc32_x86.c). */
#ifndef NVMF_ROCE_CRC32_WAYS_H
#define NVMF_ROCE_CRC32_WAYS_H

#include <stddef.h>
#include <stdint.h>

#define CRC32_POLY 0xedb88320u		/* reflected */
enum { CRC32_WAYS = 3 };
enum { CRC32_WIDE_MIN = 64 };		/* bytes from which on a wide way is faster; it takes multiples of 16 */

/*
 * Return the CRC of len bytes, which is CRC32_WIDE_MIN at least.  The bytes are also copied to "to", unless it is NULL: each
 * is read once then, which counts if they are not in the cache.  Unless ahead is 0, as many bytes are fetched into the cache,
 * of those that follow this far behind: the processor's own prefetching stops at the end of a page, and the bytes of the next
 * packet are about to be needed.
 */
typedef uint32_t crc32_fold(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead);

/* The same for len of 4 bytes or more, in steps of 4.  It reads no table, which is not in the cache between system calls. */
typedef uint32_t crc32_short(uint32_t crc, const uint8_t *p, size_t len);

/* Set the ways of this processor, the fastest first, and return their number; *short_way is NULL if it has none. */
unsigned int crc32_native(crc32_fold *ways[CRC32_WAYS], crc32_short **short_way);

#endif
