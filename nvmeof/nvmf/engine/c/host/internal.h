/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal declarations of the host side: its objects and the functions that its files call in each other.
 *
 * Threads: a host_device is shared (its lock guards the late binding of context and PD).  A host_poll_group and its
 * queues belong to the thread that polls them.  A host_controller belongs to the thread that created it.
 */
#ifndef NVMF_HOST_INTERNAL_H
#define NVMF_HOST_INTERNAL_H

#include "host.h"
#include "util/clock.h"
#include "util/stat.h"

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
	atomic_uint next_vector;	/* completion vectors are used in turn: each has an interrupt and a processor */
	enum host_remote_keys keys;
	bool windows;			/* of type 2B, with a key for each command */
};

/* Set the device's context (the first time) or check that it is the same; a negative errno. */
int host_device_bind(struct host_device *device, struct ibv_context *context, char *err,
		     size_t len);
/* Memory that peers cannot access. */
struct host_memory *host_memory_alloc_local(struct host_device *device, size_t length, char *err,
					    size_t len);

/* ---- group.c ---- */

enum {
	HOST_WC_BATCH = 32,
	HOST_TAG_INDEX = 0x000fffff,	/* of a tag: index of the queue in the members */
	HOST_TAG_GENERATION = 0x00100000,
};

/* A completion queue, and the number of completions that its queues may have in it at once. */
struct host_cq {
	struct ibv_cq *cq;
	uint32_t entries, reserved;
};

/* A place for a queue; its tag changes with each use, so that a late completion is not attributed to the next queue. */
struct host_member {
	struct host_queue *queue;	/* NULL: free */
	uint32_t tag;
	uint32_t next_free;
};

/*
 * One thread's queues, and the objects they share: completion queues, the completion channel and the channel of
 * connection events.  A queue without a group of the caller's has a group of its own.
 */
struct host_poll_group {
	struct host_device *device;
	const struct verbs *verbs;
	bool notify;
	struct rdma_event_channel *channel;
	struct ibv_comp_channel *comp;	/* with notify */
	int epfd;			/* comp and channel, with notify; else -1 */
	struct host_cq *cqs;
	unsigned ncqs, next_cq;
	struct host_member *members;
	uint32_t nmembers, free_member;

	/* data path */
	struct host_queue *unsent;	/* with commands that were not posted, oldest first */
	struct host_queue **unsent_tail;
	struct host_slot *done;		/* complete, found while a different queue of the group was polled */
	struct host_slot **done_tail;
	struct host_queue *lost;	/* not yet returned to the caller, oldest first */
	struct host_queue **lost_tail;
	uint32_t undrained;		/* completions to process before the lost queue is returned */
	struct ibv_wc wc[HOST_WC_BATCH];
	unsigned wc_next, wc_count;
	unsigned polls;			/* since the last check of the connection events */
};

/* Assign a tag to a queue whose device is bound, and reserve its completions: 0, or a negative errno. */
int host_group_join(struct host_queue *queue, uint32_t entries, struct host_error *error);
/* The queue pair was destroyed: after this no completion refers to the queue. */
void host_group_leave(struct host_queue *queue);
/* For a member: host_group_lost() returns it when its completions have been processed. */
void host_group_lose(struct host_queue *queue);
/* The queue has commands to post. */
void host_group_mark(struct host_queue *queue);
/* The channel of connection events, created on first use; NULL with errno. */
struct rdma_event_channel *host_group_channel(struct host_poll_group *group);
/* Handle events of the connections; never blocks. */
void host_group_cm_events(struct host_poll_group *group);

static inline struct host_queue *host_group_find(const struct host_poll_group *group, uint64_t wr_id);

/* ---- queue.c ---- */

enum {
	HOST_SIZE_MAX = 4096,		/* the index part of a CID */
	HOST_CID_INDEX = 0x0fff,
	HOST_CID_GENERATION = 0x1000,
	HOST_RECV_SLACK = 16,		/* receives beyond the queue size, so that they are reposted in batches */
	HOST_BUSY = 4,			/* outstanding commands, from which on in_capsule_busy counts */
	HOST_NUDGES = 6,
	HOST_SIGNAL_EVERY = 32,		/* one command in this many is signalled, which waits for an acknowledgement too */
};

/* A wr_id: the tag of the queue, the kind of work, the index of its slot or receive. */
enum {
	HOST_WR_INDEX = 0x1fff,
	HOST_WR_KIND = 0xe000,
	HOST_WR_SEND = 0,
	HOST_WR_RECV = 0x2000,
	HOST_WR_NUDGE = 0x4000,
	HOST_WR_BIND = 0x6000,		/* not signalled: it completes only if it fails */
	HOST_WR_INVALIDATE = 0x8000,
	HOST_WR_TAG_SHIFT = 32,
};

/* The events for which a command in flight still waits; DONE: to be returned to its user. */
enum { SLOT_FREE = 0, SLOT_SEND = 1, SLOT_RESPONSE = 2, SLOT_INVALIDATE = 4, SLOT_DONE = 8 };

struct host_slot {
	void *user;
	uint16_t cid;			/* generation | index */
	uint8_t waits;			/* SLOT_* */
	uint32_t sent, invalidated;	/* queue->sent after its capsule, and after the invalidation */
	uint32_t key;			/* valid until the command ends: the peer may use it; otherwise 0 */
	struct ibv_mr *mr;		/* registration of the key, if it is not a window's */
	struct nvme_cqe cqe;		/* kept until the command is complete */
	struct host_slot *next;		/* of group->done */
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];		/* the command, in-capsule data */
};

/* A slot's memory window. */
struct host_window {
	struct ibv_mw *mw;		/* NULL after it was destroyed with its command */
	struct ibv_send_wr bind;	/* posted before the slot's */
};

