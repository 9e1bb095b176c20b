/* SPDX-License-Identifier: BSD-3-Clause */
/* CM events of the device's ids: see iwarp/events.h.  Under iw_cm_lock. */
#include "cm.h"
#include "events.h"

static void event_fill(struct iw_event *e, const struct ro_cm_fields *f)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	iw_event_data(e, f->data, f->data_len);
	if (f->kind == RO_CM_REJ)
		return;
	/* as in the kernel: the peer's fields from the view of this side */
	p->initiator_depth = f->responder_resources;
	p->responder_resources = f->initiator_depth;
	p->retry_count = f->retry_count;
	p->rnr_retry_count = f->rnr_retry_count;
	p->qp_num = f->qpn;
}

void ro_event_post(struct ro_id *id, enum rdma_cm_event_type type, int status, const struct ro_cm_fields *f)
{
	struct ro_id *listener = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id->listener : NULL;
	struct iw_event *e = iw_event_new(&id->id, listener ? &listener->id : NULL,
					  listener ? &listener->events : &id->events, type, status);

	if (!e)
		return;		/* nothing better is possible; flushed work will report the connection's end */
	if (f)
		event_fill(e, f);
	iw_event_queue(e);
}

static void event_forget(struct rdma_cm_id *request)
{
	ro_id_free((struct ro_id *)request);
	ro_cm_use(-1);	/* not the last one: its listener counts as well */
}

static void event_follow(struct rdma_cm_id *listener)
{
	for (struct list_link *link = ro_ids.head; link; link = link->next) {
		struct ro_id *child = container_of(link, struct ro_id, link);

		if (child->listener == (struct ro_id *)listener)
			child->id.channel = listener->channel;
	}
}

int ro_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return iw_events_migrate(id, &((struct ro_id *)id)->events, channel, event_follow);
}

/* Remove the events of an id that is being destroyed. */
void ro_event_purge(struct ro_id *id)
{
	iw_events_drop(id->id.channel, &id->events, event_forget);
}
