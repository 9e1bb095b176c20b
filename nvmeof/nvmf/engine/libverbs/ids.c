/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management: channels, ids and their events.  An id without a channel is synchronous: it has a channel of
 * its own, and its calls return after their event, which stays in id->event until the next call.  Any thread.
 */
#include "libverbs.h"

#include <stdlib.h>

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	return device()->create_event_channel();
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	device()->destroy_event_channel(channel);
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	return device()->get_cm_event(channel, event);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return device()->ack_cm_event(event);
}

EXPORT struct ibv_context **rdma_get_devices(int *num)
{
	return device()->get_devices(num);
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
	device()->free_devices(list);
}

static bool is_sync(struct rdma_cm_id *id)
{
	return *id_extra(id) && (*id_extra(id))->sync;
}

static void ack_last(struct rdma_cm_id *id)
{
	if (id->event)
		device()->ack_cm_event(id->event);
	id->event = NULL;
}

/* The end of a call: a synchronous id waits for its event. */
static int done(struct rdma_cm_id *id, int rc)
{
	if (rc || !is_sync(id))
		return rc;
	ack_last(id);
	if (device()->get_cm_event(id->channel, &id->event))
		return -1;
	if (!id->event->status)
		return 0;
	errno = id->event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : abs(id->event->status);
	return -1;
}

static struct id_extra *extra_new(struct rdma_cm_id *id)
{
	if (!*id_extra(id))
		*id_extra(id) = calloc(1, sizeof(struct id_extra));
	return *id_extra(id);
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	struct rdma_event_channel *own = channel ? NULL : device()->create_event_channel();

	if (!channel && !own)
		return -1;
	if (device()->create_id(channel ? channel : own, id, context, ps)) {
		if (own)
			device()->destroy_event_channel(own);
		return -1;
	}
	if (!own)
		return 0;
	if (extra_new(*id)) {
		(*id_extra(*id))->sync = true;
		return 0;
	}
	device()->destroy_id(*id);
	device()->destroy_event_channel(own);
	errno = ENOMEM;
	return -1;
}

/* Unlike the device, this does not destroy the queue pair: programs do, before or after this call. */
EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct rdma_event_channel *own = is_sync(id) ? id->channel : NULL;
	struct id_extra *extra = *id_extra(id);
	int rc;

	ack_last(id);
	if (extra && (extra->own_send_cq || extra->own_recv_cq))
		rdma_destroy_qp(id);
	else
		device()->bare_release(id);
	rc = device()->destroy_id(id);
	if (own)
		device()->destroy_event_channel(own);
	free(extra);
	return rc;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct rdma_event_channel *before = is_sync(id) ? id->channel : NULL;
	struct rdma_event_channel *own = channel ? NULL : device()->create_event_channel();

	if ((!channel && !own) || (own && !extra_new(id)))
		return -1;
	ack_last(id);
	if (device()->migrate_id(id, channel ? channel : own))
		return -1;
	if (*id_extra(id))
		(*id_extra(id))->sync = !channel;
	if (before)
		device()->destroy_event_channel(before);
	return 0;
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	return device()->set_option(id, level, optname, optval, optlen);
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return device()->bind_addr(id, addr);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	return done(id, device()->resolve_addr(id, src, dst, timeout_ms));
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return done(id, device()->resolve_route(id, timeout_ms));
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return device()->listen(id, backlog);
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return done(id, device()->connect(id, param));
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return done(id, device()->accept(id, param));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	return device()->reject(id, private_data, len);
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	return device()->reject(id, private_data, len);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	return done(id, device()->disconnect(id));
}

/* Take the oldest connection request of a listener, as a synchronous id. */
EXPORT int rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id)
{
	struct id_extra *extra = *id_extra(listener);
	struct rdma_cm_event *event;
	struct ibv_qp_init_attr attr;

	if (!is_sync(listener)) {
		errno = EINVAL;
		return -1;
	}
	ack_last(listener);
	if (device()->get_cm_event(listener->channel, &event))
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST || event->status) {
		errno = event->status ? abs(event->status) : EINVAL;
		device()->ack_cm_event(event);
		return -1;
	}
	*id = event->id;
	attr = extra->attr;
	if (rdma_migrate_id(*id, NULL) || (extra->has_attr && rdma_create_qp(*id, extra->pd, &attr))) {
		device()->ack_cm_event(event);
		rdma_destroy_id(*id);
		return -1;
	}
	(*id)->event = event;
	return 0;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	struct id_extra *extra;
	int rc;

	if (rdma_create_id(NULL, id, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	extra = *id_extra(*id);
	if (res->ai_flags & RAI_PASSIVE) {
		extra->pd = pd;
		extra->has_attr = attr;
		if (attr)
			extra->attr = *attr;
		rc = rdma_bind_addr(*id, res->ai_src_addr);
	} else {
		rc = rdma_resolve_addr(*id, res->ai_src_addr, res->ai_dst_addr, 2000);
		if (!rc)
			rc = rdma_resolve_route(*id, 2000);
		if (!rc && attr) {
			attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
			rc = rdma_create_qp(*id, pd, attr);
		}
	}
	if (rc) {
		const int e = errno;

		rdma_destroy_id(*id);
		errno = e;
	}
	return rc;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}
