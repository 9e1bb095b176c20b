/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of STags (stag.c).  The upper 24 bits of an STag, its index, identify an object and are random; the lower
 * 8 are the key.  Lookups take no lock, in a section of epoch.h; the table grows on demand, and the cost of a lookup
 * does not depend on its size.
 */
#ifndef NVMF_IWARP_STAG_H
#define NVMF_IWARP_STAG_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { IW_MAX_STAGS = 1 << 22 };	/* of 2^24 indices: a guess must be unlikely to match one */

struct iw_windows;

/* The object that an STag identifies. */
struct iw_stag {
	atomic_uint stag;		/* the valid one, 0 if there is none */
	uint32_t index;
	/* NULL: a region; otherwise the place where the window is bound, or &iw_unbound */
	struct iw_windows *_Atomic bound;
	const struct ibv_pd *pd;
	int access;
	uint32_t parent;		/* a window's region */
	uint64_t base, length;
};

struct iw_stag_slot {
	atomic_uint index;		/* 0: never used, ends a search */
	struct iw_stag *_Atomic s;
};

struct iw_stag_table {
	uint32_t mask;
	uint32_t used;			/* slots that are not free, under the lock of the table */
	struct iw_stag_slot slot[];
};

extern struct iw_stag_table *_Atomic iw_stags;
extern pthread_mutex_t iw_stags_lock;	/* control threads: the table; windows of ending queue pairs */

static inline struct iw_stag *iw_stag_find(uint32_t stag)
{
	const struct iw_stag_table *t = atomic_load_explicit(&iw_stags, memory_order_acquire);
	uint32_t index = stag >> 8;

	if (__builtin_expect(!t || !index, 0))
		return NULL;
	/* indices are random, so no hash is needed */
	for (uint32_t i = index & t->mask;; i = (i + 1) & t->mask) {
		uint32_t found = atomic_load_explicit(&t->slot[i].index, memory_order_acquire);

		if (__builtin_expect(found == index, 1)) {
			struct iw_stag *s = atomic_load_explicit(&t->slot[i].s, memory_order_acquire);

			/* the slot may have been reused in between */
			return s && s->index == index ? s : NULL;
		}
		if (!found)
			return NULL;
	}
}

/* Give it an unpredictable STag, and let lookups find it; returns the STag, or 0 with errno. */
uint32_t iw_stag_insert(struct iw_stag *s);
/* After this no lookup finds it, and threads that had found it no longer use it. */
bool iw_stag_remove(struct iw_stag *s);

uint32_t iw_random32(void);		/* for unpredictable numbers */

#endif
