/* SPDX-License-Identifier: BSD-3-Clause */
/* FLUSH and ATOMIC WRITE of the embedded RoCEv2 device: as responder and as requester, with answers that are lost. */
#include "roce_rig.h"

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | VERBS_ACCESS_FLUSH_GLOBAL |
	      VERBS_ACCESS_FLUSH_PERSISTENT,
	LARGE = 8 << 20,	/* more than is written back at once */
};
#define ADDRESS 0x1122334455667788ull

static void send_flush_icrc(struct rig *rig, uint32_t psn, uint32_t feth, uint32_t rkey, uint64_t va, uint32_t len,
			    rig_icrc *icrc)
{
	const struct ro_bth bth = { .opcode = RO_OP_FLUSH, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = psn };
	uint8_t body[RO_FETH + RO_RETH];

	ro_put32(body, feth);
	ro_put64(body + 4, va);
	ro_put32(body + 12, rkey);
	ro_put32(body + 16, len);
	rig_send_icrc(rig, rig->port, &bth, body, sizeof(body), icrc);
}

static void send_flush(struct rig *rig, uint32_t psn, uint32_t feth, uint32_t rkey, uint64_t va, uint32_t len)
{
	send_flush_icrc(rig, psn, feth, rkey, va, len, ro_icrc);
}

/* said: the length in the RETH; sent: that of the payload. */
static void send_atomic_write(struct rig *rig, uint32_t psn, uint32_t rkey, uint64_t va, uint32_t said, uint32_t sent)
{
	const struct ro_bth bth = {
		.opcode = RO_OP_ATOMIC_WRITE, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = psn,
	};
	uint8_t body[RO_RETH + 16] = { 0 };

	ro_put64(body, va);
	ro_put32(body + 8, rkey);
	ro_put32(body + 12, said);
	memset(body + RO_RETH, 0xa5, 16);
	rig_send(rig, rig->port, &bth, body, RO_RETH + sent);
}

/* Whether the next packet is a READ response of no bytes. */
static bool responded(struct rig *rig, uint32_t psn)
{
	return rig_next(rig) == RO_BTH + RO_AETH + RO_ICRC && rig->got[0] == RO_OP_READ_ONLY &&
	       ro_get24(rig->got + 9) == psn && rig->got[RO_BTH] == RO_CREDITS_UNLIMITED;
}

static bool nak(struct rig *rig, uint32_t psn, uint8_t syndrome)
{
	return rig_answered(rig, RO_OP_ACK, psn) && rig->got[RO_BTH] == syndrome;
}

static void responder(struct rig *rig)
{
	const uint64_t va = (uintptr_t)rig->mem;
	struct ibv_mr *mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM, ALL);

	check_section("the responder");
	send_flush(rig, RIG_PSN, RO_PLT_GLOBAL, mr->rkey, va, RIG_MEM);
	CHECK(responded(rig, RIG_PSN));
	send_flush(rig, RO_MASK24, RO_PLT_GLOBAL | RO_PLT_PERSISTENT, mr->rkey, va + 1, 100);
	CHECK(responded(rig, RO_MASK24));
	send_flush(rig, 0, RO_PLT_PERSISTENT | RO_SEL_MR << RO_FETH_SEL_SHIFT, mr->rkey, 0, 0);
	CHECK(responded(rig, 0), "(a whole region has no address)");
	send_flush(rig, 1, RO_PLT_PERSISTENT, 0, 0, 0);
	CHECK(responded(rig, 1), "(no bytes need no key)");
	CHECK(ro_get24(rig->got + RO_BTH + 1) == 4, "(the MSN)");

	send_atomic_write(rig, 2, mr->rkey, va + 8, 8, 8);
	CHECK(responded(rig, 2) && rig->mem[7] == 0 && rig->mem[8] == 0xa5 && rig->mem[15] == 0xa5 && !rig->mem[16]);
	memset(rig->mem, 0, 16);
	send_atomic_write(rig, 2, mr->rkey, va + 8, 8, 8);
	CHECK(responded(rig, 2) && !rig->mem[8], "(a repeated one is answered, and not done again)");
	send_flush(rig, RIG_PSN, RO_PLT_GLOBAL, 0xdead, 0, 1);
	CHECK(responded(rig, RIG_PSN), "(and so is a FLUSH)");
	CHECK(ro_reads_served(&rig->qp->qp) == 7);
	iw_dereg_mr(mr);
}

