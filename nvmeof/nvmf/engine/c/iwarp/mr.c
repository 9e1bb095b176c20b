/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory regions.  Control threads; iw_mr_check on those of the data path. */
#include "mr.h"
#include "stats.h"
#include "util/lines.h"

#include <errno.h>
#include <stdlib.h>

struct iw_pd {
	struct ibv_pd pd;
	atomic_uint users;
};

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
	/* as in the verbs: remote write access requires local write access */
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
	mr->mr.rkey = mr->mr.lkey = mr->mr.handle = iw_stag_insert(&mr->s);
	if (!mr->mr.rkey) {
		free(mr);
		return NULL;
	}
	atomic_store_explicit(&mr->s.stag, mr->mr.rkey, memory_order_release);
	iw_pd_ref(pd, 1);
	iw_live.mr++;
	return &mr->mr;
}

int iw_dereg_mr(struct ibv_mr *ibmr)
{
	struct iw_mr *mr = (struct iw_mr *)ibmr;

	if (!iw_stag_remove(&mr->s))
		return EINVAL;
	iw_pd_ref(mr->mr.pd, -1);
	iw_live.mr--;
	free(mr);
	return 0;
}

enum iw_access iw_mr_check(const struct ibv_pd *pd, const struct iw_windows *windows, uint32_t stag,
			   uint64_t to, uint64_t len, int access)
{
	const struct iw_stag *s = iw_stag_find(stag);

	if (!s || atomic_load_explicit(&s->stag, memory_order_relaxed) != stag)
		return IW_BAD_STAG;

	const struct iw_windows *bound = atomic_load_explicit(&s->bound, memory_order_relaxed);

	/* checked first: the fields of another queue pair's window may be changing */
	if (bound && bound != windows)
		return bound == &iw_unbound ? IW_BAD_STAG : IW_BAD_PD;
	if (s->pd != pd)
		return IW_BAD_PD;
	if ((s->access & access) != access)
		return IW_BAD_ACCESS;
	if (to + len < to)
		return IW_BAD_WRAP;
	if (to < s->base || to + len > s->base + s->length)
		return IW_BAD_BOUNDS;
	/* a window ends with its region */
	if (bound)
		return iw_mr_look(pd, NULL, s->parent, to, len, IBV_ACCESS_MW_BIND | IW_ACCESS_LOCAL);
	return IW_OK;
}

void iw_mr_persist(const struct ibv_pd *pd, uint32_t stag, uint64_t to, uint64_t len)
{
	/* the region may have been deregistered since its data was placed: then its memory may no longer exist */
	if (iw_mr_look(pd, NULL, stag, to, len, VERBS_PLACE_PERSISTENTLY) == IW_OK)
		lines_write_back((const void *)(uintptr_t)to, len);
}

bool iw_mr_range(const struct ibv_pd *pd, const struct iw_windows *windows, uint32_t stag, int access, uint64_t *base,
		 uint64_t *length)
{
	const struct iw_stag *s = iw_stag_find(stag);
	const struct iw_windows *bound = s ? atomic_load_explicit(&s->bound, memory_order_relaxed) : NULL;

	if (!s || (bound && bound != windows))
		return false;
	*base = s->base;
	*length = s->length;
	return iw_mr_check(pd, windows, stag, *base, *length, access) == IW_OK;
}

enum iw_access iw_mr_invalidate(const struct ibv_pd *pd, const struct iw_windows *windows, uint32_t stag,
				bool remote)
{
	struct iw_stag *s = iw_stag_find(stag);
	const struct iw_windows *bound = s ? atomic_load_explicit(&s->bound, memory_order_relaxed) : NULL;

	if (!s || bound == &iw_unbound)
		return IW_BAD_STAG;
	if (s->pd != pd || (bound && bound != windows))
		return IW_BAD_PD;
	if (atomic_load_explicit(&s->stag, memory_order_relaxed) != stag)
		return IW_BAD_STAG;
	/* a registration outlives the connection: as with other devices, a peer cannot invalidate it */
	if (!bound && remote)
		return IW_BAD_ACCESS;
	if (bound)
		iw_mw_unbind(s);
	else
		atomic_store_explicit(&s->stag, 0, memory_order_relaxed);
	return IW_OK;
}
