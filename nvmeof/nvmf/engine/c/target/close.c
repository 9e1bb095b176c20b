/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a connection, on the reactor's thread.
 *
 * A dead queue pair posts no further work.  Requests in its lines are dropped at once; outstanding work requests and
 * store operations are awaited; then there is one upcall CLOSED, after which the reactor uses neither the queue pair
 * nor the CM id.  The control thread may return its requests later.  After it has released the queue pair, there is
 * the upcall RELEASED, and the queue pair is freed.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINGER_NS 100000000ull	/* time for the last responses to be sent before a disconnect */

static void qpair_ended_deliver(struct reactor *reactor, struct mail *mail);

/* On the thread that ends connections, because it may take long. */
void qpair_end_job(struct job *job)
{
	struct target_qpair *qp = container_of(job, struct target_qpair, end_job);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	/*
	 * A queue pair in the error state completes its outstanding work.  If work has failed, set that state before
	 * closing the connection: if siw closes first, it never completes the work after a failed Send.  Otherwise
	 * close the connection in an orderly way, as far as that is possible.
	 */
	if (qp->broken)
		qp->verbs->modify_qp(qp->ibqp, &attr, IBV_QP_STATE);
	qp->verbs->disconnect(qp->id);
	if (!qp->broken)
		qp->verbs->modify_qp(qp->ibqp, &attr, IBV_QP_STATE);
	if (qp->srq)
		reactor_mail(qp->reactor, &qp->ended_mail, qpair_ended_deliver);
}

/* At once, on the reactor's thread: afterwards the device reads from no memory. */
void qpair_break(struct target_qpair *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	qp->verbs->modify_qp(qp->ibqp, &attr, IBV_QP_STATE);
}

/*
 * From now on it uses no shared receives.  It must exist until those that it has used are completed, because they
 * are matched with it by its number.
 */
static void qpair_ended_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_qpair *qp = container_of(mail, struct target_qpair, ended_mail);

	reactor_drain_cq(reactor, qp->recv_cq);
	qp->ended = true;
	reactor_mark(qp);
}

static void end_connection(struct target_qpair *qp)
{
	if (qp->disconnected || !qp->up)
		return;
	qp->disconnected = true;
	background_post(qp->target->ends, &qp->end_job, qpair_end_job);
}

static void die(struct target_qpair *qp)
{
	qp->dead = true;
	end_connection(qp);
	reactor_mark(qp);
}

void qpair_fail(struct target_qpair *qp, const char *format, ...)
{
	va_list ap;

	if (qp->dead)
		return;
	va_start(ap, format);
	vsnprintf(qp->reason, sizeof(qp->reason), format, ap);
	va_end(ap);
	qp->ended_here = true;
	die(qp);
}

/* The device gives the reason, if it can: complete_reason(). */
void qpair_fail_wc(struct target_qpair *qp, const char *what, enum ibv_wc_status status)
{
	if (qp->dead)
		return;
	if (status != IBV_WC_WR_FLUSH_ERR)
		snprintf(qp->reason, sizeof(qp->reason), "%s: %s", what, verbs_wc_name(status));
	qp->broken = true;
	die(qp);
}

static const char *device_reason(const struct target_qpair *qp)
{
	return qp->verbs->end_reason ? qp->verbs->end_reason(qp->ibqp) : "";
}

/* A post failed; if the connection has already ended, that is the reason. */
void qpair_fail_post(struct target_qpair *qp, const char *what, int rc)
{
	if (qp->dead)
		return;
	qp->broken = true;
	if (*device_reason(qp))
		qpair_fail_wc(qp, what, IBV_WC_WR_FLUSH_ERR);
	else
		/* some providers return -1 with errno, most a positive errno */
		qpair_fail(qp, "the device refused to post a %s: %s", what, strerror(rc < 0 ? errno : rc));
}

static void drop_lines(struct target_qpair *qp)
{
	struct fifo_link *link;

	pool_leave_line(qp);
	limits_drop(qp);
	inject_drop(qp);
	fused_wait_no_more(qp);
	fused_missing(qp);
	while ((link = fifo_pop(&qp->pending)))
		if (qp->srq)
			recv_give_back(qp, container_of(link, struct recv, link));
	while ((link = fifo_pop(&qp->repost)))
		;
	transfer_drop_lines(qp);
	steps_drop(qp);
	upcall_drop(qp);
	while ((link = fifo_pop(&qp->tx))) {
		struct tx *tx = container_of(link, struct tx, link);

		if (tx->is_chunk)
			chunk_written(container_of(tx, struct chunk, tx));
		else
			request_response_done(container_of(tx, struct target_request, tx));
	}
}

