/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter/gather, inline, invalidation, depths, errors and flushes between two queue pairs. */
#include "iwarp_pair.h"

#include <errno.h>
#include <poll.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void scatter_gather(void)
{
	struct pair p;
	struct ibv_wc wc = { 0 };

	check(!pair_open(&p, NULL), "sg: connects");

	uint8_t *m = p.a.mem, *n = p.b.mem;
	uint32_t ka = p.a.mr->lkey, kb = p.b.mr->lkey;
	struct ibv_sge from[3] = { { (uintptr_t)m, 5, ka }, { (uintptr_t)m + 100000, 70000, ka },
				   { (uintptr_t)m + 50, 0, ka } };
	struct ibv_sge to[4] = { { (uintptr_t)n + 3, 40001, kb }, { (uintptr_t)n + 90000, 2, kb },
				 { (uintptr_t)n + 200000, 30000, kb }, { (uintptr_t)n, 2, kb } };
	struct ibv_recv_wr r = { .wr_id = 1, .sg_list = to, .num_sge = 4 }, *badr;
	struct ibv_send_wr s = { .wr_id = 2, .sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED }, *bads;

	for (int i = 0; i < 300000; i++)
		m[i] = (uint8_t)(i * 7 + (i >> 8));
	check(!ibv_post_recv(p.b.qp, &r, &badr) && !ibv_post_send(p.a.qp, &s, &bads), "sg: posted");
	check(next_wc(&p.b, &p.a, &wc) && !wc.status && wc.byte_len == 70005, "sg: received");
	check(!memcmp(n + 3, m, 5) && !memcmp(n + 8, m + 100000, 39996) &&
	      !memcmp(n + 90000, m + 139996, 2) && !memcmp(n + 200000, m + 139998, 30000),
	      "sg: send scattered as asked");
	expect_wc(&p.a, &p.b, 2, IBV_WC_SUCCESS, "sg: send completed");

	struct ibv_sge sink[2] = { { (uintptr_t)m + 7, 65000, ka }, { (uintptr_t)m + 400000, 100000, ka } };
	struct ibv_send_wr rd = { .wr_id = 3, .sg_list = sink, .num_sge = 2,
				  .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };

	rd.wr.rdma.remote_addr = (uintptr_t)n + 1000000;
	rd.wr.rdma.rkey = p.b.mr->rkey;
	for (int i = 0; i < 165000; i++)
		n[1000000 + i] = (uint8_t)(i * 13 + (i >> 9));
	check(!ibv_post_send(p.a.qp, &rd, &bads), "sg: read posted");
	expect_wc(&p.a, &p.b, 3, IBV_WC_SUCCESS, "sg: read completed");
	check(!memcmp(m + 7, n + 1000000, 65000) && !memcmp(m + 400000, n + 1065000, 100000),
	      "sg: read scattered as asked");

	/* inline: the memory may change, and need not be registered */
	uint8_t words[200];
	struct ibv_sge in[2] = { { (uintptr_t)words, 150, 0 }, { (uintptr_t)words + 150, 50, 0 } };
	struct ibv_send_wr il = { .wr_id = 4, .sg_list = in, .num_sge = 2, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };

	memset(words, 0x5a, sizeof(words));
	post_recv(&p.b, 5, 0, 256);
	check(!ibv_post_send(p.a.qp, &il, &bads), "inline: posted");
	memset(words, 0, sizeof(words));
	expect_wc(&p.b, &p.a, 5, IBV_WC_SUCCESS, "inline: received");
	check(n[0] == 0x5a && n[199] == 0x5a, "inline: the bytes as posted");
	in[0].length = 257;
	check(ibv_post_send(p.a.qp, &il, &bads) == EINVAL && bads == &il, "inline: too much refused");
	s.num_sge = 5;
	check(ibv_post_send(p.a.qp, &s, &bads) == EINVAL, "more SGEs than agreed refused");
	pair_close(&p);
}

