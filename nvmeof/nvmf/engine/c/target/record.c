/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair's work, for captures (capture.h), if its device does not show its packets.  Reactor's thread, only while
 * something is captured.
 */
#include "target/calls.h"

#include "capture/capture.h"

#define SGE_MOST 2			/* of a work request: see accept.c */

static struct capture_ends ends_of(const struct target_qpair *qp)
{
	return (struct capture_ends){ .local = rdma_get_local_addr(qp->id), .peer = rdma_get_peer_addr(qp->id) };
}

void record_capsule(const struct target_qpair *qp, const struct recv *recv)
{
	const struct capture_ends ends = ends_of(qp);
	const uint32_t command = recv->length < SQE_SIZE ? recv->length : SQE_SIZE;
	const struct iovec iov[] = { { recv->sqe, command }, { recv->data, recv->length - command } };

	if (!qp->verbs->shows_packets)
		capture_send(&ends, false, iov, 2, NULL);
}

static void record_request(const struct capture_ends *ends, const struct ibv_send_wr *wr)
{
	const struct capture_place place = { wr->wr.rdma.remote_addr, wr->wr.rdma.rkey };
	const struct ibv_sge *sge = wr->sg_list;
	struct iovec iov[SGE_MOST];
	int n = 0;

	for (; n < wr->num_sge && n < SGE_MOST; n++)
		iov[n] = (struct iovec){ (void *)(uintptr_t)sge[n].addr, sge[n].length };
	switch (wr->opcode) {
	case IBV_WR_SEND:
		capture_send(ends, true, iov, n, NULL);
		break;
	case IBV_WR_SEND_WITH_INV:
		capture_send(ends, true, iov, n, &wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		capture_write(ends, true, place, iov, n);
		break;
	case IBV_WR_RDMA_READ:
		capture_read(ends, true, place, (struct capture_place){ sge->addr, sge->lkey }, sge->length);
		break;
	default:
		break;
	}
}

void record_posts(const struct target_qpair *qp, const struct ibv_send_wr *wr)
{
	const struct capture_ends ends = ends_of(qp);

	for (; wr && !qp->verbs->shows_packets; wr = wr->next)
		record_request(&ends, wr);
}

void record_fetched(const struct chunk *chunk)
{
	const struct target_qpair *qp = chunk->req->qp;
	const struct capture_ends ends = ends_of(qp);
	uint32_t at = 0;

	while (at < chunk->length && !qp->verbs->shows_packets) {
		const uint8_t *data = chunk->buffer + at;
		uint64_t addr;
		uint32_t key, size = request_piece(chunk->req, chunk->offset + at, chunk->length - at, &addr, &key);

		capture_read_data(&ends, false, (struct capture_place){ (uintptr_t)data, chunk_lkey(chunk) }, data,
				  size);
		at += size;
	}
}
