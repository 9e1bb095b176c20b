/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers' messages.  A message belongs to an id if it has both communication ids, which are random, and was sent
 * from the peer's address to the id's own: a third party can neither end nor take over a connection.  Runs on the
 * helper, under iw_cm_lock.
 */
#include "cm.h"
#include "stats.h"
#include "util/clock.h"

#define MRA_NS 4000000000ull
#define ASK_AGAIN_NS 20000000ull	/* before a request that found no listener is sent again */

enum { MESSAGES = 64 };		/* at once: a flood must delay neither timers nor other users of the lock */

static void answer(struct ro_port *port, const union ro_addr *to, struct ro_cm_fields *f)
{
	uint8_t mad[RO_MAD];

	ro_cm_put(mad, f);
	ro_port_send_mad(port, to, mad);
}

void ro_cm_refuse(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f, uint16_t reason)
{
	struct ro_cm_fields rej = {
		.kind = RO_CM_REJ, .local_comm = f->remote_comm, .remote_comm = f->local_comm, .reason = reason,
		.about = f->kind == RO_CM_REQ ? 0 : f->kind == RO_CM_REP ? 1 : 2,
	};

	answer(port, &m->from, &rej);
}

/* ---- REQ ---- */

/*
 * Returns true if the request is a repeated one, or its queue pair is connected already, for all that is known yet.  A lost
 * answer is sent again, once for each repetition of its request.
 */
static bool repeated(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f)
{
	struct ro_id *id = ro_id_of_request(port, &m->from, f->qpn);

	if (!id)
		return false;
	if (id->remote_comm != f->local_comm) {
		if (!ro_stale_begin(id, m, f->local_comm))
			ro_cm_refuse(port, m, f, RO_REJ_STALE);
	} else if (id->state == RO_ID_REP_SENT) {
		ro_port_send_mad(port, &id->peer, id->mad);
	} else if (id->state == RO_ID_REQUESTED) {
		struct ro_cm_fields mra = {
			.kind = RO_CM_MRA, .local_comm = id->local_comm, .remote_comm = f->local_comm,
		};

		answer(port, &m->from, &mra);
	}
	return true;
}

static void request_new(struct ro_id *listener, struct ro_port *port, const struct ro_cm_message *m,
			const struct ro_cm_fields *f)
{
	struct ro_id *id = ro_id_new(listener->id.channel, listener->id.context, listener->id.ps);
	struct rdma_addr *a;

	if (!id)
		return;
	if (ro_cm_use(1)) {
		ro_id_free(id);
		return;
	}
	a = &id->id.route.addr;
	id->port = port;
	port->users++;
	id->peer = m->from;
	if (m->from.sa.sa_family == AF_INET)
		id->peer.in.sin_port = f->src.in.sin_port;
	else
		id->peer.in6.sin6_port = f->src.in6.sin6_port;
	memcpy(&a->dst_storage, &id->peer, ro_addr_len(&id->peer));
	memcpy(&a->src_storage, &port->addr, ro_addr_len(&port->addr));
	if (port->addr.sa.sa_family == AF_INET)
		a->src_sin.sin_port = htons((uint16_t)f->service_id);
	else
		a->src_sin6.sin6_port = htons((uint16_t)f->service_id);
	id->id.verbs = &ro_dev.ext.context;
	id->id.port_num = 1;
	id->request = *f;
	id->request.data = NULL;
	id->remote_comm = f->local_comm;
	ro_id_number(id);
	ro_id_requests(id);
	id->mtu = f->mtu;
	id->listener = listener;
	listener->pending++;
	id->state = RO_ID_REQUESTED;
	ro_event_post(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, f);
}

void ro_cm_requested(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f)
{
	struct ro_id *listener = ro_id_listener(port, f->service_id);

	if (repeated(port, m, f))
		return;
	if (!listener)
		ro_cm_refuse(port, m, f, RO_REJ_INVALID_SERVICE);
	else if (f->transport)
		ro_cm_refuse(port, m, f, RO_REJ_INVALID_TRANSPORT);
	else if (!f->mtu || f->mtu > ro_port_path_mtu(port, &m->from))
		ro_cm_refuse(port, m, f, RO_REJ_INVALID_MTU);
	else if (!f->has_cma || f->src.sa.sa_family != m->from.sa.sa_family)
		ro_cm_refuse(port, m, f, RO_REJ_CONSUMER);
	else if (listener->pending < listener->backlog)	/* else it is lost; the peer repeats it */
		request_new(listener, port, m, f);
	else
		iw_refused(&m->from.sa, "the application does not keep up with connection requests");
}

/* ---- the others ---- */

