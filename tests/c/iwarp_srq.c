/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: many connections on one, and what happens while it is empty. */
#include "iwarp_pair.h"

#include "iwarp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS = 24, SLOT = 256 };

/* Connections whose responders share a domain, a CQ and a receive queue. */
struct shared {
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct rdma_cm_id *ids[PEERS];
	struct side a[PEERS];
	struct rdma_event_channel *a_events;
	struct rdma_cm_id *listener;
	unsigned int n;
};

static int post_shared(struct shared *s, uint64_t wr_id)
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

static void shared_open(struct shared *s, unsigned int n, unsigned int max_wr)
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

static void shared_close(struct shared *s)
{
	check(v->destroy_srq(s->srq) == EBUSY, "srq: in use");
	for (unsigned int i = 0; i < s->n; i++) {
		v->destroy_qp(s->ids[i]);
		v->destroy_id(s->ids[i]);
		side_close(&s->a[i]);
	}
	v->destroy_id(s->listener);
	check(!v->destroy_srq(s->srq) && !v->dereg_mr(s->mr) && !v->destroy_cq(s->cq) &&
	      !v->destroy_comp_channel(s->channel) && !v->dealloc_pd(s->pd), "srq: everything let go");
	v->destroy_event_channel(s->events);
	v->destroy_event_channel(s->a_events);
	free(s->mem);
}

/* Messages say who sent them and which of its it is. */
static int say(struct shared *s, unsigned int who, uint32_t seq, uint32_t len)
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

/* A receive completed: from whom, checked against what it says. */
static bool heard(struct shared *s, const struct ibv_wc *wc, uint32_t *next)
{
	unsigned int at = qp_index(s, wc->qp_num), who;
	uint32_t seq;

	memcpy(&who, s->mem + wc->wr_id * SLOT, 4);
	memcpy(&seq, s->mem + wc->wr_id * SLOT + 4, 4);
	return !wc->status && wc->opcode == IBV_WC_RECV && at == who && seq == next[who]++;
}

static void senders_poll(struct shared *s)
{
	struct ibv_wc wc;

	for (unsigned int i = 0; i < s->n; i++)
		while (ibv_poll_cq(s->a[i].cq, 1, &wc) == 1)
			;
}

static void all_in_order(void)
{
	enum { EACH = 100, RECEIVES = 64 };
	static struct shared s;
	uint32_t next[PEERS] = { 0 }, sent[PEERS] = { 0 };
	unsigned int total = 0;
	double end;
	int ok = 1;

	shared_open(&s, PEERS, RECEIVES);
	check(ibv_post_recv(s.ids[0]->qp, &(struct ibv_recv_wr){ 0 }, &(struct ibv_recv_wr *){ NULL }) == EINVAL,
	      "srq: a queue pair with one takes no receives of its own");
	for (uint64_t i = 0; i < RECEIVES; i++)
		ok &= !post_shared(&s, i);
	check(ok && post_shared(&s, 0) == ENOMEM, "srq: %d receives fit, no more", RECEIVES);
	for (end = now_s() + CHECK_PATIENCE_S; total < PEERS * EACH && now_s() < end && ok;) {
		struct ibv_wc wc;

		for (unsigned int i = 0; i < PEERS; i++)
			if (sent[i] < EACH && !say(&s, i, sent[i], 8 + sent[i] % 200))
				sent[i]++;
		senders_poll(&s);
		while (ibv_poll_cq(s.cq, 1, &wc) == 1 && ok) {
			ok &= heard(&s, &wc, next) && !post_shared(&s, wc.wr_id);
			total++;
		}
	}
	check(ok && total == PEERS * EACH, "srq: %u of %d messages, each in its connection's order", total,
	      PEERS * EACH);
	shared_close(&s);
}

