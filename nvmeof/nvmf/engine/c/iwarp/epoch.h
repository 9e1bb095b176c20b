/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shows which threads are using objects that they looked up without a lock (epoch.c).
 *
 * A thread marks its own slot when it enters a section, and again when it leaves it: two stores to a cache line that
 * no other thread writes.  A thread that has made an object unreachable waits until every marked slot has changed
 * once, and can then free the object.  The cost depends only on the number of threads.
 *
 * There must be a full barrier between the mark and the first lookup: taking an iw_spin is one on x86, so sections
 * are entered by iw_section_lock() only.
 */
#ifndef NVMF_IWARP_EPOCH_H
#define NVMF_IWARP_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { IW_CACHE_LINE = 64 };

struct iw_epoch {
	_Alignas(IW_CACHE_LINE) atomic_uint count;	/* odd while in a section */
	atomic_bool taken;
	struct iw_epoch *next;
};

extern _Thread_local struct iw_epoch *iw_epoch_mine __attribute__((tls_model("initial-exec")));
struct iw_epoch *iw_epoch_join(void);

static inline struct iw_epoch *iw_epoch_enter(void)
{
	struct iw_epoch *e = iw_epoch_mine;

	if (__builtin_expect(!e, 0))
		e = iw_epoch_join();
	atomic_store_explicit(&e->count, atomic_load_explicit(&e->count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
#if !defined(__x86_64__) && !defined(__i386__)
	atomic_thread_fence(memory_order_seq_cst);
#endif
	return e;
}

static inline void iw_epoch_leave(struct iw_epoch *e)
{
	atomic_store_explicit(&e->count, atomic_load_explicit(&e->count, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* Return when every section that was entered before this call has been left.  Must not be called in a section. */
void iw_epoch_wait(void);

#endif
