/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of all deadlines and latencies.  Any thread. */
#ifndef NVMF_UTIL_CLOCK_H
#define NVMF_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, in ns. */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