static void invalidate(void)
{
	struct pair p;
	struct ibv_wc wc = { 0 };

	check(!pair_open(&p, NULL), "inv: connects");

	/* the peer cannot invalidate a registration, even one to which windows can be bound */
	struct ibv_mr *mr = v->reg_mr(p.b.pd, p.b.mem, 4096, IBV_ACCESS_LOCAL_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_MW_BIND);

	post_recv(&p.b, 1, 8192, 64);
	post_send(&p.a, 2, IBV_WR_SEND_WITH_INV, 0, 0, 64, 0, mr->rkey);
	post_recv(&p.a, 4, 0, 64);
	expect_wc(&p.b, &p.a, 1, IBV_WC_REM_INV_REQ_ERR, "inv: the receive fails as such");
	expect_wc(&p.a, &p.b, 4, IBV_WC_WR_FLUSH_ERR, "inv: and ends the connection");
	check(strstr(iwarp_qp_end_reason(p.a.qp), "the peer sent TERMINATE RDMAP remote protection, STag "
		     "cannot be invalidated"), "inv: reason: %s", iwarp_qp_end_reason(p.a.qp));
	check(strstr(iwarp_qp_end_reason(p.b.qp), "STag cannot be invalidated"), "inv: reason: %s",
	      iwarp_qp_end_reason(p.b.qp));
	check(next_event(p.a.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_DISCONNECTED &&
	      next_event(p.b.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_DISCONNECTED,
	      "inv: both ends hear of it");
	v->dereg_mr(mr);
	pair_close(&p);

	check(!pair_open(&p, NULL), "local inv: connects");
	mr = v->reg_mr(p.a.pd, p.a.mem, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	check(!post_send(&p.a, 5, IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED, 0, 0, 0, mr->rkey),
	      "local inv: posted");
	check(next_wc(&p.a, &p.b, &wc) && wc.wr_id == 5 && !wc.status &&
	      wc.opcode == IBV_WC_LOCAL_INV, "local inv: completed");
	/* the responder may send after it has received something */
	post_recv(&p.b, 6, 0, 8);
	post_send(&p.a, 7, IBV_WR_SEND, 0, 8192, 8, 0, 0);
	expect_wc(&p.b, &p.a, 6, IBV_WC_SUCCESS, "local inv: still connected");
	post_send(&p.b, 8, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 16, (uintptr_t)p.a.mem, mr->rkey);
	expect_wc(&p.b, &p.a, 8, IBV_WC_REM_ACCESS_ERR, "local inv: a read of it fails as such");
	v->dereg_mr(mr);
	pair_close(&p);
}

/* A peer accesses memory without permission: the errors on both sides. */
static void violation(const char *label, enum ibv_wr_opcode op, int access, int64_t delta, uint32_t len,
		      int other_pd, const char *term, enum ibv_wc_status status)
{
	struct pair p;
	struct ibv_pd *pd = NULL;

	check(!pair_open(&p, NULL), "%s: connects", label);
	pd = other_pd ? v->alloc_pd(p.b.id->verbs) : p.b.pd;

	struct ibv_mr *mr = v->reg_mr(pd, p.b.mem + 4096, 4096, access);

	post_send(&p.a, 1, op, IBV_SEND_SIGNALED, 0, len,
		  (uintptr_t)p.b.mem + 4096 + (uint64_t)delta, mr->rkey);
	post_recv(&p.a, 2, 0, 16);
	expect_wc(&p.a, &p.b, 1, status, label);
	expect_wc(&p.a, &p.b, 2, IBV_WC_WR_FLUSH_ERR, "flushed");
	check(strstr(iwarp_qp_end_reason(p.b.qp), term) != NULL, "%s: %s", label,
	      iwarp_qp_end_reason(p.b.qp));
	check(strstr(iwarp_qp_end_reason(p.a.qp), term) != NULL, "%s: %s", label,
	      iwarp_qp_end_reason(p.a.qp));
	v->dereg_mr(mr);
	if (other_pd)
		v->dealloc_pd(pd);
	pair_close(&p);
}

static void violations(void)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	violation("write beyond", IBV_WR_RDMA_WRITE, all, 4090, 7, 0, "DDP tagged, bounds", IBV_WC_SUCCESS);
	violation("write before", IBV_WR_RDMA_WRITE, all, -1, 7, 0, "DDP tagged, bounds", IBV_WC_SUCCESS);
	violation("write without the right", IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE |
		  IBV_ACCESS_REMOTE_READ, 0, 7, 0, "DDP tagged, invalid STag", IBV_WC_SUCCESS);
	violation("write to another domain", IBV_WR_RDMA_WRITE, all, 0, 7, 1, "another domain",
		  IBV_WC_SUCCESS);
	violation("read beyond", IBV_WR_RDMA_READ, all, 4090, 7, 0, "RDMAP remote protection, bounds",
		  IBV_WC_REM_ACCESS_ERR);
	violation("read without the right", IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, 0, 7, 0,
		  "RDMAP remote protection, access", IBV_WC_REM_ACCESS_ERR);
	violation("read of another domain", IBV_WR_RDMA_READ, all, 0, 7, 1, "another domain",
		  IBV_WC_REM_ACCESS_ERR);
}

static void limits(void)
{
	struct pair_options o = { .depth = 8, .ird = 2, .ord = 2 };
	struct pair p;
	struct ibv_wc wc = { 0 };
	int n = 0, ok = 1;

	check(!pair_open(&p, &o), "limits: connects");
	while (!post_recv(&p.a, 100 + (uint64_t)n, 0, 64))
		n++;
	check(n == 8, "limits: %d receives fit", n);
	/* reads wait behind the depth of 2; completions come in order, with any other work between them */
	for (uint64_t i = 0; i < 8; i++) {
		unsigned int flags = IBV_SEND_SIGNALED | (i == 5 ? IBV_SEND_FENCE : 0u);
		enum ibv_wr_opcode op = i % 3 == 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;

		ok &= !post_send(&p.a, i, op, flags, (uint32_t)i * 100000, 90000,
				 (uintptr_t)p.b.mem + i * 100000, p.b.mr->rkey);
	}
	check(ok && post_send(&p.a, 9, IBV_WR_SEND, 0, 0, 1, 0, 0) == ENOMEM,
	      "limits: 8 sends fit, the ninth does not");
	for (uint64_t i = 0; i < 8; i++) {
		ok &= next_wc(&p.a, &p.b, &wc) && wc.wr_id == i && !wc.status;
		if (!ok)
			break;
	}
	check(ok, "limits: reads and writes complete in order (last: %llu status %d, %s)",
	      (unsigned long long)wc.wr_id, wc.status, iwarp_qp_end_reason(p.a.qp));

	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	check(!v->query_qp(p.a.qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS &&
	      attr.max_rd_atomic == 2 && init.cap.max_send_wr == 8, "limits: query_qp");
	attr.qp_state = IBV_QPS_ERR;
	check(!v->modify_qp(p.a.qp, &attr, IBV_QP_STATE), "limits: to the error state");
	n = 0;
	while (n < 8 && next_wc(&p.a, &p.b, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR)
		n++;
	check(n == 8, "limits: %d receives flushed", n);
	post_recv(&p.a, 77, 0, 1);
	expect_wc(&p.a, NULL, 77, IBV_WC_WR_FLUSH_ERR, "limits: posting afterwards is flushed");
	post_send(&p.a, 78, IBV_WR_SEND, 0, 0, 1, 0, 0);
	expect_wc(&p.a, NULL, 78, IBV_WC_WR_FLUSH_ERR, "limits: also a send");
	pair_close(&p);

	/* a message longer than its buffer; no buffer at all */
	check(!pair_open(&p, NULL), "too long: connects");
	post_recv(&p.b, 1, 0, 10);
	post_send(&p.a, 2, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 11, 0, 0);
	expect_wc(&p.b, &p.a, 1, IBV_WC_LOC_LEN_ERR, "too long: the receive fails as such");
	expect_wc(&p.a, &p.b, 2, IBV_WC_SUCCESS, "too long: the send had gone");
	post_recv(&p.a, 3, 0, 10);
	expect_wc(&p.a, &p.b, 3, IBV_WC_WR_FLUSH_ERR, "too long: then the end");
	check(strstr(iwarp_qp_end_reason(p.a.qp), "too long") != NULL, "too long: %s",
	      iwarp_qp_end_reason(p.a.qp));
	pair_close(&p);
	check(!pair_open(&p, NULL), "no buffer: connects");
	post_send(&p.a, 2, IBV_WR_SEND, 0, 0, 11, 0, 0);
	post_recv(&p.a, 3, 0, 10);
	expect_wc(&p.a, &p.b, 3, IBV_WC_WR_FLUSH_ERR, "no buffer: the end");
	check(strstr(iwarp_qp_end_reason(p.a.qp), "no buffer") != NULL, "no buffer: %s",
	      iwarp_qp_end_reason(p.a.qp));
	pair_close(&p);
	/* a READ that could never be sent does not wait forever */
	o = (struct pair_options){ .ird = -1, .ord = -1 };
	check(!pair_open(&p, &o), "no reads: connects");
	post_send(&p.a, 4, IBV_WR_SEND, 0, 0, 4, 0, 0);
	post_send(&p.a, 5, IBV_WR_RDMA_READ, 0, 0, 4, (uintptr_t)p.b.mem, p.b.mr->rkey);
	expect_wc(&p.a, NULL, 5, IBV_WC_LOC_QP_OP_ERR, "no reads: it fails as such");
	check(strstr(iwarp_qp_end_reason(p.a.qp), "a READ was posted") != NULL, "no reads: %s",
	      iwarp_qp_end_reason(p.a.qp));
	pair_close(&p);
	/* an unknown key */
	check(!pair_open(&p, NULL), "bad lkey: connects");
	p.a.mr->lkey ^= 0x1000;
	post_send(&p.a, 4, IBV_WR_SEND, 0, 0, 4, 0, 0);
	p.a.mr->lkey ^= 0x1000;
	expect_wc(&p.a, &p.b, 4, IBV_WC_LOC_PROT_ERR, "bad lkey: the send fails as such");
	pair_close(&p);
}

static void notify(void)
{
	struct pair p;
	struct ibv_cq *cq = NULL;
	void *ctx = NULL;
	struct ibv_wc wc;

	check(!pair_open(&p, NULL), "notify: connects");
	fcntl(p.b.channel->fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 4; i++)
		post_recv(&p.b, (uint64_t)i, 0, 4096);

	struct pollfd pfd = { .fd = p.b.channel->fd, .events = POLLIN };

	check(v->get_cq_event(p.b.channel, &cq, &ctx) && errno == EAGAIN, "notify: nothing yet");
	check(!ibv_req_notify_cq(p.b.cq, 0), "notify: armed");
	check(poll(&pfd, 1, 50) == 0, "notify: silent while nothing happens");
	post_send(&p.a, 9, IBV_WR_SEND, 0, 0, 64, 0, 0);
	check(poll(&pfd, 1, CHECK_PATIENCE_S * 1000) == 1, "notify: the channel wakes for a send");
	check(!v->get_cq_event(p.b.channel, &cq, &ctx) && cq == p.b.cq && ctx == &p.b,
	      "notify: the event names the CQ");
	v->ack_cq_events(p.b.cq, 1);
	check(ibv_poll_cq(p.b.cq, 1, &wc) == 1 && wc.wr_id == 0, "notify: with its completion there");
	/* a frame that completes nothing may make a non-blocking channel readable, but only once */
	if (poll(&pfd, 1, 50))
		check(v->get_cq_event(p.b.channel, &cq, &ctx) && errno == EAGAIN, "notify: no event");
	for (int i = 0; i < 3; i++)
		post_send(&p.a, 8, IBV_WR_RDMA_WRITE, 0, 0, 64, (uintptr_t)p.b.mem, p.b.mr->rkey);
	if (poll(&pfd, 1, 50))
		check(v->get_cq_event(p.b.channel, &cq, &ctx) && errno == EAGAIN, "notify: nor now");
	post_send(&p.a, 8, IBV_WR_RDMA_WRITE, 0, 0, 64, (uintptr_t)p.b.mem, p.b.mr->rkey);
	check(poll(&pfd, 1, 50) == 0, "notify: silent afterwards");
	post_send(&p.a, 9, IBV_WR_SEND, 0, 0, 64, 0, 0);
	check(poll(&pfd, 1, 50) == 0 || (v->get_cq_event(p.b.channel, &cq, &ctx) && errno == EAGAIN),
	      "notify: disarmed means no event");
	check(next_wc(&p.b, &p.a, &wc) && wc.wr_id == 1, "notify: polled instead");
	/* only solicited events */
	ibv_req_notify_cq(p.b.cq, 1);
	post_send(&p.a, 9, IBV_WR_SEND, 0, 0, 64, 0, 0);
	double end = now_s() + 0.1;
	int events = 0;

	while (now_s() < end)
		if (poll(&pfd, 1, 10) == 1 && !v->get_cq_event(p.b.channel, &cq, &ctx))
			events++;
	check(events == 0, "notify: a plain send is no solicited event");
	post_send(&p.a, 9, IBV_WR_SEND, IBV_SEND_SOLICITED, 0, 64, 0, 0);
	end = now_s() + CHECK_PATIENCE_S;
	while (!events && now_s() < end)
		if (poll(&pfd, 1, 10) == 1 && !v->get_cq_event(p.b.channel, &cq, &ctx))
			events++;
	check(events == 1, "notify: a solicited one is");
	v->ack_cq_events(p.b.cq, (unsigned int)events);
	/* a READ of armed memory: no event, served while its owner sleeps on the channel */
	ibv_req_notify_cq(p.b.cq, 0);
	post_send(&p.a, 10, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 300000, (uintptr_t)p.b.mem,
		  p.b.mr->rkey);
	end = now_s() + CHECK_PATIENCE_S;

	int done = 0, wakes = 0;

	while (!done && now_s() < end) {
		if (poll(&pfd, 1, 1) == 1) {
			wakes++;
			(void)v->get_cq_event(p.b.channel, &cq, &ctx);
		}
		done = ibv_poll_cq(p.a.cq, 1, &wc);
	}
	check(done && !wc.status, "notify: a READ is served from the channel (%d wakes)", wakes);
	pair_close(&p);
}

/* Binds before Sends, in the batches that answer the peer's READs. */
static void binds_between_answers(void)
{
	enum { SENDS = 60, READS = 8, BIG = 1 << 20, FROM = 2 << 20 };
	struct ibv_wc wc = { 0 };
	struct ibv_mr *mr;
	struct ibv_mw *mw[SENDS];
	struct pair p;
	int reads = 0, sends = 0, ok = 1;

	check(!pair_open(&p, NULL), "between answers: connects");
	mr = v->reg_mr(p.b.pd, p.b.mem, SIDE_MEM, IBV_ACCESS_MW_BIND);
	for (int i = 0; i < SENDS; i++) {
		mw[i] = ibv_alloc_mw(p.b.pd, IBV_MW_TYPE_2);
		p.b.mem[i] = (uint8_t)i;
		ok &= !post_recv(&p.a, 100 + (uint64_t)i, FROM + 64 * (uint32_t)i, 64);
	}
	for (int i = 0; i < READS; i++)
		ok &= !post_send(&p.a, 1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, BIG, (uintptr_t)p.b.mem + FROM,
				 p.b.mr->rkey);
	for (int i = 0; i < SENDS && ok; i++) {
		struct ibv_sge sge = { (uintptr_t)p.b.mem + (unsigned int)i, 1, p.b.mr->lkey };
		struct ibv_send_wr send = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
		struct ibv_send_wr bind = { .wr_id = 3, .opcode = IBV_WR_BIND_MW, .next = &send }, *bad;

		bind.bind_mw.mw = mw[i];
		bind.bind_mw.rkey = ibv_inc_rkey(mw[i]->rkey);
		bind.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)p.b.mem, 64, IBV_ACCESS_REMOTE_READ };
		ok &= !ibv_post_send(p.b.qp, &bind, &bad);
		ok &= ibv_poll_cq(p.b.cq, 1, &wc) <= 0;	/* none of this work is signalled */
	}
	check(ok, "between answers: posted");
	while (ok && (reads < READS || sends < SENDS) && next_wc(&p.a, &p.b, &wc)) {
		ok &= !wc.status;
		if (wc.wr_id == 1) {
			reads++;
			continue;
		}
		ok &= wc.wr_id == 100u + (unsigned int)sends && wc.byte_len == 1 && p.a.mem[FROM + 64 * sends] == sends;
		sends++;
	}
	check(ok && reads == READS && sends == SENDS, "between answers: %d READs and %d Sends, each once (%s)", reads,
	      sends, iwarp_qp_end_reason(p.a.qp));
	for (int i = 0; i < SENDS; i++)
		ibv_dealloc_mw(mw[i]);
	v->dereg_mr(mr);
	pair_close(&p);
}

void test_verbs_more(void)
{
	scatter_gather();
	invalidate();
	violations();
	limits();
	notify();
	binds_between_answers();
}
