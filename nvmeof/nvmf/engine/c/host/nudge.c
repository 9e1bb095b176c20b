/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A nudge for a siw target that misses the Connect, from a host on the system's iWARP devices.
 *
 * iwarp/nudge.c has the reason, and does the same for the embedded device by itself.  Here it is a work request: an
 * RDMA WRITE of no bytes, which refers to no memory and needs no STag (RFC 5040, section 5.3).  It is not signalled,
 * so it completes only if it fails together with all other work.
 */
#include "internal.h"

#include <string.h>

enum { FIRST_MS = 25 };

static bool nudge_wanted(const struct host_queue *q)
{
	return !q->lost && q->nudges <= HOST_NUDGES && q->verbs != verbs_iwarp() &&
	       q->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

unsigned host_queue_nudge(struct host_queue *queue)
{
	struct host_queue *q = queue;
	struct ibv_send_wr *bad, nothing = {
		.wr_id = (uint64_t)q->tag << HOST_WR_TAG_SHIFT | HOST_WR_NUDGE,
		.opcode = IBV_WR_RDMA_WRITE,
	};

	if (!nudge_wanted(q))
		return 0;
	host_queue_flush(q);

	const int ret = q->nudges ? ibv_post_send(q->id->qp, &nothing, &bad) : 0;

	if (ret)
		host_queue_lose(q, "cannot send: %s", strerror(ret));
	return (unsigned)FIRST_MS << q->nudges++;
}
