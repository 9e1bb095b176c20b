/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli), by the fastest way that this processor has, chosen at first use. */
#ifndef NVMF_UTIL_CRC32C_H
#define NVMF_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue crc (0 to start) over len bytes; the value as it stands in the FPDU, little-endian. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The same, of bytes that are copied on the way: what is summed is what arrives in to. */
uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t len);

/* One way of doing it.  Both functions take and return the register: the value's complement. */
struct crc32c_way {
	const char *name;	/* "vpclmul", "pclmul", "sse4.2", "armv8" or "table" */
	uint32_t (*sum)(uint32_t crc, const uint8_t *p, size_t len);
	uint32_t (*copy)(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len);
};

/* All that this processor has, the fastest (which the functions above take) first; the last is the table. */
const struct crc32c_way *crc32c_ways(unsigned *count);

#endif
