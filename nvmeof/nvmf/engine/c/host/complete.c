/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of a poll group's queues, and the loss of a connection.
 *
 * Runs on the thread that polls the group, with no allocation, lock or clock of its own.  The ID of a work request
 * identifies its queue and slot.  A slot is free again when its SEND has completed and the response has arrived.
 * Receives are posted again as lists.
 */
#include "internal.h"

#include "capture/capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CM_CHECK = 16384 };	/* polls between two checks of the channel of connection events */

const char *host_queue_end_reason(const struct host_queue *queue)
{
	if (!queue->id || !queue->id->qp || !queue->verbs->end_reason)
		return "";
	return queue->verbs->end_reason(queue->id->qp);
}

void host_queue_lose(struct host_queue *queue, const char *fmt, ...)
{
	va_list args;

	if (queue->lost)
		return;
	queue->lost = true;
	host_group_lose(queue);
	host_queue_stop(queue);

	int n = snprintf(queue->reason, sizeof(queue->reason), "queue %u to %s: ", queue->qid,
			 queue->where);

	if (n > 0 && (size_t)n < sizeof(queue->reason)) {
		va_start(args, fmt);
		vsnprintf(queue->reason + n, sizeof(queue->reason) - (size_t)n, fmt, args);
		va_end(args);
	}
}

/* The target broke the protocol: this side closes the connection. */
static void complete_end(struct host_queue *q)
{
	q->verbs->disconnect(q->id);
}

void host_queue_cm_event(struct host_queue *queue, enum rdma_cm_event_type type, int status)
{
	if (queue->lost || (type != RDMA_CM_EVENT_DISCONNECTED && type != RDMA_CM_EVENT_DEVICE_REMOVAL))
		return;

	const char *why = host_queue_end_reason(queue);

	if (*why)
		host_queue_lose(queue, "%s", why);
	else
		host_queue_lose(queue, "the connection ended: %s (status %d)",
				host_cm_event_name((int)type), status);
	complete_end(queue);	/* so that the posted work is flushed */
}

/* ---- receives ---- */

static void receives_post(struct host_queue *q)
{
	struct ibv_recv_wr *bad;

	q->recv_tail->next = NULL;

	const int ret = ibv_post_recv(q->id->qp, q->recv_head, &bad);

	q->recv_head = NULL;
	q->nrepost = 0;
	if (ret)
		host_queue_lose(q, "cannot post receives: %s", strerror(ret));
}

static void receives_give_back(struct host_queue *q, unsigned index)
{
	struct ibv_recv_wr *wr = &q->recvs[index];

	if (q->recv_head)
		q->recv_tail->next = wr;
	else
		q->recv_head = wr;
	q->recv_tail = wr;
	/* depth receives must stay posted for the commands that may be outstanding */
	if (++q->nrepost == HOST_RECV_SLACK)
		receives_post(q);
}

/* ---- slots ---- */

static void slot_free(struct host_queue *q, struct host_slot *s)
{
	s->waits = SLOT_FREE;
	q->free[q->nfree++] = s->cid & HOST_CID_INDEX;
	q->outstanding--;
	s->cid = (uint16_t)(s->cid + HOST_CID_GENERATION);
	if (s->cid == 0xffff)	/* the specification uses this value for "no command" in places */
		s->cid = HOST_CID_INDEX;
}

static void slot_give(struct host_queue *q, struct host_slot *s, struct host_completion *out)
{
	out->queue = q;
	out->user = s->user;
	out->cqe = s->cqe;
	slot_free(q, s);
}

/* Complete the command; returns 1 if it is in out, 0 if its queue is not the polled one. */
static int slot_finish(struct host_queue *q, struct host_slot *s, const struct host_queue *only,
		       struct host_completion *out)
{
	if (__builtin_expect(only && q != only, 0)) {
		s->waits = SLOT_DONE;
		s->next = NULL;
		*q->group->done_tail = s;
		q->group->done_tail = &s->next;
		return 0;
	}
	slot_give(q, s, out);
	return 1;
}

