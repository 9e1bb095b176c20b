/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections on one shared receive queue: made, used, taken down. */
#include "iwarp_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int shared_post(struct shared *s, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)s->mem + wr_id * SLOT, SLOT, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(s->srq, &wr, &bad);
}

static void shared_objects(struct shared *s, struct ibv_context *ctx, unsigned int max_wr)
{
	struct ibv_srq_init_attr attr = { .srq_context = s, .attr = { .max_wr = max_wr, .max_sge = 1 } };
	size_t bytes = (size_t)max_wr * SLOT + 65536;

	s->pd = v->alloc_pd(ctx);
	s->channel = v->create_comp_channel(ctx);
	s->cq = v->create_cq(ctx, 64, s, s->channel, 0);
	s->srq = v->create_srq(s->pd, &attr);
	s->mem = malloc(bytes);
	s->mr = v->reg_mr(s->pd, s->mem, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ);
	fcntl(s->channel->fd, F_SETFL, O_NONBLOCK);
	check(s->srq && s->srq->srq_context == s && s->srq->pd == s->pd && s->mr, "srq: the objects");
}

void shared_open(struct shared *s, unsigned int n, unsigned int max_wr)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct pair_options o = { 0 };
	int port = 0, ok = 1;

	memset(s, 0, sizeof(*s));
	s->events = v->create_event_channel();
	s->a_events = v->create_event_channel();
	s->listener = listen_on(s->events, "127.0.0.1", &port);
	shared_objects(s, s->listener->verbs, max_wr);
	for (; s->n < n && ok; s->n++) {
		struct side *a = &s->a[s->n];
		struct ibv_qp_init_attr attr = { .send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq,
						 .cap = { 8, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };

		a->events = s->a_events;
		ok &= !resolve(a, "127.0.0.1", port) && !side_objects(a, &o) && !side_qp(a, &o) &&
		      !v->connect(a->id, &param);
		ok &= next_event(s->events, &s->ids[s->n], NULL, NULL, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST;
		ok &= ok && !v->create_qp(s->ids[s->n], s->pd, &attr) && s->ids[s->n]->qp->srq == s->srq;
		ok &= ok && !v->accept(s->ids[s->n], &param) &&
		      next_event(s->events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED &&
		      next_event(s->a_events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED;
	}
	check(ok, "srq: %u connections", n);
}

void shared_close(struct shared *s)
{
	check(v->destroy_srq(s->srq) == EBUSY, "srq: in use");
	for (unsigned int i = 0; i < s->n; i++) {
		v->destroy_qp(s->ids[i]);
		v->destroy_id(s->ids[i]);
		side_close(&s->a[i]);
	}
	v->destroy_id(s->listener);
	check(!v->destroy_srq(s->srq) && !v->dereg_mr(s->mr) && !v->destroy_cq(s->cq) &&
	      !v->destroy_comp_channel(s->channel) && !v->dealloc_pd(s->pd), "srq: everything is released");
	v->destroy_event_channel(s->events);
	v->destroy_event_channel(s->a_events);
	free(s->mem);
}

int shared_say(struct shared *s, unsigned int who, uint32_t seq, uint32_t len)
{
	struct side *a = &s->a[who];

	memcpy(a->mem, &who, 4);
	memcpy(a->mem + 4, &seq, 4);
	return post_send(a, seq, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, len, 0, 0);
}

static unsigned int qp_index(const struct shared *s, uint32_t qp_num)
{
	for (unsigned int i = 0; i < s->n; i++)
		if (s->ids[i]->qp->qp_num == qp_num)
			return i;
	return UINT32_MAX;
}

bool shared_heard(struct shared *s, const struct ibv_wc *wc, uint32_t *next)
{
	unsigned int at = qp_index(s, wc->qp_num), who;
	uint32_t seq;

	memcpy(&who, s->mem + wc->wr_id * SLOT, 4);
	memcpy(&seq, s->mem + wc->wr_id * SLOT + 4, 4);
	return !wc->status && wc->opcode == IBV_WC_RECV && at == who && seq == next[who]++;
}

void shared_drain(struct shared *s)
{
	struct ibv_wc wc;

	for (unsigned int i = 0; i < s->n; i++)
		while (ibv_poll_cq(s->a[i].cq, 1, &wc) == 1)
			;
}
