/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains and memory regions.  Owns the table of STags: a fixed array of chains, written
 * under iw_dev.lock, read without a lock by whoever holds a queue pair's lock.
 * dereg_mr takes a region out of its chain and then takes and leaves every queue pair's lock in
 * turn: whoever had found it before has finished with the memory by then, and nobody finds it after.
 */
#include "iwarp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

struct iw_stag *_Atomic iw_mr_buckets[IW_MR_BUCKETS];
const char iw_nobody;
static unsigned int stags;		/* in the table; under iw_dev.lock */

struct iw_pd {
	struct ibv_pd pd;
	atomic_uint users;
};

uint32_t iw_random32(void)
{
	uint32_t v;

	while (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
		;
	return v;
}

struct ibv_pd *iw_alloc_pd(struct ibv_context *context)
{
	struct iw_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->pd.context = context;
	iw_live.pd++;
	return &pd->pd;
}

int iw_dealloc_pd(struct ibv_pd *ibpd)
{
	struct iw_pd *pd = (struct iw_pd *)ibpd;

	if (atomic_load(&pd->users))
		return EBUSY;
	iw_live.pd--;
	free(pd);
	return 0;
}

void iw_pd_ref(struct ibv_pd *ibpd, int n)
{
	atomic_fetch_add(&((struct iw_pd *)ibpd)->users, (unsigned int)n);
}

/* Give it a name that nobody guesses, and let lookups find it; its STag, or 0 if there are too many. */
static uint32_t stag_insert(struct iw_stag *s)
{
	uint32_t stag;

	pthread_mutex_lock(&iw_dev.lock);
	if (stags == IW_MAX_STAGS) {
		pthread_mutex_unlock(&iw_dev.lock);
		errno = ENOMEM;
		return 0;
	}
	stags++;
	do
		stag = iw_random32();
	while (stag >> 8 == 0 || iw_mr_find(stag));	/* 0 and MPA_RTR_READ_STAG name nothing */
	s->index = stag >> 8;

	struct iw_stag *_Atomic *head = &iw_mr_buckets[s->index % IW_MR_BUCKETS];

	atomic_init(&s->next, atomic_load_explicit(head, memory_order_relaxed));
	atomic_store_explicit(head, s, memory_order_release);
	pthread_mutex_unlock(&iw_dev.lock);
	return stag;
}

/* Nobody finds it from here on, and who had found it has finished with it.  Under iw_dev.lock. */
static bool stag_remove(struct iw_stag *s)
{
	struct iw_stag *_Atomic *at = &iw_mr_buckets[s->index % IW_MR_BUCKETS];
	struct iw_stag *m;

	while ((m = atomic_load_explicit(at, memory_order_relaxed)) && m != s)
		at = &m->next;
	if (!m)
		return false;
	atomic_store_explicit(at, atomic_load_explicit(&s->next, memory_order_relaxed),
			      memory_order_release);
	stags--;
	for (struct iw_qp *qp = iw_dev.qps; qp; qp = qp->dev_next) {
		iw_lock(&qp->lock);
		iw_unlock(&qp->lock);
	}
	return true;
}

struct ibv_mr *iw_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	/* as the verbs have it: the remote may only write where the local side may */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EINVAL;
		return NULL;
	}
	if ((access & IBV_ACCESS_ZERO_BASED) || (uintptr_t)addr + length < (uintptr_t)addr) {
		errno = EINVAL;
		return NULL;
	}

	struct iw_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = addr;
	mr->mr.length = length;
	mr->s.pd = pd;
	mr->s.base = (uintptr_t)addr;
	mr->s.length = length;
	mr->s.access = access | IW_ACCESS_LOCAL;
	mr->mr.rkey = mr->mr.lkey = mr->mr.handle = stag_insert(&mr->s);
	if (!mr->mr.rkey) {
		free(mr);
		return NULL;
	}
	atomic_store_explicit(&mr->s.rkey, mr->mr.rkey, memory_order_release);
	iw_pd_ref(pd, 1);
	iw_live.mr++;
	return &mr->mr;
}

int iw_dereg_mr(struct ibv_mr *ibmr)
{
	struct iw_mr *mr = (struct iw_mr *)ibmr;

	pthread_mutex_lock(&iw_dev.lock);

	bool removed = stag_remove(&mr->s);

	pthread_mutex_unlock(&iw_dev.lock);
	if (!removed)
		return EINVAL;
	iw_pd_ref(mr->mr.pd, -1);
	iw_live.mr--;
	free(mr);
	return 0;
}

enum iw_access iw_mr_check(const struct ibv_pd *pd, const void *owner, uint32_t stag, uint64_t to,
			   uint64_t len, int access)
{
	const struct iw_stag *s = iw_mr_find(stag);
	const void *bound = s ? atomic_load_explicit(&s->owner, memory_order_relaxed) : NULL;

	if (!s || atomic_load_explicit(&s->rkey, memory_order_relaxed) != stag)
		return IW_BAD_STAG;
	/* first of all: the fields of another queue pair's window may be changing */
	if (bound && bound != owner)
		return bound == &iw_nobody ? IW_BAD_STAG : IW_BAD_PD;
	if (s->pd != pd)
		return IW_BAD_PD;
	if ((s->access & access) != access)
		return IW_BAD_ACCESS;
	if (to + len < to)
		return IW_BAD_WRAP;
	if (to < s->base || to + len > s->base + s->length)
		return IW_BAD_BOUNDS;
	/* a window dies with its region */
	if (s->parent)
		return iw_mr_check(pd, owner, s->parent, to, len, IBV_ACCESS_MW_BIND);
	return IW_OK;
}