/* What a thread that polls or sleeps spends while nothing can be received. */
static uint64_t turns_awake(struct shared *s, int ms)
{
	struct pollfd pfd = { .fd = s->channel->fd, .events = POLLIN };
	double end = now_s() + ms * 1e-3;
	uint64_t turns = 0;

	while (now_s() < end) {
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;

		ibv_req_notify_cq(s->cq, 0);
		while (ibv_poll_cq(s->cq, 1, &wc) == 1)
			check(0, "srq: a completion (%d) without a receive", wc.status);
		if (poll(&pfd, 1, ms) == 1) {
			turns++;
			if (!v->get_cq_event(s->channel, &cq, &context))
				v->ack_cq_events(cq, 1);
		}
	}
	return turns;
}

static void empty(bool crc)
{
	enum { EACH = 8, SPREAD = 60 };
	static struct shared s;
	struct iwarp_options saved, o;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	uint64_t turns = UINT64_MAX;
	unsigned int total = 0, receives = 0;
	int ok = 1;

	iwarp_get_options(&saved);
	o = saved;
	o.crc = crc;
	iwarp_set_options(&o);
	shared_open(&s, PEERS, PEERS * EACH + 1);
	for (unsigned int i = 0; i < PEERS; i++)
		for (uint32_t k = 0; k < EACH; k++)
			ok &= !say(&s, i, k, 8 + k * 30);
	check(ok, "empty: everybody speaks");
	for (int i = 0; i < 1000; i++) {
		senders_poll(&s);
		ok &= ibv_poll_cq(s.cq, 1, &wc) == 0;
	}
	check(ok, "empty: nothing is received, no connection ends");
	for (int i = 0; i < 20 && turns > 5; i++)
		turns = turns_awake(&s, 100);
	check(turns <= 5, "empty: asleep meanwhile (%llu turns in 100 ms)", (unsigned long long)turns);
	check(check_threads_sleep(""), "empty: so is the helper");

	/* one receive at a time: each is used at once, and in line */
	for (; receives < SPREAD && ok; receives++) {
		ok &= !post_shared(&s, receives);
		for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;)
			if (ibv_poll_cq(s.cq, 1, &wc) == 1)
				break;
		ok &= wc.wr_id == receives && heard(&s, &wc, next);
	}
	check(ok, "empty: %u receives, one by one (last status %d)", receives, wc.status);
	for (unsigned int i = 0; i < PEERS; i++)
		ok &= next[i] >= SPREAD / PEERS && next[i] <= SPREAD / PEERS + 1;
	check(ok, "empty: dealt out in turn");
	/* those who had a receive and wait for the next one leave everybody asleep, too */
	turns = UINT64_MAX;
	for (int i = 0; i < 20 && turns > 5; i++)
		turns = turns_awake(&s, 100);
	check(turns <= 5, "empty: asleep again (%llu turns in 100 ms)", (unsigned long long)turns);

	/* a consumer that sleeps on the channel is woken by what waits, not by the socket alone */
	struct pollfd pfd = { .fd = s.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	ok = !post_shared(&s, receives);
	ibv_req_notify_cq(s.cq, 0);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;) {
		if (poll(&pfd, 1, 1000) == 1 && !v->get_cq_event(s.channel, &cq, &context))
			break;
	}
	ok &= ibv_poll_cq(s.cq, 1, &wc) == 1 && heard(&s, &wc, next);
	check(ok, "empty: posted to a consumer that sleeps");
	v->ack_cq_events(s.cq, 1);

	/* the rest at once; one has gone meanwhile, and takes no receive with it */
	v->disconnect(s.ids[3]);
	while (ibv_poll_cq(s.cq, 1, &wc) == 1)
		check(0, "empty: one that waited has no receive to be flushed");
	for (receives++; receives < PEERS * EACH; receives++)
		ok &= !post_shared(&s, receives);
	for (unsigned int i = 0; i < PEERS; i++)
		total += i == 3 ? EACH - next[3] : EACH - next[i];
	total -= EACH - next[3];
	for (double end = now_s() + CHECK_PATIENCE_S; total && now_s() < end && ok;) {
		senders_poll(&s);
		if (ibv_poll_cq(s.cq, 1, &wc) != 1)
			continue;
		ok &= heard(&s, &wc, next);
		total--;
	}
	check(ok && !total, "empty: the others go on (%u missing)", total);
	shared_close(&s);
	iwarp_set_options(&saved);
}

