/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM event channels of the embedded devices: a queue of events under iw_cm_lock, and an eventfd whose count is its
 * length.  Events are queued by the helper or by the call that causes them, and taken on the application's threads.
 */
#ifndef NVMF_IWARP_EVENTS_H
#define NVMF_IWARP_EVENTS_H

#include "util/fifo.h"
#include "verbs.h"

#include <stdint.h>

enum { IW_EVENT_DATA = 255 };		/* the maximum of rdma_conn_param.private_data_len */

struct iw_event {
	struct rdma_cm_event ev;
	struct fifo_link link;
	unsigned int *pending;		/* its id's count: the id is destroyed when that is 0 */
	uint8_t data[IW_EVENT_DATA];
};

/* ---- verbs of both devices; any thread, without iw_cm_lock ---- */

struct rdma_event_channel *iw_create_event_channel(void);
void iw_destroy_event_channel(struct rdma_event_channel *channel);
int iw_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int iw_ack_cm_event(struct rdma_cm_event *event);
/*
 * rdma_migrate_id of the id with this count.  requests(), called under iw_cm_lock, moves the new ids of a listener that
 * no event has reported yet to its new channel.
 */
int iw_events_migrate(struct rdma_cm_id *id, const unsigned int *pending, struct rdma_event_channel *to,
		      void (*requests)(struct rdma_cm_id *listener));

/* ---- for the devices, under iw_cm_lock ---- */

/*
 * Create an event of an id; NULL if there is no memory.  pending: the count of the id's events that are queued or not
 * acknowledged.  A CONNECT_REQUEST has a listener, and counts in the listener's pending.
 */
struct iw_event *iw_event_new(struct rdma_cm_id *id, struct rdma_cm_id *listener, unsigned int *pending,
			      enum rdma_cm_event_type type, int status);
/* Copy private data into it; bytes beyond IW_EVENT_DATA are dropped. */
void iw_event_data(struct iw_event *event, const void *data, size_t len);
void iw_event_queue(struct iw_event *event);
/* Drop the queued events of the id with this count; forget() frees the new id of an unreported request. */
void iw_events_drop(struct rdma_event_channel *channel, const unsigned int *pending,
		    void (*forget)(struct rdma_cm_id *request));

#endif
