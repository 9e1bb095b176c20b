/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM ids found by the contents of a message, in constant time, so that a flood of messages costs little even with many
 * connections.  The hash is keyed: a peer chooses its own address and queue pair number, but not their chain.  Owns the
 * tables.  Under iw_cm_lock.
 */
#include "cm.h"

enum { BITS = 12, CHAINS = 1 << BITS };

static struct list numbered[CHAINS];	/* by the local communication id */
static struct list requests[CHAINS];	/* incoming: by the peer's address and queue pair */
static struct list askers[CHAINS];	/* incoming: by the peer's address and communication id */
static struct list receivers[CHAINS];	/* connected: by the peer's address */
static struct list listeners;
static uint64_t keys[3];

static uint64_t key64(void)
{
	return (uint64_t)iw_random32() << 32 | iw_random32() | 1;
}

static struct list *chain_of(struct list chains[CHAINS], const union ro_addr *a, uint32_t number)
{
	uint64_t half[2] = { 0, 0 };

	if (!keys[0])
		for (int i = 0; i < 3; i++)
			keys[i] = key64();
	if (a->sa.sa_family == AF_INET6)
		memcpy(half, &a->in6.sin6_addr, sizeof(half));
	else
		memcpy(half, &a->in.sin_addr, sizeof(a->in.sin_addr));
	return &chains[(half[0] * keys[0] + half[1] * keys[1] + number * keys[2]) >> (64 - BITS)];
}

void ro_id_number(struct ro_id *id)
{
	list_remove(&id->numbered);
	id->local_comm = ro_tag() << RO_TAG_COMM | (iw_random32() & ((1u << RO_TAG_COMM) - 1));
	list_push(&numbered[id->local_comm % CHAINS], &id->numbered);
}

void ro_id_requests(struct ro_id *id)
{
	list_push(chain_of(requests, &id->peer, id->request.qpn), &id->requesting);
	list_push(chain_of(askers, &id->peer, id->remote_comm), &id->asking);
}

void ro_id_listens(struct ro_id *id)
{
	list_push(&listeners, &id->listening);
}

void ro_id_receives(struct ro_id *id)
{
	list_push(chain_of(receivers, &id->peer, 0), &id->receiving);
}

void ro_id_forget(struct ro_id *id)
{
	list_remove(&id->numbered);
	list_remove(&id->requesting);
	list_remove(&id->asking);
	list_remove(&id->receiving);
	list_remove(&id->listening);
}

struct ro_id *ro_id_find(const struct ro_port *port, const union ro_addr *from, const struct ro_cm_fields *f)
{
	for (struct list_link *link = numbered[f->remote_comm % CHAINS].head; link; link = link->next) {
		struct ro_id *id = container_of(link, struct ro_id, numbered);

		if (id->state >= RO_ID_REQ_SENT && id->port == port && id->local_comm == f->remote_comm &&
		    (id->state == RO_ID_REQ_SENT || id->remote_comm == f->local_comm) &&
		    ro_addr_same(&id->peer, from))
			return id;
	}
	return NULL;
}

struct ro_id *ro_id_of_request(const struct ro_port *port, const union ro_addr *from, uint32_t qpn)
{
	for (struct list_link *link = chain_of(requests, from, qpn)->head; link; link = link->next) {
		struct ro_id *id = container_of(link, struct ro_id, requesting);

		if (id->state != RO_ID_ENDED && id->request.qpn == qpn && id->port == port &&
		    ro_addr_same(&id->peer, from))
			return id;
	}
	return NULL;
}

struct ro_id *ro_id_of_asker(const struct ro_port *port, const union ro_addr *from, uint32_t comm)
{
	for (struct list_link *link = chain_of(askers, from, comm)->head; link; link = link->next) {
		struct ro_id *id = container_of(link, struct ro_id, asking);

		if (id->state == RO_ID_REP_SENT && id->remote_comm == comm && id->port == port &&
		    ro_addr_same(&id->peer, from))
			return id;
	}
	return NULL;
}

bool ro_addr_receives(const struct ro_port *port, const union ro_addr *peer)
{
	for (struct list_link *link = chain_of(receivers, peer, 0)->head; link; link = link->next) {
		const struct ro_id *id = container_of(link, struct ro_id, receiving);

		if (id->state == RO_ID_CONNECTED && id->port == port && ro_addr_same(&id->peer, peer))
			return true;
	}
	return false;
}

static bool listens(const struct ro_id *id, const struct ro_port *port, uint64_t service)
{
	const struct rdma_addr *a = &id->id.route.addr;
	const uint16_t p = a->src_addr.sa_family == AF_INET6 ? a->src_sin6.sin6_port : a->src_sin.sin_port;

	if (id->state != RO_ID_LISTENING || ro_service_id(ntohs(p)) != service)
		return false;
	if (id->port)
		return id->port == port;
	for (unsigned int i = 0; i < id->nports; i++)
		if (id->ports[i] == port)
			return true;
	return false;
}

struct ro_id *ro_id_listener(const struct ro_port *port, uint64_t service)
{
	for (struct list_link *link = listeners.head; link; link = link->next) {
		struct ro_id *id = container_of(link, struct ro_id, listening);

		if (listens(id, port, service))
			return id;
	}
	return NULL;
}
