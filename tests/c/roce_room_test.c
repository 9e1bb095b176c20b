/* SPDX-License-Identifier: BSD-3-Clause */
/* READs of the embedded RoCEv2 device whose data has no room in the socket, and queue pairs that wait for it in line. */
#include "roce_rig.h"

enum { OTHER_QPN = RIG_QPN + 1 };

static struct ro_qp *other;

static void answer(struct iw_caller *caller)
{
	(void)caller;
}

/* A rig with a second queue pair, on the same port, which has room for the data of one READ. */
static bool open_both(struct rig *rig)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ro_path path = {
		.dqpn = OTHER_QPN, .mtu = RIG_MTU, .psn = RIG_PSN, .epsn = RIG_PSN, .ird = 4, .ord = 4, .retry_limit = 7,
		.rnr_limit = 7,
	};
	int rc;

	if (!rig_open(rig))
		return false;
	attr.send_cq = attr.recv_cq = rig->cq;
	path.port = rig->port;
	path.peer = rig->peer;
	pthread_mutex_lock(&iw_cm_lock);
	other = ro_qp_create(rig->pd, &attr);
	other->caller.answer = answer;
	rc = ro_qp_start(other, &path);
	pthread_mutex_unlock(&iw_cm_lock);
	rig->port->room = RIG_MTU;
	return CHECK(!rc, "(the second queue pair was started)");
}

static void close_both(struct rig *rig)
{
	pthread_mutex_lock(&iw_cm_lock);
	iw_lock(&other->lock);
	ro_qp_fail(other, "the test is over");
	iw_unlock(&other->lock);
	ro_qp_reap(other);
	CHECK(!atomic_load(&rig->port->lined) && !rig->port->line.head, "(nobody is in line)");
	ro_qp_free(other);
	pthread_mutex_unlock(&iw_cm_lock);
	iw_lock(&rig->qp->lock);
	ro_qp_fail(rig->qp, "the test is over");
	iw_unlock(&rig->qp->lock);
	CHECK(!atomic_load(&rig->port->asked), "(%u bytes are still expected)", atomic_load(&rig->port->asked));
	rig_close(rig);
}

static void post(struct rig *rig, struct ro_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = RIG_MTU, .lkey = rig->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;

	CHECK(!ro_post_send(&qp->qp, &wr, &bad));
}

/* Whether the next packet that the peer receives is the nth READ of a queue pair. */
static bool requested(struct rig *rig, uint32_t qpn, uint32_t n)
{
	return rig_answered(rig, RO_OP_READ_REQ, ro_psn_add(RIG_PSN, n)) && ro_get24(rig->got + 5) == qpn;
}

/* Whether nothing was sent that the peer has not received yet; packets on loopback arrive at once. */
static bool silent(struct rig *rig)
{
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 0;
}

static void respond(struct rig *rig, const struct ro_qp *qp, uint32_t n)
{
	const struct ro_bth bth = {
		.opcode = RO_OP_READ_ONLY, .qpn = qp->qp.qp_num, .psn = ro_psn_add(RIG_PSN, n),
	};
	uint8_t body[RO_AETH + RIG_MTU] = { RO_AETH_ACK | RO_CREDITS_UNLIMITED };

	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

static void one_queue_pair(struct rig *rig)
{
	check_section("a queue pair requests what has room");
	if (!open_both(rig))
		return;
	for (int i = 0; i < 3; i++)
		post(rig, rig->qp);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK(requested(rig, RIG_QPN, i), "(READ %u)", i);
		CHECK(silent(rig), "(READ %u alone)", i);
		CHECK(atomic_load(&rig->port->asked) == RIG_MTU);
		respond(rig, rig->qp, i);
	}
	while (ro_outstanding(rig->qp))
		iw_cq_progress(iw_cq(rig->cq), false);
	CHECK(!atomic_load(&rig->port->asked), "(%u bytes are still expected)", atomic_load(&rig->port->asked));
	close_both(rig);
}

/* With room for a second READ again, the queue pair in line has it, not the one that waits for data. */
static void line_first(struct rig *rig)
{
	check_section("the line comes first");
	if (!open_both(rig))
		return;
	rig->port->room = 2 * RIG_MTU;
	for (int i = 0; i < 4; i++)
		post(rig, rig->qp);
	CHECK(requested(rig, RIG_QPN, 0));
	CHECK(requested(rig, RIG_QPN, 1));
	post(rig, other);
	CHECK(silent(rig), "(there is no room)");
	respond(rig, rig->qp, 0);
	CHECK(requested(rig, OTHER_QPN, 0), "(the other's turn)");
	CHECK(silent(rig));
	respond(rig, rig->qp, 1);
	CHECK(requested(rig, RIG_QPN, 2), "(its own turn)");
	close_both(rig);
}

/* A tick of the timer, as the helper delivers it to the connections of the connection manager. */
static void tick(struct ro_qp *qp)
{
	pthread_mutex_lock(&iw_cm_lock);
	if (atomic_load(&qp->ticks))
		ro_tick_start(qp);
	ro_tick(clock_ns());
	pthread_mutex_unlock(&iw_cm_lock);
}

/* A peer that does not answer keeps its room for one timeout, and what it is asked again is not counted. */
static void gone(struct rig *rig)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };
	bool turn = false;

	check_section("a peer that has gone");
	if (!open_both(rig))
		return;
	post(rig, rig->qp);
	CHECK(requested(rig, RIG_QPN, 0));
	post(rig, other);
	CHECK(atomic_load(&rig->port->lined));
	while (!turn && clock_ns() < end) {
		tick(rig->qp);
		tick(other);
		if (poll(&pfd, 1, 1) == 1)
			turn = requested(rig, OTHER_QPN, 0);
	}
	CHECK(turn);
	CHECK(rig->qp->req.retries > 0 && !other->req.retries);
	CHECK(atomic_load(&rig->port->asked) == RIG_MTU, "(%u bytes)", atomic_load(&rig->port->asked));
	close_both(rig);
}

/* A connection that ends gives its room back, and leaves the line. */
static void ended(struct rig *rig)
{
	check_section("a connection that ends");
	if (!open_both(rig))
		return;
	post(rig, rig->qp);
	CHECK(requested(rig, RIG_QPN, 0));
	post(rig, other);
	CHECK(atomic_load(&rig->port->lined));
	close_both(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	one_queue_pair(&rig);
	line_first(&rig);
	gone(&rig);
	ended(&rig);
	return check_report();
}
