/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs.
 *
 * Created and freed by the control thread; from up_mail to CLOSED the fields marked so belong to the reactor.
 */
#ifndef NVMF_TARGET_QPAIR_H
#define NVMF_TARGET_QPAIR_H

#include "target/request.h"

enum { TARGET_OWN_BUFFER = 8192 };	/* size of a queue pair's own buffer, used if the pool has none for it */

enum { ERROR_WORDS = sizeof(struct target_error) / sizeof(uint64_t) };

struct error_slot {			/* a target_error: its number is written last, and is 0 during a change */
	uint64_t word[ERROR_WORDS];
};

struct target_qpair {
	/* reactor: hot */
	struct reactor *reactor;
	struct ibv_qp *ibqp;
	_Atomic(struct target_nstable *) table;
	_Atomic(struct target_gates *) gates;	/* NULL: none */
	_Atomic uint32_t sq_size;
	_Atomic uint32_t injected;	/* bitmap of injections (inject.c); 0: none */
	_Atomic bool connected, enabled;
	bool up;			/* accepted: until then the control thread alone uses ibqp and id */
	bool dead;			/* nothing more is posted; outstanding work drains */
	bool closed;			/* CLOSED was posted: the reactor no longer uses ibqp and id */
	bool marked;
	bool inline_response, send_with_invalidate;
	bool iwarp_adapter;		/* an iWARP device other than the embedded one: see accept.c */
	bool blocked;			/* work waits for completions of sends */
	bool fused_expected;		/* the first command of a pair has arrived: the next must be the second */
	uint8_t device;			/* index */
	uint32_t lkey, pool_lkey, own_lkey;
	struct target_srq *srq;		/* or NULL */
	struct nvme_cqe *cqes;		/* responses, by request, if they are not posted inline */
	uint32_t in_capsule, max_transfer;
	uint16_t sqhd;
	struct target_request *requests;
	struct fifo_link *free_requests;
	uint32_t request_count, request_fresh;	/* requests from index fresh on were never used */
	uint32_t sq_free, sq_count;
	uint32_t read_free, read_limit;	/* RDMA READs */
	uint32_t fetching;		/* chunks */
	uint32_t line_waiting;		/* requests in lines of namespaces (pool.c) */
	uint64_t moved;			/* ns: when a transfer with its host last completed */
	uint64_t taken;			/* ns: when its host last took data or a response */
	uint64_t suspected;		/* ns: when it was first found to delay others' writes, or 0: see latch_press.c */
	bool own_free;			/* own.buffer, TARGET_OWN_BUFFER bytes of region */
	uint32_t active, held;		/* requests: in use; with the control thread, as part of those */
	uint32_t recv_posted;		/* in its own receive queue */
	uint32_t recv_taken;		/* receives of a shared queue that it holds */
	uint32_t number;
	struct target_qpair *number_next;	/* in reactor->by_number */
	struct fifo tx, reads;		/* to be posted: responses and chunks; chunks to fetch */
	struct fifo posted;		/* responses */
	struct fifo repost;		/* receives */
	struct fifo pending;		/* capsules for which no request was free */
	struct fifo waiting[2];		/* requests: for a buffer; for a buffer and an RDMA READ */
	struct fifo ranges;		/* requests that wait until less is zeroed or deallocated: see steps.c */
	uint32_t range_bytes;		/* of those under way, at most LATCH_PIECE for each namespace */
	uint64_t *cids;			/* bitmap of outstanding command identifiers */
	struct sgl_entry *sgls;		/* TARGET_MAX_SGL per request */
	struct target_qpair *mark_next;
	struct pool *pool;
	struct pool_place pool_place[POOL_CLASSES];
	struct target_request *fused_first;	/* first command of that pair; NULL if it was refused */
	struct fifo_link fused_link;	/* in reactor->halves, if fused_listed */
	uint64_t fused_until;		/* ns: the time until which it waits */
	bool fused_listed;
	uint32_t upcall_bytes;		/* of data fetched for the control thread */
	uint32_t answer_bytes;		/* that its commands with the control thread, or answered by it, may return */
	struct fifo asking;		/* requests that wait until that is less: see upcall.c */
	struct chunk own;

	/* reactor: counters */
	uint64_t commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer;
	uint64_t refused;		/* errors found by the engine itself: see errors.c */

	/* reactor: cold */
	struct error_slot refusals[TARGET_ERRORS];
	struct recv *recvs;
	struct list_link reactor_link;	/* in reactor->qpairs */
	struct fifo_link linger_link;
	uint64_t linger_until;
	bool lingering;			/* takes no more capsules: it will be disconnected */
	bool linger_listed, disconnected, ended_here, destroying;
	bool broken;			/* its work failed, or was refused */
	bool ended;			/* the device has ended it: completions of shared receives have been taken */
	uint32_t injected_count;	/* requests that are INJECTED */
	struct list over;		/* requests: the first one in each line of a namespace whose limits it exceeds */
	struct fifo fences;		/* the first waits for requests, the others wait for the first */
	char reason[256];
	struct target_upcall closed_upcall, released_upcall;

	/* control, or while a job runs the thread that ends connections */
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
	struct mail up_mail, disconnect_mail, destroy_mail, ended_mail, nudge_mail;
	_Atomic bool nudge_sent;	/* nudge_mail is in the mailbox; cleared by the reactor */
	uint8_t nudges;			/* calls of target_qpair_nudge */
	bool disconnect_sent, destroy_sent, closed_seen, abandoned;
	bool peer_left;			/* written before the disconnect mail, read after it */
	uint32_t recv_share, send_share;	/* of the entries of these queues */
	uint8_t *region;
	size_t region_bytes, registered_bytes;
	struct ibv_mr *mr, *own_mr;
	struct ibv_mr *pool_mr;		/* registration of pool, if that is private_pool */
	struct pool private_pool;
};

#endif
