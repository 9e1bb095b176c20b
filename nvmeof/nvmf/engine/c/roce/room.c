/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room in the socket for the data of READs.  Packets that its receive buffer has no room for are lost, requests of peers
 * among them: so the queue pairs of a port together request no more data than it can hold.  Those that find no room, and
 * wait for no data of their own, stand in line; while there is a line, only its first one requests data.  Data that does
 * not come in time is no longer counted, and is requested again without being counted, so that a peer that has gone, or
 * is slow on purpose, takes no room away from others.
 *
 * A queue pair enters and leaves the line under its own lock, too.
 */
#include "qp.h"

enum { READS_MIN = 4, PACKETS_MIN = 4 };

uint32_t ro_room_packets(const struct ro_port *port, uint32_t mtu)
{
	const uint32_t n = port->room / READS_MIN / mtu;

	return n < PACKETS_MIN ? PACKETS_MIN : n < RO_READ_PACKETS ? n : RO_READ_PACKETS;
}

/* Ordered with "lined": one of two threads sees the other's change, so that room that becomes free is not overlooked. */
static bool fits(const struct ro_port *port, uint32_t len)
{
	const uint32_t asked = atomic_load(&port->asked);

	return !asked || asked + len <= port->room;
}

static void take_out(struct ro_port *port, struct ro_qp *qp)
{
	line_remove(&port->line, &qp->line);
	qp->in_line = false;
	atomic_store(&port->lined, port->line.head != NULL);
}

bool ro_room_wait(struct ro_qp *qp, uint32_t len)
{
	struct ro_requester *r = &qp->req;
	struct ro_port *port = qp->port;
	const bool has_some = r->reads_head != r->reads_tail;

	if (r->retries || (!atomic_load(&port->lined) && fits(port, len)))
		return false;
	if (has_some)
		return true;
	iw_lock(&port->room_lock);
	qp->wanted = len;
	if (!qp->in_line) {
		qp->in_line = true;
		line_push(&port->line, &qp->line);
		atomic_store(&port->lined, true);
	}
	r->waits = port->line.head != &qp->line || !fits(port, len);
	if (!r->waits)
		take_out(port, qp);
	iw_unlock(&port->room_lock);
	return r->waits;
}

struct ro_qp *ro_room_next(struct ro_port *port)
{
	struct ro_qp *qp = NULL;

	if (!atomic_load(&port->lined))
		return NULL;
	iw_lock(&port->room_lock);
	if (port->line.head)
		qp = container_of(port->line.head, struct ro_qp, line);
	if (qp && !fits(port, qp->wanted))
		qp = NULL;
	iw_unlock(&port->room_lock);
	return qp;
}

void ro_room_leave(struct ro_port *port, struct ro_qp *qp)
{
	iw_lock(&port->room_lock);
	if (qp->in_line)
		take_out(port, qp);
	iw_unlock(&port->room_lock);
}

void ro_expect(struct ro_qp *qp, uint32_t end, uint32_t len)
{
	struct ro_requester *r = &qp->req;

	if (r->retries)
		len = 0;
	r->read_end[r->reads_head % RO_MAX_RD] = end;
	r->read_len[r->reads_head++ % RO_MAX_RD] = len;
	if (len)
		atomic_fetch_add_explicit(&qp->port->asked, len, memory_order_relaxed);
}

void ro_reads_late(struct ro_qp *qp)
{
	struct ro_requester *r = &qp->req;
	uint32_t len = 0;

	for (uint32_t i = r->reads_tail; i != r->reads_head; i++) {
		len += r->read_len[i % RO_MAX_RD];
		r->read_len[i % RO_MAX_RD] = 0;
	}
	if (len)
		atomic_fetch_sub(&qp->port->asked, len);
}

void ro_reads_end(struct ro_qp *qp, uint32_t until)
{
	struct ro_requester *r = &qp->req;
	uint32_t len = 0;

	for (; r->reads_tail != until; r->reads_tail++)
		len += r->read_len[r->reads_tail % RO_MAX_RD];
	if (len)
		atomic_fetch_sub(&qp->port->asked, len);
}