/* ---- windows ---- */

static struct iw_mw *mw_of(struct iw_stag *s)
{
	return (struct iw_mw *)((char *)s - offsetof(struct iw_mw, s));
}

struct ibv_mw *iw_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (type != IBV_MW_TYPE_2) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	struct iw_mw *mw = calloc(1, sizeof(*mw));

	if (!mw)
		return NULL;
	mw->mw.context = pd->context;
	mw->mw.pd = pd;
	mw->mw.type = type;
	mw->s.pd = pd;
	atomic_init(&mw->s.owner, &iw_nobody);
	mw->mw.rkey = mw->mw.handle = stag_insert(&mw->s);
	if (!mw->mw.rkey) {
		free(mw);
		return NULL;
	}
	iw_pd_ref(pd, 1);
	iw_live.mw++;
	return &mw->mw;
}

static void mw_unbind(struct iw_mw *mw)
{
	*mw->prev = mw->next;
	if (mw->next)
		mw->next->prev = mw->prev;
	atomic_store_explicit(&mw->s.rkey, 0, memory_order_relaxed);
	atomic_store_explicit(&mw->s.owner, &iw_nobody, memory_order_release);
}

int iw_dealloc_mw(struct ibv_mw *ibmw)
{
	struct iw_mw *mw = (struct iw_mw *)ibmw;

	pthread_mutex_lock(&iw_dev.lock);

	bool removed = stag_remove(&mw->s);
	const void *owner = atomic_load(&mw->s.owner);

	/* nobody binds what cannot be found; a queue pair that goes gives its windows back under iw_dev.lock */
	if (removed && owner != &iw_nobody) {
		struct iw_qp *qp = (struct iw_qp *)(uintptr_t)owner;

		iw_lock(&qp->lock);
		if (atomic_load(&mw->s.owner) != &iw_nobody)
			mw_unbind(mw);
		iw_unlock(&qp->lock);
	}
	pthread_mutex_unlock(&iw_dev.lock);
	if (!removed)
		return EINVAL;
	iw_pd_ref(mw->mw.pd, -1);
	iw_live.mw--;
	free(mw);
	return 0;
}

enum iw_access iw_mw_bind(const struct ibv_pd *pd, const void *owner, struct iw_windows *windows,
			  const struct iw_bind *bind)
{
	struct iw_stag *s = iw_mr_find(bind->rkey);
	const void *nobody = &iw_nobody;
	enum iw_access a;
	int need = IBV_ACCESS_MW_BIND;

	if (!s || !atomic_load_explicit(&s->owner, memory_order_relaxed))
		return IW_BAD_STAG;
	if (s->pd != pd)
		return IW_BAD_PD;
	if (!bind->length)
		return IW_BAD_BOUNDS;
	if (bind->access & ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE))
		return IW_BAD_ACCESS;
	if (bind->access & IBV_ACCESS_REMOTE_WRITE)
		need |= IBV_ACCESS_LOCAL_WRITE;
	a = iw_mr_look(pd, owner, bind->parent, bind->addr, bind->length, need);
	if (a != IW_OK)
		return a;
	/* bound already, be it elsewhere: it is to be invalidated first */
	if (!atomic_compare_exchange_strong_explicit(&s->owner, &nobody, owner, memory_order_acquire,
						     memory_order_relaxed))
		return IW_BAD_ACCESS;

	struct iw_mw *mw = mw_of(s);

	s->base = bind->addr;
	s->length = bind->length;
	s->access = bind->access;
	s->parent = bind->parent;
	mw->next = windows->first;
	mw->prev = &windows->first;
	if (mw->next)
		mw->next->prev = &mw->next;
	windows->first = mw;
	atomic_store_explicit(&s->rkey, bind->rkey, memory_order_relaxed);
	return IW_OK;
}

enum iw_access iw_mr_invalidate(const struct ibv_pd *pd, const void *owner, uint32_t stag, bool remote)
{
	struct iw_stag *s = iw_mr_find(stag);
	const void *bound = s ? atomic_load_explicit(&s->owner, memory_order_relaxed) : NULL;

	if (!s || bound == &iw_nobody)
		return IW_BAD_STAG;
	if (s->pd != pd || (bound && bound != owner))
		return IW_BAD_PD;
	if (atomic_load_explicit(&s->rkey, memory_order_relaxed) != stag)
		return IW_BAD_STAG;
	/* a registration outlives the connection: as with other devices, a peer cannot take it away */
	if (!bound && remote)
		return IW_BAD_ACCESS;
	if (bound)
		mw_unbind(mw_of(s));
	else
		atomic_store_explicit(&s->rkey, 0, memory_order_relaxed);
	return IW_OK;
}

bool iw_is_window(uint32_t stag)
{
	const struct iw_stag *s = iw_mr_find(stag);

	return s && atomic_load_explicit(&s->owner, memory_order_relaxed);
}

void iw_windows_release(struct iw_windows *windows)
{
	while (windows->first)
		mw_unbind(windows->first);
}
