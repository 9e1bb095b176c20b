/* SPDX-License-Identifier: BSD-3-Clause */
/* Every verb between two queue pairs on the loopback. */
#include "iwarp_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245 + 12345;
		p[i] = (uint8_t)(seed >> 16);
	}
}

static void sends(const char *label, uint32_t len)
{
	struct pair p;
	struct ibv_wc wc;

	check(!pair_open(&p, NULL), "%s: connects", label);
	fill(p.a.mem, len, 1);
	check(!post_recv(&p.b, 7, 0, SIDE_MEM / 2), "%s: receive posted", label);
	check(!post_send(&p.a, 8, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, len, 0, 0), "%s: send posted",
	      label);
	int got = next_wc(&p.b, &p.a, &wc);

	check(got && wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS &&
	      wc.opcode == IBV_WC_RECV && wc.byte_len == len && wc.qp_num == p.b.qp->qp_num,
	      "%s: received %u bytes", label, wc.byte_len);
	check(!memcmp(p.a.mem, p.b.mem, len), "%s: the same bytes", label);
	expect_wc(&p.a, &p.b, 8, IBV_WC_SUCCESS, "send completed");
	/* and the reverse */
	fill(p.b.mem, len, 2);
	post_recv(&p.a, 9, 0, SIDE_MEM / 2);
	post_send(&p.b, 10, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, len, 0, 0);
	expect_wc(&p.a, &p.b, 9, IBV_WC_SUCCESS, "received the other way");
	expect_wc(&p.b, &p.a, 10, IBV_WC_SUCCESS, "sent the other way");
	check(!memcmp(p.a.mem, p.b.mem, len), "%s: the same bytes back", label);
	pair_close(&p);
}

/* The responder's application speaks first: MPA has it wait for the initiator's device. */
static void responder_first(void)
{
	struct iwarp_options old, o;
	struct pair p;

	iwarp_get_options(&old);
	o = old;
	o.first_fpdu = true;
	iwarp_set_options(&o);
	check(!pair_open(&p, NULL), "responder first: connects");
	fill(p.b.mem, 1000, 5);
	post_recv(&p.a, 1, 0, 1000);
	post_send(&p.b, 2, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 1000, 0, 0);
	expect_wc(&p.a, &p.b, 1, IBV_WC_SUCCESS, "responder first: received");
	expect_wc(&p.b, &p.a, 2, IBV_WC_SUCCESS, "responder first: sent");
	check(!memcmp(p.a.mem, p.b.mem, 1000), "responder first: the same bytes");
	pair_close(&p);
	iwarp_set_options(&old);
}

static void rdma(const char *label, uint32_t len)
{
	struct pair p;
	struct ibv_wc wc;

	check(!pair_open(&p, NULL), "%s: connects", label);
	fill(p.a.mem, len, 3);
	post_recv(&p.b, 1, SIDE_MEM - 64, 64);
	check(!post_send(&p.a, 2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, len,
			 (uintptr_t)p.b.mem + 100, p.b.mr->rkey), "%s: write posted", label);
	post_send(&p.a, 3, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 16, 0, 0);
	check(next_wc(&p.a, &p.b, &wc) && wc.wr_id == 2 && !wc.status &&
	      wc.opcode == IBV_WC_RDMA_WRITE, "%s: write completed", label);
	expect_wc(&p.a, &p.b, 3, IBV_WC_SUCCESS, "send after it");
	expect_wc(&p.b, &p.a, 1, IBV_WC_SUCCESS, "received after the write");
	check(!memcmp(p.a.mem, p.b.mem + 100, len), "%s: written", label);

	fill(p.b.mem, len, 4);
	check(!post_send(&p.a, 5, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 200, len,
			 (uintptr_t)p.b.mem, p.b.mr->rkey), "%s: read posted", label);
	check(next_wc(&p.a, &p.b, &wc) && wc.wr_id == 5 && !wc.status &&
	      wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == len, "%s: read completed", label);
	check(!memcmp(p.a.mem + 200, p.b.mem, len), "%s: read the bytes", label);
	pair_close(&p);
}

void test_verbs(void)
{
	sends("send 16", 16);
	sends("send 0", 0);
	sends("send 1000000", 1000000);
	responder_first();
	rdma("rdma 4096", 4096);
	rdma("rdma 1", 1);
	rdma("rdma 3000001", 3000001);
}
