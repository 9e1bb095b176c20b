/* SPDX-License-Identifier: BSD-3-Clause */
/* Faster ways to compute the CRC-32 of Ethernet than by tables (crc32_x86.c). */
#ifndef NVMF_ROCE_CRC32_WAYS_H
#define NVMF_ROCE_CRC32_WAYS_H

#include <stddef.h>
#include <stdint.h>

#define CRC32_POLY 0xedb88320u		/* reflected */
enum { CRC32_WAYS = 2 };
enum { CRC32_WIDE_MIN = 64 };		/* bytes from which on a wide way is faster; it takes multiples of 16 */

/*
 * Leave 16 bytes whose CRC, from a register of 0, is that of len bytes from crc; len is CRC32_WIDE_MIN at least.  The bytes
 * are also copied to "to", unless it is NULL: each is read once then, which counts if they are not in the cache.  Unless
 * ahead is 0, as many bytes are fetched into the cache, of those that follow this far behind: the processor's own
 * prefetching stops at the end of a page, and the bytes of the next packet are about to be needed.
 */
typedef void crc32_fold(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len, size_t ahead, uint8_t left[16]);

/* Set the ways of this processor, the fastest first, and return their number. */
unsigned int crc32_native(crc32_fold *ways[CRC32_WAYS]);

#endif
