/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of crc32c: see crc32c.c. */
#ifndef NVMF_UTIL_CRC32C_WAYS_H
#define NVMF_UTIL_CRC32C_WAYS_H

#include "util/crc32c.h"

#define CRC32C_POLY 0x82f63b78u	/* reflected Castagnoli polynomial */

enum { CRC32C_WAYS = 6 };

/* The implementations for this processor, the fastest first, without the table; returns their number. */
unsigned crc32c_native(struct crc32c_way *ways);

#if defined(__x86_64__)
/* crc32c_mixed.c, which needs AVX2, VPCLMULQDQ and SSE4.2: continue the register crc over whole blocks. */
enum { CRC32C_MIXED_BLOCK = 4032 };	/* bytes */

void crc32c_mixed_set(void);
uint32_t crc32c_mixed_sum(uint32_t crc, const uint8_t *p, size_t blocks);
uint32_t crc32c_mixed_copy(uint32_t crc, uint8_t *to, const uint8_t *p, size_t blocks);
#endif

#endif
