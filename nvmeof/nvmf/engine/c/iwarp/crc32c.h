/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli) for MPA: the fastest way this processor has, chosen at first use. */
#ifndef NVMF_IWARP_CRC32C_H
#define NVMF_IWARP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue crc (0 to start) over len bytes; the value as it stands in the FPDU, little-endian. */
uint32_t iw_crc32c(uint32_t crc, const void *data, size_t len);

/* The portable way, for tests. */
uint32_t iw_crc32c_table(uint32_t crc, const void *data, size_t len);

/* "pclmul", "sse4.2" or "table". */
const char *iw_crc32c_name(void);

#endif
