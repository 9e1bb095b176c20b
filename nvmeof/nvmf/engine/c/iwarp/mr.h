/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains and memory regions (mr.c): who may touch which bytes.  A look at a region needs
 * the lock of a queue pair, see iwarp.h.
 */
#ifndef NVMF_IWARP_MR_H
#define NVMF_IWARP_MR_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct iw_mr {
	struct ibv_mr mr;
	struct iw_mr *_Atomic next;	/* in its bucket */
	int access;
	atomic_bool valid;		/* cleared by invalidation, local or remote */
};

struct ibv_pd *iw_alloc_pd(struct ibv_context *context);
int iw_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *iw_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int iw_dereg_mr(struct ibv_mr *mr);

enum iw_access {
	IW_OK,
	IW_BAD_STAG,
	IW_BAD_BOUNDS,
	IW_BAD_ACCESS,
	IW_BAD_PD,
	IW_BAD_WRAP,
};

/*
 * May [to, to + len) of stag be used by queue pairs of pd with these access rights?  The caller holds a
 * queue pair's lock until it has finished with the memory: that is what dereg_mr waits for.
 */
enum iw_access iw_mr_check(const struct ibv_pd *pd, uint32_t stag, uint64_t to, uint64_t len,
			   int access);

enum { IW_MR_BUCKETS = 4096 };
extern struct iw_mr *_Atomic iw_mr_buckets[IW_MR_BUCKETS];

static inline struct iw_mr *iw_mr_find(uint32_t stag)
{
	struct iw_mr *mr = atomic_load_explicit(&iw_mr_buckets[stag % IW_MR_BUCKETS],
						memory_order_acquire);

	while (mr && mr->mr.rkey != stag)
		mr = atomic_load_explicit(&mr->next, memory_order_acquire);
	return mr;
}

/* The same in few instructions where the answer is IW_OK. */
static inline enum iw_access iw_mr_look(const struct ibv_pd *pd, uint32_t stag, uint64_t to,
					uint64_t len, int access)
{
	const struct iw_mr *mr = iw_mr_find(stag);
	uint64_t at = mr ? to - (uintptr_t)mr->mr.addr : 0;

	if (__builtin_expect(mr && atomic_load_explicit(&mr->valid, memory_order_relaxed) &&
			     mr->mr.pd == pd && !(access & ~mr->access) && at <= mr->mr.length &&
			     len <= mr->mr.length - at, 1))
		return IW_OK;
	return iw_mr_check(pd, stag, to, len, access);
}

enum iw_access iw_mr_invalidate(const struct ibv_pd *pd, uint32_t stag, bool remote);

void iw_pd_ref(struct ibv_pd *pd, int n);
uint32_t iw_random32(void);		/* for STags that nobody guesses */

#endif
