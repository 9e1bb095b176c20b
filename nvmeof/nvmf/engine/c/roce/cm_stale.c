/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of a queue pair that has a connection already.  Its system may have restarted, and counts its queue pairs
 * from the start again.  The IBTA specification (volume 1, chapter 12) demands that the request is refused and the old
 * connection disconnected; but the address of a request may be forged, and a third party must not end a connection.  So
 * the peer is asked first: the REP of the old connection is sent again, which a peer that has the connection answers
 * with an RTU.  Without one, the old connection ends, and the request is treated as if it came now.  A third party may also
 * send so many messages that the RTU finds no room: while something is lost here, silence proves nothing.
 *
 * Owns the requests that wait for this.  Under iw_cm_lock.
 */
#include "cm.h"
#include "util/clock.h"

#include <stdlib.h>

/* 1.5 s in all: a Linux host waits 3 s for its connection. */
enum { TRIES = 4 };
#define FIRST_NS 100000000ull

struct ro_stale {
	struct list_link link;
	struct ro_id *id;		/* the old connection; NULL: it was destroyed meanwhile */
	struct ro_port *port;
	struct ro_cm_message request;
	uint32_t comm;			/* of the request */
	unsigned int tries;
	uint32_t lost;			/* at the port, before the first of these tries */
	uint64_t send_at;
};

static struct list waiting;

static void ask(struct ro_stale *s, uint64_t now)
{
	if (!s->tries)
		s->lost = ro_port_lost(s->port);
	ro_port_send_mad(s->port, &s->id->peer, s->id->mad);
	s->send_at = now + (FIRST_NS << s->tries++);
}

static void forget(struct ro_stale *s)
{
	if (s->id)
		s->id->stale = NULL;
	list_remove(&s->link);
	ro_port_put(s->port);
	free(s);
}

bool ro_stale_begin(struct ro_id *id, const struct ro_cm_message *m, uint32_t comm)
{
	struct ro_stale *s = id->stale;

	if (s)
		return s->comm == comm;
	s = id->state == RO_ID_CONNECTED ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return false;
	s->id = id;
	s->port = id->port;
	s->port->users++;
	s->request = *m;
	s->comm = comm;
	id->stale = s;
	list_push(&waiting, &s->link);
	ask(s, clock_ns());
	iw_helper_kick();
	return true;
}

void ro_stale_alive(struct ro_id *id)
{
	struct ro_cm_fields f;

	if (ro_cm_get(id->stale->request.mad, &f))
		ro_cm_refuse(id->port, &id->stale->request, &f, RO_REJ_STALE);
	forget(id->stale);
}

void ro_stale_destroyed(struct ro_id *id)
{
	if (!id->stale)
		return;
	id->stale->id = NULL;
	id->stale->send_at = 0;
	id->stale = NULL;
	iw_helper_kick();
}

static void decide(struct ro_stale *s)
{
	struct ro_cm_message m = s->request;
	struct ro_port *port = s->port;
	struct ro_id *id = s->id;
	struct ro_cm_fields f;

	port->users++;
	forget(s);
	if (id && id->state == RO_ID_CONNECTED) {
		ro_id_end(id, "the peer has forgotten this connection: its queue pair requests a new one", true);
		id->state = RO_ID_ENDED;
		ro_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	}
	if (ro_cm_get(m.mad, &f))
		ro_cm_requested(port, &m, &f);
	ro_port_put(port);
}

void ro_stale_gone(struct ro_id *id)
{
	decide(id->stale);
}

uint64_t ro_stales_expire(uint64_t now)
{
	uint64_t first = 0;

	for (struct list_link *link = waiting.head, *next; link; link = next) {
		struct ro_stale *s = container_of(link, struct ro_stale, link);

		next = link->next;
		if (s->send_at <= now) {
			const bool ended = !s->id || s->id->state != RO_ID_CONNECTED;

			if (!ended && s->tries == TRIES && s->lost != ro_port_lost(s->port))
				s->tries = 0;
			if (ended || s->tries == TRIES) {
				decide(s);
				continue;
			}
			ask(s, now);
		}
		if (!first || s->send_at < first)
			first = s->send_at;
	}
	return first;
}

void ro_stales_drop(void)
{
	while (waiting.head)
		forget(container_of(waiting.head, struct ro_stale, link));
}
