/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of queue pairs: the engine runs, and its results are passed on to the completion queues, to the helper,
 * and to the end of the connection.  Runs on the thread that posts or polls.
 */
#include "qp.h"
#include "util/fifo.h"

#include <sys/socket.h>

/* ---- results of the engine ---- */

static void qp_push(struct iw_qp *qp, const struct iw_out *out)
{
	struct iw_cq *send = iw_cq(qp->qp.send_cq), *recv = iw_cq(qp->qp.recv_cq);
	unsigned int from = 0;

	if (send == recv || out->n == 1) {
		iw_cq_push(out->wc[0].opcode & IBV_WC_RECV ? recv : send, out->wc, out->n, out->solicited);
		return;
	}
	for (unsigned int i = 1; i <= out->n; i++) {
		bool is_recv = out->wc[from].opcode & IBV_WC_RECV;

		if (i < out->n && is_recv == !!(out->wc[i].opcode & IBV_WC_RECV))
			continue;
		iw_cq_push(is_recv ? recv : send, out->wc + from, i - from, is_recv && out->solicited);
		from = i;
	}
}

static void qp_complete(struct iw_qp *qp, struct iw_out *out)
{
	bool full;

	do {
		if (iw_sq_done(&qp->stream))
			iw_sq_sweep(&qp->stream, out);
		full = iw_out_full(out);	/* and there may be more to sweep */
		if (out->n)
			qp_push(qp, out);
		out->n = 0;
		out->solicited = false;
	} while (full);
}

static void qp_end(struct iw_qp *qp, const struct iw_end *end)
{
	iw_qp_fail(qp, end->term, end->has_hdr ? end->hdr : NULL, end->why[0] ? "%s" : NULL, end->why);
}

static void qp_blocked(struct iw_qp *qp)
{
	if (!qp->stream.tx.watched) {
		qp->stream.tx.watched = true;
		iw_qp_stir(qp);
	}
	/* possibly no thread returns to this queue pair: call the helper, unless it is watching already */
	if (atomic_load_explicit(&qp->watch, memory_order_relaxed) == IW_WATCH_ASLEEP)
		iw_helper_call(&qp->caller);
}

/* After the end only the rest of a cut FPDU and the TERMINATE (last words) may be sent. */
void iw_qp_send(struct iw_qp *qp)
{
	struct iw_out out;

	out.n = 0;
	out.solicited = false;

	enum iw_verdict v = iw_tx_run(&qp->stream, &out);

	qp_complete(qp, &out);
	if (v == IW_END)
		qp_end(qp, &out.end);
	else if (v == IW_WAIT)
		qp_blocked(qp);
}

static void qp_receive(struct iw_qp *qp, struct iw_intake *in)
{
	struct iw_out out;
	enum iw_verdict v;

	out.n = 0;
	out.solicited = false;
	do {
		v = iw_rx_run(&qp->stream, in, &out);
		qp_complete(qp, &out);
	} while (v == IW_FULL);
	if (v == IW_END)
		qp_end(qp, &out.end);
}

/* ---- reports of the socket ---- */

