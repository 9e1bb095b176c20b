/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes the packets that a port has received to their queue pairs.  The lock of a queue pair is kept during
 * consecutive packets for it, and everything that has become due is sent when the lock is released.  Under port->lock,
 * within a section.
 */
#include "qp.h"
#include "util/clock.h"
#include "util/fifo.h"

/* Send a CNP to the peer, whose packets were marked, at most as often as annex 17.9 permits (every 50 us). */
static void notify(struct ro_qp *qp)
{
	enum { EVERY_NS = 50000 };
	const struct ro_bth bth = { .opcode = RO_OP_CNP, .qpn = qp->dqpn };
	const uint64_t now = clock_ns();
	uint8_t packet[RO_CNP + RO_ICRC] = { 0 };
	uint32_t icrc;

	qp->marked = false;
	if (now - qp->notified_at < EVERY_NS)
		return;
	qp->notified_at = now;
	ro_bth_put(packet, &bth);
	packet[4] |= RO_BTH_BECN;
	icrc = ro_icrc(&qp->flow, 0, packet, RO_CNP);
	memcpy(packet + RO_CNP, &icrc, RO_ICRC);
	(void)ro_port_send(qp->port, &qp->peer, packet, sizeof(packet), sizeof(packet));
}

/*
 * Whether an acknowledgement waits for the next visit.  Packets that the application sends until then carry it along,
 * if possible, and the answer to a request is sent before it: at small depths that saves each end a system call per
 * command.
 */
static bool may_hold(const struct ro_port *port, const struct ro_qp *qp)
{
	return port->holding && (!qp->rsp.ack_held || qp->held_in == port->visit);
}

static void hold(struct ro_port *port, struct ro_qp *qp)
{
	if (qp->rsp.ack_held)
		return;
	qp->rsp.ack_held = true;
	qp->held_in = port->visit;
	if (!list_has(&qp->held))
		list_push(&port->held, &qp->held);
	ro_tick_want(qp);	/* in case there is no next visit */
}

static void leave(struct ro_port *port)
{
	struct ro_qp *qp = port->current;
	struct ro_burst b;
	bool whole = true;

	port->current = NULL;
	if (ro_qp_up(qp)) {
		if (qp->marked)
			notify(qp);
		ro_burst_begin(&b, qp);
		whole = ro_answer(qp, &b, may_hold(port, qp));
		if (ro_qp_up(qp)) {
			ro_send(qp, &b);
			if (qp->port) {
				ro_acknowledge_along(qp, &b);
				ro_burst_send_late(&b);
			}
		}
	}
	if (!whole && !list_has(&qp->more))
		list_push(&port->more, &qp->more);
	if (ro_qp_up(qp) && ro_ack_can_wait(qp))
		hold(port, qp);
	iw_unlock(&qp->lock);
}

/* False if the queue pair is of another port: its place in the list of those with more to send is under that lock. */
static bool enter(struct ro_port *port, struct ro_qp *qp)
{
	if (port->current == qp)
		return true;
	if (port->current)
		leave(port);
	iw_lock(&qp->lock);
	if (qp->port != port) {
		iw_unlock(&qp->lock);
		return false;
	}
	port->current = qp;
	return true;
}

void ro_qp_packet(struct ro_port *port, const struct ro_packet *p, const union ro_addr *from)
{
	struct ro_qp *qp = ro_number_find(p->bth.qpn);

	if (!qp || !enter(port, qp))
		return;
	/* packets from other addresses are dropped */
	if (!ro_qp_up(qp) || !ro_addr_same(&qp->peer, from))
		return;
	qp->marked |= p->congested && p->op->kind != RO_ACK;
	if (p->op->kind == RO_READ_RESPONSE || p->op->kind == RO_ACK || p->op->kind == RO_ATOMIC_RESPONSE) {
		if (p->congested && p->op->kind == RO_READ_RESPONSE)
			ro_congested(qp);	/* the requested data causes the congestion */
		ro_complete(qp, p);
	} else {
		ro_respond(qp, p);
	}
}

void ro_qp_congested(struct ro_port *port, uint32_t qpn, const union ro_addr *from)
{
	struct ro_qp *qp = ro_number_find(qpn);

	if (qp && enter(port, qp) && ro_qp_up(qp) && ro_addr_same(&qp->peer, from))
		ro_congested(qp);
}

void ro_qp_port_flush(struct ro_port *port)
{
	struct list more;

	if (port->current)
		leave(port);
	for (struct list_link *link = port->held.head, *next; link; link = next) {
		struct ro_qp *qp = container_of(link, struct ro_qp, held);

		next = link->next;
		if (port->holding && qp->held_in == port->visit)
			continue;
		if (enter(port, qp))
			leave(port);
		list_remove(&qp->held);
	}
	more = port->more;
	/* the queue pairs that are due now; those added meanwhile have sent their share */
	for (struct list_link *link = more.head, *next; link; link = next) {
		next = link->next;
		list_remove(link);
		if (enter(port, container_of(link, struct ro_qp, more)))
			leave(port);
	}
	for (struct ro_qp *qp, *last = NULL; (qp = ro_room_next(port)) && qp != last; last = qp)
		if (enter(port, qp))
			leave(port);
}
