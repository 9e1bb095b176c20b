/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli), by the fastest way that this processor has, chosen at first use. */
#ifndef NVMF_UTIL_CRC32C_H
#define NVMF_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue crc (0 to start) over len bytes; the value as it stands in the FPDU, little-endian. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The portable way, for tests. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len);

/* "pclmul", "sse4.2" or "table". */
const char *crc32c_name(void);

#endif
