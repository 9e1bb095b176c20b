/* SPDX-License-Identifier: BSD-3-Clause */
/* Many queue pairs on one CQ, split CQs, and threads that poll, register and connect at once. */
#include "iwarp_pair.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { QPS = 40, ROUNDS = 300 };

struct server {
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	struct rdma_cm_id *ids[QPS];
	uint8_t mem[QPS * 4096];
	unsigned int n;
	atomic_int stop;
	bool sleeps;
};

static void server_objects(struct server *s, struct ibv_context *ctx)
{
	s->pd = v->alloc_pd(ctx);
	s->channel = v->create_comp_channel(ctx);
	s->send_cq = v->create_cq(ctx, 4096, NULL, NULL, 0);
	s->recv_cq = v->create_cq(ctx, 4096, NULL, s->channel, 0);
	s->mr = v->reg_mr(s->pd, s->mem, sizeof(s->mem), IBV_ACCESS_LOCAL_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static void repost(struct server *s, unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)s->mem + i * 4096, 64, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(s->ids[i]->qp, &wr, &bad);
}

/* Echo: return each message on the queue pair on which it arrived. */
static void *serve(void *arg)
{
	struct server *s = arg;

	while (!atomic_load(&s->stop)) {
		struct ibv_wc wc[16];
		int n = ibv_poll_cq(s->recv_cq, 16, wc);

		for (int k = 0; k < n; k++) {
			unsigned int i = (unsigned int)wc[k].wr_id;
			struct ibv_sge sge = { (uintptr_t)s->mem + i * 4096, 64, s->mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
						  .opcode = IBV_WR_SEND }, *bad;

			if (wc[k].status)
				continue;
			ibv_post_send(s->ids[i]->qp, &wr, &bad);
			repost(s, i);
		}
		if (n || !s->sleeps)
			continue;

		struct epoll_event ev = { .events = EPOLLIN };
		int ep = epoll_create1(EPOLL_CLOEXEC);
		struct ibv_cq *cq;
		void *ctx;

		/* the usual order: arm, check once more, sleep */
		ibv_req_notify_cq(s->recv_cq, 0);
		n = ibv_poll_cq(s->recv_cq, 1, wc);
		if (n == 1) {
			unsigned int i = (unsigned int)wc[0].wr_id;
			struct ibv_sge sge = { (uintptr_t)s->mem + i * 4096, 64, s->mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
						  .opcode = IBV_WR_SEND }, *bad;

			if (!wc[0].status) {
				ibv_post_send(s->ids[i]->qp, &wr, &bad);
				repost(s, i);
			}
		} else {
			epoll_ctl(ep, EPOLL_CTL_ADD, s->channel->fd, &ev);
			if (epoll_wait(ep, &ev, 1, 300) == 1 && !v->get_cq_event(s->channel, &cq, &ctx))
				v->ack_cq_events(cq, 1);
		}
		close(ep);
	}
	return NULL;
}

static void *churn(void *arg)
{
	struct server *s = arg;

	/* registering and deregistering at the same time as the data path */
	while (!atomic_load(&s->stop)) {
		struct ibv_mr *mr = v->reg_mr(s->pd, s->mem, 4096, IBV_ACCESS_REMOTE_READ);

		v->dereg_mr(mr);
		usleep(200);
	}
	return NULL;
}

static void many(bool sleeps)
{
	static struct server s;
	static struct side a[QPS];
	struct rdma_event_channel *ch = v->create_event_channel();
	struct pair_options o = { .depth = 8 };
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct rdma_cm_id *l;
	pthread_t threads[2];
	int port = 0, ok = 1;

	memset(&s, 0, sizeof(s));
	memset(a, 0, sizeof(a));
	s.sleeps = sleeps;
	s.events = v->create_event_channel();
	l = listen_on(s.events, "127.0.0.1", &port);
	server_objects(&s, l->verbs);
	fcntl(s.channel->fd, F_SETFL, O_NONBLOCK);
	for (unsigned int i = 0; i < QPS && ok; i++) {
		struct ibv_qp_init_attr attr = { .send_cq = s.send_cq, .recv_cq = s.recv_cq,
						 .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

		a[i].events = ch;
		ok &= !resolve(&a[i], "127.0.0.1", port) && !side_objects(&a[i], &o) &&
		      !side_qp(&a[i], &o) && !v->connect(a[i].id, &param);
		ok &= next_event(s.events, &s.ids[i], NULL, NULL, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST;
		ok &= ok && !v->create_qp(s.ids[i], s.pd, &attr);
		if (!ok)
			break;
		repost(&s, i);
		ok &= !v->accept(s.ids[i], &param) &&
		      next_event(s.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED &&
		      next_event(ch, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED;
	}
	check(ok, "many: %d connections", QPS);
	pthread_create(&threads[0], NULL, serve, &s);
	pthread_create(&threads[1], NULL, churn, &s);

	for (int round = 0; round < ROUNDS && ok; round++) {
		/* all of them at once, or one after the other while the rest are idle */
		int step = round % 3 ? 1 : QPS;

		for (int i = 0; i < QPS && ok; i += step) {
			for (int k = i; k < i + step; k++) {
				ok &= !post_recv(&a[k], 1, 4096, 64);
				ok &= !post_send(&a[k], 2, IBV_WR_SEND, 0, 0, 64, 0, 0);
			}
			for (int k = i; k < i + step && ok; k++) {
				struct ibv_wc wc = { 0 };

				ok &= next_wc(&a[k], NULL, &wc) && wc.wr_id == 1 && !wc.status;
				if (!ok)
					check(0, "many: round %d qp %d status %d %s", round, k, wc.status,
					      iwarp_qp_end_reason(a[k].qp));
			}
			if (step == 1)
				i += round % 7;
		}
	}
	check(ok, "many: %d rounds, server %s", ROUNDS, sleeps ? "sleeping" : "polling");
	/* half of them end while the server polls; the rest still work */
	for (int i = 0; i < QPS; i += 2)
		v->disconnect(a[i].id);
	for (int i = 1; i < QPS && ok; i += 2) {
		struct ibv_wc wc = { 0 };

		post_recv(&a[i], 1, 4096, 64);
		post_send(&a[i], 2, IBV_WR_SEND, 0, 0, 64, 0, 0);
		ok &= next_wc(&a[i], NULL, &wc) && !wc.status;
	}
	check(ok, "many: half of them outlive the others");
	atomic_store(&s.stop, 1);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	for (int i = 0; i < QPS; i++) {
		if (s.ids[i]) {
			v->destroy_qp(s.ids[i]);
			v->destroy_id(s.ids[i]);
		}
		if (a[i].id)
			side_close(&a[i]);
	}
	v->destroy_id(l);
	v->dereg_mr(s.mr);
	check(!v->destroy_cq(s.send_cq) && !v->destroy_cq(s.recv_cq) &&
	      !v->destroy_comp_channel(s.channel) && !v->dealloc_pd(s.pd), "many: everything is released");
	v->destroy_event_channel(s.events);
	v->destroy_event_channel(ch);
}

void test_many(void)
{
	many(false);
	many(true);
}