/* New requests come while responses are repeated, which do not count as open. */
static void repeated(struct rig *rig)
{
	struct ibv_mr *mr;

	check_section("new requests behind repeated ones");
	if (!rig_open(rig))
		return;
	mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM, ALL);
	for (uint32_t i = 0; i < 4; i++)	/* as many as are allowed */
		send_flush(rig, (RIG_PSN + i) & RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, 8);
	for (uint32_t i = 0; i < 4; i++)
		CHECK(responded(rig, (RIG_PSN + i) & RO_MASK24));
	for (uint32_t i = 0; i < 4; i++)
		send_flush(rig, (RIG_PSN + i) & RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, 8);
	send_atomic_write(rig, (RIG_PSN + 4) & RO_MASK24, mr->rkey, (uintptr_t)rig->mem, 8, 8);
	send_flush(rig, (RIG_PSN + 5) & RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, 8);
	for (uint32_t i = 0; i < 6; i++)
		CHECK(responded(rig, (RIG_PSN + i) & RO_MASK24), "(%u)", i);

	/* more than there is room for: some are given up */
	for (uint32_t i = 1; i <= RO_MAX_RD; i++)
		send_flush(rig, (RIG_PSN - i) & RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, 8);
	send_flush(rig, (RIG_PSN + 6) & RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, 8);
	while (CHECK(rig_next(rig) && rig->got[0] == RO_OP_READ_ONLY) &&
	       ro_get24(rig->got + 9) != ((RIG_PSN + 6) & RO_MASK24))
		;
	for (uint32_t i = 7; i < 12; i++)	/* one too many */
		send_flush(rig, (RIG_PSN + i) & RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, 8);
	while (CHECK(rig_next(rig)) && rig->got[0] == RO_OP_READ_ONLY)
		;
	CHECK(rig->got[RO_BTH] == RO_NAK_INVALID_REQUEST);
	iw_dereg_mr(mr);
	rig_close(rig);
}

/* Requests after a FLUSH wait for it, without a time limit. */
static void long_flush(struct rig *rig)
{
	uint8_t *memory = aligned_alloc(64, LARGE);
	struct ibv_mr *mr;
	bool done = false;

	check_section("a long FLUSH");
	if (!rig_open(rig))
		return;
	memset(memory, 0, LARGE);
	mr = iw_reg_mr(rig->pd, memory, LARGE, ALL);
	send_flush(rig, RIG_PSN, RO_PLT_PERSISTENT, mr->rkey, (uintptr_t)memory, LARGE);
	send_atomic_write(rig, RO_MASK24, mr->rkey, (uintptr_t)memory, 8, 8);
	CHECK(responded(rig, RIG_PSN));
	while (!done && CHECK(rig_next(rig))) {
		done = rig->got[0] == RO_OP_READ_ONLY;
		if (done)
			break;
		CHECK(rig->got[0] == RO_OP_ACK && (rig->got[RO_BTH] & RO_AETH_KIND) == RO_AETH_RNR);
		CHECK(ro_get24(rig->got + 9) == RO_MASK24);
		send_atomic_write(rig, RO_MASK24, mr->rkey, (uintptr_t)memory, 8, 8);
	}
	CHECK(memory[0] == 0xa5);

	/* the memory is deregistered meanwhile */
	send_flush(rig, 0, RO_PLT_PERSISTENT, mr->rkey, (uintptr_t)memory, LARGE);
	iw_dereg_mr(mr);
	free(memory);
	CHECK(rig_next(rig) && (rig->got[0] == RO_OP_READ_ONLY || rig->got[RO_BTH] == RO_NAK_REMOTE_ACCESS));
	rig_close(rig);
}

