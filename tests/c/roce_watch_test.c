/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of the completion queue whose epoll contains the socket of a port of the embedded RoCEv2 device. */
#include "roce_rig.h"

#include "iwarp/chan.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { SLEEPERS = 600 };	/* more than the nested epolls of one socket that the kernel allows */

struct sleeper {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static uint32_t next_psn;

static void request(struct rig *rig)
{
	const struct ro_bth bth = {
		.opcode = RO_OP_WRITE_ONLY, .ack_req = true, .qpn = rig->qp->qp.qp_num, .psn = next_psn,
	};
	uint8_t body[RO_RETH + 4] = { 0 };

	ro_put64(body, (uintptr_t)rig->mem);
	ro_put32(body + 8, rig->mr->rkey);
	ro_put32(body + 12, 4);
	rig_send(rig, rig->port, &bth, body, sizeof(body));
}

/* Have a request answered; polled: with polls of the rig's completion queue, which is never armed. */
static bool exchange(struct rig *rig, bool polled)
{
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	request(rig);
	if (polled ? !rig_next(rig) : poll(&pfd, 1, CHECK_PATIENCE_S * 1000) != 1 ||
				      recv(rig->fd, rig->got, sizeof(rig->got), 0) < RO_BTH + RO_ICRC)
		return false;
	next_psn = ro_psn_add(next_psn, 1);
	return rig->got[0] == RO_OP_ACK && rig->got[RO_BTH] == RO_CREDITS_UNLIMITED;
}

static void *arm(void *arg)
{
	struct sleeper *s = arg;

	return iw_req_notify_cq(s->cq, 0) ? NULL : s;
}

static void *look(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_cq *cq;
	void *context;

	return iw_get_cq_event(s->channel, &cq, &context) ? s : NULL;	/* there is none */
}

/*
 * Have a different thread do something with a queue, and end.  This thread would not end the watch of a queue that it has
 * looked after while the helper received.
 */
static bool elsewhere(void *(*act)(void *arg), struct sleeper *s)
{
	pthread_t thread;
	void *done = NULL;

	return !pthread_create(&thread, NULL, act, s) && !pthread_join(thread, &done) && done;
}

static bool prepare(struct rig *rig, struct sleeper *s)
{
	int rc;

	s->channel = iw_create_comp_channel(&ro_dev.ext.context);
	fcntl(s->channel->fd, F_SETFL, O_NONBLOCK);
	s->cq = iw_create_cq(&ro_dev.ext.context, 16, NULL, s->channel, 0);
	pthread_mutex_lock(&iw_cm_lock);
	rc = ro_port_attach(rig->port, iw_cq(s->cq));
	pthread_mutex_unlock(&iw_cm_lock);
	return !rc;
}

static bool sleep_on(struct rig *rig, struct sleeper *s)
{
	return prepare(rig, s) && !iw_req_notify_cq(s->cq, 0);
}

static void leave(struct rig *rig, struct sleeper *s)
{
	pthread_mutex_lock(&iw_cm_lock);
	ro_port_detach(rig->port, iw_cq(s->cq));
	pthread_mutex_unlock(&iw_cm_lock);
	iw_destroy_cq(s->cq);
	iw_destroy_comp_channel(s->channel);
}

static bool watches(struct rig *rig, const struct sleeper *s)
{
	const struct ro_attached *watcher = atomic_load(&rig->port->watcher);

	return s ? watcher && watcher->steady.cq == iw_cq(s->cq) : !watcher;
}

static bool woken(const struct sleeper *s)
{
	struct pollfd pfd = { .fd = s->channel->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* Have requests answered until this one watches; a different thread may receive some first, on a busy machine many. */
static bool comes_to_watch(struct rig *rig, const struct sleeper *s, bool polled)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;

	while (!watches(rig, s) && clock_ns() < end)
		if (!exchange(rig, polled))
			return false;
	return watches(rig, s);
}

static void turns(struct rig *rig)
{
	struct sleeper first, second;

	check_section("one watches");
	CHECK(prepare(rig, &first) && elsewhere(arm, &first) && watches(rig, &first));
	CHECK(sleep_on(rig, &second) && watches(rig, &first) && !woken(&second));
	CHECK(exchange(rig, false) && !woken(&second));
	CHECK(elsewhere(look, &first) && watches(rig, &first), "(it had no completion)");

	check_section("a thread that polls receives, and wakes no other");
	CHECK(exchange(rig, true));
	CHECK(watches(rig, &first), "(it may sleep soon)");
	CHECK(comes_to_watch(rig, NULL, true) && !woken(&first) && !woken(&second));

	check_section("one that is armed then");
	CHECK(!iw_req_notify_cq(second.cq, 0) && watches(rig, &second));

	check_section("it goes away");
	leave(rig, &second);
	CHECK(watches(rig, &first));
	CHECK(exchange(rig, false));

	check_section("one that was polled is not polled again");
	CHECK(comes_to_watch(rig, NULL, true));
	CHECK(comes_to_watch(rig, &first, false), "(the helper receives)");
	leave(rig, &first);
}

/* Have requests answered with polls of a completion queue, until the socket is in no epoll; false if it stays in one. */
static bool hushed(struct rig *rig, struct sleeper *s)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct ibv_wc wc;
	bool hushed = false;

	while (!hushed && clock_ns() < end) {
		request(rig);
		next_psn = ro_psn_add(next_psn, 1);
		while (recv(rig->fd, rig->got, sizeof(rig->got), MSG_DONTWAIT) < 0 && clock_ns() < end)
			iw_poll_cq(s->cq, 1, &wc);
		pthread_mutex_lock(&iw_cm_lock);
		hushed = !rig->port->polled && watches(rig, NULL);
		pthread_mutex_unlock(&iw_cm_lock);
	}
	return hushed;
}

static bool helped(struct rig *rig)
{
	bool helped;

	pthread_mutex_lock(&iw_cm_lock);
	helped = rig->port->polled;
	pthread_mutex_unlock(&iw_cm_lock);
	return helped;
}

static void busy(struct rig *rig)
{
	const struct ibv_wc wc = { 0 };
	struct sleeper s;

	check_section("while a thread polls and receives, nothing is woken");
	CHECK(sleep_on(rig, &s) && watches(rig, &s));
	iw_cq_push(iw_cq(s.cq), &wc, 1, false);		/* it is no longer armed */
	CHECK(hushed(rig, &s));

	check_section("it sleeps again");
	CHECK(!iw_req_notify_cq(s.cq, 0) && watches(rig, &s));

	check_section("it does not poll again, and is not armed");
	iw_cq_push(iw_cq(s.cq), &wc, 1, false);
	CHECK(hushed(rig, &s));
	for (int i = 0; i < 100 && !helped(rig); i++)
		CHECK(exchange(rig, false), "(the helper receives)");
	CHECK(helped(rig));
	leave(rig, &s);
}

/* As a target does whose host needs only its sends' queue to be polled: it is never armed here, but this thread sleeps. */
static void own(struct rig *rig)
{
	const struct ibv_wc wc = { 0 };
	struct sleeper s, other;
	struct ibv_wc got;

	check_section("a thread that has armed one polls a different one");
	CHECK(sleep_on(rig, &s) && watches(rig, &s));
	for (int i = 0; i < 100; i++)
		CHECK(exchange(rig, true) && watches(rig, &s));

	check_section("it polls the one that is armed, after the watcher is no longer armed");
	CHECK(prepare(rig, &other) && elsewhere(arm, &other) && watches(rig, &s));
	iw_cq_push(iw_cq(s.cq), &wc, 1, false);
	CHECK(!iw_poll_cq(other.cq, 1, &got) && watches(rig, &s), "(the first poll after it was armed does nothing)");
	CHECK(!iw_poll_cq(other.cq, 1, &got) && watches(rig, &other));

	check_section("it polls one that is armed, and receives with a different one, while a thread sleeps");
	leave(rig, &s);
	CHECK(sleep_on(rig, &s) && watches(rig, &other));
	iw_poll_cq(s.cq, 1, &got);
	for (int i = 0; i < 100; i++) {
		iw_poll_cq(s.cq, 1, &got);
		CHECK(exchange(rig, true) && watches(rig, &other));
	}
	leave(rig, &other);
	leave(rig, &s);
}

static void many(struct rig *rig)
{
	static struct sleeper sleepers[SLEEPERS];
	struct rlimit files;
	int asleep = 0, awake = 0;

	check_section("hundreds sleep");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;	/* each has three */
	setrlimit(RLIMIT_NOFILE, &files);
	while (asleep < SLEEPERS && CHECK(sleep_on(rig, &sleepers[asleep])))
		asleep++;
	for (int i = 0; i < 10; i++)
		CHECK(exchange(rig, true));
	for (int i = 0; i < asleep; i++)
		awake += woken(&sleepers[i]);
	CHECK(!awake);
	while (asleep)
		leave(rig, &sleepers[--asleep]);
	CHECK(watches(rig, NULL) && exchange(rig, false));
}

/*
 * A thread that polls receives datagrams that come one by one as they come.  One that may not visit the port again takes
 * all of them, and need not come back if it was a single one.
 */
static void one_by_one(struct rig *rig)
{
	const uint32_t psn = next_psn;
	struct iw_visit v;

	check_section("datagrams one by one");
	pthread_mutex_lock(&iw_cm_lock);	/* the helper does not receive */
	for (int i = 0; i < 4; i++, next_psn = ro_psn_add(next_psn, 1))
		request(rig);
	rig->port->in.sparse = RO_SPARSE;
	v = ro_port_visit(rig->port, true);
	CHECK(v.more && rig->qp->rsp.epsn == ro_psn_add(psn, 1), "(one of four)");
	v = ro_port_visit(rig->port, false);
	CHECK(!v.more && rig->qp->rsp.epsn == next_psn, "(the others)");
	rig->port->in.sparse = RO_SPARSE;
	request(rig);
	next_psn = ro_psn_add(next_psn, 1);
	v = ro_port_visit(rig->port, false);
	CHECK(!v.more && rig->qp->rsp.epsn == next_psn, "(the only one)");
	pthread_mutex_unlock(&iw_cm_lock);
	while (rig_next(rig) && ro_get24(rig->got + 9) != ro_psn_add(next_psn, RO_MASK24))
		;
	CHECK(ro_get24(rig->got + 9) == ro_psn_add(next_psn, RO_MASK24), "(all are acknowledged)");
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	next_psn = RIG_PSN;
	if (rig_open(&rig)) {
		one_by_one(&rig);
		turns(&rig);
		busy(&rig);
		own(&rig);
		many(&rig);
	}
	rig_close(&rig);
	return check_report();
}