/* Sends that wait for a receive again and again, and a READ that waits behind one of them. */
static void pieces(bool crc)
{
	enum { N = 40 };
	static struct shared s;
	struct iwarp_options saved, o;
	struct ibv_wc wc = { 0 };
	struct ibv_srq_attr bigger = { .max_wr = 2 * N };
	uint32_t next[PEERS] = { 0 };
	int ok = 1;

	iwarp_get_options(&saved);
	o = saved;
	o.crc = crc;
	iwarp_set_options(&o);
	shared_open(&s, 2, 4);
	check(!v->modify_srq(s.srq, &bigger, IBV_SRQ_MAX_WR), "pieces: a longer queue");
	check(v->modify_srq(s.srq, &bigger, IBV_SRQ_LIMIT) == EOPNOTSUPP, "pieces: no limit events");
	for (uint32_t i = 0; i < N && ok; i++) {
		ok &= !say(&s, 0, i, 8 + i * 5);
		ok &= !say(&s, 1, i, 200);
		ok &= !post_send(&s.a[0], 1000 + i, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 100000, 16,
				 (uintptr_t)s.mem, s.mr->rkey);
		for (int k = 0; k < 20; k++)
			ok &= ibv_poll_cq(s.cq, 1, &wc) == 0;
		ok &= !post_shared(&s, 2 * i % N) && !post_shared(&s, (2 * i + 1) % N);
		for (int k = 0; k < 2; k++) {
			for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;)
				if (ibv_poll_cq(s.cq, 1, &wc) == 1)
					break;
			ok &= heard(&s, &wc, next);
		}
		for (int done = 0; done < 2 && ok; done++) {
			double end = now_s() + CHECK_PATIENCE_S;
			int n = 0;

			while (!(n = ibv_poll_cq(s.a[0].cq, 1, &wc)) && now_s() < end)
				ibv_poll_cq(s.cq, 0, NULL);
			ok &= n == 1 && !wc.status && wc.wr_id == (done ? 1000 + i : i);
		}
		while (ibv_poll_cq(s.a[1].cq, 1, &wc) == 1)
			;
	}
	check(ok, "pieces: %d of %d", next[0], N);
	shared_close(&s);
	iwarp_set_options(&saved);
}

/* More small Sends at once than there are receives: what was received beyond them is kept, not lost. */
static void flood(void)
{
	enum { N = 120, RECEIVES = 7 };
	static struct shared s;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	unsigned int total = 0;
	int ok = 1;

	shared_open(&s, 1, RECEIVES);
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_shared(&s, i);
	for (uint32_t i = 0; i < N; i++) {
		ok &= !say(&s, 0, i, 8);
		senders_poll(&s);
	}
	for (double end = now_s() + CHECK_PATIENCE_S; total < N && now_s() < end && ok;) {
		senders_poll(&s);
		if (ibv_poll_cq(s.cq, 1, &wc) != 1)
			continue;
		ok &= heard(&s, &wc, next);
		total++;
		ok &= !post_shared(&s, wc.wr_id);
	}
	check(ok && total == N, "flood: %u of %d (status %d): %s", total, N, wc.status,
	      iwarp_qp_end_reason(s.ids[0]->qp));
	shared_close(&s);
}

