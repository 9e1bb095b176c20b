/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue's work, for captures (capture.h), if its device does not show its packets.  The target's RDMA READs and WRITEs
 * are not the queue's work: a response with success shows that they have transferred the data of its command, whatever
 * their number and order.  Runs on the thread that polls the queue's group, only while something is captured.
 */
#include "internal.h"

#include "capture/capture.h"

static struct capture_ends ends_of(const struct host_queue *q)
{
	return (struct capture_ends){ .local = rdma_get_local_addr(q->id), .peer = rdma_get_peer_addr(q->id) };
}

void host_record_sent(const struct host_queue *queue, const struct ibv_send_wr *wr)
{
	const struct capture_ends ends = ends_of(queue);

	for (; wr && !queue->verbs->shows_packets; wr = wr->next) {
		struct iovec iov[2];

		if (wr->opcode != IBV_WR_SEND)
			continue;	/* binds and invalidations are no messages */
		for (int i = 0; i < wr->num_sge; i++)
			iov[i] = (struct iovec){ (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length };
		capture_send(&ends, true, iov, wr->num_sge, NULL);
	}
}

/* The data of a successful command. */
static void record_data(const struct host_queue *q, const struct nvme_sqe *sqe)
{
	const unsigned direction = (sqe->opc == NVME_OPC_FABRICS ? sqe->nsid : sqe->opc) & 3;
	const struct capture_place place = { sqe->sgl.addr, nvme_sgl_key(&sqe->sgl) };
	const struct capture_place sink = { 0, 0 };	/* the target's, which is not known */
	const uint32_t length = nvme_sgl_keyed_length(&sqe->sgl);
	struct iovec iov = { (void *)(uintptr_t)place.address, length };
	struct capture_ends ends = ends_of(q);

	if (!length || sqe->sgl.keyed.type == NVME_SGL_IN_CAPSULE)
		return;
	ends.inferred = true;
	if (direction & 1) {
		capture_read(&ends, false, place, sink, length);
		capture_read_data(&ends, true, sink, iov.iov_base, length);
	} else if (direction & 2) {
		capture_write(&ends, false, place, &iov, 1);
	}
}

void host_record_response(const struct host_queue *queue, const struct ibv_wc *wc)
{
	const struct nvme_cqe *cqe = &queue->responses[wc->wr_id & HOST_WR_INDEX];
	const unsigned index = cqe->cid & HOST_CID_INDEX;
	const struct capture_ends ends = ends_of(queue);
	const struct iovec iov = { (void *)(uintptr_t)cqe, wc->byte_len };
	const uint32_t key = wc->invalidated_rkey;

	if (queue->verbs->shows_packets)
		return;
	if (wc->byte_len == sizeof(*cqe) && index < queue->depth && queue->slots[index].cid == cqe->cid &&
	    queue->slots[index].waits & SLOT_RESPONSE && !(cqe->status >> 1))
		record_data(queue, &queue->capsules[index]);
	capture_send(&ends, false, &iov, 1, wc->wc_flags & IBV_WC_WITH_INV ? &key : NULL);
}
