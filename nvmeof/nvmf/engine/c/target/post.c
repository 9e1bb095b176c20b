/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts work: the only file that uses send and receive queues (completion.c takes the completions).
 *
 * Everything that an iteration of the reactor has produced for a queue pair is posted here at once: first the
 * receives (the host may send the next command as soon as it has a response), then RDMA READs, data and responses as
 * one chain, which costs one doorbell, or one system call.  Work for which the send queue or the peer's limit of RDMA
 * READs has no room stays in line.  Runs on the reactor's thread (the control thread posts the first receives, before
 * the connection is established).
 *
 * Selective signalling: the data before a response is unsignalled, and its buffer is released with the response's
 * completion.  Only the last response of a chain is signalled; its completion implies those before it, because a
 * queue completes them in order.  Unsignalled work still completes if it fails, so it has a wr_id.
 *
 * Sent memory does not change until the send is complete (verbs->send_stable): a buffer belongs to its command, and
 * blocks that are sent in place are latched.
 */
#include "target/calls.h"
#include "target/wr.h"

#include "capture/capture.h"

enum { SIW_SHORT = 32 };	/* bytes: siw copies data up to this size into its header buffer: see accept.c */

/* ---- receives ---- */

unsigned build_receives(struct fifo *repost, struct recv_chain *chain, uint32_t in_capsule)
{
	unsigned n = 0;

	for (; n < WR_BATCH && repost->head; n++) {
		struct recv *recv = container_of(fifo_pop(repost), struct recv, link);
		struct ibv_sge *sge = &chain->sge[2 * n];

		sge[0].addr = (uintptr_t)recv->sqe;
		sge[0].length = SQE_SIZE;
		sge[0].lkey = recv->lkey;
		sge[1].addr = (uintptr_t)recv->data;
		sge[1].length = in_capsule;
		sge[1].lkey = recv->lkey;
		chain->wr[n].wr_id = wr_id(recv, WR_RECV);
		chain->wr[n].sg_list = sge;
		chain->wr[n].num_sge = in_capsule ? 2 : 1;
		chain->wr[n].next = &chain->wr[n + 1];
	}
	chain->wr[n - 1].next = NULL;
	return n;
}

int qpair_post_receives(struct target_qpair *qp, struct recv_chain *chain)
{
	struct ibv_recv_wr *bad;
	int rc;

	while (qp->repost.head) {
		unsigned n = build_receives(&qp->repost, chain, qp->in_capsule);

		rc = ibv_post_recv(qp->ibqp, chain->wr, &bad);
		if (rc) {
			for (struct ibv_recv_wr *wr = chain->wr; wr && wr != bad; wr = wr->next)
				qp->recv_posted++;
			return rc;
		}
		qp->recv_posted += n;
	}
	return 0;
}

/* ---- sends ---- */

/* halve: send short data on an iWARP adapter as two elements; data that is read goes into one. */
static inline struct ibv_send_wr *next_wr(struct reactor *r, unsigned n, uint64_t addr, uint32_t length,
					  uint32_t lkey, bool halve)
{
	struct ibv_send_wr *wr = &r->wr[n];
	struct ibv_sge *sge = r->sge[n];
	uint32_t head = halve && length <= SIW_SHORT ? length / 2 : 0;

	wr->next = wr + 1;
	wr->sg_list = sge;
	wr->num_sge = head ? 2 : 1;
	if (head)
		*sge++ = (struct ibv_sge){ .addr = addr, .length = head, .lkey = lkey };
	*sge = (struct ibv_sge){ .addr = addr + head, .length = length - head, .lkey = lkey };
	return wr;
}

/*
 * RDMA WRITEs of the data at offset; the last one is signalled with wr_id last, if that is not 0. Nothing waits for
 * the completions of the others, even if they are signalled too.
 */
static unsigned build_writes(struct target_request *req, unsigned n, uint32_t offset,
			     uint32_t length, const uint8_t *from, uint32_t lkey, uint64_t last)
{
	struct target_qpair *qp = req->qp;

	while (length) {
		uint64_t addr;
		uint32_t key, size = request_piece(req, offset, length, &addr, &key);
		struct ibv_send_wr *wr = next_wr(qp->reactor, n++, (uintptr_t)from, size, lkey,
						 qp->iwarp_adapter);

		offset += size;
		length -= size;
		from += size;
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->wr_id = last && !length ? last : wr_id(qp, WR_UNSIGNALLED);
		wr->send_flags = ((last && !length) || qp->iwarp_adapter ? IBV_SEND_SIGNALED : 0) |
				 qp->verbs->send_stable;
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = key;
	}
	return n;
}

