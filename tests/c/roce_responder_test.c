/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of the embedded RoCEv2 device with requests of an arbitrary peer, around PSN 0. */
#include "roce_rig.h"

static uint32_t aeth(const struct rig *rig)
{
	return rig->got[RO_BTH];
}

static void send_request(struct rig *rig, uint8_t opcode, uint32_t psn, uint32_t rkey, uint32_t off, uint32_t len,
			 uint32_t payload)
{
	const struct ro_bth bth = { .opcode = opcode, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = psn };
	uint8_t body[RO_RETH + 4 * RIG_MTU] = { 0 };

	ro_put64(body, (uintptr_t)rig->mem + off);
	ro_put32(body + 8, rkey);
	ro_put32(body + 12, len);
	memset(body + RO_RETH, 0xaa, payload);
	rig_send(rig, rig->port, &bth, body, RO_RETH + payload);
}

static void wraps(struct rig *rig)
{
	check_section("PSNs wrap");
	send_request(rig, RO_OP_WRITE_ONLY, RIG_PSN, rig->mr->rkey, 0, 4, 4);
	CHECK(rig_answered(rig, RO_OP_ACK, RIG_PSN) && aeth(rig) == RO_CREDITS_UNLIMITED);
	send_request(rig, RO_OP_READ_REQ, RO_MASK24, rig->mr->rkey, 0, RIG_MTU + 1, 0);
	CHECK(rig_answered(rig, RO_OP_READ_FIRST, RO_MASK24));
	CHECK(rig->got[RO_BTH + RO_AETH] == 0xaa && !rig->got[RO_BTH + RO_AETH + 4]);
	CHECK(rig_answered(rig, RO_OP_READ_LAST, 0) && rig->got[1] == 3 << RO_BTH_PAD_SHIFT);
	send_request(rig, RO_OP_READ_REQ, 1, 0, 0, 0, 0);
	CHECK(rig_answered(rig, RO_OP_READ_ONLY, 1));
	CHECK(ro_get24(rig->got + RO_BTH + 1) == 3, "(the MSN)");
}

static void repeated(struct rig *rig)
{
	check_section("a request that was taken before, and one after a gap");
	send_request(rig, RO_OP_WRITE_ONLY, RIG_PSN, rig->mr->rkey, 64, 4, 4);
	CHECK(rig_answered(rig, RO_OP_ACK, 1) && !rig->mem[64]);
	send_request(rig, RO_OP_READ_REQ, RO_MASK24, rig->mr->rkey, 0, RIG_MTU, 0);
	CHECK(rig_answered(rig, RO_OP_READ_ONLY, RO_MASK24));
	send_request(rig, RO_OP_WRITE_ONLY, 3, rig->mr->rkey, 64, 4, 4);
	CHECK(rig_answered(rig, RO_OP_ACK, 2) && aeth(rig) == RO_NAK_SEQUENCE && !rig->mem[64]);
}

/*
 * A READ came twice, and its memory was deregistered when the first answer had arrived: the second answer ends early,
 * without another effect.
 */
static void late(struct rig *rig)
{
	struct ibv_mr *mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM, IBV_ACCESS_REMOTE_READ);
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };
	const uint32_t packets = 80;	/* more than are answered at once */

	check_section("a repeated READ whose memory goes");
	send_request(rig, RO_OP_READ_REQ, 2, mr->rkey, 0, packets * RIG_MTU, 0);
	for (uint32_t i = 0; i < packets; i++)
		CHECK(rig_next(rig) && ro_get24(rig->got + 9) == 2 + i);
	send_request(rig, RO_OP_READ_REQ, 2, mr->rkey, 0, packets * RIG_MTU, 0);
	while (poll(&pfd, 1, 0) != 1)
		iw_cq_progress(iw_cq(rig->cq), false);
	iw_dereg_mr(mr);
	send_request(rig, RO_OP_WRITE_ONLY, 2 + packets, rig->mr->rkey, 64, 4, 4);
	while (rig_next(rig) && rig->got[0] != RO_OP_ACK)
		;
	CHECK(aeth(rig) == RO_CREDITS_UNLIMITED && ro_get24(rig->got + 9) == 2 + packets, "(it continues)");
}

