/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains, memory regions and memory windows of type 2B (mr.c): who may touch which bytes.
 *
 * The upper 24 bits of an STag name the object, at random; the lower 8 are the key.  A region keeps its
 * STag for life.  The consumer chooses the key of a window at each bind, as ibv_inc_rkey() expects, so
 * that a bind changes the window and nothing else.
 *
 * A lookup needs the lock of a queue pair, see iwarp.h.  The fields of a window change only under the
 * lock of the queue pair that it is bound to, and are read only by lookups for that queue pair.
 */
#ifndef NVMF_IWARP_MR_H
#define NVMF_IWARP_MR_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Beside the rights of the verbs: use through an lkey, which windows do not grant. */
enum { IW_ACCESS_LOCAL = 1 << 30 };

/* What an STag names. */
struct iw_stag {
	struct iw_stag *_Atomic next;	/* in its bucket */
	atomic_uint rkey;		/* the STag in force, 0 while there is none */
	uint32_t index;			/* its upper 24 bits */
	const void *_Atomic owner;	/* NULL: not a window; else the window's queue pair, or iw_nobody */
	const struct ibv_pd *pd;
	int access;
	uint32_t parent;		/* a window's region */
	uint64_t base, length;
};

struct iw_mr {
	struct ibv_mr mr;
	struct iw_stag s;
};

struct iw_mw {
	struct ibv_mw mw;
	struct iw_stag s;
	struct iw_mw *next, **prev;	/* those bound to the same queue pair */
};

/* The windows bound to a queue pair, under its lock. */
struct iw_windows {
	struct iw_mw *first;
};

extern const char iw_nobody;		/* owner of a window that is not bound */

struct ibv_pd *iw_alloc_pd(struct ibv_context *context);
int iw_dealloc_pd(struct ibv_pd *pd);
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
 * May [to, to + len) of stag be used with these access rights, by the queue pair owner of pd?  The caller
 * holds the queue pair's lock until it has finished with the memory: that is what dereg_mr waits for.
 */
enum iw_access iw_mr_check(const struct ibv_pd *pd, const void *owner, uint32_t stag, uint64_t to,
			   uint64_t len, int access);

enum { IW_MR_BUCKETS = 4096 };
extern struct iw_stag *_Atomic iw_mr_buckets[IW_MR_BUCKETS];

static inline struct iw_stag *iw_mr_find(uint32_t stag)
{
	uint32_t index = stag >> 8;
	struct iw_stag *s = atomic_load_explicit(&iw_mr_buckets[index % IW_MR_BUCKETS],
						 memory_order_acquire);

	while (s && s->index != index)
		s = atomic_load_explicit(&s->next, memory_order_acquire);
	return s;
}

/* The same in few instructions if the STag is a region's and the answer is IW_OK. */
static inline enum iw_access iw_mr_look(const struct ibv_pd *pd, const void *owner, uint32_t stag,
					uint64_t to, uint64_t len, int access)
{
	const struct iw_stag *s = iw_mr_find(stag);

	if (__builtin_expect(s && !atomic_load_explicit(&s->owner, memory_order_relaxed) &&
			     atomic_load_explicit(&s->rkey, memory_order_relaxed) == stag &&
			     s->pd == pd && !(access & ~s->access) && to - s->base <= s->length &&
			     len <= s->length - (to - s->base), 1))
		return IW_OK;
	return iw_mr_check(pd, owner, stag, to, len, access);
}

/* What a bind asks for; rkey: the window's new STag. */
struct iw_bind {
	uint32_t rkey, parent;
	uint64_t addr, length;
	int access;
};

/*
 * Bind a window to the queue pair owner of pd, whose list of windows is given; invalidate one that is bound
 * to it, or a region.  remote: the peer asks for it, which is refused for a region.
 */
enum iw_access iw_mw_bind(const struct ibv_pd *pd, const void *owner, struct iw_windows *windows,
			  const struct iw_bind *bind);
enum iw_access iw_mr_invalidate(const struct ibv_pd *pd, const void *owner, uint32_t stag, bool remote);
/* Whether the STag is a window's: no local use of memory depends on it. */
bool iw_is_window(uint32_t stag);
/* The queue pair goes: its windows can be bound again. */
void iw_windows_release(struct iw_windows *windows);

void iw_pd_ref(struct ibv_pd *pd, int n);
uint32_t iw_random32(void);		/* for STags that nobody guesses */

#endif
