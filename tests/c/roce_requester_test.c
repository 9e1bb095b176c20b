/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester of the embedded RoCEv2 device with the responses of an arbitrary peer. */
#include "roce_rig.h"

#include <netinet/udp.h>

static void post_with(struct rig *rig, enum ibv_wr_opcode opcode, unsigned int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = 8, .lkey = rig->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags, .imm_data = 0x04030201,
	}, *bad;

	CHECK(!ro_post_send(&rig->qp->qp, &wr, &bad));
}

static void post(struct rig *rig, enum ibv_wr_opcode opcode)
{
	post_with(rig, opcode, IBV_SEND_SIGNALED);
}

static void answer(struct rig *rig, uint8_t syndrome, uint32_t psn)
{
	const struct ro_bth bth = { .opcode = RO_OP_ACK, .qpn = rig->qp->qp.qp_num, .psn = psn };
	const uint8_t body[RO_AETH] = { syndrome };

	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

static struct ibv_wc completed(struct rig *rig)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct ibv_wc wc = { 0 };

	while (!iw_poll_cq(rig->cq, 1, &wc) && clock_ns() < end)
		;
	CHECK(wc.wr_id == 7);
	return wc;
}

/* A tick of the timer, as the helper delivers it to the connections of the connection manager. */
static void tick(struct rig *rig)
{
	pthread_mutex_lock(&iw_cm_lock);
	atomic_store(&rig->qp->ticks, true);
	ro_tick_start(rig->qp);
	ro_tick(clock_ns());
	pthread_mutex_unlock(&iw_cm_lock);
}

/*
 * Whether the peer, which was not ready, gets the request again.  The helper's ticks may come before those of this
 * thread, so that it need not see the queue pair wait.
 */
static bool repeated(struct rig *rig, uint8_t opcode)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	while (poll(&pfd, 1, 1) != 1 && clock_ns() < end) {
		iw_cq_progress(iw_cq(rig->cq), false);
		tick(rig);
	}
	return rig_answered(rig, opcode, RIG_PSN);
}

/* The peer has no receive: the request comes again after the time that it named. */
static void not_ready(struct rig *rig)
{
	check_section("a peer that is not ready");
	if (!rig_open(rig))
		return;
	post(rig, IBV_WR_SEND_WITH_IMM);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY_IMM, RIG_PSN));
	CHECK(ro_get32(rig->got + RO_BTH) == 0x01020304, "(immediate data as it was given)");
	for (int i = 0; i < 9; i++) {	/* more often than 7, which is without a limit */
		answer(rig, RO_AETH_RNR | 1, RIG_PSN);
		CHECK(repeated(rig, RO_OP_SEND_ONLY_IMM), "(repetition %d)", i);
	}
	answer(rig, RO_AETH_ACK, RIG_PSN);
	CHECK(completed(rig).status == IBV_WC_SUCCESS);
	rig_close(rig);
}

static void never_ready(struct rig *rig)
{
	check_section("a peer that is never ready");
	if (!rig_open(rig))
		return;
	rig->qp->rnr_limit = 1;
	post(rig, IBV_WR_SEND);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, RIG_PSN));
	answer(rig, RO_AETH_RNR | 1, RIG_PSN);
	CHECK(repeated(rig, RO_OP_SEND_ONLY));
	answer(rig, RO_AETH_RNR | 1, RIG_PSN);
	CHECK(completed(rig).status == IBV_WC_RNR_RETRY_EXC_ERR);
	rig_close(rig);
}

