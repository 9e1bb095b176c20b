/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host side, inside: its objects and what the files of this folder ask of each other.
 *
 * Threads: a host_device is shared (its lock guards the late binding of context and PD).  A
 * host_queue is its polling thread's, with everything in it.  A host_controller is its maker's.
 */
#ifndef NVMF_HOST_INTERNAL_H
#define NVMF_HOST_INTERNAL_H

#include "host.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define HOST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- device.c ---- */

struct host_device {
	const struct verbs *verbs;
	pthread_mutex_t lock;
	atomic_uint refs;
	struct ibv_context *context;	/* NULL until bound to the device that an address routes to */
	struct ibv_pd *pd;
	struct rdma_event_channel *channel;	/* of the cm id that holds the context, or NULL */
	struct rdma_cm_id *id;
	struct ibv_context *opened;	/* to close, or NULL */
	struct ibv_device_attr attr;
};

/* Take context as the device's (the first time) or check that it is; a negative errno. */
int host_device_bind(struct host_device *device, struct ibv_context *context, char *err,
		     size_t len);

/* ---- queue.c ---- */

enum {
	HOST_SIZE_MAX = 4096,		/* the index part of a CID */
	HOST_CID_INDEX = 0x0fff,
	HOST_CID_GENERATION = 0x1000,
	HOST_RECV_SLACK = 16,		/* receives beyond the queue size, so that reposts come in batches */
	HOST_WC_BATCH = 32,
	HOST_NUDGES = 6,
};

#define HOST_RECV_BIT (1ull << 32)	/* in the wr_id of a receive; the rest is its index */
#define HOST_NUDGE_BIT (1ull << 33)	/* in that of a nudge */

/* What a command in flight still waits for. */
enum { SLOT_FREE = 0, SLOT_SEND = 1, SLOT_RESPONSE = 2 };

struct host_slot {
	void *user;
	uint16_t cid;			/* generation | index */
	uint8_t waits;			/* SLOT_SEND | SLOT_RESPONSE */
	struct nvme_cqe cqe;		/* kept while the SEND's completion is awaited */
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];		/* the command, in-capsule data */
};

struct host_queue {
	struct host_device *device;
	const struct verbs *verbs;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_comp_channel *comp;	/* with notify */
	int epfd;			/* comp and channel, with notify; else -1 */

	/* data path */
	uint16_t size;			/* entries of the submission queue */
	uint16_t depth;			/* commands that may be outstanding */
	uint16_t outstanding;
	uint16_t nfree;
	uint16_t *free;			/* a stack of slot indices */
	uint32_t in_capsule;
	struct host_slot *slots;
	struct nvme_sqe *capsules;	/* one per slot */
	struct nvme_cqe *responses;	/* nrecv of them */
	struct ibv_recv_wr *recvs;
	struct ibv_sge *recv_sges;
	unsigned nrecv;
	struct ibv_send_wr *send_head, *send_tail;	/* submitted, not yet posted */
	struct ibv_recv_wr *recv_head, *recv_tail;	/* taken, not yet posted again */
	unsigned nrepost;
	struct ibv_wc wc[HOST_WC_BATCH];
	unsigned wc_next, wc_count;
	unsigned idle;			/* polls without a completion since the CM was asked */
	unsigned nudges;	/* host_queue_nudge() calls so far */
	bool lost;

	struct host_memory *ring;	/* capsules and responses */
	uint16_t qid;
	char where[80];			/* "127.0.0.1:4420", for messages */
	char reason[256];
};

/* Everything of a queue that does not depend on the connection. */
struct host_queue *host_queue_new(struct host_device *device,
				  const struct host_queue_options *options,
				  struct host_error *error);
/* CQ, QP, registered rings and posted receives on a resolved id. */
int host_queue_build(struct host_queue *queue, bool notify, struct host_error *error);
/* Back to what host_queue_new made, for another address; the connection ends. */
void host_queue_unbuild(struct host_queue *queue);
/* The connection is gone: keep the first reason. */
void host_queue_lose(struct host_queue *queue, const char *fmt, ...) HOST_PRINTF(2, 3);
/* Events of the connection, if there are any; never blocks. */
void host_queue_cm_events(struct host_queue *queue);

/* ---- connect.c ---- */

/* Resolve, connect and wait for ESTABLISHED: 0, or a negative errno with error filled. */
int host_queue_establish(struct host_queue *queue, const struct host_queue_options *options,
			 struct host_error *error);

/* ---- names.c ---- */

const char *host_cm_event_name(int event);
const char *host_reject_name(int sts);
const char *host_reject_hint(int sts);
const char *host_wc_status_name(int status);

void host_error_clear(struct host_error *error);
int host_error_set(struct host_error *error, int ret, const char *fmt, ...) HOST_PRINTF(3, 4);

/* ---- time ---- */

uint64_t host_now_ns(void);

#endif
