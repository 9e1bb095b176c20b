/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host queue's data path: commands out, responses in.
 *
 * Runs on the thread that polls the queue, with no allocation, lock or clock of its own.  A command
 * holds a slot, whose index is in its CID; the slot is free again when both the SEND has completed
 * and the response has come.  Sends and receives are posted as lists: the embedded device turns one
 * call into one write.
 */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { CM_CHECK = 4096 };	/* idle polls between looks at the event channel */

static const char *end_reason(const struct host_queue *q)
{
	return q->id && q->id->qp ? iwarp_qp_end_reason(q->id->qp) : "";
}

void host_queue_lose(struct host_queue *queue, const char *fmt, ...)
{
	va_list args;

	if (queue->lost)
		return;
	queue->lost = true;

	int n = snprintf(queue->reason, sizeof(queue->reason), "queue %u to %s: ", queue->qid,
			 queue->where);

	if (n > 0 && (size_t)n < sizeof(queue->reason)) {
		va_start(args, fmt);
		vsnprintf(queue->reason + n, sizeof(queue->reason) - (size_t)n, fmt, args);
		va_end(args);
	}
}

/* A protocol error of the target: this end closes the connection. */
static void end_connection(struct host_queue *q)
{
	q->verbs->disconnect(q->id);
}

void host_queue_cm_events(struct host_queue *queue)
{
	struct pollfd p = { .fd = queue->channel->fd, .events = POLLIN };

	while (!queue->lost && poll(&p, 1, 0) > 0) {
		struct rdma_cm_event *ev;

		if (queue->verbs->get_cm_event(queue->channel, &ev))
			return;

		const int type = ev->event, status = ev->status;

		queue->verbs->ack_cm_event(ev);
		if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
			const char *why = end_reason(queue);

			if (*why)
				host_queue_lose(queue, "%s", why);
			else
				host_queue_lose(queue, "the connection ended: %s (status %d)",
						host_cm_event_name(type), status);
			end_connection(queue);	/* so that what is posted is flushed */
		}
	}
}

/* ---- out ---- */

/* The doorbell: everything submitted goes in one post. */
void host_queue_flush(struct host_queue *queue)
{
	struct host_queue *q = queue;
	struct ibv_send_wr *bad;

	if (!q->send_head)
		return;
	q->send_tail->next = NULL;

	struct ibv_send_wr *head = q->send_head;

	q->send_head = NULL;
	if (q->lost)
		return;
	const int ret = ibv_post_send(q->id->qp, head, &bad);

	if (ret) {
		const char *why = end_reason(q);

		host_queue_lose(q, "cannot send: %s%s%s", strerror(ret), *why ? ": " : "", why);
	}
}

static void fill_data(struct host_slot *s, struct nvme_sqe *sqe, const struct host_data *data,
		      uint32_t in_capsule)
{
	s->wr.num_sge = 1;
	if (!data || !data->length) {
		nvme_sgl_set_keyed(&sqe->sgl, 0, 0, 0, NVME_SGL_KEYED);
	} else if (data->to_device && data->in_capsule && data->length <= in_capsule) {
		memset(&sqe->sgl, 0, sizeof(sqe->sgl));
		sqe->sgl.plain.length = data->length;
		sqe->sgl.plain.type = NVME_SGL_IN_CAPSULE;
		s->sge[1] = (struct ibv_sge){
			.addr = (uintptr_t)data->addr,
			.length = data->length,
			.lkey = data->lkey,
		};
		s->wr.num_sge = 2;
	} else {
		nvme_sgl_set_keyed(&sqe->sgl, (uintptr_t)data->addr, data->length, data->rkey,
				   NVME_SGL_KEYED);
	}
}

int host_queue_submit(struct host_queue *queue, const struct nvme_sqe *sqe,
		      const struct host_data *data, void *user, bool more)
{
	struct host_queue *q = queue;

	if (__builtin_expect(q->lost, 0))
		return -ENOTCONN;
	if (!q->nfree) {
		host_queue_flush(q);
		return -EAGAIN;
	}
	if (data && data->length > 0xffffff)
		return -EMSGSIZE;

	const unsigned index = q->free[--q->nfree];
	struct host_slot *s = &q->slots[index];
	struct nvme_sqe *out = &q->capsules[index];

	q->outstanding++;
	s->user = user;
	s->waits = SLOT_SEND | SLOT_RESPONSE;
	*out = *sqe;
	out->cid = s->cid;
	out->flags = (uint8_t)((sqe->flags & ~NVME_PSDT_MASK) | NVME_PSDT_SGL);
	fill_data(s, out, data, q->in_capsule);
	if (q->send_head)
		q->send_tail->next = &s->wr;
	else
		q->send_head = &s->wr;
	q->send_tail = &s->wr;
	if (!more)
		host_queue_flush(q);
	return s->cid;
}

/* ---- in ---- */

static void post_receives(struct host_queue *q)
{
	struct ibv_recv_wr *bad;

	q->recv_tail->next = NULL;

	const int ret = ibv_post_recv(q->id->qp, q->recv_head, &bad);

	q->recv_head = NULL;
	q->nrepost = 0;
	if (ret)
		host_queue_lose(q, "cannot post receives: %s", strerror(ret));
}

static void repost(struct host_queue *q, unsigned index)
{
	struct ibv_recv_wr *wr = &q->recvs[index];

	if (q->recv_head)
		q->recv_tail->next = wr;
	else
		q->recv_head = wr;
	q->recv_tail = wr;
	/* depth receives must stay posted for the commands that may be outstanding */
	if (++q->nrepost == HOST_RECV_SLACK)
		post_receives(q);
}