/* A peer that dies while its Send waits is noticed, and a receive posted later is not lost on it. */
static void dies_waiting(void)
{
	static struct shared s;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	struct linger hard = { 1, 0 };
	int ok = 1, fd = -1;

	shared_open(&s, 2, 4);
	say(&s, 0, 0, 64);
	say(&s, 0, 1, 64);
	for (int i = 0; i < 50; i++) {
		senders_poll(&s);
		ibv_poll_cq(s.cq, 1, &wc);
	}
	/* a reset, as of a machine that went down and came back */
	for (fd = 3; fd < 4096; fd++) {
		struct sockaddr_in peer, want = s.a[0].id->route.addr.src_sin, name;
		socklen_t len = sizeof(peer), len2 = sizeof(name);

		if (!getpeername(fd, (struct sockaddr *)&peer, &len) &&
		    !getsockname(fd, (struct sockaddr *)&name, &len2) && name.sin_port == want.sin_port &&
		    peer.sin_port == s.a[0].id->route.addr.dst_sin.sin_port)
			break;
	}
	check(fd < 4096, "dies: its socket");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };

	connect(fd, &unspec, sizeof(unspec));	/* which resets it */
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end && !*iwarp_qp_end_reason(s.ids[0]->qp);)
		ibv_poll_cq(s.cq, 1, &wc);
	check(*iwarp_qp_end_reason(s.ids[0]->qp), "dies: noticed: %s", iwarp_qp_end_reason(s.ids[0]->qp));
	ok &= !post_shared(&s, 2);
	say(&s, 1, 0, 64);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;)
		if (ibv_poll_cq(s.cq, 1, &wc) == 1)
			break;
	check(ok && wc.wr_id == 2 && heard(&s, &wc, next), "dies: the receive is the other's");
	shared_close(&s);
}

/* An application that only posts: the helper takes in what a receive has come for. */
static void unattended(void)
{
	static struct shared s;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	bool came = false;

	shared_open(&s, 1, 4);
	say(&s, 0, 0, 64);
	usleep(50000);
	senders_poll(&s);
	check(iw_cq(s.cq)->head == iw_cq(s.cq)->tail, "unattended: nothing received without a receive");
	post_shared(&s, 1);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end && !came; usleep(1000))
		came = iw_cq(s.cq)->head != iw_cq(s.cq)->tail;
	check(came, "unattended: received while nobody polls");
	check(ibv_poll_cq(s.cq, 1, &wc) == 1 && heard(&s, &wc, next), "unattended: completed");
	shared_close(&s);
}

static void wrong(void)
{
	struct ibv_device **list = v->get_device_list(NULL);
	struct ibv_context *ctx = v->open_device(list[0]);
	struct ibv_pd *pd = v->alloc_pd(ctx);
	struct ibv_srq_init_attr none = { .attr = { 0, 1, 0 } }, sges = { .attr = { 4, 1000, 0 } };
	struct ibv_srq_init_attr right = { .attr = { 4, 2, 0 } };
	struct ibv_device_attr attr;
	struct ibv_sge sge[3] = { { 0 } };
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = 3 }, *bad = NULL;
	struct ibv_srq *srq;
	struct ibv_cq *cq;

	check(!v->query_device(ctx, &attr) && attr.max_srq && attr.max_srq_wr >= 65536 && attr.max_srq_sge,
	      "wrong: the device's limits");
	check(!v->create_srq(pd, &none) && errno == EINVAL, "wrong: a queue of nothing");
	check(!v->create_srq(pd, &sges) && errno == EINVAL, "wrong: too many SGEs");
	srq = v->create_srq(pd, &right);
	check(srq && ibv_post_srq_recv(srq, &wr, &bad) == EINVAL && bad == &wr, "wrong: more SGEs than agreed");
	check(v->dealloc_pd(pd) == EBUSY, "wrong: the domain is in use");
	check(!v->destroy_srq(srq) && !v->dealloc_pd(pd), "wrong: let go");
	cq = v->create_cq(ctx, 16, NULL, NULL, 0);
	check(!v->resize_cq(cq, 1000) && cq->cqe >= 1000 && !v->resize_cq(cq, 10) && cq->cqe >= 10 &&
	      v->resize_cq(cq, 0) == EINVAL, "wrong: a CQ resized");
	v->destroy_cq(cq);
	v->free_device_list(list);
}

void test_srq(void)
{
	wrong();
	all_in_order();
	empty(false);
	empty(true);
	pieces(false);
	pieces(true);
	flood();
	dies_waiting();
	unattended();
}
