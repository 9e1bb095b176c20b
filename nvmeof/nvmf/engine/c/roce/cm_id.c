/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM ids: created, destroyed, given a queue pair; and messages that are sent again until they are answered.  Owns the
 * list of ids and that of ids with such a message.  Application's threads and the helper, under iw_cm_lock.
 */
#include "cm.h"
#include "stats.h"
#include "util/clock.h"
#include "capture/capture.h"

#include <stdlib.h>

#define FIRST_INTERVAL_NS 200000000ull
#define LAST_INTERVAL_NS 2000000000ull

enum { UNCONFIRMED_MAX = 256 };	/* connections that unknown peers have not confirmed */

struct list ro_ids;
static struct list timed;

const struct ro_port_calls ro_cm_calls = { ro_qp_packet, ro_qp_congested, ro_qp_port_flush, ro_cm_receive };

/* ---- messages that are sent again ---- */

void ro_id_quiet(struct ro_id *id)
{
	list_remove(&id->timed);
}

void ro_id_say(struct ro_id *id, uint64_t patience_ns, bool again)
{
	uint64_t now = clock_ns();

	ro_id_quiet(id);
	id->interval = FIRST_INTERVAL_NS;
	id->send_at = again ? now + id->interval : UINT64_MAX;
	id->give_up_at = now + patience_ns;
	list_push(&timed, &id->timed);
	ro_port_send_mad(id->port, &id->peer, id->mad);
	iw_helper_kick();
}

void ro_id_gave_up(struct ro_id *id)
{
	uint8_t mad[RO_MAD];

	ro_cm_gave_up(mad, id->mad);
	ro_port_send_mad(id->port, &id->peer, mad);
}

