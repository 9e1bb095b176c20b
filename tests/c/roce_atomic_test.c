/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations of the embedded RoCEv2 device: as responder and as requester, with answers that are lost. */
#include "roce_rig.h"

static uint64_t value(const struct rig *rig, uint32_t off)
{
	uint64_t v;

	memcpy(&v, rig->mem + off, sizeof(v));
	return v;
}

static void set_value(struct rig *rig, uint32_t off, uint64_t v)
{
	memcpy(rig->mem + off, &v, sizeof(v));
}

static void send_atomic(struct rig *rig, uint8_t opcode, uint32_t psn, uint32_t rkey, uint32_t off, uint64_t swap,
			uint64_t compare)
{
	const struct ro_bth bth = { .opcode = opcode, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = psn };
	uint8_t body[RO_ATOMIC_ETH];

	ro_put64(body, (uintptr_t)rig->mem + off);
	ro_put32(body + 8, rkey);
	ro_put64(body + 12, swap);
	ro_put64(body + 20, compare);
	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

/* Whether the answer is the original value. */
static bool was(struct rig *rig, uint32_t psn, uint64_t expected)
{
	return rig_answered(rig, RO_OP_ATOMIC_ACK, psn) && rig->got[RO_BTH] == RO_CREDITS_UNLIMITED &&
	       ro_get64(rig->got + RO_BTH + RO_AETH) == expected;
}

static void responder(struct rig *rig)
{
	const uint32_t key = rig->mr->rkey;

	check_section("the responder");
	set_value(rig, 8, 40);
	send_atomic(rig, RO_OP_FETCH_ADD, RIG_PSN, key, 8, 2, 0);
	CHECK(was(rig, RIG_PSN, 40) && value(rig, 8) == 42);
	CHECK(ro_get24(rig->got + RO_BTH + 1) == 1, "(the MSN)");
	send_atomic(rig, RO_OP_CMP_SWAP, RO_MASK24, key, 8, 7, 41);
	CHECK(was(rig, RO_MASK24, 42) && value(rig, 8) == 42, "(another value is not replaced)");
	send_atomic(rig, RO_OP_CMP_SWAP, 0, key, 8, 7, 42);
	CHECK(was(rig, 0, 42) && value(rig, 8) == 7);

	send_atomic(rig, RO_OP_FETCH_ADD, RIG_PSN, key, 8, 2, 0);
	CHECK(was(rig, RIG_PSN, 40) && value(rig, 8) == 7, "(a repeated one is answered, and not done again)");
	for (uint32_t i = 1; i <= RO_MAX_RD; i++) {
		send_atomic(rig, RO_OP_FETCH_ADD, i, key, 16, 1, 0);
		CHECK(was(rig, i, i - 1));
	}
	send_atomic(rig, RO_OP_FETCH_ADD, RIG_PSN, key, 8, 2, 0);	/* too long ago: no answer */
	send_atomic(rig, RO_OP_FETCH_ADD, RO_MAX_RD, key, 16, 1, 0);
	CHECK(was(rig, RO_MAX_RD, RO_MAX_RD - 1) && value(rig, 16) == RO_MAX_RD && value(rig, 8) == 7);
}

/* Each ends the connection, so each has its own. */
static void refused(struct rig *rig, const char *what, uint32_t off, int access, uint8_t nak)
{
	struct ibv_mr *mr;

	check_section(what);
	if (!rig_open(rig))
		return;
	mr = iw_reg_mr(rig->pd, rig->mem, 64, access);
	send_atomic(rig, RO_OP_FETCH_ADD, RIG_PSN, mr->rkey, off, 1, 0);
	CHECK(rig_answered(rig, RO_OP_ACK, RIG_PSN) && rig->got[RO_BTH] == nak);
	CHECK(rig_state(rig) == IBV_QPS_ERR && !value(rig, 56) && !value(rig, 64));
	iw_dereg_mr(mr);
	rig_close(rig);
}

static int post(struct rig *rig, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = length, .lkey = rig->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = 0x1122334455667788, .compare_add = 5, .swap = 6, .rkey = 9 },
	}, *bad;

	return ro_post_send(&rig->qp->qp, &wr, &bad);
}

static void answer(struct rig *rig, uint32_t psn, uint64_t v)
{
	const struct ro_bth bth = { .opcode = RO_OP_ATOMIC_ACK, .qpn = rig->qp->qp.qp_num, .psn = psn };
	uint8_t body[RO_AETH + RO_ATOMIC_ACK_ETH] = { RO_CREDITS_UNLIMITED };

	ro_put64(body + RO_AETH, v);
	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

static bool asked(struct rig *rig, uint8_t opcode, uint32_t psn, uint64_t swap, uint64_t compare)
{
	const uint8_t *ext = rig->got + RO_BTH;

	return rig_answered(rig, opcode, psn) && ro_get64(ext) == 0x1122334455667788 && ro_get32(ext + 8) == 9 &&
	       ro_get64(ext + 12) == swap && ro_get64(ext + 20) == compare;
}

static struct ibv_wc completed(struct rig *rig)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	while (!iw_poll_cq(rig->cq, 1, &wc) && clock_ns() < end)
		;
	return wc;
}

static void requester(struct rig *rig)
{
	struct ibv_wc wc;

	check_section("the requester");
	if (!rig_open(rig))
		return;
	CHECK(post(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 4) == EINVAL, "(the result has 8 bytes)");
	CHECK(!post(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 8) && asked(rig, RO_OP_FETCH_ADD, RIG_PSN, 5, 0));
	CHECK(!post(rig, IBV_WR_ATOMIC_CMP_AND_SWP, 8) && asked(rig, RO_OP_CMP_SWAP, RO_MASK24, 6, 5));
	answer(rig, RO_MASK24, 99);	/* the answer to the first was lost: both are sent again */
	CHECK(asked(rig, RO_OP_FETCH_ADD, RIG_PSN, 5, 0) && asked(rig, RO_OP_CMP_SWAP, RO_MASK24, 6, 5));
	CHECK(!value(rig, 0));
	answer(rig, RIG_PSN, 42);
	wc = completed(rig);
	CHECK(wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_FETCH_ADD && wc.byte_len == 8);
	CHECK(value(rig, 0) == 42);
	answer(rig, RO_MASK24, 43);
	wc = completed(rig);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_COMP_SWAP && value(rig, 0) == 43);
	rig_close(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	if (rig_open(&rig))
		responder(&rig);
	rig_close(&rig);
	refused(&rig, "an address that is not a multiple of 8", 4, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		RO_NAK_INVALID_REQUEST);
	refused(&rig, "beyond the region", 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		RO_NAK_REMOTE_ACCESS);
	refused(&rig, "without the right", 56, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, RO_NAK_REMOTE_ACCESS);
	requester(&rig);
	return check_report();
}