/* Return completions that were found earlier, while a different queue of the group was polled alone. */
static int slot_give_done(struct host_poll_group *g, const struct host_queue *only,
			  struct host_completion *out, int max)
{
	struct host_slot **at = &g->done, *s;
	int n = 0;

	while ((s = *at) && n < max) {
		struct host_queue *q = host_group_find(g, s->wr.wr_id);

		if (only && q != only) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		if (!s->next)
			g->done_tail = at;
		slot_give(q, s, &out[n++]);
	}
	return n;
}

void host_queue_forget_done(struct host_queue *queue)
{
	struct host_poll_group *g = queue->group;
	struct host_slot **at = &g->done;

	while (*at) {
		if (*at >= queue->slots && *at < queue->slots + queue->depth)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	g->done_tail = at;
}

/* ---- completions ---- */

static int complete_send(struct host_queue *q, const struct ibv_wc *wc,
			 const struct host_queue *only, struct host_completion *out)
{
	struct host_slot *s = &q->slots[wc->wr_id & HOST_WR_INDEX];

	if (__builtin_expect(!(s->waits & SLOT_SEND), 0))
		return 0;	/* abandoned earlier */
	q->retired = s->sent;
	s->waits &= (uint8_t)~SLOT_SEND;
	return s->waits ? 0 : slot_finish(q, s, only, out);
}

/* Returns the response, or NULL if the target broke the protocol and the connection ends. */
static const struct nvme_cqe *complete_check(struct host_queue *q, const struct ibv_wc *wc)
{
	const struct nvme_cqe *cqe = &q->responses[wc->wr_id & HOST_WR_INDEX];

	if (wc->byte_len != sizeof(*cqe)) {
		host_queue_lose(q, "the target sent a response of %u bytes instead of %zu",
				wc->byte_len, sizeof(*cqe));
	} else {
		const unsigned index = cqe->cid & HOST_CID_INDEX;
		const struct host_slot *s = &q->slots[index];
		const bool invalidated = wc->wc_flags & IBV_WC_WITH_INV;

		if (index >= q->depth || s->cid != cqe->cid || !(s->waits & SLOT_RESPONSE))
			host_queue_lose(q, "the target answered command 0x%04x, which is not outstanding",
					cqe->cid);
		else if (invalidated && (wc->invalidated_rkey != s->key || !q->windows || !s->key))
			/* no SGL descriptor of this command requests the invalidation */
			host_queue_lose(q, "the target invalidated key 0x%08x, which it may not invalidate",
					wc->invalidated_rkey);
		else
			return cqe;
	}
	complete_end(q);
	return NULL;
}

static int complete_response(struct host_queue *q, const struct ibv_wc *wc,
			     const struct host_queue *only, struct host_completion *out)
{
	if (capture_on())
		host_record_response(q, wc);

	const struct nvme_cqe *cqe = complete_check(q, wc);

	if (__builtin_expect(!cqe, 0))
		return 0;

	struct host_slot *s = &q->slots[cqe->cid & HOST_CID_INDEX];

	s->cqe = *cqe;
	receives_give_back(q, wc->wr_id & HOST_WR_INDEX);
	s->waits &= (uint8_t)~SLOT_RESPONSE;
	if (s->key)
		host_keys_end(q, s, wc->wc_flags & IBV_WC_WITH_INV);
	return s->waits ? 0 : slot_finish(q, s, only, out);
}

/* The command's key is no longer valid; failed: it cannot be used, because the queue pair is in error. */
static int complete_invalidate(struct host_queue *q, const struct ibv_wc *wc, bool failed,
			       const struct host_queue *only, struct host_completion *out)
{
	struct host_slot *s = &q->slots[wc->wr_id & HOST_WR_INDEX];

	if (__builtin_expect(!(s->waits & SLOT_INVALIDATE), 0))
		return 0;	/* abandoned earlier */
	q->retired = s->invalidated;
	if (failed)
		host_keys_revoke(q, s);
	else
		host_keys_end(q, s, true);
	s->waits &= (uint8_t)~SLOT_INVALIDATE;
	return s->waits ? 0 : slot_finish(q, s, only, out);
}

/* A work request failed: the queue pair is in error, and its other work will be flushed. */
static int complete_error(struct host_queue *q, const struct ibv_wc *wc,
			  const struct host_queue *only, struct host_completion *out)
{
	const unsigned kind = wc->wr_id & HOST_WR_KIND;

	if (!q->lost) {
		const char *why = host_queue_end_reason(q);

		host_group_cm_events(q->group);
		if (*why)
			host_queue_lose(q, "%s", why);
		else
			host_queue_lose(q, "the connection ended: %s failed: %s",
					kind == HOST_WR_RECV ? "a receive" : "a send",
					verbs_wc_name(wc->status));
	}
	if (kind == HOST_WR_INVALIDATE)
		return complete_invalidate(q, wc, true, only, out);
	if (kind != HOST_WR_SEND)
		return 0;

	/*
	 * its response had arrived: the command is complete nevertheless (as is a later one of the slot, if this one
	 * was not signalled)
	 */
	struct host_slot *s = &q->slots[wc->wr_id & HOST_WR_INDEX];

	return s->waits == SLOT_SEND ? complete_send(q, wc, only, out) : 0;
}

/* Handle one work completion; returns 1 if it finished a command for out. */
static int complete_one(struct host_poll_group *g, const struct ibv_wc *wc,
			const struct host_queue *only, struct host_completion *out)
{
	struct host_queue *q = host_group_find(g, wc->wr_id);

	if (__builtin_expect(g->undrained, 0))
		g->undrained--;
	if (__builtin_expect(!q, 0))
		return 0;	/* its queue was destroyed */
	if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0))
		return complete_error(q, wc, only, out);
	switch (wc->wr_id & HOST_WR_KIND) {
	case HOST_WR_RECV: return complete_response(q, wc, only, out);
	case HOST_WR_SEND: return complete_send(q, wc, only, out);
	case HOST_WR_INVALIDATE: return complete_invalidate(q, wc, false, only, out);
	default: return 0;
	}
}

