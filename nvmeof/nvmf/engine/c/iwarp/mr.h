/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains, memory regions (mr.c) and memory windows of type 2B (mw.c): access rights to memory.
 *
 * A region keeps its STag for its lifetime.  The consumer chooses the key of a window at each bind, as ibv_inc_rkey()
 * expects, so that a bind changes only the window.  The fields of a window change only under the lock of the queue
 * pair to which it is bound, and are read only by lookups for that queue pair.
 *
 * Lookups are made, and the memory is used, within a section (lock.h): dereg_mr and dealloc_mw wait for its end.
 */
#ifndef NVMF_IWARP_MR_H
#define NVMF_IWARP_MR_H

#include "lock.h"
#include "stag.h"
#include "util/bad.h"
#include "util/list.h"
#include "verbs.h"

/* In addition to the rights of the verbs: use through an lkey, which windows do not grant. */
enum { IW_ACCESS_LOCAL = 1 << 30 };

struct iw_mr {
	struct ibv_mr mr;
	struct iw_stag s;
};

struct iw_mw {
	struct ibv_mw mw;
	struct iw_stag s;
	struct list_link link;		/* in the list of windows bound to the same queue pair, under its lock */
};

/* The windows bound to a queue pair, under its lock; also identifies the queue pair in lookups. */
struct iw_windows {
	iw_spin *lock;
	struct list bound;
};

extern struct iw_windows iw_unbound;	/* the place of windows that are not bound */

struct ibv_pd *iw_alloc_pd(struct ibv_context *context);
int iw_dealloc_pd(struct ibv_pd *pd);
void iw_pd_ref(struct ibv_pd *pd, int n);
struct ibv_mr *iw_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int iw_dereg_mr(struct ibv_mr *mr);
struct ibv_mw *iw_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int iw_dealloc_mw(struct ibv_mw *mw);

enum iw_access {
	IW_OK,
	IW_BAD_STAG,
	IW_BAD_BOUNDS,
	IW_BAD_ACCESS,
	IW_BAD_PD,
	IW_BAD_WRAP,
};

/*
 * Check whether [to, to + len) of stag can be used with these access rights, in domain pd by the queue pair of these
 * windows (NULL for an lkey).
 */
enum iw_access iw_mr_check(const struct ibv_pd *pd, const struct iw_windows *windows, uint32_t stag,
			   uint64_t to, uint64_t len, int access);

/* The same in few instructions, if the STag belongs to a region and the answer is IW_OK. */
static inline enum iw_access iw_mr_look(const struct ibv_pd *pd, const struct iw_windows *windows,
					uint32_t stag, uint64_t to, uint64_t len, int access)
{
	const struct iw_stag *s = iw_stag_find(stag);

	if (__builtin_expect(s && !atomic_load_explicit(&s->bound, memory_order_relaxed) &&
			     atomic_load_explicit(&s->stag, memory_order_relaxed) == stag &&
			     s->pd == pd && !(access & ~s->access) && to - s->base <= s->length &&
			     len <= s->length - (to - s->base), 1))
		return IW_OK;
	return iw_mr_check(pd, windows, stag, to, len, access);
}

/* Whether memory of this region or window has failed. */
static inline bool iw_mr_failed(uint32_t stag)
{
	const struct iw_stag *s;

	if (__builtin_expect(!atomic_load_explicit(&bad_ranges, memory_order_acquire), 1))
		return false;
	s = iw_stag_find(stag);
	return s && bad_within(s->base, s->length);
}

/*
 * Finish a segment of a WRITE whose data has been placed: in a region of persistent memory, make the data persistent,
 * so that it is persistent before any later request is answered.  iw_mr_placed() returns false if memory of the region
 * has failed: then no later request may be answered.  The caller checked the bytes at the segment's start.
 */
void iw_mr_persist(const struct ibv_pd *pd, uint32_t stag, uint64_t to, uint64_t len);
static inline bool iw_mr_placed(const struct ibv_pd *pd, uint32_t stag, uint64_t to, uint64_t len)
{
	const struct iw_stag *s = iw_stag_find(stag);

	if (__builtin_expect(s && s->access & VERBS_PLACE_PERSISTENTLY, 0))
		iw_mr_persist(pd, stag, to, len);
	return !iw_mr_failed(stag);
}

/* The range of a region or window of which these access rights can be used; false if there is none. */
bool iw_mr_range(const struct ibv_pd *pd, const struct iw_windows *windows, uint32_t stag, int access, uint64_t *base,
		 uint64_t *length);

/* The arguments of a bind; stag: the window's new STag. */
struct iw_bind {
	uint32_t stag, parent;
	uint64_t addr, length;
	int access;
};

/*
 * Bind a window to the queue pair of these windows; invalidate one that is bound to it, or a region. remote:
 * requested by the peer, which is refused for a region.  Under the queue pair's lock.
 */
enum iw_access iw_mw_bind(const struct ibv_pd *pd, struct iw_windows *windows,
			  const struct iw_bind *bind);
enum iw_access iw_mr_invalidate(const struct ibv_pd *pd, const struct iw_windows *windows, uint32_t stag,
				bool remote);
void iw_mw_unbind(struct iw_stag *s);
/* Whether the STag belongs to a window: local use of memory does not depend on it. */
bool iw_is_window(uint32_t stag);
/* The queue pair is being destroyed: its windows can be bound again. */
void iw_windows_release(struct iw_windows *windows);

#endif
