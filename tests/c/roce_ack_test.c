/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delayed acknowledgements: they are sent at the next visit of the port, when work is posted, when the queue is armed,
 * at the end of the connection, and after a tick if none of these happens, or if the peer did not ask for them.
 */
#include "roce_rig.h"

enum { TRIES = 1000 };

static uint32_t psn = RIG_PSN;
static bool asks = true;		/* the peer, for acknowledgements */

static void ticked(struct iw_caller *caller)
{
	ro_tick_start(container_of(caller, struct ro_qp, caller));
}

/* Let one visit take a request of the peer, whose acknowledgement is delayed; false if it was late. */
static bool take_one(struct rig *rig)
{
	const struct ro_bth bth = {
		.opcode = RO_OP_WRITE_ONLY, .ack_req = asks, .qpn = rig->qp->qp.qp_num, .psn = psn,
	};
	uint8_t body[RO_RETH + 4] = { 0 };
	bool waits = false, taken = false;

	ro_put64(body, (uintptr_t)rig->mem);
	ro_put32(body + 8, rig->mr->rkey);
	ro_put32(body + 12, 4);
	psn = ro_psn_add(psn, 1);
	rig_send(rig, rig->port, &bth, body, sizeof(body));
	while (!taken) {
		iw_cq_progress(iw_cq(rig->cq), false);
		iw_lock(&rig->qp->lock);
		taken = rig->qp->rsp.epsn == psn;
		waits = rig->qp->rsp.ack_due && rig->qp->rsp.ack_held;
		iw_unlock(&rig->qp->lock);
	}
	return waits;
}

static uint32_t last(void)
{
	return (psn - 1) & RO_MASK24;
}

/* On a busy machine a tick may come first; then the attempt shows nothing. */
static void goes_along(struct rig *rig)
{
	struct ibv_sge sge = { (uintptr_t)rig->mem, 64, rig->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	bool behind = false;

	check_section("behind what is posted");
	for (int i = 0; i < TRIES && !behind; i++) {
		struct ro_bth ack = { .opcode = RO_OP_ACK, .qpn = rig->qp->qp.qp_num, .psn = ro_psn_add(RIG_PSN, (uint32_t)i) };
		const uint8_t syndrome[RO_AETH] = { RO_AETH_ACK | RO_CREDITS_UNLIMITED };
		const bool waited = take_one(rig);
		struct ibv_wc wc;
		bool due;

		if (ro_post_send(&rig->qp->qp, &wr, &bad)) {
			CHECK(false, "(posted)");
			return;
		}
		iw_lock(&rig->qp->lock);
		due = rig->qp->rsp.ack_due;
		iw_unlock(&rig->qp->lock);
		rig_next(rig);
		behind = waited && !due && rig->got[0] == RO_OP_SEND_ONLY && rig_answered(rig, RO_OP_ACK, last());
		if (!behind)
			rig_next(rig);
		rig_send(rig, rig->port, &ack, syndrome, sizeof(syndrome));
		while (ro_outstanding(rig->qp))
			iw_cq_progress(iw_cq(rig->cq), false);
		while (iw_poll_cq(rig->cq, 1, &wc))
			;
	}
	CHECK(behind);
}

static void next_visit(struct rig *rig)
{
	check_section("the next visit");
	(void)take_one(rig);
	CHECK(rig_answered(rig, RO_OP_ACK, last()));
}

static void armed(struct rig *rig)
{
	bool due;

	check_section("the queue is armed");
	(void)take_one(rig);
	iw_cq_nap(iw_cq(rig->cq));
	iw_lock(&rig->qp->lock);
	due = rig->qp->rsp.ack_due;
	iw_unlock(&rig->qp->lock);
	CHECK(!due);
	CHECK(rig_answered(rig, RO_OP_ACK, last()));
}

/* No thread of this process visits the port. */
static bool came(struct rig *rig)
{
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	return poll(&pfd, 1, CHECK_PATIENCE_S * 1000) == 1 && recv(rig->fd, rig->got, sizeof(rig->got), 0) > 0 &&
	       rig->got[0] == RO_OP_ACK && ro_get24(rig->got + 9) == last();
}

static void nothing(struct rig *rig)
{
	check_section("nothing follows");
	(void)take_one(rig);
	CHECK(came(rig));
}

/* The peer did not ask for an acknowledgement: it has one after a tick, and none before. */
static void not_asked(struct rig *rig)
{
	check_section("not asked for");
	while (atomic_load(&rig->qp->ticks))	/* the queue pair is idle, and the helper does not look at it */
		usleep(1000);
	asks = false;
	CHECK(!take_one(rig), "(not due)");
	asks = true;
	CHECK(came(rig));
}

/* The peer did not ask for the last acknowledgement either. */
static void ended(struct rig *rig)
{
	check_section("the end");
	asks = false;
	(void)take_one(rig);
	iw_lock(&rig->qp->lock);
	ro_qp_fail(rig->qp, "the test says so");
	iw_unlock(&rig->qp->lock);
	CHECK(came(rig));
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	if (rig_open(&rig)) {
		rig.qp->caller.answer = ticked;
		goes_along(&rig);
		next_visit(&rig);
		armed(&rig);
		nothing(&rig);
		not_asked(&rig);
		ended(&rig);
	}
	rig_close(&rig);
	return check_report();
}