/* The data before a response, if it has any. */
static unsigned build_data(struct target_request *req, unsigned n)
{
	if (req->source)
		return build_writes(req, n, 0, req->length, req->source, req->source_lkey, 0);
	if (!req->chunk)
		return n;
	return build_writes(req, n, 0, req->length, req->chunk->buffer, chunk_lkey(req->chunk), 0);
}

static unsigned build_response(struct target_request *req, unsigned n)
{
	struct target_qpair *qp = req->qp;
	uint32_t sq_size = atomic_load_explicit(&qp->sq_size, memory_order_relaxed);
	const struct nvme_cqe *cqe = &req->cqe;
	struct ibv_send_wr *wr;

	request_took(req);
	if (sq_size) {
		if (++qp->sqhd == sq_size)
			qp->sqhd = 0;
		req->cqe.sqhd = qp->sqhd;
	}
	if (req->cid_taken) {
		qp->cids[req->cqe.cid >> 6] &= ~(1ull << (req->cqe.cid & 63));
		req->cid_taken = false;
	}
	qp->reactor->responses++;
	if (!qp->inline_response) {
		qp->cqes[req->index] = req->cqe;
		cqe = &qp->cqes[req->index];
	}
	wr = next_wr(qp->reactor, n++, (uintptr_t)cqe, sizeof(*cqe), qp->lkey, qp->iwarp_adapter);
	fifo_push(&qp->posted, &req->tx.link);
	wr->wr_id = wr_id(req, WR_RESPONSE);
	wr->send_flags = (qp->iwarp_adapter ? IBV_SEND_SIGNALED : 0) |
			 (qp->inline_response ? IBV_SEND_INLINE : 0) | qp->verbs->send_stable;
	if (req->invalidate && qp->send_with_invalidate) {
		wr->opcode = IBV_WR_SEND_WITH_INV;
		wr->invalidate_rkey = request_sgl(req)->key;
		/* libsiw takes the key of a Send with Invalidate from this field, for every opcode */
		wr->wr.rdma.rkey = wr->invalidate_rkey;
	} else {
		wr->opcode = IBV_WR_SEND;
	}
	return n;
}

static unsigned build_reads(struct target_qpair *qp, unsigned n)
{
	while (qp->reads.head && qp->read_free && qp->sq_free && n < WR_BATCH) {
		struct chunk *chunk = container_of(qp->reads.head, struct chunk, tx.link);
		uint64_t addr;
		uint32_t key, size = request_piece(chunk->req, chunk->offset + chunk->posted,
						   chunk->length - chunk->posted, &addr, &key);
		struct ibv_send_wr *wr = next_wr(qp->reactor, n++,
						 (uintptr_t)chunk->buffer + chunk->posted, size,
						 chunk_lkey(chunk), false);

		wr->wr_id = wr_id(chunk, WR_READ);
		wr->opcode = IBV_WR_RDMA_READ;
		wr->send_flags = IBV_SEND_SIGNALED;
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = key;
		qp->reactor->awaited++;
		qp->read_free--;
		qp->sq_free--;
		chunk->reads++;
		chunk->with_host = reactor_now(qp->reactor);
		chunk->posted += size;
		if (chunk->posted == chunk->length)
			fifo_pop(&qp->reads);
	}
	return n;
}

static uint32_t tx_slots(struct tx *tx)
{
	struct target_request *req;
	struct chunk *chunk;

	if (tx->is_chunk) {
		chunk = container_of(tx, struct chunk, tx);
		return request_pieces(chunk->req, chunk->offset, chunk->length);
	}
	req = container_of(tx, struct target_request, tx);
	return req->source || req->chunk ? 1 + request_pieces(req, 0, req->length) : 1;
}

