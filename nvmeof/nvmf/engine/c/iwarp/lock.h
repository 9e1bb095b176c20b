/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock of one word: normally uncontended; yields the processor otherwise.  Taking it is a full barrier, which
 * iw_section_lock() depends on.
 */
#ifndef NVMF_IWARP_LOCK_H
#define NVMF_IWARP_LOCK_H

#include "epoch.h"
#include "util/pause.h"

#include <sched.h>

typedef atomic_uint iw_spin;

static inline bool iw_trylock(iw_spin *l)
{
	return !atomic_load_explicit(l, memory_order_relaxed) &&
	       !atomic_exchange_explicit(l, 1, memory_order_acq_rel);
}

static inline void iw_lock(iw_spin *l)
{
	for (int n = 0; !iw_trylock(l); n++) {
		if (n < 64)
			cpu_pause();
		else
			sched_yield();
	}
}

static inline void iw_unlock(iw_spin *l)
{
	atomic_store_explicit(l, 0, memory_order_release);
}

/* Take the lock and enter a section, in which STags can be looked up and their memory used. */
static inline struct iw_epoch *iw_section_lock(iw_spin *l)
{
	struct iw_epoch *e = iw_epoch_enter();

	iw_lock(l);
	return e;
}

static inline struct iw_epoch *iw_section_trylock(iw_spin *l)
{
	struct iw_epoch *e = iw_epoch_enter();

	if (iw_trylock(l))
		return e;
	iw_epoch_leave(e);
	return NULL;
}

static inline void iw_section_unlock(struct iw_epoch *e, iw_spin *l)
{
	iw_unlock(l);
	iw_epoch_leave(e);
}

#endif
