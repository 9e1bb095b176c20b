/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever connection management messages peers send, and whatever the application does in between, each id has
 * at most one event of each kind and none after its end, nothing crashes, and nothing remains.
 *
 * The input is a list of steps: messages that fit to a connection except for fields that the input changes, calls of the
 * application, and time that passes without an answer.
 */
#include "input.h"
#include "events.h"
#include "roce/cm.h"
#include "stats.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>

enum { SERVICE = 4420, SLOTS = 6, PEERS = 2, BACKLOG = 3, STEPS_MAX = 200 };
#define LATER_NS 10000000000ull

struct slot {
	struct rdma_cm_id *id;
	bool established, ended;
};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ro_port *port;
static union ro_addr peers[PEERS];
static struct slot slots[SLOTS];

static union ro_addr address(void)
{
	return (union ro_addr){ .in = {
		.sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT),
		.sin_addr.s_addr = htonl(0x7f380000u | (iw_random32() & 0x7ffffu)),
	} };
}

static struct slot *slot_of(const struct rdma_cm_id *id)
{
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].id == id)
			return &slots[i];
	return NULL;
}

static void event_check(struct slot *s, enum rdma_cm_event_type type)
{
	if (s->ended || (type == RDMA_CM_EVENT_ESTABLISHED && s->established))
		abort();
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		s->established = true;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		s->ended = true;
		break;
	default:
		abort();
	}
}

static void events(void)
{
	struct rdma_cm_event *e;

	while (!iw_get_cm_event(channel, &e)) {
		enum rdma_cm_event_type type = e->event;
		struct rdma_cm_id *id = e->id;
		struct slot *s = slot_of(type == RDMA_CM_EVENT_CONNECT_REQUEST ? NULL : id);

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST && e->listen_id != listener)
			abort();
		iw_ack_cm_event(e);
		if (type != RDMA_CM_EVENT_CONNECT_REQUEST) {
			if (!s)
				abort();
			event_check(s, type);
		} else if (s) {
			*s = (struct slot){ .id = id };
		} else {
			ro_destroy_id(id);
		}
	}
}

/* ---- steps ---- */

static void message(struct input *in)
{
	const uint32_t spoil = take(in, 1), which = take(in, 1), number = take(in, 1);
	const struct slot *s = &slots[which % SLOTS];
	const struct ro_id *id = (const struct ro_id *)s->id;
	uint8_t data[RO_MAD];
	struct ro_cm_message m = { .from = peers[which >> 7] };
	struct ro_cm_fields f = {
		.kind = (uint16_t)(RO_CM_REQ + number % (RO_CM_DREP - RO_CM_REQ + 1)), .local_comm = 1 + (number >> 4),
		.qpn = 2 + (which >> 4 & 3), .psn = 7, .responder_resources = 4, .initiator_depth = 4, .retry_count = 7,
		.rnr_retry_count = 7, .mtu = 1024, .service_id = ro_service_id(SERVICE), .src = m.from, .dst = port->addr,
		.data = data, .data_len = spoil >> 3 & 0x1c,
	};

	memset(data, 0x77, sizeof(data));
	if (id && id->state >= RO_ID_REQ_SENT && f.kind != RO_CM_REQ) {
		f.remote_comm = id->local_comm;
		if (id->remote_comm && !(spoil & 1))
			f.local_comm = id->remote_comm;
		if (f.kind == RO_CM_DREQ && id->id.qp)
			f.qpn = id->id.qp->qp_num;
		m.from = id->peer;
		m.from.in.sin_port = htons(RO_UDP_PORT);
	}
	if (f.kind == RO_CM_REJ) {
		static const uint16_t reasons[] = {
			RO_REJ_INVALID_COMM_ID, RO_REJ_TIMEOUT, RO_REJ_INVALID_MTU, RO_REJ_INVALID_SERVICE, RO_REJ_STALE,
			RO_REJ_CONSUMER,
		};

		f.reason = reasons[take(in, 1) % (sizeof(reasons) / sizeof(*reasons))];
		if (f.reason == RO_REJ_TIMEOUT)
			f.remote_comm = 0;
	}
	ro_cm_put(m.mad, &f);
	if (spoil & 2)
		m.mad[take(in, 1)] ^= (uint8_t)take(in, 1);
	iw_lock(&port->cm_lock);
	if (port->cm_head - port->cm_tail < RO_CM_QUEUE)
		port->cm[port->cm_head++ % RO_CM_QUEUE] = m;
	iw_unlock(&port->cm_lock);
	pthread_mutex_lock(&iw_cm_lock);
	ro_cm_receive(port);
	pthread_mutex_unlock(&iw_cm_lock);
}