static unsigned build_responses(struct fifo *ready, unsigned n)
{
	while (ready->head)
		n = build_response(container_of(fifo_pop(ready), struct target_request, tx.link), n);
	return n;
}

/* If the device has trains, the data of several small reads comes before their responses. */
static unsigned build_line(struct target_qpair *qp, unsigned n)
{
	struct fifo ready;	/* responses whose data is in the chain */
	const uint32_t train = qp->verbs->train * qp->verbs->train_message;
	uint32_t group = 0, responses = 0;

	fifo_init(&ready);
	while (qp->tx.head) {
		struct tx *tx = container_of(qp->tx.head, struct tx, link);
		uint32_t slots = tx_slots(tx);

		if (slots > qp->sq_free || n + responses + slots > WR_BATCH)
			break;
		qp->sq_free -= slots;
		fifo_pop(&qp->tx);
		if (tx->is_chunk) {
			struct chunk *chunk = container_of(tx, struct chunk, tx);

			chunk->slots = (uint16_t)slots;
			qp->reactor->awaited++;
			n = build_writes(chunk->req, n, chunk->offset, chunk->length, chunk->buffer,
					 chunk_lkey(chunk), wr_id(chunk, WR_CHUNK));
		} else {
			struct target_request *req = container_of(tx, struct target_request, tx);
			uint32_t length = slots > 1 ? req->length : 0;

			if (group + length > train) {
				n = build_responses(&ready, n);
				group = responses = 0;
			}
			req->slots = (uint16_t)slots;
			n = build_data(req, n);
			fifo_push(&ready, &req->tx.link);
			group += length;
			responses++;
		}
	}
	if (ready.head) {
		n = build_responses(&ready, n);
		qp->reactor->wr[n - 1].send_flags |= IBV_SEND_SIGNALED;
	}
	return n;
}
static bool post_chain(struct target_qpair *qp, unsigned n)
{
	struct reactor *r = qp->reactor;
	struct ibv_send_wr *bad = NULL;
	int rc;

	r->wr[n - 1].next = NULL;
	if (r->unfenced)
		store_fence();
	r->unfenced = false;
	if (capture_on())
		record_posts(qp, r->wr);
	rc = ibv_post_send(qp->ibqp, r->wr, &bad);
	if (!rc)
		return true;
	qpair_fail_post(qp, "send", rc);
	qpair_break(qp);	/* before memory that the accepted ones, or those posted earlier, refer to is used again */
	/* If there is none, the device has all of them, and will flush them (libsiw, if the kernel refuses its doorbell). */
	for (; bad; bad = bad->next) {
		const struct ibv_wc wc = { .wr_id = bad->wr_id, .status = IBV_WC_WR_FLUSH_ERR };

		completion_take(r, &wc);
	}
	return false;
}

/* Record whether it must wait for sends to complete: otherwise their completions need not wake the reactor. */
static void note_blocked(struct target_qpair *qp)
{
	bool blocked = !qp->dead && (qp->tx.head || qp->reads.head || qp->pending.head ||
				     qp->waiting[0].head || qp->waiting[1].head || qp->line_waiting ||
				     qp->asking.head);

	if (blocked == qp->blocked)
		return;
	qp->blocked = blocked;
	qp->reactor->awaited += blocked ? 1 : -1u;
}

void qpair_flush(struct target_qpair *qp)
{
	int rc;

	if (qp->srq && qp->srq->spare)
		srq_post(qp->reactor, qp->srq);
	if (!qp->up)
		return;
	/* Capsules for which no request was free. */
	while (qp->pending.head && !qp->dead && !qp->lingering &&
	       (qp->free_requests || qp->request_fresh < qp->request_count))
		capsule_received(qp, container_of(fifo_pop(&qp->pending), struct recv, link));
	if (!qp->dead) {
		steps_serve(qp);
		upcall_serve(qp);
		transfer_kick(qp);
	}
	rc = qp->dead ? 0 : qpair_post_receives(qp, &qp->reactor->recv_chain);
	if (rc)
		qpair_fail_post(qp, "receive", rc);
	while (!qp->dead) {
		unsigned n = build_line(qp, build_reads(qp, 0));

		if (!n || !post_chain(qp, n))
			break;
	}
	note_blocked(qp);
	if (qp->dead)
		qpair_drain(qp);
}