/* The peer stops answering: requests are repeated up to the limit, and then the connection ends. */
static void silent(struct rig *rig)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct pollfd pfd = { .events = POLLIN };
	struct ibv_wc wc[4];
	int done = 0, sent = 0;

	check_section("a peer that stops answering");
	if (!rig_open(rig))
		return;
	rig->qp->retry_limit = 0;	/* and three, with which a lost packet does not end a connection at once */
	pfd.fd = rig->fd;
	post(rig, IBV_WR_SEND);
	post(rig, IBV_WR_RDMA_READ);
	while (done < 2 && clock_ns() < end) {
		if (poll(&pfd, 1, 1) == 1)
			sent += rig_answered(rig, RO_OP_SEND_ONLY, RIG_PSN);
		tick(rig);
		done += iw_poll_cq(rig->cq, 4 - done, wc + done);
	}
	if (!CHECK(done == 2, "(%d completions)", done))
		return;
	while (poll(&pfd, 1, 0) == 1)
		sent += rig_answered(rig, RO_OP_SEND_ONLY, RIG_PSN);
	CHECK(sent == 4, "(sent %d times)", sent);
	CHECK(wc[0].status == IBV_WC_RETRY_EXC_ERR && wc[1].status == IBV_WC_WR_FLUSH_ERR, "(%d, %d)",
	      (int)wc[0].status, (int)wc[1].status);
	CHECK(strstr(ro_qp_reason(rig->qp), "the peer acknowledged nothing, and retries are exceeded"), "(%s)",
	      ro_qp_reason(rig->qp));
	rig_close(rig);
}

/* Whether the packet that the peer received last asks for an acknowledgement. */
static bool asked(const struct rig *rig)
{
	return rig->got[8] & RO_BTH_ACK_REQ;
}

/* Whether nothing arrives at the peer. */
static bool nothing_comes(struct rig *rig)
{
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	return !poll(&pfd, 1, 0);
}

/* Let an acknowledgement of everything before psn arrive. */
static void acknowledge(struct rig *rig, uint32_t psn)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;

	answer(rig, RO_AETH_ACK, ro_psn_add(psn, RO_MASK24));
	while (rig->qp->req.una != psn && clock_ns() < end)
		iw_cq_progress(iw_cq(rig->cq), false);
	CHECK(rig->qp->req.una == psn);
}

/*
 * Messages whose completion is not requested: a peer of this device is asked to acknowledge some only.  If one is lost,
 * or was no such peer, it is always asked from then on.
 */
static void not_waited_for(struct rig *rig)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	uint32_t psn = RIG_PSN;

	check_section("messages that nobody waits for");
	if (!rig_open(rig))
		return;
	post_with(rig, IBV_WR_SEND, 0);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, psn) && asked(rig), "(a different device)");
	rig->qp->acks_unasked = true;
	for (psn = ro_psn_add(psn, 1); psn != 2; psn = ro_psn_add(psn, 1)) {
		post_with(rig, IBV_WR_SEND, 0);
		CHECK(rig_answered(rig, RO_OP_SEND_ONLY, psn));
		CHECK(asked(rig) == !psn, "(PSN %u)", psn);
	}
	post(rig, IBV_WR_SEND);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, 2) && asked(rig), "(its completion is requested)");
	acknowledge(rig, 3);
	CHECK(completed(rig).status == IBV_WC_SUCCESS, "(only of the last one)");
	post_with(rig, IBV_WR_SEND, 0);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, 3) && !asked(rig));
	while (nothing_comes(rig) && clock_ns() < end)
		tick(rig);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, 3) && asked(rig), "(again)");
	acknowledge(rig, 4);
	post_with(rig, IBV_WR_SEND, 0);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, 4) && asked(rig), "(from now on)");
	rig_close(rig);
}

/* A local operation whose completion is requested, behind a message that the peer was not asked to acknowledge. */
static void local_behind(struct rig *rig)
{
	struct ibv_mw *mw;
	struct ibv_send_wr bind = { .wr_id = 7, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;

	check_section("a local operation behind such a message");
	if (!rig_open(rig))
		return;
	iw_dereg_mr(rig->mr);
	rig->mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = iw_alloc_mw(rig->pd, IBV_MW_TYPE_2);
	rig->qp->acks_unasked = true;
	post_with(rig, IBV_WR_SEND, 0);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, RIG_PSN) && !asked(rig));
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = rig->mr, .addr = (uintptr_t)rig->mem, .length = 64, .mw_access_flags = IBV_ACCESS_LOCAL_WRITE,
	};
	CHECK(!ro_post_send(&rig->qp->qp, &bind, &bad));
	post_with(rig, IBV_WR_SEND, 0);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, ro_psn_add(RIG_PSN, 1)) && asked(rig), "(the next one like it need not wait)");
	acknowledge(rig, ro_psn_add(RIG_PSN, 2));
	CHECK(completed(rig).status == IBV_WC_SUCCESS);
	iw_dealloc_mw(mw);
	rig_close(rig);
}

