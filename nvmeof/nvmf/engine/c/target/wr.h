/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifiers of work requests: a pointer to the object, with its kind in the lowest bits. */
#ifndef NVMF_TARGET_WR_H
#define NVMF_TARGET_WR_H

#include <stdint.h>

enum wr_kind {
	WR_RECV,		/* struct recv */
	WR_RESPONSE,		/* struct target_request */
	WR_CHUNK,		/* struct chunk, as WR_READ */
	WR_READ,
	WR_UNSIGNALLED,		/* struct target_qpair, as WR_NUDGE */
	WR_NUDGE,
	WR_KIND_MASK = 7,
};

static inline uint64_t wr_id(const void *p, enum wr_kind kind)
{
	return (uintptr_t)p | kind;
}

static inline enum wr_kind wr_kind(uint64_t id)
{
	return (enum wr_kind)(id & WR_KIND_MASK);
}

static inline void *wr_of(uint64_t id)
{
	return (void *)(uintptr_t)(id & ~(uint64_t)WR_KIND_MASK);
}

#endif
