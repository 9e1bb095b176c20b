/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues.  Owns the receives and the line of connections that wait for one.  The receive that was
 * posted last is taken first: its memory is likely to be in the cache, and memory that is never needed is never used.
 * The line is served in order: a receive posted while it is not empty is reserved for the first connection in it.
 * Runs on the application's threads and on threads that poll; srq->lock nests inside qp->lock.
 */
#include "srq.h"
#include "sizes.h"
#include "stats.h"
#include "util/fifo.h"
#include "util/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct iw_srq {
	struct ibv_srq srq;
	uint32_t max_sge;
	atomic_uint users;

	/* lock */
	iw_spin lock;
	struct iw_rwr *wr;
	struct ibv_sge *sge;
	uint32_t max_wr;
	atomic_uint available;		/* changed under the lock, read without it */
	uint32_t promised;		/* of available: reserved for places that have left the line */
	struct line line;		/* of places */
};

static struct iw_srq *srq_of(struct ibv_srq *srq)
{
	return (struct iw_srq *)srq;
}

static void srq_free(struct iw_srq *s)
{
	pthread_mutex_destroy(&s->srq.mutex);
	pthread_cond_destroy(&s->srq.cond);
	free(s->wr);
	free(s->sge);
	free(s);
}

/* Make room for max_wr receives in addition to the present ones. */
static int srq_room(struct iw_srq *s, uint32_t max_wr)
{
	uint32_t count = iw_srq_available(s);
	struct iw_rwr *wr = calloc(max_wr, sizeof(*wr));
	struct ibv_sge *sge = calloc((size_t)max_wr * s->max_sge, sizeof(*sge));

	if (!wr || !sge) {
		free(wr);
		free(sge);
		return ENOMEM;
	}
	if (count) {
		memcpy(wr, s->wr, count * sizeof(*wr));
		memcpy(sge, s->sge, (size_t)count * s->max_sge * sizeof(*sge));
	}
	free(s->wr);
	free(s->sge);
	s->wr = wr;
	s->sge = sge;
	s->max_wr = max_wr;
	return 0;
}

struct ibv_srq *iw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (!attr->attr.max_wr || attr->attr.max_wr > IW_MAX_SRQ_WR || attr->attr.max_sge > IW_MAX_SGE) {
		errno = EINVAL;
		return NULL;
	}

	struct iw_srq *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	s->srq.context = pd->context;
	s->srq.srq_context = attr->srq_context;
	s->srq.pd = pd;
	s->max_sge = attr->attr.max_sge + !attr->attr.max_sge;
	line_init(&s->line);
	if (srq_room(s, attr->attr.max_wr)) {
		srq_free(s);
		errno = ENOMEM;
		return NULL;
	}
	attr->attr.max_sge = s->max_sge;
	iw_pd_ref(pd, 1);
	iw_live.srq++;
	return &s->srq;
}

int iw_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct iw_srq *s = srq_of(ibsrq);
	int rc = 0;

	if (mask & ~IBV_SRQ_MAX_WR)
		return EOPNOTSUPP;	/* the device has no asynchronous events, so no limit event */
	if (!(mask & IBV_SRQ_MAX_WR))
		return 0;
	iw_lock(&s->lock);
	if (!attr->max_wr || attr->max_wr > IW_MAX_SRQ_WR || attr->max_wr < iw_srq_available(s))
		rc = EINVAL;
	else
		rc = srq_room(s, attr->max_wr);
	iw_unlock(&s->lock);
	return rc;
}

int iw_destroy_srq(struct ibv_srq *ibsrq)
{
	struct iw_srq *s = srq_of(ibsrq);

	if (atomic_load(&s->users))
		return EBUSY;
	iw_pd_ref(ibsrq->pd, -1);
	iw_live.srq--;
	srq_free(s);
	return 0;
}

void iw_srq_ref(struct iw_srq *s, int n)
{
	atomic_fetch_add(&s->users, (unsigned int)n);
}

unsigned int iw_srq_max_sge(const struct iw_srq *s)
{
	return s->max_sge;
}

unsigned int iw_srq_available(const struct iw_srq *s)
{
	return atomic_load_explicit(&s->available, memory_order_relaxed);
}

void iw_srq_forked(struct iw_srq *s)
{
	atomic_store(&s->lock, 0);
}

/* ---- the line ---- */

/* Give available receives to the first in line. */
static void srq_serve(struct iw_srq *s)
{
	while (s->line.head && iw_srq_available(s) > s->promised) {
		struct iw_srq_place *place = container_of(s->line.head, struct iw_srq_place, link);

		line_remove(&s->line, &place->link);
		place->promised = true;
		s->promised++;
		place->wake(place);
	}
}

static void srq_count(struct iw_srq *s, uint32_t count)
{
	atomic_store_explicit(&s->available, count, memory_order_relaxed);
}

static int srq_push(struct iw_srq *s, const struct ibv_recv_wr *wr)
{
	uint32_t slot = iw_srq_available(s);

	if (slot >= s->max_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->max_sge ||
	    iw_take_sges(s->sge + (size_t)slot * s->max_sge, wr->sg_list, wr->num_sge,
			 &s->wr[slot].len))
		return EINVAL;
	s->wr[slot].wr_id = wr->wr_id;
	s->wr[slot].num_sge = (uint32_t)wr->num_sge;
	srq_count(s, slot + 1);
	return 0;
}

int iw_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct iw_srq *s = srq_of(ibsrq);
	int rc = 0;

	iw_lock(&s->lock);
	while (wr && !rc) {
		rc = srq_push(s, wr);
		if (!rc)
			wr = wr->next;
	}
	if (rc)
		*bad = wr;
	srq_serve(s);
	iw_unlock(&s->lock);
	return rc;
}

bool iw_srq_take(struct iw_srq *s, struct iw_srq_place *place, struct iw_rwr *wr, struct ibv_sge *sge)
{
	bool taken = false;

	iw_lock(&s->lock);
	if (place->promised || iw_srq_available(s) > s->promised) {
		uint32_t slot = iw_srq_available(s) - 1;

		s->promised -= place->promised;
		place->promised = false;
		*wr = s->wr[slot];
		memcpy(sge, s->sge + (size_t)slot * s->max_sge, wr->num_sge * sizeof(*sge));
		srq_count(s, slot);
		taken = true;
	} else if (!list_has(&place->link)) {
		line_push(&s->line, &place->link);
	}
	iw_unlock(&s->lock);
	return taken;
}

bool iw_srq_promised(struct iw_srq *s, const struct iw_srq_place *place)
{
	iw_lock(&s->lock);

	bool promised = place->promised;

	iw_unlock(&s->lock);
	return promised;
}

void iw_srq_leave(struct iw_srq *s, struct iw_srq_place *place)
{
	iw_lock(&s->lock);
	if (list_has(&place->link))
		line_remove(&s->line, &place->link);
	s->promised -= place->promised;
	place->promised = false;
	srq_serve(s);
	iw_unlock(&s->lock);
}