/* Each ends the connection, so each has its own. */
static void flush_refused(struct rig *rig, const char *what, uint32_t feth, int access, uint64_t off, uint32_t len,
			  uint8_t syndrome)
{
	struct ibv_mr *mr;

	check_section(what);
	if (!rig_open(rig))
		return;
	mr = iw_reg_mr(rig->pd, rig->mem, 64, access);
	send_flush(rig, RIG_PSN, feth, mr->rkey, (uintptr_t)rig->mem + off, len);
	CHECK(nak(rig, RIG_PSN, syndrome) && rig_state(rig) == IBV_QPS_ERR);
	iw_dereg_mr(mr);
	rig_close(rig);
}

static void write_refused(struct rig *rig, const char *what, uint64_t off, uint32_t said, uint32_t sent, int access,
			  uint8_t syndrome)
{
	struct ibv_mr *mr;

	check_section(what);
	if (!rig_open(rig))
		return;
	mr = iw_reg_mr(rig->pd, rig->mem, 64, access);
	send_atomic_write(rig, RIG_PSN, mr->rkey, (uintptr_t)rig->mem + off, said, sent);
	CHECK(nak(rig, RIG_PSN, syndrome) && rig_state(rig) == IBV_QPS_ERR);
	for (uint32_t i = 0; i < 128; i++)
		CHECK(!rig->mem[i]);
	iw_dereg_mr(mr);
	rig_close(rig);
}

static void refusals(struct rig *rig)
{
	const int global = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | VERBS_ACCESS_FLUSH_GLOBAL;
	const uint32_t both = RO_PLT_GLOBAL | RO_PLT_PERSISTENT, mr = RO_SEL_MR << RO_FETH_SEL_SHIFT;

	flush_refused(rig, "FLUSH of no type", 0, ALL, 0, 8, RO_NAK_INVALID_REQUEST);
	flush_refused(rig, "FLUSH of an unknown type", 4, ALL, 0, 8, RO_NAK_INVALID_REQUEST);
	flush_refused(rig, "FLUSH of an unknown level", 1 | 2 << RO_FETH_SEL_SHIFT, ALL, 0, 8, RO_NAK_INVALID_REQUEST);
	flush_refused(rig, "persistence of memory that has none", both, global, 0, 8, RO_NAK_REMOTE_ACCESS);
	flush_refused(rig, "the same of the whole region", both | mr, global, 0, 0, RO_NAK_REMOTE_ACCESS);
	flush_refused(rig, "FLUSH beyond the region", both, ALL, 60, 8, RO_NAK_REMOTE_ACCESS);
	flush_refused(rig, "FLUSH around the end of all addresses", both, ALL, -(uint64_t)(uintptr_t)rig->mem - 4, 8,
		      RO_NAK_REMOTE_ACCESS);
	write_refused(rig, "ATOMIC WRITE of 4 bytes", 0, 4, 4, ALL, RO_NAK_INVALID_REQUEST);
	write_refused(rig, "ATOMIC WRITE of 16 bytes", 0, 16, 16, ALL, RO_NAK_INVALID_REQUEST);
	write_refused(rig, "ATOMIC WRITE that lies about its length", 0, 16, 8, ALL, RO_NAK_INVALID_REQUEST);
	write_refused(rig, "ATOMIC WRITE at an odd address", 4, 8, 8, ALL, RO_NAK_INVALID_REQUEST);
	write_refused(rig, "ATOMIC WRITE beyond the region", 64, 8, 8, ALL, RO_NAK_REMOTE_ACCESS);
	write_refused(rig, "ATOMIC WRITE without the right", 0, 8, 8, VERBS_ACCESS_FLUSH_GLOBAL, RO_NAK_REMOTE_ACCESS);
}

