/* SPDX-License-Identifier: BSD-3-Clause */
/* One end of a remote memory connection; see end.h. */
#include "memory/end.h"
#include "memory/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static uint8_t *slot_of(const struct memory_end *end, unsigned n)
{
	return end->ring + (size_t)n * MEMORY_MESSAGE;
}

uint8_t *memory_end_received(const struct memory_end *end, unsigned slot)
{
	return slot_of(end, slot);
}

uint8_t *memory_end_message(const struct memory_end *end, unsigned slot)
{
	return slot_of(end, end->receives + slot);
}

int memory_end_receive(struct memory_end *end, unsigned slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory_end_received(end, slot),
		.length = MEMORY_MESSAGE,
		.lkey = end->ring_mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(end->id->qp, &wr, &bad);
}

int memory_end_send(struct memory_end *end, unsigned slot, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory_end_message(end, slot),
		.length = length,
		.lkey = end->ring_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	return ibv_post_send(end->id->qp, &wr, &bad);
}

static int failed(const char *what, char *err, size_t len)
{
	const int e = errno ? errno : EIO;

	snprintf(err, len, "cannot create the %s of a memory connection: %s", what, strerror(e));
	return -e;
}

static int build_ring(struct memory_end *end, char *err, size_t len)
{
	const size_t bytes = (size_t)(end->receives + end->sends) * MEMORY_MESSAGE;

	end->ring = aligned_alloc(PAGE, (bytes + PAGE - 1) & ~(size_t)(PAGE - 1));
	if (!end->ring)
		return failed("message buffers", err, len);
	memset(end->ring, 0, bytes);
	end->ring_mr = end->verbs->reg_mr(end->pd, end->ring, bytes, IBV_ACCESS_LOCAL_WRITE);
	return end->ring_mr ? 0 : failed("message buffers", err, len);
}

static int build_queues(struct memory_end *end, unsigned work, char *err, size_t len)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = work,
			.max_recv_wr = end->receives,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	int flags;

	end->channel = end->verbs->create_comp_channel(end->id->verbs);
	if (!end->channel)
		return failed("completion channel", err, len);
	flags = fcntl(end->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(end->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return failed("completion channel", err, len);
	end->cq = end->verbs->create_cq(end->id->verbs, (int)(work + end->receives + 1), end, end->channel, 0);
	if (!end->cq)
		return failed("completion queue", err, len);
	init.send_cq = init.recv_cq = end->cq;
	errno = 0;
	if (end->verbs->create_qp(end->id, end->pd, &init))
		return failed("queue pair", err, len);
	end->has_qp = true;
	return 0;
}

int memory_end_build(struct memory_end *end, unsigned receives, unsigned sends, unsigned work, char *err,
		     size_t len)
{
	int rc;

	end->receives = receives;
	end->sends = sends;
	end->pd = end->verbs->alloc_pd(end->id->verbs);
	rc = end->pd ? build_ring(end, err, len) : failed("protection domain", err, len);
	if (!rc)
		rc = build_queues(end, work, err, len);
	for (unsigned i = 0; !rc && i < receives; i++) {
		errno = memory_end_receive(end, i);
		rc = errno ? failed("receives", err, len) : 0;
	}
	if (rc)
		memory_end_break(end);
	return rc;
}

void memory_end_break(struct memory_end *end)
{
	const struct verbs *v = end->verbs;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (end->has_qp) {
		v->disconnect(end->id);
		v->modify_qp(end->id->qp, &attr, IBV_QP_STATE);
		v->destroy_qp(end->id);
	}
	if (end->ring_mr)
		v->dereg_mr(end->ring_mr);
	if (end->cq)
		v->destroy_cq(end->cq);
	if (end->channel)
		v->destroy_comp_channel(end->channel);
	if (end->pd)
		v->dealloc_pd(end->pd);
	free(end->ring);
	*end = (struct memory_end){ .verbs = v, .id = end->id };
}

void memory_end_take_events(struct memory_end *end)
{
	struct ibv_cq *cq;
	void *context;

	while (!end->verbs->get_cq_event(end->channel, &cq, &context))
		end->verbs->ack_cq_events(cq, 1);
}

const char *memory_end_reason(const struct memory_end *end)
{
	return end->has_qp && end->verbs->end_reason ? end->verbs->end_reason(end->id->qp) : "";
}
