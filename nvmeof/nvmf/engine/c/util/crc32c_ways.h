/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of crc32c: see crc32c.c. */
#ifndef NVMF_UTIL_CRC32C_WAYS_H
#define NVMF_UTIL_CRC32C_WAYS_H

#include "util/crc32c.h"

#define CRC32C_POLY 0x82f63b78u	/* reflected Castagnoli polynomial */

enum { CRC32C_WAYS = 5 };

/* The implementations for this processor, the fastest first, without the table; returns their number. */
unsigned crc32c_native(struct crc32c_way *ways);

#endif
