/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the completions of what post.c has posted.  Runs on the reactor's thread.
 */
#include "target/calls.h"
#include "target/wr.h"

static void completion_received(struct reactor *reactor, struct recv *recv, const struct ibv_wc *wc)
{
	enum ibv_wc_status status = wc->status;
	struct target_qpair *qp = recv->qp;

	recv->length = wc->byte_len;
	if (recv->srq) {
		qp = srq_received(reactor, recv, wc->qp_num, status == IBV_WC_SUCCESS);
		if (!qp)
			return;
	} else {
		qp->recv_posted--;
	}
	if (status == IBV_WC_SUCCESS && !qp->dead && !qp->lingering) {
		if (qp->pending.head || !qp->up)
			fifo_push(&qp->pending, &recv->link);
		else
			capsule_received(qp, recv);
	} else {
		if (status != IBV_WC_SUCCESS)
			qpair_fail_wc(qp, "receive", status);
		if (recv->srq)
			recv_give_back(qp, recv);
	}
	if (qp->dead)
		reactor_mark(qp);
}

static inline void completion_freed(struct target_qpair *qp, uint32_t slots)
{
	qp->sq_free += slots;
	qp->moved = reactor_now(qp->reactor);
	if (qp->tx.head || qp->reads.head || qp->dead)
		reactor_mark(qp);
}

/*
 * This response and those before it have been sent, or never will be.  It has been ended before if the device refused a
 * later one: that ended all before it, because none of them may complete if the last one of a chain was not posted.
 */
static void completion_responded(struct target_request *last)
{
	struct target_qpair *qp = last->qp;
	struct target_request *req;
	uint32_t slots = 0;

	if (last->state != REQUEST_RESPONDING)
		return;
	do {
		req = container_of(fifo_pop(&qp->posted), struct target_request, tx.link);
		qp->reactor->responses--;
		slots += req->slots;
		request_response_done(req);
	} while (req != last);
	completion_freed(qp, slots);
	qp->taken = qp->moved;
}

/* Returns 1 if responses have been sent, else 0. */
int completion_take(struct reactor *reactor, const struct ibv_wc *wc)
{
	enum ibv_wc_status status = wc->status;
	uint64_t id = wc->wr_id;
	void *p = wr_of(id);
	struct target_request *req = p;
	struct chunk *chunk = p;

	switch (wr_kind(id)) {
	case WR_RECV:
		completion_received(reactor, p, wc);
		break;
	case WR_RESPONSE:
		if (status != IBV_WC_SUCCESS)
			qpair_fail_wc(req->qp, "response", status);
		completion_responded(req);
		return status == IBV_WC_SUCCESS;
	case WR_CHUNK:
		if (status != IBV_WC_SUCCESS)
			qpair_fail_wc(chunk->req->qp, "RDMA WRITE", status);
		reactor->awaited--;
		completion_freed(chunk->req->qp, chunk->slots);
		chunk->req->qp->taken = chunk->req->qp->moved;
		chunk_written(chunk);
		break;
	case WR_READ:
		if (status != IBV_WC_SUCCESS)
			qpair_fail_wc(chunk->req->qp, "RDMA READ", status);
		reactor->awaited--;
		chunk->req->qp->read_free++;
		completion_freed(chunk->req->qp, 1);
		chunk_read(chunk);
		break;
	case WR_UNSIGNALLED:
		if (status != IBV_WC_SUCCESS)
			qpair_fail_wc(p, "RDMA WRITE", status);
		break;
	case WR_NUDGE:
		if (status != IBV_WC_SUCCESS)
			qpair_fail_wc(p, "RDMA READ", status);
		nudge_completed(p);
		break;
	default:
		break;
	}
	return 0;
}
