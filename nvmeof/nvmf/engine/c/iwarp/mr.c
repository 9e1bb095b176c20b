/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains and memory regions.  Owns the table from STag to region: a fixed array of
 * chains, written under iw_dev.lock, read without a lock by whoever holds a queue pair's lock.
 * dereg_mr takes a region out of its chain and then takes and leaves every queue pair's lock in
 * turn: whoever had found it before has finished with the memory by then, and nobody finds it after.
 */
#include "iwarp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

struct iw_mr *_Atomic iw_mr_buckets[IW_MR_BUCKETS];

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
	mr->access = access;
	atomic_init(&mr->valid, true);
	pthread_mutex_lock(&iw_dev.lock);
	do
		mr->mr.rkey = iw_random32();
	while (mr->mr.rkey <= MPA_RTR_READ_STAG || iw_mr_find(mr->mr.rkey));
	mr->mr.lkey = mr->mr.handle = mr->mr.rkey;

	struct iw_mr *_Atomic *head = &iw_mr_buckets[mr->mr.rkey % IW_MR_BUCKETS];

	atomic_init(&mr->next, atomic_load_explicit(head, memory_order_relaxed));
	atomic_store_explicit(head, mr, memory_order_release);
	pthread_mutex_unlock(&iw_dev.lock);
	iw_pd_ref(pd, 1);
	iw_live.mr++;
	return &mr->mr;
}

int iw_dereg_mr(struct ibv_mr *ibmr)
{
	struct iw_mr *mr = (struct iw_mr *)ibmr;

	pthread_mutex_lock(&iw_dev.lock);

	struct iw_mr *_Atomic *at = &iw_mr_buckets[mr->mr.rkey % IW_MR_BUCKETS];
	struct iw_mr *m;

	while ((m = atomic_load_explicit(at, memory_order_relaxed)) && m != mr)
		at = &m->next;
	if (!m) {
		pthread_mutex_unlock(&iw_dev.lock);
		return EINVAL;
	}
	atomic_store_explicit(at, atomic_load_explicit(&mr->next, memory_order_relaxed),
			      memory_order_release);
	for (struct iw_qp *qp = iw_dev.qps; qp; qp = qp->dev_next) {
		iw_lock(&qp->lock);
		iw_unlock(&qp->lock);
	}
	pthread_mutex_unlock(&iw_dev.lock);
	iw_pd_ref(mr->mr.pd, -1);
	iw_live.mr--;
	free(mr);
	return 0;
}

enum iw_access iw_mr_check(const struct ibv_pd *pd, uint32_t stag, uint64_t to, uint64_t len,
			   int access)
{
	const struct iw_mr *mr = iw_mr_find(stag);

	if (!mr || !atomic_load_explicit(&mr->valid, memory_order_relaxed))
		return IW_BAD_STAG;
	if (mr->mr.pd != pd)
		return IW_BAD_PD;
	if ((mr->access & access) != access)
		return IW_BAD_ACCESS;
	if (to + len < to)
		return IW_BAD_WRAP;

	uint64_t base = (uintptr_t)mr->mr.addr;

	if (to < base || to + len > base + mr->mr.length)
		return IW_BAD_BOUNDS;
	return IW_OK;
}

enum iw_access iw_mr_invalidate(const struct ibv_pd *pd, uint32_t stag, bool remote)
{
	struct iw_mr *mr = iw_mr_find(stag);

	if (!mr)
		return IW_BAD_STAG;
	if (mr->mr.pd != pd)
		return IW_BAD_PD;
	/* a registration outlives the connection: as with other devices, a peer cannot take it away */
	if (remote && !(mr->access & IBV_ACCESS_MW_BIND))
		return IW_BAD_ACCESS;
	atomic_store_explicit(&mr->valid, false, memory_order_relaxed);
	return IW_OK;
}
