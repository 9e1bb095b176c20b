/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns: many queue pairs of one CQ are served equally, and idle ones cost nothing. */
#include "iwarp_pair.h"

#include "iwarp.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 10, WINDOW = 16, SLOT = 64 };

/* Connections whose responders share a CQ. */
struct crowd {
	struct rdma_event_channel *events, *a_events;
	struct rdma_cm_id *listener;
	struct side b;			/* its objects, without a queue pair of its own */
	struct rdma_cm_id *ids[PEERS];
	struct side a[PEERS];
};

static void crowd_receive(struct crowd *c, unsigned int who)
{
	struct ibv_sge sge = { (uintptr_t)c->b.mem + who * SLOT, SLOT, c->b.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = who, .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(c->ids[who]->qp, &wr, &bad);
}

static void crowd_open(struct crowd *c)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct pair_options o = { 0 };
	int port = 0, ok = 1;

	memset(c, 0, sizeof(*c));
	c->events = v->create_event_channel();
	c->a_events = v->create_event_channel();
	c->listener = listen_on(c->events, "127.0.0.1", &port);
	c->b.id = c->listener;
	ok &= !side_objects(&c->b, &o);
	fcntl(c->b.channel->fd, F_SETFL, O_NONBLOCK);
	for (unsigned int i = 0; i < PEERS && ok; i++) {
		struct ibv_qp_init_attr attr = { .send_cq = c->b.cq, .recv_cq = c->b.cq,
						 .cap = { 8, 2 * WINDOW, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

		c->a[i].events = c->a_events;
		ok &= !resolve(&c->a[i], "127.0.0.1", port) && !side_objects(&c->a[i], &o) &&
		      !side_qp(&c->a[i], &o) && !v->connect(c->a[i].id, &param);
		ok &= next_event(c->events, &c->ids[i], NULL, NULL, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST;
		ok &= ok && !v->create_qp(c->ids[i], c->b.pd, &attr) && !v->accept(c->ids[i], &param) &&
		      next_event(c->events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED &&
		      next_event(c->a_events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED;
		for (int k = 0; ok && k < 2 * WINDOW; k++)
			crowd_receive(c, i);
	}
	check(ok, "turns: %d connections", PEERS);
}

static void crowd_close(struct crowd *c)
{
	for (unsigned int i = 0; i < PEERS; i++) {
		v->destroy_qp(c->ids[i]);
		v->destroy_id(c->ids[i]);
		side_close(&c->a[i]);
	}
	side_close(&c->b);
	v->destroy_event_channel(c->events);
	v->destroy_event_channel(c->a_events);
}

static void crowd_send(struct crowd *c, unsigned int who)
{
	post_send(&c->a[who], 0, IBV_WR_SEND, 0, 0, SLOT, 0, 0);
}

/* All send without pause: none waits while others are served repeatedly. */
static void fair(struct crowd *c)
{
	enum { MESSAGES = 40000, PATIENCE = 3 * PEERS * WINDOW };
	unsigned int last[PEERS] = { 0 }, n = 0, late = 0;
	double end = now_s() + CHECK_PATIENCE_S;
	struct ibv_wc wc[8];
	bool ok = true;

	for (unsigned int i = 0; i < PEERS; i++)
		for (int k = 0; k < WINDOW; k++)
			crowd_send(c, i);
	while (n < MESSAGES && now_s() < end) {
		int got = ibv_poll_cq(c->b.cq, 8, wc);

		for (int k = 0; k < got; k++, n++) {
			unsigned int who = (unsigned int)wc[k].wr_id;

			ok &= !wc[k].status;
			late += n - last[who] > PATIENCE;
			last[who] = n;
			crowd_receive(c, who);
			crowd_send(c, who);
		}
		for (unsigned int i = 0; i < PEERS; i++)
			ibv_poll_cq(c->a[i].cq, 8, wc);
	}
	/* the kernel of a busy machine delivers what one has sent late now and then */
	check(ok && n >= MESSAGES && late < MESSAGES / 400, "fair: at most %d others' between two of one (%u times more)",
	      PATIENCE, late);
	/* idle again: the cost of connections without traffic */
	for (int i = 0; i < 10000; i++)
		ibv_poll_cq(c->b.cq, 8, wc);
	check(!iw_cq(c->b.cq)->nready, "fair: a poll visits nobody of %d idle ones (%u)", PEERS,
	      iw_cq(c->b.cq)->nready);
}

/*
 * A consumer that polls once and sleeps, although there was more than is received in a turn: it is woken for the rest
 * by its sockets, not by the helper.
 */
static void sleeper(struct crowd *c)
{
	enum { WRITES = 8, BYTES = 1 << 20 };
	struct pollfd pfd = { .fd = c->b.channel->fd, .events = POLLIN };
	uint64_t helped = UINT64_MAX;
	int ok = 1;

	for (int tries = 0; tries < 20 && helped && ok; tries++) {
		uint64_t before = iwarp_get_stats()->helper_served;
		struct ibv_wc wc = { 0 };
		double end = now_s() + CHECK_PATIENCE_S;
		int got = 0;

		for (int i = 0; i < WRITES; i++)
			post_send(&c->a[0], 0, IBV_WR_RDMA_WRITE, 0, 0, BYTES, (uintptr_t)c->b.mem + 65536,
				  c->b.mr->rkey);
		crowd_send(c, 0);
		while (!got && now_s() < end) {
			struct ibv_cq *cq;
			void *context;

			ibv_req_notify_cq(c->b.cq, 0);
			got = ibv_poll_cq(c->b.cq, 1, &wc);
			if (!got && poll(&pfd, 1, 1) == 1 &&
			    !v->get_cq_event(c->b.channel, &cq, &context))
				v->ack_cq_events(cq, 1);
			ibv_poll_cq(c->a[0].cq, 0, NULL);
			iw_cq_progress(iw_cq(c->a[0].cq), false);	/* continue sending */
		}
		ok &= got == 1 && !wc.status;
		crowd_receive(c, 0);
		helped = iwarp_get_stats()->helper_served - before;
	}
	check(ok, "sleeper: all came");
	check(!helped, "sleeper: received by itself (%llu times not)", (unsigned long long)helped);
}

void test_turns(void)
{
	static struct crowd c;

	crowd_open(&c);
	fair(&c);
	sleeper(&c);
	crowd_close(&c);
}
