/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM ids: created, destroyed, given a queue pair.  Owns the list of ids and that of ids with a deadline. Runs on the
 * application's threads and on the helper, under iw_cm_lock.
 */
#include "cm.h"
#include "stats.h"
#include "capture/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct list iw_ids;
struct iw_timers iw_timers[IW_ID_ENDED + 1];

/* ---- the helper's work for ids and their queue pairs ---- */

static int cm_start(void)
{
	iw_fork_setup();
	capture_from_environment();
	return iw_watch_memory();
}

static uint64_t cm_expire(uint64_t now)
{
	uint64_t first;

	/* each one that expires gets a later deadline, or none */
	for (struct iw_timers *t = iw_timers; t < iw_timers + COUNT(iw_timers); t++)
		while (t->first && t->first->deadline <= now)
			iw_id_expired(t->first);
	first = iw_watch_expire(now);
	for (struct iw_timers *t = iw_timers; t < iw_timers + COUNT(iw_timers); t++)
		if (t->first && (!first || t->first->deadline < first))
			first = t->first->deadline;
	return first;
}

int iw_cm_use(int n)
{
	static const struct iw_helper_calls calls = { cm_start, iw_watch_no_memory, cm_expire };

	return iw_helper_use(n, &calls);
}

/* A connected queue pair has ended without a call of the application. */
static void cm_ended(struct iw_qp *qp)
{
	struct iw_id *id = qp->owner;

	if (id && id->state == IW_ID_CONNECTED) {
		id->state = IW_ID_ENDED;
		iw_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	}
}

/* ---- ids ---- */

struct iw_id *iw_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct iw_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = IBV_QPT_RC;
	id->fd = -1;
	id->tos = -1;
	id->source.ready = iw_id_ready;
	list_push(&iw_ids, &id->link);
	iw_live.cm_id++;
	return id;
}

void iw_id_deadline(struct iw_id *id, uint64_t ns)
{
	struct iw_timers *t = id->timers;

	if (t) {
		*(id->timed_prev ? &id->timed_prev->timed_next : &t->first) = id->timed_next;
		*(id->timed_next ? &id->timed_next->timed_prev : &t->last) = id->timed_prev;
		id->timers = NULL;
	}
	if (!ns)
		return;
	id->timers = t = &iw_timers[id->state];
	id->deadline = clock_ns() + ns;

	struct iw_id *before = t->last;

	while (before && before->deadline > id->deadline)
		before = before->timed_prev;
	id->timed_prev = before;
	id->timed_next = before ? before->timed_next : t->first;
	*(before ? &before->timed_next : &t->first) = id;
	*(id->timed_next ? &id->timed_next->timed_prev : &t->last) = id;
}

/* Remove an incoming id from its listener's counts. */
void iw_id_left_request(struct iw_id *id)
{
	if (!id->listener)
		return;
	if (id->state == IW_ID_REQUEST_WAIT)
		id->listener->half_open--;
	else if (id->state == IW_ID_REQUESTED)
		id->listener->pending--;
	id->listener = NULL;
}

void iw_id_close(struct iw_id *id)
{
	iw_id_deadline(id, 0);
	if (id->fd < 0)
		return;
	if (id->polled)
		iw_helper_poll(EPOLL_CTL_DEL, id->fd, 0, NULL);
	id->polled = false;
	close(id->fd);
	id->fd = -1;
}

void iw_id_free(struct iw_id *id)
{
	iw_id_left_request(id);
	iw_id_close(id);
	list_remove(&id->link);
	iw_live.cm_id--;
	free(id);
}

int iw_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **idp, void *context,
		 enum rdma_port_space ps)
{
	struct iw_id *id = NULL;

