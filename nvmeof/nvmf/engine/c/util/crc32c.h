/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli), by this processor's fastest implementation, selected at first use. */
#ifndef NVMF_UTIL_CRC32C_H
#define NVMF_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue crc (0 to start) over len bytes; returns the value as it is in the FPDU, little-endian. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The same for bytes that are copied: the sum is of the bytes that are written to "to". */
uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t len);

/* One implementation.  Both functions take and return the register: the complement of the value. */
struct crc32c_way {
	const char *name;	/* of the instructions: "pclmul", "sse4.2", "table" ... */
	uint32_t (*sum)(uint32_t crc, const uint8_t *p, size_t len);
	uint32_t (*copy)(uint32_t crc, uint8_t *to, const uint8_t *p, size_t len);
};

/* All implementations for this processor, the fastest (used by the functions above) first; the last is the table. */
const struct crc32c_way *crc32c_ways(unsigned *count);

#endif