static void qp_mark(const struct iw_qp *qp, int bytes)
{
	(void)setsockopt(qp->stream.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

/* Below its mark the kernel acknowledges each segment at once: with large data that costs more than reports do. */
enum { QUIET_BIG = 32 << 10 };

/*
 * A low-water mark that is seldom reached, and small enough that the kernel does not enlarge the socket's buffer for it
 * (unless packets take eight times their bytes).  Only while the helper looks by itself whether the CQ is still polled:
 * a report is what wakes it.
 */
static void qp_quiet(struct iw_qp *qp)
{
	int room;
	socklen_t size = sizeof(room);

	if (atomic_load_explicit(&qp->watch, memory_order_relaxed) != IW_WATCH_TICK || qp->qp.send_cq != qp->qp.recv_cq)
		return;
	if (!getsockopt(qp->stream.fd, SOL_SOCKET, SO_RCVBUF, &room, &size)) {
		room /= 8;
		if (qp->stream.rx.big && room > QUIET_BIG)
			room = QUIET_BIG;
		qp_mark(qp, room);
	}
	qp->stream.rx.quiet = true;	/* also where the kernel has no such mark: it is not asked again each time */
}

void iw_qp_loud(struct iw_qp *qp)
{
	if (qp->stream.rx.quiet)
		qp_mark(qp, 1);
	qp->stream.rx.quiet = false;
}

/*
 * Large data fills a receive buffer that the kernel has not enlarged yet, and the peer waits for a window again and again:
 * 128 KiB READs at depth 32 were a third slower for up to 1.4 s.  A low-water mark enlarges the buffer at once, within the
 * limit of tcp_rmem, and leaves the kernel free to enlarge it further.
 */
static void qp_widen(struct iw_qp *qp)
{
	enum { WINDOW = 1 << 20 };

	qp_mark(qp, WINDOW);
	qp_mark(qp, 1);
	qp->stream.rx.wide = true;
	qp->stream.rx.quiet = false;
}

static void qp_turn_loud(void *owner)
{
	struct iw_qp *qp = owner;

	iw_lock(&qp->lock);
	iw_qp_loud(qp);
	iw_unlock(&qp->lock);
}

/* ---- visits ---- */

static struct iw_visit qp_visit(struct iw_qp *qp, uint8_t *staging, bool try_only, bool to_end, bool quiet)
{
	struct iw_epoch *section = try_only ? iw_section_trylock(&qp->lock) : iw_section_lock(&qp->lock);
	struct iw_stream *s = &qp->stream;
	struct iw_visit v = { 0 };

	if (!section)
		return (struct iw_visit){ .more = true, .quiet = quiet };
	if (iw_qp_state(qp) == IBV_QPS_RTS && s->tx.blocked)
		iw_qp_send(qp);
	if (iw_qp_state(qp) == IBV_QPS_RTS) {	/* sending may have failed */
		struct iw_intake in = { .staging = staging, .to_end = to_end };

		qp_receive(qp, &in);
		if (s->tx_due) {
			s->tx_due = false;
			if (!s->tx.blocked && iw_qp_state(qp) == IBV_QPS_RTS)
				iw_qp_send(qp);
		}
		v.bytes = in.bytes;
		v.more = !in.drained || s->tx.yielded;
		s->tx.yielded = false;
		if (s->rx.big && !s->rx.wide && iw_qp_state(qp) == IBV_QPS_RTS)
			qp_widen(qp);
		if (quiet && !s->rx.quiet && iw_qp_state(qp) == IBV_QPS_RTS)
			qp_quiet(qp);
		v.quiet = s->rx.quiet;
	} else if (iw_qp_state(qp) != IBV_QPS_ERR) {
		v.more = true;	/* attached, about to be started */
	}
	v.ended = iw_qp_state(qp) == IBV_QPS_ERR;
	iw_section_unlock(section, &qp->lock);
	return v;
}

static struct iw_visit qp_turn_visit(void *qp, uint8_t *staging, bool to_end, bool quiet)
{
	return qp_visit(qp, staging, true, to_end, quiet);
}

int iw_qp_progress(struct iw_qp *qp, uint8_t *staging, bool try_only)
{
	struct iw_visit v = qp_visit(qp, staging, try_only, false, false);

	/* the CQs' edge events may have been for the remaining work */
	if (v.more && !v.ended)
		iw_qp_stir(qp);
	return v.ended ? -1 : v.bytes;
}

void iw_qp_stir(struct iw_qp *qp)
{
	iw_turn_stir(&qp->turns[0], qp->stream.fd);
	if (qp->qp.send_cq != qp->qp.recv_cq)
		iw_turn_stir(&qp->turns[1], qp->stream.fd);
}

void iw_qp_wake(struct iw_srq_place *place)
{
	struct iw_qp *qp = container_of(place, struct iw_qp, stream.place);

	iw_qp_stir(qp);
	if (atomic_load_explicit(&qp->watch, memory_order_relaxed) == IW_WATCH_ASLEEP)
		iw_helper_call(&qp->caller);
}

static void qp_turn_hangup(void *qp)
{
	iw_qp_hangup(qp);
}

const struct iw_turn_calls iw_qp_turn_calls = { qp_turn_visit, qp_turn_loud, qp_turn_hangup };
