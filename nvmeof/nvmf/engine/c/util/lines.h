/* SPDX-License-Identifier: BSD-3-Clause */
/* Write-back of cache lines, for bytes of persistent memory that a device or a system call has written. */
#ifndef NVMF_UTIL_LINES_H
#define NVMF_UTIL_LINES_H

#include <stddef.h>

/*
 * Write back all cache lines with these bytes; they are in the persistence domain on return.  Any thread.  Does
 * nothing on a processor for which there is no code: pmem stores are never stable there.
 */
void lines_write_back(const void *from, size_t length);

#endif