static void finish(struct host_queue *q, struct host_slot *s, struct host_completion *out)
{
	out->user = s->user;
	out->cqe = s->cqe;
	s->waits = SLOT_FREE;
	q->free[q->nfree++] = s->cid & HOST_CID_INDEX;
	q->outstanding--;
	s->cid = (uint16_t)(s->cid + HOST_CID_GENERATION);
	if (s->cid == 0xffff)	/* means "no command" in some places of the specification */
		s->cid = HOST_CID_INDEX;
}

/* One work completion; 1 where it finished a command. */
static int take_send(struct host_queue *q, const struct ibv_wc *wc, struct host_completion *out)
{
	struct host_slot *s = &q->slots[wc->wr_id];

	if (__builtin_expect(!(s->waits & SLOT_SEND), 0))
		return 0;	/* abandoned before */
	s->waits &= (uint8_t)~SLOT_SEND;
	if (s->waits)
		return 0;
	finish(q, s, out);
	return 1;
}

static int take_response(struct host_queue *q, const struct ibv_wc *wc, struct host_completion *out)
{
	const unsigned at = (unsigned)wc->wr_id;
	const struct nvme_cqe *cqe = &q->responses[at];

	if (__builtin_expect(wc->byte_len != sizeof(*cqe), 0)) {
		host_queue_lose(q, "the target sent a response of %u bytes instead of %zu",
				wc->byte_len, sizeof(*cqe));
		end_connection(q);
		return 0;
	}

	/* no SGL descriptor of ours asks for it */
	if (__builtin_expect(wc->wc_flags & IBV_WC_WITH_INV, 0)) {
		host_queue_lose(q, "the target invalidated key 0x%08x, which is not its to take",
				wc->invalidated_rkey);
		end_connection(q);
		return 0;
	}

	const unsigned index = cqe->cid & HOST_CID_INDEX;
	struct host_slot *s = &q->slots[index];

	if (__builtin_expect(index >= q->depth || s->cid != cqe->cid || !(s->waits & SLOT_RESPONSE),
			     0)) {
		host_queue_lose(q, "the target answered command 0x%04x, which is not outstanding",
				cqe->cid);
		end_connection(q);
		return 0;
	}
	s->cqe = *cqe;
	repost(q, at);
	s->waits &= (uint8_t)~SLOT_RESPONSE;
	if (s->waits)
		return 0;
	finish(q, s, out);
	return 1;
}

/* A work request that failed: the queue pair is in error, and the rest will be flushed. */
static int take_error(struct host_queue *q, const struct ibv_wc *wc, struct host_completion *out)
{
	if (!q->lost) {
		const char *why = end_reason(q);

		host_queue_cm_events(q);
		if (*why)
			host_queue_lose(q, "%s", why);
		else
			host_queue_lose(q, "the connection ended: %s failed: %s",
					wc->wr_id & HOST_RECV_BIT ? "a receive" : "a send",
					host_wc_status_name(wc->status));
	}
	if (wc->wr_id & (HOST_RECV_BIT | HOST_NUDGE_BIT))
		return 0;

	/* its response had come: it is complete all the same */
	struct host_slot *s = &q->slots[wc->wr_id];

	return s->waits == SLOT_SEND ? take_send(q, wc, out) : 0;
}

static int take(struct host_queue *q, const struct ibv_wc *wc, struct host_completion *out)
{
	if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0))
		return take_error(q, wc, out);
	if (wc->wr_id & HOST_RECV_BIT)
		return take_response(q, wc, out);
	return take_send(q, wc, out);
}

int host_queue_poll(struct host_queue *queue, struct host_completion *completions, int max)
{
	struct host_queue *q = queue;
	int n = 0;

	host_queue_flush(q);
	for (;;) {
		while (q->wc_next < q->wc_count && n < max)
			n += take(q, &q->wc[q->wc_next++], &completions[n]);
		if (n >= max)
			return n;

		const bool was_full = q->wc_count == HOST_WC_BATCH;

		q->wc_next = q->wc_count = 0;
		if (n && !was_full)
			return n;

		const int got = ibv_poll_cq(q->cq, HOST_WC_BATCH, q->wc);

		if (got <= 0)
			break;
		q->wc_count = (unsigned)got;
		q->idle = 0;
	}
	if (n)
		return n;
	if (__builtin_expect(++q->idle >= CM_CHECK, 0)) {
		q->idle = 0;
		host_queue_cm_events(q);
	}
	return q->lost ? -ENOTCONN : 0;
}

int host_queue_abandon(struct host_queue *queue, void **users, int max)
{
	int n = 0;

	for (unsigned i = 0; i < queue->depth && n < max; i++) {
		struct host_slot *s = &queue->slots[i];
		struct host_completion ignored;

		if (s->waits == SLOT_FREE)
			continue;
		users[n++] = s->user;
		finish(queue, s, &ignored);
	}
	return n;
}

/* ---- sleep ---- */

int host_queue_arm(struct host_queue *queue)
{
	if (queue->epfd < 0)
		return -EINVAL;
	host_queue_flush(queue);
	return -ibv_req_notify_cq(queue->cq, 0);
}

void host_queue_drain(struct host_queue *queue)
{
	struct ibv_cq *cq;
	void *context;

	if (!queue->comp)
		return;
	while (!queue->verbs->get_cq_event(queue->comp, &cq, &context))
		queue->verbs->ack_cq_events(cq, 1);
	host_queue_cm_events(queue);
}
