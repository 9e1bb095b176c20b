/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters written by one thread and read by any, without a locked instruction; clock.h is for times. */
#ifndef NVMF_UTIL_STAT_H
#define NVMF_UTIL_STAT_H

#include "clock.h"

#include <stdint.h>

static inline void stat_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline uint64_t stat_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