/* Packets that are lost here and there are sent again, with as much on the way as before; many of them mean congestion. */
static void losses(struct rig *rig)
{
	uint32_t psn = RIG_PSN, window = RO_WINDOW_FIRST;

	check_section("losses");
	if (!rig_open(rig))
		return;
	for (int i = 0; i < 3; i++, psn = ro_psn_add(psn, 1)) {
		post(rig, IBV_WR_SEND);
		CHECK(rig_answered(rig, RO_OP_SEND_ONLY, psn));
		answer(rig, RO_NAK_SEQUENCE, psn);
		CHECK(rig_answered(rig, RO_OP_SEND_ONLY, psn), "(loss %d)", i);
		window = i == 2 ? RO_WINDOW_FIRST / 2 : RO_WINDOW_FIRST;
		CHECK(rig->qp->req.window == window, "(window of %u at loss %d)", rig->qp->req.window, i);
		answer(rig, RO_AETH_ACK, psn);
		CHECK(completed(rig).status == IBV_WC_SUCCESS);
	}
	rig_close(rig);
}

/* A packet that was sent again is lost, too, and the peer says so. */
static void lost_twice(struct rig *rig)
{
	uint64_t later;

	check_section("a packet that is lost again");
	if (!rig_open(rig))
		return;
	post(rig, IBV_WR_SEND);
	CHECK(rig_answered(rig, RO_OP_SEND_ONLY, RIG_PSN));
	for (int i = 0; i < 3; i++) {
		later = clock_ns() + 1000000;	/* than a copy of the last one comes */
		while (clock_ns() < later)
			;
		answer(rig, RO_NAK_SEQUENCE, RIG_PSN);
		CHECK(rig_answered(rig, RO_OP_SEND_ONLY, RIG_PSN), "(loss %d)", i);
	}
	answer(rig, RO_AETH_ACK, RIG_PSN);
	CHECK(completed(rig).status == IBV_WC_SUCCESS);
	rig_close(rig);
}

/* A READ that could never be sent does not wait forever. */
static void no_reads(struct rig *rig)
{
	check_section("a READ to a peer that answers none");
	if (!rig_open(rig))
		return;
	rig->qp->ord = 0;
	post(rig, IBV_WR_RDMA_READ);
	CHECK(completed(rig).status == IBV_WC_LOC_QP_OP_ERR);
	CHECK(strstr(ro_qp_reason(rig->qp), "a READ was posted"), "(%s)", ro_qp_reason(rig->qp));
	rig_close(rig);
}

/* Receive a train, whose packets GRO leaves joined; its length, or 0. */
static uint32_t train(struct rig *rig)
{
	static uint8_t buf[RO_DATAGRAM];
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	return poll(&pfd, 1, CHECK_PATIENCE_S * 1000) == 1 ? (uint32_t)recv(rig->fd, buf, sizeof(buf), 0) : 0;
}

/*
 * The data of a command and its response need no more system calls than the data alone.  The first packet of a WRITE is
 * longer than the others, which ends its train.
 */
static void trains(struct rig *rig)
{
	const uint32_t middle = RO_BTH + RIG_MTU + RO_ICRC, first = middle + RO_RETH, response = RO_BTH + 8 + RO_ICRC;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr[2] = {
		{ .sg_list = &sge[0], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .next = &wr[1] },
		{ .sg_list = &sge[1], .num_sge = 1, .opcode = IBV_WR_SEND },
	}, *bad;
	int one = 1;

	check_section("the response goes along with the data");
	if (!rig_open(rig))
		return;
	sge[0] = (struct ibv_sge){ (uintptr_t)rig->mem, (2 + RO_TRAIN) * RIG_MTU, rig->mr->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)rig->mem, 8, rig->mr->lkey };
	setsockopt(rig->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	CHECK(!ro_post_send(&rig->qp->qp, wr, &bad));
	CHECK(train(rig) == first + middle);
	CHECK(train(rig) == RO_TRAIN * middle + response);
	rig_close(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	not_ready(&rig);
	never_ready(&rig);
	silent(&rig);
	not_waited_for(&rig);
	local_behind(&rig);
	losses(&rig);
	lost_twice(&rig);
	no_reads(&rig);
	trains(&rig);
	return check_report();
}