/* Fetch the next batch, from each completion queue in turn; returns its size. */
static int complete_fetch(struct host_poll_group *g)
{
	for (unsigned i = 0; i < g->ncqs; i++) {
		if (g->next_cq >= g->ncqs)
			g->next_cq = 0;

		const int got = ibv_poll_cq(g->cqs[g->next_cq++].cq, HOST_WC_BATCH, g->wc);

		if (got > 0)
			return got;
	}
	return 0;
}

/* Return completions of the group; only: of this queue, while those of other queues are kept for later. */
static int complete_poll(struct host_poll_group *g, const struct host_queue *only,
		      struct host_completion *out, int max)
{
	int n = 0;

	host_poll_group_flush(g);
	if (__builtin_expect(g->done != NULL, 0))
		n = slot_give_done(g, only, out, max);
	for (;;) {
		while (g->wc_next < g->wc_count && n < max)
			n += complete_one(g, &g->wc[g->wc_next++], only, &out[n]);
		if (n >= max)
			break;

		const bool was_full = g->wc_count == HOST_WC_BATCH;

		g->wc_next = g->wc_count = 0;
		if (n && !was_full)
			break;

		const int got = complete_fetch(g);

		if (!got) {
			g->undrained = 0;
			break;
		}
		g->wc_count = (unsigned)got;
	}
	if (__builtin_expect(++g->polls >= CM_CHECK, 0)) {
		g->polls = 0;
		host_group_cm_events(g);
	}
	return n;
}

int host_poll_group_poll(struct host_poll_group *group, struct host_completion *completions, int max)
{
	return complete_poll(group, NULL, completions, max);
}

int host_queue_poll(struct host_queue *queue, struct host_completion *completions, int max)
{
	const int n = complete_poll(queue->group, queue, completions, max);

	return n || !queue->lost ? n : -ENOTCONN;
}

int host_queue_abandon(struct host_queue *queue, void **users, int max)
{
	int n = 0;

	host_queue_forget_done(queue);
	for (unsigned i = 0; i < queue->depth && n < max; i++) {
		struct host_slot *s = &queue->slots[i];

		if (s->waits == SLOT_FREE)
			continue;
		users[n++] = s->user;
		host_keys_revoke(queue, s);
		slot_free(queue, s);
	}
	return n;
}