static int post_flush(struct rig *rig, uint32_t type, uint32_t level)
{
	struct ibv_send_wr wr = { .wr_id = 5, .send_flags = IBV_SEND_SIGNALED }, *bad;

	verbs_set_flush(&wr, ADDRESS, 9, 4096, type, level);
	return ro_post_send(&rig->qp->qp, &wr, &bad);
}

static int post_atomic_write(struct rig *rig, uint64_t address, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = length, .lkey = rig->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 6, .sg_list = &sge, .num_sge = 1, .opcode = (enum ibv_wr_opcode)VERBS_WR_ATOMIC_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .wr.rdma = { address, 9 },
	}, *bad;

	return ro_post_send(&rig->qp->qp, &wr, &bad);
}

static bool asked_flush(struct rig *rig, uint32_t psn)
{
	const uint8_t *ext = rig->got + RO_BTH;

	return rig_answered(rig, RO_OP_FLUSH, psn) && ro_get32(ext) == (RO_PLT_PERSISTENT | 1 << RO_FETH_SEL_SHIFT) &&
	       ro_get64(ext + 4) == ADDRESS && ro_get32(ext + 12) == 9 && ro_get32(ext + 16) == 4096;
}

static bool asked_write(struct rig *rig, uint32_t psn)
{
	const uint8_t *ext = rig->got + RO_BTH;

	return rig_answered(rig, RO_OP_ATOMIC_WRITE, psn) && ro_get64(ext) == ADDRESS && ro_get32(ext + 8) == 9 &&
	       ro_get32(ext + 12) == 8 && ext[RO_RETH] == 0x5a;
}

static void respond(struct rig *rig, uint8_t opcode, uint32_t psn, uint32_t len)
{
	const struct ro_bth bth = { .opcode = opcode, .qpn = rig->qp->qp.qp_num, .psn = psn };
	const uint8_t body[RO_AETH + 8] = { RO_CREDITS_UNLIMITED };

	rig_send(rig, rig->port, &bth, body, RO_AETH + len);
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
	memset(rig->mem, 0x5a, 16);
	CHECK(post_flush(rig, 0, 0) == EINVAL && post_flush(rig, 4, 0) == EINVAL && post_flush(rig, 1, 2) == EINVAL);
	CHECK(post_atomic_write(rig, ADDRESS, 4) == EINVAL && post_atomic_write(rig, ADDRESS + 1, 8) == EINVAL);
	CHECK(!post_flush(rig, VERBS_FLUSH_PERSISTENT, VERBS_FLUSH_MR) && asked_flush(rig, RIG_PSN));
	CHECK(!post_atomic_write(rig, ADDRESS, 8) && asked_write(rig, RO_MASK24));
	memset(rig->mem, 0, 16);	/* it was inline */
	respond(rig, RO_OP_ACK, RO_MASK24, 0);	/* not what completes them: both are sent again */
	CHECK(asked_flush(rig, RIG_PSN) && asked_write(rig, RO_MASK24));
	respond(rig, RO_OP_READ_ONLY, RIG_PSN, 0);
	wc = completed(rig);
	CHECK(wc.wr_id == 5 && wc.status == IBV_WC_SUCCESS && (int)wc.opcode == VERBS_WC_FLUSH);
	respond(rig, RO_OP_READ_ONLY, RO_MASK24, 0);
	wc = completed(rig);
	CHECK(wc.wr_id == 6 && wc.status == IBV_WC_SUCCESS && (int)wc.opcode == VERBS_WC_ATOMIC_WRITE);

	CHECK(!post_flush(rig, VERBS_FLUSH_GLOBAL, VERBS_FLUSH_RANGE) && rig_answered(rig, RO_OP_FLUSH, 0));
	respond(rig, RO_OP_READ_ONLY, 0, 8);
	wc = completed(rig);
	CHECK(wc.status == IBV_WC_BAD_RESP_ERR, "(no data was asked for)");
	rig_close(rig);
}

