/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues.  Owns the ring of receives and the line of queue pairs that wait for one.  The
 * line is served in order: a receive posted while it is not empty is promised to the first in it, and
 * nobody else takes it.  Runs on the application's threads and on whichever thread polls; srq->lock nests
 * inside qp->lock.
 */
#include "qp.h"
#include "stats.h"

#include <errno.h>
#include <stdlib.h>

struct iw_srq {
	struct ibv_srq srq;
	iw_spin lock;
	struct iw_rwr *wr;
	struct ibv_sge *sge;
	uint32_t size, max_wr, max_sge;
	uint32_t head, tail;		/* free running */
	atomic_uint available;		/* head - tail, for a look without the lock */
	uint32_t promised;		/* of them, kept for queue pairs that have left the line */
	struct iw_qp *line, **line_end;
	atomic_uint users;
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

/* Rings for max_wr receives, with what the old ones hold. */
static int srq_rings(struct iw_srq *s, uint32_t max_wr)
{
	uint32_t size = 1;

	while (size < max_wr)
		size *= 2;

	struct iw_rwr *wr = calloc(size, sizeof(*wr));
	struct ibv_sge *sge = calloc((size_t)size * s->max_sge, sizeof(*sge));

	if (!wr || !sge) {
		free(wr);
		free(sge);
		return ENOMEM;
	}
	for (uint32_t i = s->tail; i != s->head; i++) {
		wr[i & (size - 1)] = s->wr[i & (s->size - 1)];
		memcpy(sge + (size_t)(i & (size - 1)) * s->max_sge,
		       s->sge + (size_t)(i & (s->size - 1)) * s->max_sge, s->max_sge * sizeof(*sge));
	}
	free(s->wr);
	free(s->sge);
	s->wr = wr;
	s->sge = sge;
	s->size = size;
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
	s->line_end = &s->line;
	if (srq_rings(s, attr->attr.max_wr)) {
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
	if (!attr->max_wr || attr->max_wr > IW_MAX_SRQ_WR || attr->max_wr < s->head - s->tail)
		rc = EINVAL;
	else
		rc = srq_rings(s, attr->max_wr);
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

static void srq_line_remove(struct iw_srq *s, struct iw_qp *qp)
{
	*qp->place.prev = qp->place.next;
	if (qp->place.next)
		qp->place.next->place.prev = qp->place.prev;
	else
		s->line_end = qp->place.prev;
	qp->place.prev = NULL;
}

static void srq_line_add(struct iw_srq *s, struct iw_qp *qp)
{
	qp->place.next = NULL;
	qp->place.prev = s->line_end;
	*s->line_end = qp;
	s->line_end = &qp->place.next;
}

/* Who is first in line gets what there is. */
static void srq_line_serve(struct iw_srq *s)
{
	while (s->line && s->head - s->tail > s->promised) {
		struct iw_qp *qp = s->line;

		srq_line_remove(s, qp);
		qp->place.promised = true;
		s->promised++;
		iw_qp_wake(qp);
	}
}

static int srq_push(struct iw_srq *s, const struct ibv_recv_wr *wr)
{
	uint32_t slot = s->head & (s->size - 1);

	if (s->head - s->tail >= s->max_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->max_sge ||
	    iw_take_sges(s->sge + (size_t)slot * s->max_sge, wr->sg_list, wr->num_sge,
			 &s->wr[slot].len))
		return EINVAL;
	s->wr[slot].wr_id = wr->wr_id;
	s->wr[slot].num_sge = (uint32_t)wr->num_sge;
	s->head++;
	return 0;
}

static void srq_count(struct iw_srq *s)
{
	atomic_store_explicit(&s->available, s->head - s->tail, memory_order_relaxed);
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
	srq_count(s);
	if (s->line)
		srq_line_serve(s);
	iw_unlock(&s->lock);
	return rc;
}

bool iw_srq_take(struct iw_qp *qp)
{
	struct iw_srq *s = qp->srq;
	bool taken = false;

	iw_lock(&s->lock);
	if (qp->place.promised || s->head - s->tail > s->promised) {
		uint32_t slot = s->tail++ & (s->size - 1);

		s->promised -= qp->place.promised;
		qp->place.promised = false;
		qp->rq[0] = s->wr[slot];
		memcpy(qp->rq_sge, s->sge + (size_t)slot * s->max_sge,
		       s->wr[slot].num_sge * sizeof(*qp->rq_sge));
		qp->rq_head++;
		srq_count(s);
		taken = true;
	} else if (!qp->place.prev) {
		srq_line_add(s, qp);
	}
	iw_unlock(&s->lock);
	return taken;
}

bool iw_srq_promised(struct iw_qp *qp)
{
	iw_lock(&qp->srq->lock);

	bool promised = qp->place.promised;

	iw_unlock(&qp->srq->lock);
	return promised;
}

void iw_srq_leave(struct iw_qp *qp)
{
	struct iw_srq *s = qp->srq;

	iw_lock(&s->lock);
	if (qp->place.prev)
		srq_line_remove(s, qp);
	s->promised -= qp->place.promised;
	qp->place.promised = false;
	srq_line_serve(s);
	iw_unlock(&s->lock);
}