/* Responses without a request, and acknowledgements of packets that were not sent. */
static void unasked(struct rig *rig)
{
	struct ro_bth bth = { .qpn = rig->qp->qp.qp_num };
	const uint8_t body[RO_AETH + RIG_MTU] = { RO_NAK_REMOTE_ACCESS };

	check_section("answers without questions");
	for (bth.opcode = RO_OP_READ_FIRST; bth.opcode <= RO_OP_ATOMIC_ACK; bth.opcode++) {
		for (int ahead = -2; ahead < 3; ahead++) {
			bth.psn = ro_psn_add(RIG_PSN, (uint32_t)ahead);
			rig_send(rig, rig->port, &bth, body, sizeof(body));
			rig_send(rig, rig->port, &bth, body, RO_AETH);
		}
	}
	send_request(rig, RO_OP_WRITE_ONLY, RIG_PSN, rig->mr->rkey, 0, 4, 4);
	CHECK(rig_answered(rig, RO_OP_ACK, 1));
}

static void refused(struct rig *rig, const char *what, uint8_t nak, uint32_t psn)
{
	CHECK(rig_answered(rig, RO_OP_ACK, psn) && aeth(rig) == nak, "(%s)", what);
	CHECK(rig_state(rig) == IBV_QPS_ERR, "(%s)", what);
	for (uint32_t i = 128; i < RIG_MEM; i++)
		if (rig->mem[i]) {
			CHECK(false, "(%s wrote at %u)", what, i);
			break;
		}
}

/* Each ends the connection, so each has its own. */
static void beyond(struct rig *rig)
{
	static const struct {
		const char *what;
		uint8_t opcode, nak;
		uint32_t off, len, payload;
		bool other_key;
	} cases[] = {
		{ "beyond the region", RO_OP_WRITE_ONLY, RO_NAK_REMOTE_ACCESS, RIG_MEM - 4, 8, 8, false },
		{ "before the region", RO_OP_WRITE_ONLY, RO_NAK_REMOTE_ACCESS, -4u, 8, 8, false },
		{ "an unknown key", RO_OP_WRITE_ONLY, RO_NAK_REMOTE_ACCESS, 128, 8, 8, true },
		{ "more than announced", RO_OP_WRITE_ONLY, RO_NAK_INVALID_REQUEST, 128, 4, 8, false },
		{ "less than announced", RO_OP_WRITE_ONLY, RO_NAK_INVALID_REQUEST, 128, 12, 8, false },
		{ "more than the MTU", RO_OP_WRITE_ONLY, RO_NAK_INVALID_REQUEST, 128, 512, 512, false },
		{ "a short first packet", RO_OP_WRITE_FIRST, RO_NAK_INVALID_REQUEST, 128, 512, 128, false },
		{ "a middle packet alone", RO_OP_WRITE_MIDDLE, RO_NAK_INVALID_REQUEST, 128, 512, 240, false },
		{ "a READ beyond the region", RO_OP_READ_REQ, RO_NAK_REMOTE_ACCESS, RIG_MEM - 4, 8, 0, false },
		{ "a READ of 4 GiB", RO_OP_READ_REQ, RO_NAK_REMOTE_ACCESS, 0, UINT32_MAX, 0, false },
		{ "more than the receive", RO_OP_SEND_ONLY, RO_NAK_INVALID_REQUEST, 0, 0, 0, false },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = 8, .lkey = 0 };
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

		check_section(cases[i].what);
		if (!rig_open(rig))
			return;
		sge.lkey = rig->mr->lkey;
		ro_post_recv(&rig->qp->qp, &wr, &bad);
		send_request(rig, cases[i].opcode, RIG_PSN, rig->mr->rkey ^ (cases[i].other_key ? 256 : 0),
			     cases[i].off, cases[i].len, cases[i].payload);
		refused(rig, cases[i].what, cases[i].nak, RIG_PSN);
		rig_close(rig);
	}
}

/* Memory that is deregistered while it is read: the answer names the first missing packet. */
static void gone(struct rig *rig)
{
	struct ibv_mr *mr;

	check_section("memory goes while it is read");
	if (!rig_open(rig))
		return;
	mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM, IBV_ACCESS_REMOTE_READ);
	iw_lock(&rig->qp->lock);
	rig->qp->rsp.reads[0] = (struct ro_read){
		.va = (uintptr_t)rig->mem, .rkey = mr->rkey, .len = 8 * RIG_MTU, .psn = RIG_PSN, .sent = 3,
	};
	rig->qp->rsp.reads_head = 1;
	rig->qp->rsp.epsn = ro_psn_add(RIG_PSN, 8);
	iw_unlock(&rig->qp->lock);
	iw_dereg_mr(mr);
	send_request(rig, RO_OP_WRITE_ONLY, ro_psn_add(RIG_PSN, 8), rig->mr->rkey, 0, 4, 4);
	refused(rig, "gone", RO_NAK_REMOTE_ACCESS, ro_psn_add(RIG_PSN, 3));
	rig_close(rig);
}