static void complete_reason(struct target_qpair *qp)
{
	size_t have = strlen(qp->reason);
	const char *device;

	if (qp->ended_here)
		return;
	device = device_reason(qp);
	if (!have)
		snprintf(qp->reason, sizeof(qp->reason), "%s", device);
	else if (*device)
		snprintf(qp->reason + have, sizeof(qp->reason) - have, " (%s)", device);
}

void qpair_drain(struct target_qpair *qp)
{
	drop_lines(qp);
	if (!qp->closed && qp->sq_free == qp->sq_count && !qp->recv_posted &&
	    (!qp->srq || qp->ended) && qp->active == qp->held && !qp->linger_listed) {
		complete_reason(qp);
		qp->closed = true;
		list_remove(&qp->reactor_link);
		if (!qp->destroying) {
			qp->closed_upcall = (struct target_upcall){
				.type = TARGET_UPCALL_CLOSED,
				.qpair = qp,
				.cookie = qp->options.cookie,
				.reason = qp->reason,
			};
			target_post_upcall(qp->target, &qp->closed_upcall);
		}
	}
	if (qp->closed && qp->destroying && !qp->active && !qp->marked) {
		srq_part(qp);
		qp->released_upcall = (struct target_upcall){
			.type = (enum target_upcall_type)TARGET_UPCALL_RELEASED,
			.qpair = qp,
		};
		target_post_upcall(qp->target, &qp->released_upcall);
	}
}

/* ---- requests of the control thread ---- */

static bool responses_under_way(const struct target_qpair *qp)
{
	return qp->tx.head || qp->sq_free != qp->sq_count;
}

static void disconnect_now(struct target_qpair *qp)
{
	if (*device_reason(qp))	/* it ended before, and the device gives a more precise reason */
		die(qp);
	else
		qpair_fail(qp, qp->peer_left ? "the peer disconnected" : "disconnected by the target");
}

/* The connection was accepted: handle capsules that arrived before. */
void qpair_up_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_qpair *qp = container_of(mail, struct target_qpair, up_mail);

	qp->up = true;
	srq_join(qp);
	list_push(&reactor->qpairs, &qp->reactor_link);
	if (qp->dead)
		end_connection(qp);
	reactor_mark(qp);
}

void qpair_disconnect_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_qpair *qp = container_of(mail, struct target_qpair, disconnect_mail);

	if (qp->closed)
		return;
	if (qp->dead) {
		end_connection(qp);
		return;
	}
	qp->lingering = qp->linger_listed = true;
	fifo_push(&reactor->lingering, &qp->linger_link);
}

/* Check queue pairs that wait for their last responses; returns whether there are any. */
bool qpair_linger(struct reactor *reactor)
{
	struct fifo still;
	struct fifo_link *link;
	uint64_t now = 0;

	if (!reactor->lingering.head)
		return false;
	fifo_init(&still);
	while ((link = fifo_pop(&reactor->lingering))) {
		struct target_qpair *qp = container_of(link, struct target_qpair, linger_link);

		now = now ? now : clock_ns();
		if (!qp->linger_until)	/* waiting work is posted before the next check */
			qp->linger_until = now + LINGER_NS;
		if (!qp->dead && responses_under_way(qp) && now < qp->linger_until) {
			fifo_push(&still, link);
			continue;
		}
		qp->linger_listed = false;
		if (!qp->dead)
			disconnect_now(qp);
		reactor_mark(qp);
	}
	while ((link = fifo_pop(&still)))
		fifo_push(&reactor->lingering, link);
	return reactor->lingering.head;
}

void qpair_destroy_deliver(struct reactor *reactor, struct mail *mail)
{
	struct target_qpair *qp = container_of(mail, struct target_qpair, destroy_mail);

	(void)reactor;
	qp->destroying = true;
	if (qp->abandoned) {	/* never connected; its queue pair is already freed */
		qp->up = qp->disconnected = qp->dead = qp->closed = true;
		qp->active = qp->held = 0;
	}
	if (!qp->dead)
		disconnect_now(qp);
	reactor_mark(qp);
}
