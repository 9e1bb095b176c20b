/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows of type 2B.  Created and destroyed by control threads; bound and unbound on the data path, under the
 * lock of the queue pair to which they are bound.  The binding changes between queue pairs only through iw_unbound,
 * so it is read without a lock.
 */
#include "mr.h"
#include "stats.h"
#include "util/fifo.h"

#include <errno.h>
#include <stdlib.h>

struct iw_windows iw_unbound;

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
	atomic_init(&mw->s.bound, &iw_unbound);
	mw->mw.rkey = mw->mw.handle = iw_stag_insert(&mw->s);
	if (!mw->mw.rkey) {
		free(mw);
		return NULL;
	}
	iw_pd_ref(pd, 1);
	iw_live.mw++;
	return &mw->mw;
}

void iw_mw_unbind(struct iw_stag *s)
{
	struct iw_mw *mw = container_of(s, struct iw_mw, s);

	list_remove(&mw->link);
	atomic_store_explicit(&s->stag, 0, memory_order_relaxed);
	atomic_store_explicit(&s->bound, &iw_unbound, memory_order_release);
}

int iw_dealloc_mw(struct ibv_mw *ibmw)
{
	struct iw_mw *mw = (struct iw_mw *)ibmw;

	if (!iw_stag_remove(&mw->s))
		return EINVAL;
	/* an unreachable window cannot be bound, but its queue pair may be destroyed at this moment */
	pthread_mutex_lock(&iw_stags_lock);

	struct iw_windows *at = atomic_load_explicit(&mw->s.bound, memory_order_acquire);

	if (at != &iw_unbound) {
		iw_lock(at->lock);
		iw_mw_unbind(&mw->s);
		iw_unlock(at->lock);
	}
	pthread_mutex_unlock(&iw_stags_lock);
	iw_pd_ref(mw->mw.pd, -1);
	iw_live.mw--;
	free(mw);
	return 0;
}

enum iw_access iw_mw_bind(const struct ibv_pd *pd, struct iw_windows *windows,
			  const struct iw_bind *bind)
{
	struct iw_stag *s = iw_stag_find(bind->stag);
	struct iw_windows *unbound = &iw_unbound;
	int need = IBV_ACCESS_MW_BIND | IW_ACCESS_LOCAL;
	enum iw_access a;

	if (!s || !atomic_load_explicit(&s->bound, memory_order_relaxed))
		return IW_BAD_STAG;
	if (s->pd != pd)
		return IW_BAD_PD;
	if (!bind->length)
		return IW_BAD_BOUNDS;
	/* local write access is the region's, but a bind may name it as well */
	if (bind->access & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE))
		return IW_BAD_ACCESS;
	if (bind->access & IBV_ACCESS_REMOTE_WRITE)
		need |= IBV_ACCESS_LOCAL_WRITE;
	a = iw_mr_look(pd, NULL, bind->parent, bind->addr, bind->length, need);
	if (a != IW_OK)
		return a;
	/* already bound, possibly to a different queue pair: it must be invalidated first */
	if (!atomic_compare_exchange_strong_explicit(&s->bound, &unbound, windows, memory_order_acquire,
						     memory_order_relaxed))
		return IW_BAD_ACCESS;

	struct iw_mw *mw = container_of(s, struct iw_mw, s);

	s->base = bind->addr;
	s->length = bind->length;
	s->access = bind->access & ~IBV_ACCESS_LOCAL_WRITE;
	s->parent = bind->parent;
	list_push(&windows->bound, &mw->link);
	atomic_store_explicit(&s->stag, bind->stag, memory_order_relaxed);
	return IW_OK;
}

bool iw_is_window(uint32_t stag)
{
	const struct iw_stag *s = iw_stag_find(stag);

	return s && atomic_load_explicit(&s->bound, memory_order_relaxed);
}

void iw_windows_release(struct iw_windows *windows)
{
	pthread_mutex_lock(&iw_stags_lock);
	iw_lock(windows->lock);
	while (windows->bound.head)
		iw_mw_unbind(&container_of(windows->bound.head, struct iw_mw, link)->s);
	iw_unlock(windows->lock);
	pthread_mutex_unlock(&iw_stags_lock);
}