static void replied(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f)
{
	struct ro_id *id = ro_id_find(port, &m->from, f);
	struct ro_cm_fields rtu = { .kind = RO_CM_RTU, .local_comm = f->remote_comm, .remote_comm = f->local_comm };

	if (!id || id->request.kind == RO_CM_REQ ||
	    (id->state != RO_ID_REQ_SENT && id->state != RO_ID_CONNECTED)) {
		ro_cm_refuse(port, m, f, RO_REJ_INVALID_COMM_ID);
		return;
	}
	if (id->state == RO_ID_REQ_SENT) {
		const struct ro_path path = {
			.port = id->port, .peer = id->peer, .dqpn = f->qpn, .mtu = id->mtu, .psn = f->psn,
			.epsn = id->psn, .ird = id->ird,
			.ord = id->ord < f->responder_resources ? id->ord : f->responder_resources,
			.retry_limit = id->retry_limit, .rnr_limit = f->rnr_retry_count,
			.acks_unasked = f->same_device,
		};

		ro_id_quiet(id);
		id->remote_comm = f->local_comm;
		if (!id->id.qp || ro_qp_state(ro_qp(id->id.qp)) != IBV_QPS_INIT ||
		    ro_qp_start(ro_qp(id->id.qp), &path)) {
			ro_cm_refuse(port, m, f, RO_REJ_NO_QP);
			id->state = RO_ID_ENDED;
			iw_stats.failed++;
			ro_event_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM, NULL);
			return;
		}
		id->state = RO_ID_CONNECTED;
		ro_id_receives(id);
		iw_stats.handshakes++;
		ro_event_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, f);
	}
	answer(port, &m->from, &rtu);
}

void ro_established(struct ro_id *id)
{
	ro_id_quiet(id);
	id->state = RO_ID_CONNECTED;
	ro_id_receives(id);
	iw_stats.handshakes++;
	ro_event_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
}

/* Send the request again, with another communication id: the reject of the first one may arrive twice. */
static void ask_again(struct ro_id *id, uint64_t send_at)
{
	ro_id_number(id);
	ro_cm_ask_again(id->mad, id->local_comm, id->mtu);
	id->send_at = send_at;
}

static void rejected(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f)
{
	struct ro_id *id = !f->remote_comm && f->reason == RO_REJ_TIMEOUT ?
				   ro_id_of_asker(port, &m->from, f->local_comm) :
				   ro_id_find(port, &m->from, f);
	const uint64_t now = clock_ns();

	if (id && id->stale) {
		ro_stale_gone(id);
		return;
	}
	if (!id || (id->state != RO_ID_REQ_SENT && id->state != RO_ID_REP_SENT))
		return;
	if (id->state == RO_ID_REQ_SENT && f->reason == RO_REJ_INVALID_MTU && id->mtu > RO_MTU_MIN) {
		id->mtu /= 2;
		ask_again(id, now);
		return;
	}
	if (id->state == RO_ID_REQ_SENT && f->reason == RO_REJ_INVALID_SERVICE && now < id->refused_until) {
		ask_again(id, now + ASK_AGAIN_NS);
		return;
	}
	ro_id_end(id, "the peer rejected the connection", false);
	id->state = RO_ID_ENDED;
	iw_stats.failed++;
	ro_event_post(id, RDMA_CM_EVENT_REJECTED, f->reason, f);
}

static void disconnected(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f)
{
	struct ro_id *id = ro_id_find(port, &m->from, f);
	struct ro_cm_fields drep = {
		.kind = RO_CM_DREP, .local_comm = f->remote_comm, .remote_comm = f->local_comm,
	};

	if (id && (id->state == RO_ID_CONNECTED || id->state == RO_ID_REP_SENT)) {
		if (!id->id.qp || id->id.qp->qp_num != f->qpn)
			return;
		ro_id_end(id, "the peer disconnected", false);
		id->state = RO_ID_ENDED;
		ro_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	}
	answer(port, &m->from, &drep);	/* a repeated message for a connection that has ended gets the same answer */
}

static void received(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f)
{
	struct ro_id *id;

	switch (f->kind) {
	case RO_CM_REQ:
		ro_cm_requested(port, m, f);
		break;
	case RO_CM_REP:
		replied(port, m, f);
		break;
	case RO_CM_RTU:
		id = ro_id_find(port, &m->from, f);
		if (id && id->state == RO_ID_REP_SENT)
			ro_established(id);
		else if (id && id->stale)
			ro_stale_alive(id);
		break;
	case RO_CM_REJ:
		rejected(port, m, f);
		break;
	case RO_CM_MRA:
		id = ro_id_find(port, &m->from, f);
		if (id && list_has(&id->timed))
			id->send_at = clock_ns() + MRA_NS;
		break;
	case RO_CM_DREQ:
		disconnected(port, m, f);
		break;
	case RO_CM_DREP:
		ro_goodbye_answered(port, f, &m->from);
		break;
	default:
		break;
	}
}

void ro_cm_receive(struct ro_port *port)
{
	struct ro_cm_message m;
	struct ro_cm_fields f;
	int n;

	/* an answer may be the last use of a port */
	port->users++;
	for (n = 0; n < MESSAGES && ro_port_cm_take(port, &m); n++)
		if (ro_cm_get(m.mad, &f))
			received(port, &m, &f);
	if (n == MESSAGES)
		iw_helper_call(&port->caller);
	ro_port_put(port);
}