static void give_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	(void)!ro_create_qp(id, pd, &attr);
}

static void connect_to(struct slot *s, const union ro_addr *peer)
{
	struct sockaddr_in there = peer->in;

	there.sin_port = htons(SERVICE);
	if (ro_create_id(channel, &s->id, NULL, RDMA_PS_TCP))
		abort();
	s->established = s->ended = false;
	if (ro_resolve_addr(s->id, &port->addr.sa, (struct sockaddr *)&there, 1000) || ro_resolve_route(s->id, 0))
		abort();
	give_queue_pair(s->id);
	(void)!ro_connect(s->id, NULL);
}

static void destroy(struct slot *s)
{
	ro_destroy_id(s->id);
	*s = (struct slot){ 0 };
}

static void application(struct input *in)
{
	const uint32_t what = take(in, 1);
	struct slot *s = &slots[what % SLOTS];
	struct rdma_conn_param param = { .responder_resources = 2, .initiator_depth = 2, .retry_count = 3 };

	if (!s->id) {
		connect_to(s, &peers[what >> 7]);
		return;
	}
	switch (what >> 5) {
	case 0:
	case 1:
		give_queue_pair(s->id);
		(void)!ro_accept(s->id, &param);
		break;
	case 2:
		(void)!ro_reject(s->id, "no", 2);
		break;
	case 3:
		(void)!ro_disconnect(s->id);
		break;
	case 4:
		ro_destroy_qp(s->id);
		break;
	case 5:
		destroy(s);
		break;
	default:	/* nobody answers for a while */
		pthread_mutex_lock(&iw_cm_lock);
		ro_stales_expire(clock_ns() + LATER_NS);
		ro_goodbyes_expire(clock_ns() + LATER_NS);
		pthread_mutex_unlock(&iw_cm_lock);
	}
}

/* ---- a run ---- */

static void open_all(void)
{
	union ro_addr here = address();

	pd = iw_alloc_pd(&ro_dev.ext.context);
	cq = iw_create_cq(&ro_dev.ext.context, 1024, NULL, NULL, 0);
	channel = iw_create_event_channel();
	if (!pd || !cq || !channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		abort();
	here.in.sin_port = htons(SERVICE);
	if (ro_create_id(channel, &listener, NULL, RDMA_PS_TCP) || ro_bind_addr(listener, &here.sa) ||
	    ro_listen(listener, BACKLOG))
		abort();
	port = ((struct ro_id *)listener)->port;
	for (int i = 0; i < PEERS; i++)
		peers[i] = address();
}

static void end(void)
{
	events();
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].id)
			destroy(&slots[i]);
	pthread_mutex_lock(&iw_cm_lock);
	ro_stales_drop();
	ro_goodbyes_drop();
	pthread_mutex_unlock(&iw_cm_lock);
	events();	/* of requests that came meanwhile: there is room for none of them */
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].id)
			destroy(&slots[i]);
	if (iw_live.cm_id != 1 || iw_live.qp || port->users != 1 || ((struct ro_id *)listener)->pending)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!port)
		open_all();
	for (int i = 0; i < STEPS_MAX && in.p < in.end; i++) {
		if (take(&in, 1) & 1)
			message(&in);
		else
			application(&in);
		events();
	}
	end();
	return 0;
}
