/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: many connections on one, in order and in pieces, and their ends. */
#include "iwarp_shared.h"

#include "iwarp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
		ok &= !shared_post(&s, i);
	check(ok && shared_post(&s, 0) == ENOMEM, "srq: %d receives fit, no more", RECEIVES);
	for (end = now_s() + CHECK_PATIENCE_S; total < PEERS * EACH && now_s() < end && ok;) {
		struct ibv_wc wc;

		for (unsigned int i = 0; i < PEERS; i++)
			if (sent[i] < EACH && !shared_say(&s, i, sent[i], 8 + sent[i] % 200))
				sent[i]++;
		shared_drain(&s);
		while (ibv_poll_cq(s.cq, 1, &wc) == 1 && ok) {
			ok &= shared_heard(&s, &wc, next) && !shared_post(&s, wc.wr_id);
			total++;
		}
	}
	check(ok && total == PEERS * EACH, "srq: %u of %d messages, each in its connection's order", total,
	      PEERS * EACH);
	shared_close(&s);
}

/* Messages of one peer at a time always use the same memory, for any peer. */
static void last_first(void)
{
	enum { RECEIVES = 64 };
	static struct shared s;
	uint32_t next[PEERS] = { 0 };
	int ok = 1;

	shared_open(&s, PEERS, RECEIVES);
	for (uint64_t i = 0; i < RECEIVES; i++)
		ok &= !shared_post(&s, i);
	for (uint32_t seq = 0; seq < RECEIVES && ok; seq++)
		for (unsigned int i = 0; i < PEERS && ok; i++) {
			struct ibv_wc wc = { 0 };
			double end = now_s() + CHECK_PATIENCE_S;
			int n = 0;

			ok &= !shared_say(&s, i, seq, 64);
			while (!n && now_s() < end) {
				shared_drain(&s);
				n = ibv_poll_cq(s.cq, 1, &wc);
			}
			ok &= n == 1 && wc.wr_id == RECEIVES - 1 && shared_heard(&s, &wc, next) &&
			      !shared_post(&s, wc.wr_id);
		}
	check(ok, "srq: the receive posted last is taken first");
	shared_close(&s);
}

/* Sends that repeatedly wait for a receive, and a READ that waits behind one of them. */
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
		ok &= !shared_say(&s, 0, i, 8 + i * 5);
		ok &= !shared_say(&s, 1, i, 200);
		ok &= !post_send(&s.a[0], 1000 + i, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 100000, 16,
				 (uintptr_t)s.mem, s.mr->rkey);
		for (int k = 0; k < 20; k++)
			ok &= ibv_poll_cq(s.cq, 1, &wc) == 0;
		ok &= !shared_post(&s, 2 * i % N) && !shared_post(&s, (2 * i + 1) % N);
		for (int k = 0; k < 2; k++) {
			for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;)
				if (ibv_poll_cq(s.cq, 1, &wc) == 1)
					break;
			ok &= shared_heard(&s, &wc, next);
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

/* More small Sends at once than there are receives: data received beyond them is kept. */
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
		shared_post(&s, i);
	for (uint32_t i = 0; i < N; i++) {
		ok &= !shared_say(&s, 0, i, 8);
		shared_drain(&s);
	}
	for (double end = now_s() + CHECK_PATIENCE_S; total < N && now_s() < end && ok;) {
		shared_drain(&s);
		if (ibv_poll_cq(s.cq, 1, &wc) != 1)
			continue;
		ok &= shared_heard(&s, &wc, next);
		total++;
		ok &= !shared_post(&s, wc.wr_id);
	}
	check(ok && total == N, "flood: %u of %d (status %d): %s", total, N, wc.status,
	      iwarp_qp_end_reason(s.ids[0]->qp));
	shared_close(&s);
}

