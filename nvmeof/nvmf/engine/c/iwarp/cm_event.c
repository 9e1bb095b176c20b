/* SPDX-License-Identifier: BSD-3-Clause */
/* CM events of the device's ids: see events.h.  Under iw_cm_lock. */
#include "cm.h"

static void event_fill(struct iw_event *e, const struct iw_id *id, enum rdma_cm_event_type type,
		       const struct iw_mpa *mpa)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	if (mpa)	/* a peer may send 512 bytes, more than an event has room for */
		iw_event_data(e, mpa->pd, mpa->pd_len);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED) {
		/* as in the kernel's iw_cm: the frame's depth words, ird first */
		p->initiator_depth = (uint8_t)(id->ird > 255 ? 255 : id->ird);
		p->responder_resources = (uint8_t)(id->ord > 255 ? 255 : id->ord);
	}
}

void iw_event_post(struct iw_id *id, enum rdma_cm_event_type type, int status,
		   const struct iw_mpa *mpa)
{
	struct iw_id *listener = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id->listener : NULL;
	struct iw_event *e = iw_event_new(&id->id, listener ? &listener->id : NULL,
					  listener ? &listener->events : &id->events, type, status);

	if (!e)
		return;		/* nothing better is possible; flushed work will report the connection's end */
	event_fill(e, id, type, mpa);
	iw_event_queue(e);
}

static void event_forget(struct rdma_cm_id *request)
{
	iw_id_free((struct iw_id *)request);
	iw_cm_use(-1);	/* not the last one: its listener counts as well */
}

static void event_follow(struct rdma_cm_id *listener)
{
	for (struct list_link *link = iw_ids.head; link; link = link->next) {
		struct iw_id *child = container_of(link, struct iw_id, link);

		if (child->listener == (struct iw_id *)listener)
			child->id.channel = listener->channel;
	}
}

int iw_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return iw_events_migrate(id, &((struct iw_id *)id)->events, channel, event_follow);
}

/* Remove the events of an id that is being destroyed. */
void iw_event_purge(struct iw_id *id)
{
	iw_events_drop(id->id.channel, &id->events, event_forget);
}
