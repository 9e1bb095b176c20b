/* SPDX-License-Identifier: BSD-3-Clause */
/* READs of the embedded RoCEv2 device whose data has no room in the socket, and queue pairs that wait for it in line. */
#include "roce_rig.h"

#include <sys/wait.h>

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

static void post_long(struct rig *rig, struct ro_qp *qp, uint32_t packets)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rig->mem, .length = packets * RIG_MTU, .lkey = rig->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;

	CHECK(!ro_post_send(&qp->qp, &wr, &bad));
}

static void post(struct rig *rig, struct ro_qp *qp)
{
	post_long(rig, qp, 1);
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

static void respond_part(struct rig *rig, const struct ro_qp *qp, uint32_t n, uint8_t opcode)
{
	const struct ro_bth bth = { .opcode = opcode, .qpn = qp->qp.qp_num, .psn = ro_psn_add(RIG_PSN, n) };
	const uint32_t aeth = opcode == RO_OP_READ_MIDDLE ? 0 : RO_AETH;
	uint8_t body[RO_AETH + RIG_MTU] = { 0 };

	if (aeth)
		body[0] = RO_AETH_ACK | RO_CREDITS_UNLIMITED;
	rig_send(rig, rig->port, &bth, body, aeth + RIG_MTU);
}

static void respond(struct rig *rig, const struct ro_qp *qp, uint32_t n)
{
	respond_part(rig, qp, n, RO_OP_READ_ONLY);
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
	for (const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	     ro_outstanding(rig->qp) && clock_ns() < end;)
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

/* A queue pair that always has a further READ goes to the end of the line when it has its data. */
static void in_turns(struct rig *rig)
{
	check_section("queue pairs take turns");
	if (!open_both(rig))
		return;
	for (int i = 0; i < 3; i++) {
		post(rig, rig->qp);
		post(rig, other);
	}
	for (uint32_t i = 0; i < 3; i++) {
		CHECK(requested(rig, RIG_QPN, i), "(READ %u)", i);
		CHECK(silent(rig));
		respond(rig, rig->qp, i);
		CHECK(requested(rig, OTHER_QPN, i), "(READ %u of the other)", i);
		CHECK(silent(rig));
		respond(rig, other, i);
	}
	for (const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull; ro_outstanding(other) && clock_ns() < end;)
		iw_cq_progress(iw_cq(rig->cq), false);
	CHECK(!atomic_load(&rig->port->asked) && !atomic_load(&rig->port->lined));
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
	CHECK(!other->req.retries);
	CHECK(atomic_load(&rig->port->asked) == RIG_MTU, "(%u bytes)", atomic_load(&rig->port->asked));
	close_both(rig);
}

/* A peer that sends a packet now and then keeps its room for one timeout as well. */
static void slow(struct rig *rig)
{
	enum { PACKETS = 60 };
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };
	uint32_t sent = 0;

	check_section("a peer that is slow on purpose");
	if (!open_both(rig))
		return;
	post_long(rig, rig->qp, PACKETS);
	CHECK(requested(rig, RIG_QPN, 0));
	post(rig, other);
	CHECK(atomic_load(&rig->port->lined));
	while (sent < PACKETS - 1) {
		respond_part(rig, rig->qp, sent, sent ? RO_OP_READ_MIDDLE : RO_OP_READ_FIRST);
		sent++;
		iw_cq_progress(iw_cq(rig->cq), false);
		tick(rig->qp);
		tick(other);
		if (poll(&pfd, 1, 5) == 1)
			break;
	}
	CHECK(requested(rig, OTHER_QPN, 0));
	CHECK(sent < PACKETS - 1, "(%u packets were sent before)", sent);
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
	iw_lock(&rig->qp->lock);
	ro_qp_fail(rig->qp, "the test is over");
	iw_unlock(&rig->qp->lock);
	CHECK(requested(rig, OTHER_QPN, 0), "(the other has its room)");
	close_both(rig);
}

/* The child of a fork ends the work of a queue pair that expects data: nothing of the port is touched. */
static void forked(struct rig *rig)
{
	int status = -1;
	pid_t pid;

	check_section("a fork while data is expected");
	if (!open_both(rig))
		return;
	post(rig, rig->qp);
	CHECK(requested(rig, RIG_QPN, 0));
	post(rig, other);
	pid = fork();
	if (!pid) {
		post(rig, rig->qp);
		post(rig, other);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "(the child's status: %d)", status);
	close_both(rig);
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	one_queue_pair(&rig);
	line_first(&rig);
	in_turns(&rig);
	gone(&rig);
	slow(&rig);
	ended(&rig);
	forked(&rig);
	return check_report();
}