/* More Sends wait than the receiver completes at once; then there is a receive for each. */
static void all_waited(void)
{
	enum { N = 100, LEN = 8 };
	static struct shared s;
	struct ibv_wc wc = { 0 };
	struct ibv_send_wr wr[N] = { 0 }, *bad;
	struct ibv_sge sge[N];
	uint32_t next[PEERS] = { 0 };
	unsigned int total = 0;
	int ok = 1;

	shared_open(&s, 1, N);
	for (uint32_t i = 0; i < N; i++) {
		const uint32_t words[] = { 0, i };

		memcpy(s.a[0].mem + (size_t)i * LEN, words, LEN);
		sge[i] = (struct ibv_sge){ (uintptr_t)s.a[0].mem + (size_t)i * LEN, LEN, s.a[0].mr->lkey };
		wr[i] = (struct ibv_send_wr){ .next = i + 1 < N ? &wr[i + 1] : NULL, .sg_list = &sge[i], .num_sge = 1,
					      .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	}
	ok &= !ibv_post_send(s.a[0].qp, wr, &bad);	/* all in one segment */
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end && !iw_qp(s.ids[0]->qp)->stream.rx.waits;)
		ok &= ibv_poll_cq(s.cq, 1, &wc) == 0;
	check(ok && iw_qp(s.ids[0]->qp)->stream.rx.stash_len > 2 * IW_OUT_WCS * LEN, "waited: %u bytes are kept",
	      iw_qp(s.ids[0]->qp)->stream.rx.stash_len);
	for (uint64_t i = 0; i < N; i++)
		ok &= !shared_post(&s, i);
	for (double end = now_s() + CHECK_PATIENCE_S; total < N && now_s() < end && ok;) {
		shared_drain(&s);
		if (ibv_poll_cq(s.cq, 1, &wc) != 1)
			continue;
		ok &= shared_heard(&s, &wc, next);
		total++;
	}
	check(ok && total == N, "waited: %u of %d (status %d): %s", total, N, wc.status,
	      iwarp_qp_end_reason(s.ids[0]->qp));
	shared_close(&s);
}

/* A peer that dies while its Send waits is noticed, and a later receive is not lost to it. */
static void dies_waiting(void)
{
	static struct shared s;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	struct linger hard = { 1, 0 };
	int ok = 1, fd = -1;

	shared_open(&s, 2, 4);
	shared_say(&s, 0, 0, 64);
	shared_say(&s, 0, 1, 64);
	for (int i = 0; i < 50; i++) {
		shared_drain(&s);
		ibv_poll_cq(s.cq, 1, &wc);
	}
	/* a reset, as from a machine that was restarted */
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

	connect(fd, &unspec, sizeof(unspec));	/* this resets the connection */
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end && !*iwarp_qp_end_reason(s.ids[0]->qp);)
		ibv_poll_cq(s.cq, 1, &wc);
	check(*iwarp_qp_end_reason(s.ids[0]->qp), "dies: noticed: %s", iwarp_qp_end_reason(s.ids[0]->qp));
	ok &= !shared_post(&s, 2);
	shared_say(&s, 1, 0, 64);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end;)
		if (ibv_poll_cq(s.cq, 1, &wc) == 1)
			break;
	check(ok && wc.wr_id == 2 && shared_heard(&s, &wc, next), "dies: the receive is the other's");
	shared_close(&s);
}

/* An application that only posts: the helper receives the data for new receives. */
static void unattended(void)
{
	static struct shared s;
	struct ibv_wc wc = { 0 };
	uint32_t next[PEERS] = { 0 };
	bool came = false;

	shared_open(&s, 1, 4);
	shared_say(&s, 0, 0, 64);
	usleep(50000);
	shared_drain(&s);
	check(iw_cq(s.cq)->head == iw_cq(s.cq)->tail, "unattended: nothing received without a receive");
	shared_post(&s, 1);
	for (double end = now_s() + CHECK_PATIENCE_S; now_s() < end && !came; usleep(1000))
		came = iw_cq(s.cq)->head != iw_cq(s.cq)->tail;
	check(came, "unattended: received while nobody polls");
	check(ibv_poll_cq(s.cq, 1, &wc) == 1 && shared_heard(&s, &wc, next), "unattended: completed");
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
	check(!v->destroy_srq(srq) && !v->dealloc_pd(pd), "wrong: released");
	cq = v->create_cq(ctx, 16, NULL, NULL, 0);
	check(!v->resize_cq(cq, 1000) && cq->cqe >= 1000 && !v->resize_cq(cq, 10) && cq->cqe >= 10 &&
	      v->resize_cq(cq, 0) == EINVAL && v->resize_cq(cq, attr.max_cqe + 1) == EINVAL, "wrong: a CQ resized");
	v->destroy_cq(cq);
	v->free_device_list(list);
}

void test_srq(void)
{
	wrong();
	all_in_order();
	last_first();
	srq_empty(false);
	srq_empty(true);
	pieces(false);
	pieces(true);
	flood();
	all_waited();
	dies_waiting();
	unattended();
}