/*
 * Whether the next FLUSH with this PSN that the peer receives has this ICRC; repetitions of earlier ones are skipped.
 */
static bool flushed_with(struct rig *rig, uint32_t psn, rig_icrc *icrc)
{
	struct ro_flow flow;
	uint32_t len, there;

	do {
		len = rig_next(rig);
		if (len != RO_BTH + RO_FETH + RO_RETH + RO_ICRC || rig->got[0] != RO_OP_FLUSH)
			return false;
	} while (ro_get24(rig->got + 9) != psn);
	ro_flow_set(&flow, &rig->port->addr.sa, &rig->peer.sa);
	memcpy(&there, rig->got + len - RO_ICRC, RO_ICRC);
	return there == icrc(&flow, 0, rig->got, len - RO_ICRC);
}

/* The peer misses the packet with this PSN. */
static void missed(struct rig *rig, uint32_t psn)
{
	const struct ro_bth bth = { .opcode = RO_OP_ACK, .qpn = rig->qp->qp.qp_num, .psn = psn };
	const uint8_t aeth[RO_AETH] = { RO_NAK_SEQUENCE };

	rig_send(rig, rig->port, &bth, aeth, sizeof(aeth));
}

static void answered(struct rig *rig, uint32_t psn)
{
	respond(rig, RO_OP_READ_ONLY, psn, 0);
	CHECK(completed(rig).status == IBV_WC_SUCCESS);
}

static void post_persist(struct rig *rig)
{
	CHECK(!post_flush(rig, VERBS_FLUSH_PERSISTENT, VERBS_FLUSH_MR));
}

/* Linux's rxe accepts a FLUSH only with its own form of ICRC, and sends only that. */
static void rxe_icrc(struct rig *rig)
{
	struct ibv_mr *mr;

	check_section("the ICRC of rxe, as requester");
	if (!rig_open(rig))
		return;
	for (uint32_t psn = RIG_PSN; psn != 0; psn = ro_psn_add(psn, 1)) {
		post_persist(rig);
		CHECK(flushed_with(rig, psn, ro_icrc), "(the right one first)");
		missed(rig, psn);
		CHECK(flushed_with(rig, psn, ro_icrc_rxe_flush), "(the other one when it is repeated)");
		if (psn == RIG_PSN)
			rig->qp->flush = RO_FLUSH_RIGHT;	/* as if it had been repeated again */
		answered(rig, psn);
		CHECK(!rig->qp->flush_known, "(either may have been answered)");
	}
	for (uint32_t psn = 0; psn < 2; psn++) {
		post_persist(rig);
		CHECK(flushed_with(rig, psn, ro_icrc_rxe_flush));
		answered(rig, psn);
		CHECK(rig->qp->flush_known);
	}
	post_persist(rig);
	CHECK(flushed_with(rig, 2, ro_icrc_rxe_flush));
	missed(rig, 2);
	CHECK(flushed_with(rig, 2, ro_icrc_rxe_flush), "(once it is known, that one alone)");
	rig_close(rig);

	check_section("the ICRC of rxe, as responder");
	if (!rig_open(rig))
		return;
	mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM, ALL);
	send_flush_icrc(rig, RIG_PSN, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, RIG_MEM, ro_icrc_rxe_flush);
	CHECK(responded(rig, RIG_PSN));
	send_flush(rig, RO_MASK24, RO_PLT_GLOBAL, mr->rkey, (uintptr_t)rig->mem, RIG_MEM);
	CHECK(responded(rig, RO_MASK24));
	iw_dereg_mr(mr);
	rig_close(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	if (rig_open(&rig))
		responder(&rig);
	rig_close(&rig);
	repeated(&rig);
	long_flush(&rig);
	refusals(&rig);
	requester(&rig);
	rxe_icrc(&rig);
	return check_report();
}
