/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters written by one thread and read by any, without a locked instruction; and the clock.
 */
#ifndef NVMF_UTIL_STAT_H
#define NVMF_UTIL_STAT_H

#include <stdint.h>
#include <time.h>

static inline void stat_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline uint64_t stat_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
