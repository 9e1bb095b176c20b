/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of the embedded RoCEv2 device when packets are missing: it keeps what comes after, and asks again. */
#include "roce_rig.h"

enum { UNIT = 64 };

/* A Write of 4 bytes whose place and content tell its number, the number of packets after the first. */
static void send_write(struct rig *rig, uint32_t number)
{
	const struct ro_bth bth = {
		.opcode = RO_OP_WRITE_ONLY, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = ro_psn_add(RIG_PSN, number),
	};
	uint8_t body[RO_RETH + 4] = { 0 };

	ro_put64(body, (uintptr_t)rig->mem + (uintptr_t)number * UNIT);
	ro_put32(body + 8, rig->mr->rkey);
	ro_put32(body + 12, 4);
	memset(body + RO_RETH, (int)number + 1, 4);
	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

static bool written(const struct rig *rig, uint32_t number)
{
	return rig->mem[number * UNIT] == number + 1;
}

/* Whether the next packet says that all before the one with this number arrived, and this one did not. */
static bool asked_for(struct rig *rig, uint32_t number)
{
	return rig_answered(rig, RO_OP_ACK, ro_psn_add(RIG_PSN, number)) && rig->got[RO_BTH] == RO_NAK_SEQUENCE;
}

static bool acknowledged(struct rig *rig, uint32_t number)
{
	return rig_answered(rig, RO_OP_ACK, ro_psn_add(RIG_PSN, number)) && rig->got[RO_BTH] == RO_CREDITS_UNLIMITED;
}

/* Whether this packet is the last that came after the missing one; with the lock, so that the helper is done with it. */
static bool is_ahead(struct rig *rig, uint32_t number)
{
	bool ahead;

	iw_lock(&rig->qp->lock);
	ahead = rig->qp->rsp.ahead_psn == ro_psn_add(RIG_PSN, number);
	iw_unlock(&rig->qp->lock);
	return ahead;
}

static void until_ahead(struct rig *rig, uint32_t number)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;

	while (!is_ahead(rig, number) && clock_ns() < end)
		iw_cq_progress(iw_cq(rig->cq), false);
}

static void kept(struct rig *rig)
{
	check_section("what comes after a missing packet");
	if (!rig_open(rig))
		return;
	send_write(rig, 1);
	CHECK(asked_for(rig, 0));
	send_write(rig, 2);
	send_write(rig, 4);
	until_ahead(rig, 4);
	CHECK(!written(rig, 1) && !written(rig, 2) && !written(rig, 4));
	send_write(rig, 0);
	CHECK(acknowledged(rig, 2) && written(rig, 0) && written(rig, 1) && written(rig, 2) && !written(rig, 4));
	send_write(rig, 3);
	CHECK(acknowledged(rig, 4) && written(rig, 3) && written(rig, 4));
	CHECK(!ro_ahead_waits(rig->qp) && !rig->qp->rsp.gap);
	rig_close(rig);
}

static void lost_again(struct rig *rig)
{
	check_section("a packet that is lost again");
	if (!rig_open(rig))
		return;
	send_write(rig, 1);
	CHECK(asked_for(rig, 0));
	send_write(rig, 2);
	until_ahead(rig, 2);
	send_write(rig, 1);	/* the peer has sent again from the first one on */
	CHECK(asked_for(rig, 0));
	send_write(rig, 0);
	CHECK(acknowledged(rig, 2));
	rig_close(rig);
}

/* The request for the missing packet was lost, or all that was sent again. */
static void silence(struct rig *rig)
{
	check_section("nothing follows");
	if (!rig_open(rig))
		return;
	send_write(rig, 1);
	CHECK(asked_for(rig, 0));
	for (int i = 0; i < 2; i++) {
		iw_lock(&rig->qp->lock);
		ro_ask_again(rig->qp);
		ro_ask_again(rig->qp);
		iw_unlock(&rig->qp->lock);
		CHECK(asked_for(rig, 0));
	}
	rig_close(rig);
}

static void beyond(struct rig *rig)
{
	check_section("what is not kept");
	if (!rig_open(rig))
		return;
	send_write(rig, RO_WINDOW_MAX);
	CHECK(asked_for(rig, 0) && !ro_ahead_waits(rig->qp));
	send_write(rig, RO_WINDOW_MAX - 1);
	until_ahead(rig, RO_WINDOW_MAX - 1);
	CHECK(ro_ahead_waits(rig->qp));
	rig_close(rig);
}

/* A peer that numbers its packets wrongly: what it said before is forgotten, not taken 2^24 packets later. */
static void overtaken(struct rig *rig)
{
	struct ro_bth bth = { .opcode = RO_OP_READ_REQ, .ack_req = true, .psn = RIG_PSN };
	uint8_t body[RO_RETH] = { 0 };

	check_section("a kept packet in the place of a response");
	if (!rig_open(rig))
		return;
	bth.qpn = rig->qp->qp.qp_num;
	send_write(rig, 1);
	CHECK(asked_for(rig, 0));
	ro_put64(body, (uintptr_t)rig->mem);
	ro_put32(body + 8, rig->mr->rkey);
	ro_put32(body + 12, 2 * RIG_MTU);
	rig_send(rig, rig->port, &bth, body, sizeof(body));
	CHECK(rig_answered(rig, RO_OP_READ_FIRST, RIG_PSN) && rig_answered(rig, RO_OP_READ_LAST, ro_psn_add(RIG_PSN, 1)));
	CHECK(!ro_ahead_waits(rig->qp) && !written(rig, 1));
	rig_close(rig);
}

/* A kept message for which there is no receive is refused for now, and sent again by the peer. */
static void not_ready(struct rig *rig)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem + 4096, .length = 64, .lkey = 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ro_bth bth = { .opcode = RO_OP_SEND_ONLY, .ack_req = true, .psn = ro_psn_add(RIG_PSN, 1) };
	const uint8_t data[4] = { 7, 7, 7, 7 };
	struct ibv_wc wc;

	check_section("a kept message without a receive");
	if (!rig_open(rig))
		return;
	bth.qpn = rig->qp->qp.qp_num;
	sge.lkey = rig->mr->lkey;
	rig_send(rig, rig->port, &bth, data, sizeof(data));
	CHECK(asked_for(rig, 0));
	send_write(rig, 0);
	CHECK(rig_answered(rig, RO_OP_ACK, bth.psn) && (rig->got[RO_BTH] & RO_AETH_KIND) == RO_AETH_RNR);
	CHECK(!ro_post_recv(&rig->qp->qp, &wr, &bad));
	rig_send(rig, rig->port, &bth, data, sizeof(data));
	CHECK(acknowledged(rig, 1) && iw_poll_cq(rig->cq, 1, &wc) == 1 && wc.byte_len == 4 && rig->mem[4096] == 7);
	rig_close(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	kept(&rig);
	lost_again(&rig);
	silence(&rig);
	beyond(&rig);
	overtaken(&rig);
	not_ready(&rig);
	return check_report();
}
