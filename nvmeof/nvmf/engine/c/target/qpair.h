/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs.
 *
 * The control thread makes and frees them; from up_mail to CLOSED the reactor has the fields that say so.
 */
#ifndef NVMF_TARGET_QPAIR_H
#define NVMF_TARGET_QPAIR_H

#include "target/request.h"

enum { TARGET_OWN_BUFFER = 8192 };	/* of a queue pair, for when the pool has none for it */

enum { ERROR_WORDS = sizeof(struct target_error) / sizeof(uint64_t) };

struct error_slot {			/* a target_error: its number last, and 0 while it changes */
	uint64_t word[ERROR_WORDS];
};

struct target_qpair {
	/* reactor: hot */
	struct reactor *reactor;
	struct ibv_qp *ibqp;
	_Atomic(struct target_nstable *) table;
	_Atomic(struct target_gates *) gates;	/* NULL: none */
	_Atomic uint32_t sq_size;
	_Atomic bool connected, enabled;
	bool up;			/* accepted: until then ibqp and id are the control thread's alone */
	bool dead;			/* no more posts; what is outstanding drains */
	bool closed;			/* CLOSED went up: the reactor touches ibqp and id no more */
	bool marked;
	bool inline_response, send_with_invalidate;
	bool iwarp_adapter;		/* an iWARP device that is not ours: see accept.c */
	bool blocked;			/* something waits for sends to complete */
	bool fused_expected;		/* the first of a pair came: the second is next */
	uint8_t device;			/* index */
	uint32_t lkey, pool_lkey, own_lkey;
	struct target_srq *srq;		/* or NULL */
	struct nvme_cqe *cqes;		/* responses, by request, where they are not posted inline */
	uint32_t in_capsule, max_transfer;
	uint16_t sqhd;
	struct target_request *requests;
	struct fifo_link *free_requests;
	uint32_t request_count, request_fresh;	/* those from fresh on were never used */
	uint32_t sq_free, sq_count;
	uint32_t read_free, read_limit;	/* RDMA READs */
	uint32_t fetching;		/* chunks */
	uint32_t line_waiting;		/* requests in lines of namespaces (pool.c) */
	uint64_t moved;			/* ns: when its host last let something through */
	bool own_free;			/* own.buffer, TARGET_OWN_BUFFER bytes of region */
	uint32_t active, held;		/* requests: in use, and of those up at the control thread */
	uint32_t recv_posted;		/* of its own; */
	uint32_t recv_taken;		/* of those that it shares: held */
	uint32_t number;
	struct target_qpair *number_next;	/* in reactor->by_number */
	struct fifo tx, reads;		/* to be posted: responses and chunks; chunks to fetch */
	struct fifo posted;		/* responses */
	struct fifo repost;		/* receives */
	struct fifo pending;		/* capsules that no request was free for */
	struct fifo waiting[2];		/* requests: for a buffer; for a buffer and an RDMA READ */
	uint64_t *cids;			/* bitmap of outstanding command identifiers */
	struct sgl_entry *sgls;		/* TARGET_MAX_SGL per request */
	struct target_qpair *mark_next;
	struct pool *pool;
	struct pool_place pool_place[POOL_CLASSES];
	struct target_request *fused_first;	/* of that pair; NULL where it was refused */
	struct fifo_link fused_link;	/* in reactor->halves, if fused_listed */
	uint64_t fused_until;		/* ns: how long it waits */
	bool fused_listed;
	uint32_t upcall_bytes;		/* of data fetched for the control thread */
	struct chunk own;

	/* reactor: counters */
	uint64_t commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer;
	uint64_t refused;		/* errors that the engine itself found: see errors.c */

	/* reactor: cold */
	struct error_slot refusals[TARGET_ERRORS];
	struct recv *recvs;
	struct list_link reactor_link;	/* in reactor->qpairs */
	struct fifo_link linger_link;
	uint64_t linger_until;
	bool lingering;			/* takes no more capsules: to be disconnected */
	bool linger_listed, disconnected, ended_here, destroying;
	bool broken;			/* work of it failed, or was refused */
	bool ended;			/* the device has: what came of shared receives has been taken */
	struct list over;		/* requests: the first in line of each namespace over whose limits it is */
	struct fifo fences;		/* the first is waiting for requests, the others for it */
	char reason[256];
	struct target_upcall closed_upcall, released_upcall;

	/* control, or the thread that ends connections while a job is there */
	struct job end_job, release_job;
	struct target_upcall destroyed_upcall;
	struct ibv_pd *pd;		/* its own, or the device's */
	struct target *target;
	const struct verbs *verbs;
	struct rdma_cm_id *id;
	struct target_device *dev;
	struct reactor_cq *recv_cq, *send_cq;	/* the same, or two */
	struct target_qpair *next;
	struct target_qpair_options options;
	struct mail up_mail, disconnect_mail, destroy_mail, ended_mail;
	bool disconnect_sent, destroy_sent, closed_seen, abandoned;
	bool peer_left;			/* written before the disconnect mail, read after it */
	uint32_t recv_share, send_share;	/* of their entries */
	uint8_t *region;
	size_t region_bytes, registered_bytes;
	struct ibv_mr *mr, *own_mr;
	struct ibv_mr *pool_mr;		/* of pool, where that is private_pool */
	struct pool private_pool;
};

#endif