static void gave_up(struct ro_id *id)
{
	ro_id_quiet(id);
	iw_stats.failed++;
	if (id->state == RO_ID_REQ_SENT)
		ro_id_gave_up(id);
	if (id->state == RO_ID_REP_SENT)
		ro_id_end(id, "the peer did not confirm the connection", false);
	id->state = RO_ID_ENDED;
	ro_event_post(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

/*
 * A peer with a forged address never confirms.  Of such connections only the newest are kept, or they would take the places
 * of others at the application until their time limit: those to addresses that have not proved that they receive.
 */
void ro_ids_limit(void)
{
	struct ro_id *oldest = NULL;
	unsigned int n = 0;

	for (struct list_link *link = timed.head; link; link = link->next) {	/* the newest first */
		struct ro_id *id = container_of(link, struct ro_id, timed);

		if (id->state != RO_ID_REP_SENT || ro_addr_receives(id->port, &id->peer))
			continue;
		oldest = id;
		n++;
	}
	if (n > UNCONFIRMED_MAX)
		gave_up(oldest);
}

static uint64_t ids_expire(uint64_t now)
{
	uint64_t first = 0;

	for (struct list_link *link = timed.head, *next; link; link = next) {
		struct ro_id *id = container_of(link, struct ro_id, timed);

		next = link->next;
		if (id->give_up_at <= now) {
			gave_up(id);
			continue;
		}
		if (id->send_at <= now) {
			ro_port_send_mad(id->port, &id->peer, id->mad);
			id->interval = id->interval * 2 < LAST_INTERVAL_NS ? id->interval * 2 : LAST_INTERVAL_NS;
			id->send_at = now + id->interval;
		}
		if (!first || id->send_at < first)
			first = id->send_at;
		if (id->give_up_at < first)
			first = id->give_up_at;
	}
	return first;
}

/* ---- the helper ---- */

static int cm_start(void)
{
	ro_fork_setup();
	capture_from_environment();
	return 0;
}

static void cm_stop(void)
{
	ro_goodbyes_drop();
	ro_stales_drop();
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static uint64_t cm_expire(uint64_t now)
{
	return sooner(sooner(sooner(ids_expire(now), ro_goodbyes_expire(now)), ro_stales_expire(now)),
		      sooner(ro_tick(now), ro_ports_expire(now)));
}

int ro_cm_use(int n)
{
	static const struct iw_helper_calls calls = { cm_start, cm_stop, cm_expire };

	return iw_helper_use(n, &calls);
}

/* A queue pair called: it ended by itself, waits for an acknowledgement, or has received its peer's first request. */
static void qp_called(struct iw_caller *caller)
{
	struct ro_qp *qp = container_of(caller, struct ro_qp, caller);
	struct ro_id *id = qp->owner;

	if (atomic_load(&qp->ended) && !qp->reaped) {
		ro_id_end(id, "", true);
		if (id->state == RO_ID_CONNECTED || id->state == RO_ID_REP_SENT) {
			id->state = RO_ID_ENDED;
			ro_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		}
		return;
	}
	if (atomic_load(&qp->data) && id->state == RO_ID_REP_SENT)
		ro_established(id);
	ro_tick_start(qp);
}

/* ---- ids ---- */

struct ro_id *ro_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct ro_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = IBV_QPT_RC;
	list_push(&ro_ids, &id->link);
	iw_live.cm_id++;
	return id;
}

void ro_id_left_request(struct ro_id *id)
{
	if (id->listener)
		id->listener->pending--;
	id->listener = NULL;
}

void ro_id_free(struct ro_id *id)
{
	ro_id_left_request(id);
	ro_id_quiet(id);
	ro_id_forget(id);
	ro_stale_destroyed(id);
	for (unsigned int i = 0; i < id->nports; i++)
		ro_port_put(id->ports[i]);
	free(id->ports);
	if (id->port)
		ro_port_put(id->port);
	list_remove(&id->link);
	iw_live.cm_id--;
	free(id);
}

void ro_id_end(struct ro_id *id, const char *why, bool tell)
{
	struct ro_qp *qp = id->id.qp ? ro_qp(id->id.qp) : NULL;

	/* a DREQ is repeated; the address of a request may be forged, and gets one answer only */
	if (id->state == RO_ID_REP_SENT && !ro_addr_receives(id->port, &id->peer))
		tell = false;
	ro_id_quiet(id);
	if (!qp)
		return;
	iw_lock(&qp->lock);
	ro_qp_fail(qp, "%s", why);
	iw_unlock(&qp->lock);
	if (tell && qp->port && !qp->reaped)
		ro_goodbye(id, qp->dqpn);
	ro_qp_reap(qp);
}

int ro_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **idp, void *context, enum rdma_port_space ps)
{
	struct ro_id *id = NULL;

	if (!channel || ps != RDMA_PS_TCP) {
		errno = EINVAL;
		return -1;
	}
	pthread_mutex_lock(&iw_cm_lock);
	if (!ro_cm_use(1)) {
		id = ro_id_new(channel, context, ps);
		if (!id)
			ro_cm_use(-1);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	if (!id)
		return -1;
	*idp = &id->id;
	return 0;
}

static void cm_destroy_qp(struct ro_id *id)
{
	struct ro_qp *qp = ro_qp(id->id.qp);

	ro_id_end(id, "this side destroyed the queue pair", true);
	if (id->state == RO_ID_CONNECTED || id->state == RO_ID_REP_SENT)
		id->state = RO_ID_ENDED;
	id->id.qp = NULL;
	iw_cq_forget(iw_cq(qp->qp.send_cq), qp->qp.qp_num);
	iw_cq_forget(iw_cq(qp->qp.recv_cq), qp->qp.qp_num);
	ro_qp_free(qp);
}

int ro_destroy_id(struct rdma_cm_id *rid)
{
	struct ro_id *id = (struct ro_id *)rid;

	pthread_mutex_lock(&iw_cm_lock);
	if (rid->qp)
		cm_destroy_qp(id);
	ro_id_quiet(id);
	if (id->state == RO_ID_REQ_SENT)
		ro_id_gave_up(id);
	ro_event_purge(id);
	for (struct list_link *link = list_has(&id->listening) ? ro_ids.head : NULL; link; link = link->next) {
		struct ro_id *child = container_of(link, struct ro_id, link);

		if (child->listener == id)
			ro_id_left_request(child);
	}
	ro_unlisten(id);
	/* from here on a listener is not found, even while its events are awaited */
	id->state = RO_ID_ENDED;
	while (id->events)
		pthread_cond_wait(&iw_cm_cond, &iw_cm_lock);
	ro_id_free(id);
	ro_cm_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

static struct ibv_pd *cm_default_pd(void)
{
	static struct ibv_pd *pd;

	if (!pd)
		pd = iw_alloc_pd(&ro_dev.ext.context);
	return pd;
}

int ro_create_qp(struct rdma_cm_id *rid, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ro_qp *qp = NULL;

	pthread_mutex_lock(&iw_cm_lock);
	if (!rid->verbs || rid->qp) {
		errno = EINVAL;
	} else {
		if (!pd)
			pd = rid->pd ? rid->pd : cm_default_pd();
		qp = ro_qp_create(pd, attr);
	}
	if (qp) {
		qp->caller.answer = qp_called;
		qp->owner = rid;
		rid->qp = &qp->qp;
		rid->pd = pd;
		rid->srq = attr->srq;
		rid->send_cq = attr->send_cq;
		rid->recv_cq = attr->recv_cq;
		rid->send_cq_channel = attr->send_cq->channel;
		rid->recv_cq_channel = attr->recv_cq->channel;
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return qp ? 0 : -1;
}

void ro_destroy_qp(struct rdma_cm_id *rid)
{
	pthread_mutex_lock(&iw_cm_lock);
	if (rid->qp)
		cm_destroy_qp((struct ro_id *)rid);
	pthread_mutex_unlock(&iw_cm_lock);
}
