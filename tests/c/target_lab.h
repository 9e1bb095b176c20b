/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target and its control thread, in the thread of the test, over the embedded device; the hosts are in
 * target_host.h.  The control side's answers are fixed (lab_command), except those that a test holds back.
 */
#ifndef TESTS_TARGET_LAB_H
#define TESTS_TARGET_LAB_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "target/target.h"
#include "util/clock.h"
#include "util/stat.h"

enum { LAB_QUEUES = 64, LAB_DEPTH = 128, LAB_MEMORY = 8 << 20, LAB_HELD = 256,
       LAB_HOLD = 0x8c /* an opcode that the control side does not answer */ };

/* One queue, both ends of it. */
struct queue {
	/* host */
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	uint8_t *memory;		/* LAB_MEMORY bytes, registered with remote access */
	struct ibv_mr *mr;
	uint8_t *capsules;		/* LAB_DEPTH of LAB_CAPSULE bytes; then responses */
	struct ibv_mr *capsule_mr;
	struct ibv_cq *unused;
	bool established, lost, rejected;
	unsigned outstanding;
	struct nvme_cqe cqe[65536];	/* by CID */
	bool done[65536];
	uint32_t invalidated;		/* key, with the last response; 0: none */
	uint16_t sqhd;
	unsigned next_capsule;
	/* target */
	struct target_qpair *qp;
	bool closed, destroyed;
	char reason[256];
	/* settings of the control side */
	uint16_t qid, depth;
	uint32_t in_capsule, max_transfer;
	unsigned reactor;
	uint8_t reads;			/* initiator_depth given to accept, 0: that of the REQ */
	bool no_flow_control, keep_disabled, hold_all, keep_open;
	struct target_request *held[LAB_HELD];
	unsigned held_count;
	uint32_t last_length;		/* data length of the last command that went to the control thread */
	uint8_t last_data[65536];
	uint8_t last_opcode;
};

#define LAB_CAPSULE (64 + 16384)

static bool lab_sends_apart;	/* sends have a completion queue of their own */
static bool lab_pins;		/* the device registers memory in the background, and pins it */
static bool lab_private;	/* peers may write where RDMA READs put data: see region.c */
static bool lab_shares;		/* queue pairs share their receives */
static struct verbs lab_verbs;

static struct lab {
	const struct verbs *v;
	struct rdma_event_channel *server, *client;
	struct rdma_cm_id *listener;
	struct target *target;
	struct target_nstable *table;
	struct ibv_pd *pd;
	struct queue *queue[LAB_QUEUES];
	struct queue *connecting;
	struct target_namespace *retired[16];
	unsigned retired_count;
	struct target_fence *fenced;	/* the last */
	unsigned fence_count;
	struct target_fault fault;	/* the last one */
	unsigned fault_count;
	struct target_abort *abort;	/* the last, and its result */
	bool aborted;
	unsigned destroying, destroyed;	/* queue pairs */
	unsigned devices;		/* made ready, or failed */
	struct target_namespace *freed;	/* the last: not to be dereferenced */
	void *injected;			/* cookie of the last injection that made its last hit */
	bool gone;			/* the target */
	struct sockaddr_in address;
} lab;

/* ---- control ---- */

static inline void lab_accept(struct rdma_cm_event *event)
{
	struct queue *q = lab.connecting;
	struct target_qpair_options options = {
		.reactor = q->reactor,
		.qid = q->qid,
		.recv_depth = q->depth,
		.send_depth = q->depth,
		.in_capsule = q->in_capsule,
		.max_transfer = q->max_transfer,
		.initiator_depth = q->reads ? q->reads : event->param.conn.initiator_depth,
		.cookie = q,
	};
	char err[256] = "";

	q->qp = target_qpair_accept(lab.target, lab.v, event->id, &options, err, sizeof(err));
	if (!q->qp) {
		check_note("accept: %s", err);
		snprintf(q->reason, sizeof(q->reason), "%s", err);
		lab.v->reject(event->id, NULL, 0);
		lab.v->destroy_id(event->id);
	}
}

static inline void lab_server_events(void)
{
	struct rdma_cm_event *event;

	while (!lab.v->get_cm_event(lab.server, &event)) {
		struct rdma_cm_id *id = event->id;
		bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		bool down = event->event == RDMA_CM_EVENT_DISCONNECTED ||
			    event->event == RDMA_CM_EVENT_CONNECT_ERROR;

		if (request)
			lab_accept(event);
		else if (down && id->context)
			target_qpair_disconnect(id->context);
		lab.v->ack_cm_event(event);
	}
}

static inline void lab_connect_command(struct queue *q, struct target_request *request)
{
	target_qpair_connected(q->qp, q->no_flow_control ? 0 : q->depth,
			       q->qid ? lab.table : NULL);
	target_qpair_enable(q->qp, !q->keep_disabled);
	target_complete(request, 0, 1, 0, NULL, 0);
}

static inline void lab_command(struct queue *q, struct target_request *request)
{
	static uint8_t pattern[1 << 20];
	const struct nvme_sqe *sqe = target_request_sqe(request);
	const void *data = target_request_data(request, &q->last_length);

	q->last_opcode = sqe->opc;
	if (q->last_length)
		memcpy(q->last_data, data, q->last_length);
	if (q->hold_all || sqe->opc == LAB_HOLD) {
		q->held[q->held_count++] = request;
	} else if (sqe->opc == NVME_OPC_FABRICS && (sqe->nsid & 0xff) == NVME_FCTYPE_CONNECT) {
		lab_connect_command(q, request);
	} else if (sqe->opc == NVME_OPC_IDENTIFY) {
		for (uint32_t i = 0; i < sqe->cdw11 && i < sizeof(pattern); i++)
			pattern[i] = (uint8_t)(i * 7 + (i >> 8));
		target_complete(request, 0, 0, 0, pattern, sqe->cdw11);
	} else {
		target_complete(request, NVME_INVALID_OPCODE | NVME_DNR, q->last_length, 0, NULL, 0);
	}
}

static inline void lab_destroy(struct queue *q)
{
	q->destroyed = true;
	lab.destroying++;
	target_qpair_destroy(q->qp);
}

static inline void lab_upcalls(void)
{
	struct target_upcall *up = target_upcalls(lab.target), *next;

	for (; up; up = next) {
		struct queue *q = up->cookie;

		next = up->next;
		switch (up->type) {
		case TARGET_UPCALL_COMMAND:
			lab_command(q, up->request);
			break;
		case TARGET_UPCALL_CLOSED:
			q->closed = true;
			snprintf(q->reason, sizeof(q->reason), "%s", up->reason);
			if (!q->held_count && !q->keep_open)
				lab_destroy(q);
			break;
		case TARGET_UPCALL_RETIRED:
			lab.retired[lab.retired_count++] = up->ns;
			break;
		case TARGET_UPCALL_FENCED:
			lab.fenced = up->fence;
			lab.fence_count++;
			break;
		case TARGET_UPCALL_FAULTED:
			lab.fault = *target_namespace_fault(up->ns);
			lab.fault_count++;
			break;
		case TARGET_UPCALL_ABORTED:
			lab.abort = up->abort;
			lab.aborted = up->aborted;
			break;
		case TARGET_UPCALL_DESTROYED:
			lab.destroyed++;
			break;
		case TARGET_UPCALL_DEVICE:
			lab.devices++;
			break;
		case TARGET_UPCALL_FREED:
			lab.freed = up->ns;
			break;
		case TARGET_UPCALL_INJECTED:
			lab.injected = up->cookie;
			break;
		}
	}
}

#endif