static void post_receive(struct rig *rig, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem + 1024, .length = 64, .lkey = rig->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ro_post_recv(&rig->qp->qp, &wr, &bad));
}

/* The completion of a receive. */
static struct ibv_wc received(struct rig *rig)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	CHECK(iw_poll_cq(rig->cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* A message without a receive is refused for now, and none of its data is kept; the peer sends it again. */
static void immediate(struct rig *rig)
{
	const uint8_t data[RO_IMM + 4] = { 1, 2, 3, 4, 0xbb, 0xbb, 0xbb, 0xbb }, imm[RO_IMM] = { 1, 2, 3, 4 };
	const uint8_t rnr = RO_AETH_RNR;
	struct ro_bth bth = { .opcode = RO_OP_SEND_ONLY_IMM, .ack_req = true, .solicited = true, .psn = RIG_PSN };
	uint8_t write[RO_RETH + RO_IMM + 4] = { 0 };
	struct ibv_wc wc;

	check_section("immediate data, and a receiver that is not ready");
	if (!rig_open(rig))
		return;
	bth.qpn = rig->qp->qp.qp_num;
	rig_send(rig, rig->port, &bth, data, sizeof(data));
	CHECK(rig_answered(rig, RO_OP_ACK, RIG_PSN) && (aeth(rig) & RO_AETH_KIND) == rnr && !rig->mem[1024]);
	bth.psn = RO_MASK24;	/* later packets are neither accepted nor reported as a second gap */
	rig_send(rig, rig->port, &bth, data, sizeof(data));
	post_receive(rig, 1);
	bth.psn = RIG_PSN;
	rig_send(rig, rig->port, &bth, data, sizeof(data));
	CHECK(rig_answered(rig, RO_OP_ACK, RIG_PSN) && aeth(rig) == RO_CREDITS_UNLIMITED);
	wc = received(rig);
	CHECK(wc.wr_id == 1 && wc.opcode == IBV_WC_RECV && wc.byte_len == 4 && wc.wc_flags == IBV_WC_WITH_IMM);
	CHECK(!memcmp(&wc.imm_data, imm, RO_IMM) && rig->mem[1024] == 0xbb && !rig->mem[1028]);

	bth.opcode = RO_OP_WRITE_ONLY_IMM;
	bth.psn = RO_MASK24;
	ro_put64(write, (uintptr_t)rig->mem + 2048);
	ro_put32(write + 8, rig->mr->rkey);
	ro_put32(write + 12, 4);
	memcpy(write + RO_RETH, data, sizeof(data));
	rig_send(rig, rig->port, &bth, write, sizeof(write));
	CHECK(rig_answered(rig, RO_OP_ACK, RO_MASK24) && (aeth(rig) & RO_AETH_KIND) == rnr && !rig->mem[2048]);
	post_receive(rig, 2);
	rig_send(rig, rig->port, &bth, write, sizeof(write));
	CHECK(rig_answered(rig, RO_OP_ACK, RO_MASK24) && aeth(rig) == RO_CREDITS_UNLIMITED);
	wc = received(rig);
	CHECK(wc.wr_id == 2 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == 4);
	CHECK(wc.wc_flags == IBV_WC_WITH_IMM && !memcmp(&wc.imm_data, imm, RO_IMM) && rig->mem[2048] == 0xbb);
	rig_close(rig);
}

/* More concurrent READs than this end agreed to answer. */
static void too_many_reads(struct rig *rig)
{
	check_section("one READ more than was agreed on");
	if (!rig_open(rig))
		return;
	iw_lock(&rig->qp->lock);
	rig->qp->ird = 0;
	iw_unlock(&rig->qp->lock);
	send_request(rig, RO_OP_READ_REQ, RIG_PSN, rig->mr->rkey, 0, 4, 0);
	refused(rig, "IRD", RO_NAK_INVALID_REQUEST, RIG_PSN);
	CHECK(strstr(ro_qp_reason(rig->qp), "more READs open than agreed"));
	rig_close(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	if (rig_open(&rig)) {
		wraps(&rig);
		unasked(&rig);
		repeated(&rig);
		late(&rig);
	}
	rig_close(&rig);
	beyond(&rig);
	gone(&rig);
	immediate(&rig);
	too_many_reads(&rig);
	return check_report();
}