struct host_queue {
	struct host_device *device;
	const struct verbs *verbs;
	struct host_poll_group *group;
	bool own_group;
	uint32_t tag;
	struct rdma_cm_id *id;
	unsigned cq;			/* of group->cqs */
	uint32_t cq_share;		/* entries of it that are reserved for this queue; 0: in none */

	/* data path */
	uint16_t size;			/* entries of the submission queue */
	uint16_t depth;			/* commands that may be outstanding */
	uint16_t outstanding;
	uint16_t nfree;
	uint16_t *free;			/* a stack of slot indices */
	uint32_t in_capsule;		/* bytes of data that go in a capsule at most */
	uint32_t in_capsule_busy;	/* the same, while HOST_BUSY commands are outstanding */
	struct host_slot *slots;
	struct host_window *windows;	/* one per slot, or NULL */
	struct nvme_sqe *capsules;	/* one per slot */
	struct nvme_cqe *responses;	/* nrecv of them */
	struct ibv_recv_wr *recvs;
	struct ibv_sge *recv_sges;
	unsigned nrecv;
	struct ibv_send_wr *send_head, *send_tail;	/* submitted, not yet posted */
	struct ibv_recv_wr *recv_head, *recv_tail;	/* taken, not yet posted again */
	unsigned nrepost;
	/*
	 * Unsignalled sends are retired by the completion of a later signalled one.  Until then they count in the
	 * send queue, so beyond a limit every command is signalled, and holds its slot until it is retired.
	 */
	uint32_t sent, retired;		/* work requests: submitted, and known to have ended */
	uint32_t unsignalled;		/* commands since the last signalled one */
	uint32_t unretired_max;		/* work requests; beyond it every command is signalled */
	uint32_t send_depth;		/* of the queue pair */
	int capsule_flags;		/* IBV_SEND_INLINE, or 0 */
	bool quiet;			/* a capsule's memory can be reused when its response has arrived */
	unsigned nudges;	/* host_queue_nudge() calls so far */
	bool lost;
	bool marked;			/* in group->unsent */
	struct host_queue *unsent_next, *lost_next;

	struct host_memory *ring;	/* capsules and responses */
	uint16_t qid;
	char where[80];			/* "127.0.0.1:4420", for messages */
	char reason[256];
};

static inline struct host_queue *host_group_find(const struct host_poll_group *group, uint64_t wr_id)
{
	const uint32_t tag = (uint32_t)(wr_id >> HOST_WR_TAG_SHIFT);
	struct host_queue *q = group->members[tag & HOST_TAG_INDEX].queue;

	return __builtin_expect(q && q->tag == tag, 1) ? q : NULL;
}

/* Create everything of a queue that does not depend on the connection. */
struct host_queue *host_queue_new(struct host_device *device,
				  const struct host_queue_options *options,
				  struct host_error *error);
/* Create the queue pair and registered rings on a resolved id, and post the receives. */
int host_queue_build(struct host_queue *queue, struct host_error *error);
/* Stop sending on the connection: outstanding commands may be repeated on a different one. */
void host_queue_stop(struct host_queue *queue);
/* Return to the state after host_queue_new, for a different address; the connection ends. */
void host_queue_unbuild(struct host_queue *queue);

/* ---- submit.c, complete.c ---- */

/* The connection is lost: keep the first reason, and send nothing more on it. */
void host_queue_lose(struct host_queue *queue, const char *fmt, ...) HOST_PRINTF(2, 3);
/* Handle a CM event of an established connection. */
void host_queue_cm_event(struct host_queue *queue, enum rdma_cm_event_type type, int status);
/* Drop its completions that were not returned yet: they are abandoned with the others. */
void host_queue_forget_done(struct host_queue *queue);
/* The device's reason for the end of the connection, or "". */
const char *host_queue_end_reason(const struct host_queue *queue);

/* ---- record.c: only while something is captured ---- */

/* Work requests that are about to be posted. */
void host_record_sent(const struct host_queue *queue, const struct ibv_send_wr *wr);
/* A response, whose slot has not been changed yet. */
void host_record_response(const struct host_queue *queue, const struct ibv_wc *wc);

/* ---- keys.c ---- */

/* Create windows for the slots, if the device has any left, and compute the number of send work requests. */
int host_keys_build(struct host_queue *queue);
/* The queue pair was destroyed. */
void host_keys_unbuild(struct host_queue *queue);
/* Set a key for the command's data in its descriptor, and the first work request to post: 0, or a negative errno. */
int host_keys_give(struct host_queue *queue, struct host_slot *slot, const struct host_data *data,
		   struct nvme_sgl *sgl, struct ibv_send_wr **first);
/*
 * The response has arrived: end the key, which may take until a SLOT_INVALIDATE.  by_peer: the target has invalidated
 * it with the response.
 */
void host_keys_end(struct host_queue *queue, struct host_slot *slot, bool by_peer);
/* The queue is lost, so the work that would have ended the key will not run. */
void host_keys_revoke(struct host_queue *queue, struct host_slot *slot);

/* ---- connect.c ---- */

/* Resolve, connect and wait for ESTABLISHED: 0, or a negative errno with error filled. */
int host_queue_establish(struct host_queue *queue, const struct host_queue_options *options,
			 struct host_error *error);

/* ---- names.c ---- */

const char *host_cm_event_name(int event);
/* The reason of a connection manager of InfiniBand or RoCE for a reject. */
const char *host_cm_reason_name(int reason);
enum { HOST_CM_NO_SERVICE = 8 };
const char *host_reject_name(int sts);
const char *host_reject_hint(int sts);

void host_error_clear(struct host_error *error);
int host_error_set(struct host_error *error, int ret, const char *fmt, ...) HOST_PRINTF(3, 4);

#endif
