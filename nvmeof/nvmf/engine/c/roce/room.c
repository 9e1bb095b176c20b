/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room in the socket for the data of READs.  Packets that its receive buffer has no room for are lost, requests of peers
 * among them: so the queue pairs of a port together request no more data than it can hold.  Those that find no room, and
 * wait for no data of their own, stand in line; while there is a line, a queue pair requests no more data than it has
 * requested already.  Data that does not come in time is requested again without being counted, so that a peer that has
 * gone takes no room away from others.
 */
#include "qp.h"

enum {
	/* The kernel counts the memory of a packet, which may be a page or two for each that a network card has received. */
	SHARE = 4, SHARE_LOOPBACK = 2,
	ROOM_MIN = 1 << 16,
	READS_MIN = 4, PACKETS_MIN = 4,
};

uint32_t ro_room(const struct ro_port *port)
{
	const int share = ro_addr_loopback(&port->addr) ? SHARE_LOOPBACK : SHARE;
	socklen_t len = sizeof(int);
	int size = 0;

	(void)getsockopt(port->fd, SOL_SOCKET, SO_RCVBUF, &size, &len);
	return size / share > ROOM_MIN ? (uint32_t)(size / share) : ROOM_MIN;
}

uint32_t ro_room_packets(const struct ro_port *port, uint32_t mtu)
{
	const uint32_t n = port->room / READS_MIN / mtu;

	return n < PACKETS_MIN ? PACKETS_MIN : n < RO_READ_PACKETS ? n : RO_READ_PACKETS;
}

static bool fits(const struct ro_port *port, uint32_t len)
{
	const uint32_t asked = atomic_load_explicit(&port->asked, memory_order_relaxed);

	return !asked || asked + len <= port->room;
}

bool ro_room_wait(struct ro_qp *qp, uint32_t len)
{
	struct ro_requester *r = &qp->req;
	struct ro_port *port = qp->port;
	const bool has_some = r->reads_head != r->reads_tail;

	if (r->retries || (fits(port, len) && !(has_some && atomic_load_explicit(&port->lined, memory_order_relaxed))))
		return false;
	if (has_some)
		return true;
	r->waits = true;
	iw_lock(&port->room_lock);
	qp->wanted = len;
	if (!qp->in_line) {
		qp->in_line = true;
		fifo_push(&port->line, &qp->line);
		atomic_store_explicit(&port->lined, true, memory_order_relaxed);
	}
	iw_unlock(&port->room_lock);
	return true;
}

static void take_out(struct ro_port *port, struct ro_qp *qp)
{
	fifo_remove(&port->line, &qp->line);
	qp->in_line = false;
	atomic_store_explicit(&port->lined, port->line.head != NULL, memory_order_relaxed);
}

struct ro_qp *ro_room_next(struct ro_port *port)
{
	struct ro_qp *qp = NULL;

	if (!atomic_load_explicit(&port->lined, memory_order_relaxed))
		return NULL;
	iw_lock(&port->room_lock);
	if (port->line.head)
		qp = container_of(port->line.head, struct ro_qp, line);
	if (qp && fits(port, qp->wanted))
		take_out(port, qp);
	else
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

void ro_reads_end(struct ro_qp *qp, uint32_t until)
{
	struct ro_requester *r = &qp->req;
	uint32_t len = 0;

	for (; r->reads_tail != until; r->reads_tail++)
		len += r->read_len[r->reads_tail % RO_MAX_RD];
	if (len)
		atomic_fetch_sub_explicit(&qp->port->asked, len, memory_order_relaxed);
}
