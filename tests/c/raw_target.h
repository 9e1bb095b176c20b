/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target that misbehaves on purpose: it accepts one queue on the embedded device and answers its first capsule in
 * the way that the test selects, or not at all.
 *
 * raw_start and raw_stop belong to the test's thread; in between its own thread runs it.
 */
#ifndef NVMF_RAW_TARGET_H
#define NVMF_RAW_TARGET_H

#include "nvme.h"
#include "verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum raw_answer {
	RAW_SILENCE,		/* none */
	RAW_CLOSE,		/* ends the connection */
	RAW_GOOD,
	RAW_UNKNOWN_CID,	/* of a slot never used */
	RAW_OLD_CID,		/* right slot, another generation */
	RAW_TWICE,		/* the same response again */
	RAW_SHORT,		/* 12 bytes */
	RAW_SMALL_QUEUE,	/* correct, with a CM REP that accepts two commands */
};

struct raw {
	const struct verbs *v;
	enum raw_answer answer;
	void (*command)(struct raw *r, const struct nvme_sqe *sqe);	/* replaces the answer, or NULL */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t memory[4096];
	char port[8];
	pthread_t thread;
	atomic_bool stop;
};

static void raw_die(const char *what)
{
	fprintf(stderr, "raw target: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool raw_wait(struct raw *r, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!atomic_load(&r->stop))
		if (poll(&p, 1, 10) > 0)
			return true;
	return false;
}

static void raw_receive(struct raw *r, unsigned slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)r->memory + 64 * slot,
		.length = 64,
		.lkey = r->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(r->id->qp, &wr, &bad))
		raw_die("post_recv");
}

/* key: to be invalidated by the response, or 0. */
static void raw_send_key(struct raw *r, uint16_t cid, uint32_t length, uint32_t key)
{
	struct nvme_cqe *cqe = (struct nvme_cqe *)(r->memory + 2048);
	struct ibv_sge sge = { .addr = (uintptr_t)cqe, .length = length, .lkey = r->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1000,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = key ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = key,
	}, *bad;

	memset(cqe, 0, sizeof(*cqe));
	cqe->cid = cid;
	ibv_post_send(r->id->qp, &wr, &bad);
}

static void raw_send(struct raw *r, uint16_t cid, uint32_t length)
{
	raw_send_key(r, cid, length, 0);
}

static void raw_accept(struct raw *r, struct rdma_cm_id *id)
{
	const struct nvme_rdma_cm_rep rep = { .crqsize = r->answer == RAW_SMALL_QUEUE ? 2 : 32 };
	struct rdma_conn_param param = {
		.private_data = &rep,
		.private_data_len = sizeof(rep),
		.initiator_depth = 16,
		.rnr_retry_count = 7,
	};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	r->id = id;
	r->pd = r->v->alloc_pd(id->verbs);
	r->cq = r->pd ? r->v->create_cq(id->verbs, 64, NULL, NULL, 0) : NULL;
	r->mr = r->cq ? r->v->reg_mr(r->pd, r->memory, sizeof(r->memory), IBV_ACCESS_LOCAL_WRITE) :
			NULL;
	init.send_cq = init.recv_cq = r->cq;
	if (!r->mr || r->v->create_qp(id, r->pd, &init))
		raw_die("queue pair");
	for (unsigned i = 0; i < 16; i++)
		raw_receive(r, i);
	if (r->v->accept(id, &param))
		raw_die("accept");
}

static void raw_reply(struct raw *r, uint16_t cid)
{
	switch (r->answer) {
	case RAW_SILENCE:
		break;
	case RAW_CLOSE:
		r->v->disconnect(r->id);
		break;
	case RAW_UNKNOWN_CID:
		raw_send(r, 0x0eee, sizeof(struct nvme_cqe));
		break;
	case RAW_OLD_CID:
		raw_send(r, (uint16_t)(cid + 0x1000), sizeof(struct nvme_cqe));
		break;
	case RAW_SHORT:
		raw_send(r, cid, 12);
		break;
	case RAW_TWICE:
		raw_send(r, cid, sizeof(struct nvme_cqe));
		raw_send(r, cid, sizeof(struct nvme_cqe));
		break;
	case RAW_GOOD:
	case RAW_SMALL_QUEUE:
		raw_send(r, cid, sizeof(struct nvme_cqe));
		break;
	}
}

static void raw_serve(struct raw *r)
{
	while (!atomic_load(&r->stop)) {
		struct ibv_wc wc;

		if (ibv_poll_cq(r->cq, 1, &wc) != 1) {
			sched_yield();
			continue;
		}
		if (wc.status || wc.wr_id >= 16)
			continue;

		const struct nvme_sqe sqe = *(const struct nvme_sqe *)(r->memory + 64 * wc.wr_id);

		raw_receive(r, (unsigned)wc.wr_id);
		if (r->command)
			r->command(r, &sqe);
		else
			raw_reply(r, sqe.cid);
	}
}

static void *raw_run(void *arg)
{
	struct raw *r = arg;
	struct rdma_cm_event *ev;

	if (!raw_wait(r, r->channel->fd) || r->v->get_cm_event(r->channel, &ev))
		return NULL;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		raw_accept(r, ev->id);
	r->v->ack_cm_event(ev);
	if (r->id)
		raw_serve(r);
	return NULL;
}

static struct raw *raw_start_with(enum raw_answer answer,
				  void (*command)(struct raw *r, const struct nvme_sqe *sqe))
{
	struct raw *r = calloc(1, sizeof(*r));
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (!r)
		raw_die("start");
	r->v = verbs_iwarp();
	r->answer = answer;
	r->command = command;
	r->channel = r->v->create_event_channel();
	if (!r->channel || r->v->create_id(r->channel, &r->listener, NULL, RDMA_PS_TCP) ||
	    r->v->bind_addr(r->listener, (struct sockaddr *)&a) || r->v->listen(r->listener, 1))
		raw_die("listen");
	memcpy(&a, rdma_get_local_addr(r->listener), sizeof(a));
	snprintf(r->port, sizeof(r->port), "%u", ntohs(a.sin_port));
	if (pthread_create(&r->thread, NULL, raw_run, r))
		raw_die("thread");
	return r;
}

static inline struct raw *raw_start(enum raw_answer answer)
{
	return raw_start_with(answer, NULL);
}

static void raw_stop(struct raw *r)
{
	atomic_store(&r->stop, true);
	pthread_join(r->thread, NULL);
	if (r->id) {
		r->v->disconnect(r->id);
		r->v->destroy_qp(r->id);
		r->v->destroy_id(r->id);
		r->v->destroy_cq(r->cq);
		r->v->dereg_mr(r->mr);
		r->v->dealloc_pd(r->pd);
	}
	r->v->destroy_id(r->listener);
	r->v->destroy_event_channel(r->channel);
	free(r);
}

#endif
