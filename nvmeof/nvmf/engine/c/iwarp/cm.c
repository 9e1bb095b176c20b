/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM ids: made, destroyed, given a queue pair.  Owns the list of ids and that of ids with a deadline.
 * Runs on the application's threads and on the helper, under iw_cm_lock.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

const char *iw_addr_text(const struct sockaddr *sa, char *buf, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(buf, len, "%s:%u", ip, ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)sa;

		inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
		snprintf(buf, len, "[%s]:%u", ip, ntohs(in->sin6_port));
	} else {
		snprintf(buf, len, "?");
	}
	return buf;
}

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
	id->next = iw_ids;
	id->prev = &iw_ids;
	if (id->next)
		id->next->prev = &id->next;
	iw_ids = id;
	((struct iw_event_channel *)channel)->ids++;
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

/* An incoming id is no longer one that its listener counts. */
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
		iw_helper_poll(EPOLL_CTL_DEL, id->fd, 0, NULL, IW_SRC_ID);
	id->polled = false;
	close(id->fd);
	id->fd = -1;
}

void iw_id_free(struct iw_id *id)
{
	iw_id_left_request(id);
	iw_id_close(id);
	*id->prev = id->next;
	if (id->next)
		id->next->prev = id->prev;
	((struct iw_event_channel *)id->id.channel)->ids--;
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
	if (!iw_helper_use(1)) {
		id = iw_id_new(channel, context, ps);
		if (!id)
			iw_helper_use(-1);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	if (!id)
		return -1;
	*idp = &id->id;
	return 0;
}

/* Out of the completion queue with what nobody can make sense of any more. */
static void cm_forget_completions(struct iw_cq *cq, uint32_t qp_num)
{
	iw_lock(&cq->ring_lock);

	uint32_t to = cq->tail;

	for (uint32_t i = cq->tail; i != cq->head; i++)
		if (cq->ring[i & cq->mask].qp_num != qp_num)
			cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
	atomic_store(&cq->head, to);
	iw_unlock(&cq->ring_lock);
}

static void cm_destroy_qp(struct iw_id *id)
{
	struct iw_qp *qp = iw_qp(id->id.qp);

	iw_lock(&qp->lock);
	iw_qp_fail(qp, TERM_NONE, NULL, "this side destroyed the queue pair");
	iw_unlock(&qp->lock);
	iw_reap(qp);
	if (id->state == IW_ID_CONNECTED)
		id->state = IW_ID_ENDED;
	id->id.qp = NULL;
	cm_forget_completions(iw_cq(qp->qp.send_cq), qp->qp.qp_num);
	cm_forget_completions(iw_cq(qp->qp.recv_cq), qp->qp.qp_num);
	iw_qp_free(qp);
}

/* The ids that a listener has not handed out yet. */
static void cm_free_children(struct iw_id *listener)
{
	for (struct iw_id *id = iw_ids, *next; id; id = next) {
		next = id->next;
		if (id->listener != listener)
			continue;
		if (id->state == IW_ID_REQUEST_WAIT)
			iw_id_free(id);		/* its own: nobody else knows it */
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
		cm_destroy_qp(id);
	iw_id_close(id);
	/* the helper knows it no more; purging may free children, so the list is walked after */
	iw_event_purge(id);
	cm_free_children(id);
	while (id->events)
		pthread_cond_wait(&iw_cm_cond, &iw_cm_lock);
	keep = id;
	iw_id_free(keep);
	iw_helper_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

static struct ibv_pd *cm_default_pd(void)
{
	static struct ibv_pd *pd;

	if (!pd)
		pd = iw_alloc_pd(&iw_dev.context);
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
		qp->id = (struct iw_id *)rid;
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
		cm_destroy_qp((struct iw_id *)rid);
	pthread_mutex_unlock(&iw_cm_lock);
}
