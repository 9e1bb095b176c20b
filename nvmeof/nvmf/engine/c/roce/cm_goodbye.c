/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Disconnect requests: a DREQ is sent again until its DREP arrives or a few tries are over, even after its id was
 * destroyed.  Owns the list of them.  Under iw_cm_lock.
 */
#include "cm.h"
#include "util/clock.h"

#include <stdlib.h>

enum { TRIES = 5 };
#define FIRST_NS 50000000ull

struct goodbye {
	struct list_link link;
	struct ro_port *port;
	union ro_addr peer;
	uint32_t local_comm, remote_comm;
	unsigned int tries;
	uint64_t send_at;
	uint8_t mad[RO_MAD];
};

static struct list goodbyes;

static void forget(struct goodbye *g)
{
	list_remove(&g->link);
	ro_port_put(g->port);
	free(g);
}

static void say(struct goodbye *g, uint64_t now)
{
	ro_port_send_mad(g->port, &g->peer, g->mad);
	g->send_at = now + (FIRST_NS << g->tries++);
}

void ro_goodbye(const struct ro_id *id, uint32_t dqpn)
{
	const struct ro_cm_fields f = {
		.kind = RO_CM_DREQ, .local_comm = id->local_comm, .remote_comm = id->remote_comm, .qpn = dqpn,
	};
	struct goodbye *g = calloc(1, sizeof(*g));

	if (!g)
		return;		/* the peer will detect the end by its timeouts */
	g->port = id->port;
	g->port->users++;
	g->peer = id->peer;
	g->local_comm = id->local_comm;
	g->remote_comm = id->remote_comm;
	ro_cm_put(g->mad, &f);
	list_push(&goodbyes, &g->link);
	say(g, clock_ns());
	iw_helper_kick();
}

void ro_goodbye_answered(const struct ro_port *port, const struct ro_cm_fields *f, const union ro_addr *from)
{
	for (struct list_link *link = goodbyes.head; link; link = link->next) {
		struct goodbye *g = container_of(link, struct goodbye, link);

		/* only of this port: the helper may be about to use a different one, which must stay */
		if (g->port == port && g->local_comm == f->remote_comm && g->remote_comm == f->local_comm &&
		    ro_addr_same(&g->peer, from)) {
			forget(g);
			return;
		}
	}
}

uint64_t ro_goodbyes_expire(uint64_t now)
{
	uint64_t first = 0;

	for (struct list_link *link = goodbyes.head, *next; link; link = next) {
		struct goodbye *g = container_of(link, struct goodbye, link);

		next = link->next;
		if (g->send_at <= now) {
			if (g->tries == TRIES) {
				forget(g);
				continue;
			}
			say(g, now);
		}
		if (!first || g->send_at < first)
			first = g->send_at;
	}
	return first;
}

void ro_goodbyes_drop(void)
{
	while (goodbyes.head)
		forget(container_of(goodbyes.head, struct goodbye, link));
}
