/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submission of a host queue: commands into slots and capsules, capsules into the send queue.
 *
 * Runs on the thread that polls the queue's group, with no allocation, lock or clock of its own.  A command holds a
 * slot, whose index is in its CID.  Capsules are posted as lists: the embedded device turns one call into one write.
 * One capsule in several is signalled; a capsule with data always is, because the user may reuse the data only after
 * it was sent.
 */
#include "internal.h"

#include "capture/capture.h"

#include <errno.h>
#include <string.h>

void host_queue_flush(struct host_queue *queue)
{
	struct host_queue *q = queue;
	struct ibv_send_wr *head = q->send_head, *bad;

	if (!head)
		return;
	q->send_tail->next = NULL;
	q->send_head = NULL;
	if (q->lost)
		return;
	if (capture_on())
		host_record_sent(q, head);

	const int ret = ibv_post_send(q->id->qp, head, &bad);

	if (ret) {
		const char *why = host_queue_end_reason(q);

		host_queue_lose(q, "cannot send: %s%s%s", strerror(ret), *why ? ": " : "", why);
	}
}

static void submit_signal(struct host_queue *q, struct host_slot *s, uint32_t requests)
{
	const bool data = s->wr.num_sge > 1;
	const int inlined = data ? 0 : q->capsule_flags;

	q->sent += requests;
	s->sent = q->sent;
	s->waits = SLOT_RESPONSE;
	s->wr.send_flags = (unsigned)inlined;
	if (!q->quiet || data || ++q->unsignalled >= HOST_SIGNAL_EVERY || q->sent - q->retired > q->unretired_max) {
		q->unsignalled = 0;
		s->waits |= SLOT_SEND;
		s->wr.send_flags |= IBV_SEND_SIGNALED;
	}
}

static int submit_data(struct host_queue *q, struct host_slot *s, struct nvme_sqe *sqe,
		       const struct host_data *data, struct ibv_send_wr **first)
{
	s->wr.num_sge = 1;
	if (!data || !data->length) {
		nvme_sgl_set_keyed(&sqe->sgl, 0, 0, 0, NVME_SGL_KEYED);
	} else if (data->to_device && data->in_capsule &&
		   data->length <= (q->outstanding < HOST_BUSY ? q->in_capsule : q->in_capsule_busy)) {
		memset(&sqe->sgl, 0, sizeof(sqe->sgl));
		sqe->sgl.plain.length = data->length;
		sqe->sgl.plain.type = NVME_SGL_IN_CAPSULE;
		s->sge[1] = (struct ibv_sge){
			.addr = (uintptr_t)data->addr,
			.length = data->length,
			.lkey = data->memory->mr->lkey,
		};
		s->wr.num_sge = 2;
	} else {
		return host_keys_give(q, s, data, &sqe->sgl, first);
	}
	return 0;
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

	const unsigned index = q->free[q->nfree - 1];
	struct host_slot *s = &q->slots[index];
	struct nvme_sqe *out = &q->capsules[index];
	struct ibv_send_wr *first = &s->wr;

	*out = *sqe;
	out->cid = s->cid;
	out->flags = (uint8_t)((sqe->flags & ~NVME_PSDT_MASK) | NVME_PSDT_SGL);

	const int ret = submit_data(q, s, out, data, &first);

	if (__builtin_expect(ret < 0, 0))
		return ret;
	q->nfree--;
	q->outstanding++;
	s->user = user;
	submit_signal(q, s, 1u + (first != &s->wr));
	if (q->send_head)
		q->send_tail->next = first;
	else
		q->send_head = first;
	q->send_tail = &s->wr;
	if (more)
		host_group_mark(q);
	else
		host_queue_flush(q);
	return s->cid;
}