	if (!channel || ps != RDMA_PS_TCP) {
		errno = EINVAL;
		return -1;
	}
	pthread_mutex_lock(&iw_cm_lock);
	if (!iw_cm_use(1)) {
		id = iw_id_new(channel, context, ps);
		if (!id)
			iw_cm_use(-1);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	if (!id)
		return -1;
	*idp = &id->id;
	return 0;
}

static void cm_end_qp(struct iw_qp *qp)
{
	struct iw_id *id = qp->owner;

	iw_lock(&qp->lock);
	iw_qp_fail(qp, TERM_NONE, NULL, "this side destroyed the queue pair");
	iw_unlock(&qp->lock);
	iw_reap(qp);
	if (id && id->state == IW_ID_CONNECTED)
		id->state = IW_ID_ENDED;
	if (id)
		id->id.qp = NULL;
}

static void cm_destroy_qp(struct iw_qp *qp)
{
	cm_end_qp(qp);
	iw_cq_forget(iw_cq(qp->qp.send_cq), qp->qp.qp_num);
	iw_cq_forget(iw_cq(qp->qp.recv_cq), qp->qp.qp_num);
	iw_qp_free(qp);
}

/* Free the ids that a listener has not passed to the application yet. */
static void cm_free_children(struct iw_id *listener)
{
	for (struct list_link *link = iw_ids.head, *next; link; link = next) {
		struct iw_id *id = container_of(link, struct iw_id, link);

		next = link->next;
		if (id->listener != listener)
			continue;
		if (id->state == IW_ID_REQUEST_WAIT)
			iw_id_free(id);		/* only its own list refers to it */
		else
			iw_id_left_request(id);
	}
}

int iw_destroy_id(struct rdma_cm_id *rid)
{
	struct iw_id *id = (struct iw_id *)rid;
	struct iw_id *keep;

	pthread_mutex_lock(&iw_cm_lock);
	if (rid->qp)
		cm_destroy_qp(iw_qp(rid->qp));
	iw_id_close(id);
	/* the helper no longer uses it; purging may free children, so the list is walked afterwards */
	iw_event_purge(id);
	cm_free_children(id);
	while (id->events)
		pthread_cond_wait(&iw_cm_cond, &iw_cm_lock);
	keep = id;
	iw_id_free(keep);
	iw_cm_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

static struct ibv_pd *cm_default_pd(void)
{
	static struct ibv_pd *pd;

	if (!pd)
		pd = iw_alloc_pd(&iw_dev.ext.context);
	return pd;
}

int iw_create_qp(struct rdma_cm_id *rid, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct iw_qp *qp = NULL;

	pthread_mutex_lock(&iw_cm_lock);
	if (!rid->verbs || rid->qp) {
		errno = EINVAL;
	} else {
		if (!pd)
			pd = rid->pd ? rid->pd : cm_default_pd();
		qp = iw_qp_create(pd, attr);
	}
	if (qp) {
		iw_watch_init(qp, cm_ended);
		qp->owner = rid;
		rid->qp = &qp->qp;
		rid->pd = pd;
		rid->srq = attr->srq;
		rid->send_cq = attr->send_cq;
		rid->recv_cq = attr->recv_cq;
		rid->send_cq_channel = attr->send_cq->channel;
		rid->recv_cq_channel = attr->recv_cq->channel;
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return qp ? 0 : -1;
}

void iw_destroy_qp(struct rdma_cm_id *rid)
{
	pthread_mutex_lock(&iw_cm_lock);
	if (rid->qp)
		cm_destroy_qp(iw_qp(rid->qp));
	pthread_mutex_unlock(&iw_cm_lock);
}

/* ---- queue pairs without an id: they exist, but MPA connects none of them ---- */

struct ibv_qp *iw_bare_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct iw_qp *qp = NULL;

	pthread_mutex_lock(&iw_cm_lock);
	if (!iw_cm_use(1)) {
		qp = iw_qp_create(pd, attr);
		if (qp)
			iw_watch_init(qp, cm_ended);
		else
			iw_cm_use(-1);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return qp ? &qp->qp : NULL;
}

int iw_bare_destroy(struct ibv_qp *qp)
{
	pthread_mutex_lock(&iw_cm_lock);

	const bool bare = !iw_qp(qp)->owner;

	cm_destroy_qp(iw_qp(qp));
	if (bare)
		iw_cm_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

void iw_bare_release(struct rdma_cm_id *rid)
{
	pthread_mutex_lock(&iw_cm_lock);
	if (rid->qp) {
		struct iw_qp *qp = iw_qp(rid->qp);

		cm_end_qp(qp);
		qp->owner = NULL;
		iw_cm_use(1);	/* an id counts as well, so the helper runs and this cannot fail */
	}
	pthread_mutex_unlock(&iw_cm_lock);
}
