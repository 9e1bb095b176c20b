/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a remote memory connection: its verbs objects, and a ring of message buffers.  The queue pair has a
 * protection domain of its own, so that a key of one connection is invalid on all others.
 *
 * Built by a control thread; then it belongs to the thread that polls it.
 */
#ifndef NVMF_MEMORY_END_H
#define NVMF_MEMORY_END_H

#include "verbs/verbs.h"

struct memory_end {
	const struct verbs *verbs;
	struct rdma_cm_id *id;		/* not freed with the end */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *ring_mr;
	uint8_t *ring;			/* messages received, then messages to send */
	unsigned receives, sends;	/* message buffers */
	bool has_qp;
};

/*
 * Build everything on an id that is bound to a device, and post all receives (their wr_id is their number).  work:
 * send work requests that may be outstanding.  0, or a negative errno with a sentence in err and nothing left.
 */
int memory_end_build(struct memory_end *end, unsigned receives, unsigned sends, unsigned work, char *err,
		     size_t len);
/* End the connection and free everything except the id: after this the peer cannot access any memory. */
void memory_end_break(struct memory_end *end);

/* The buffers of a received message, and of one to send. */
uint8_t *memory_end_received(const struct memory_end *end, unsigned slot);
uint8_t *memory_end_message(const struct memory_end *end, unsigned slot);
int memory_end_receive(struct memory_end *end, unsigned slot);
/* Send the message in this buffer: 0, or an errno.  wr_id: of its completion. */
int memory_end_send(struct memory_end *end, unsigned slot, uint32_t length, uint64_t wr_id);
/* Take the events of the channel, which does not block. */
void memory_end_take_events(struct memory_end *end);
/* The device's reason for the end of the connection, or "". */
const char *memory_end_reason(const struct memory_end *end);

#endif
