/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces, and the objects between them and the hosts: tables, gates, fences.
 *
 * A reactor reads a namespace's fields without a lock and writes only its own ns_local; for owners see internal.h.
 */
#ifndef NVMF_TARGET_NAMESPACE_H
#define NVMF_TARGET_NAMESPACE_H

#include "target/internal.h"

/* ---- namespaces ---- */

enum { LIMIT_LINES = 3 };		/* read, write, common: see limits.c */

struct ns_local {			/* one per reactor */
	uint64_t inflight;		/* commands, until their requests are free again */
	uint64_t serving;		/* commands that have no response yet */
	uint64_t reads, writes, read_bytes, write_bytes, errors, media_errors;
	bool retiring;
	uint64_t busy_since, busy_ns;	/* ns: busy_since is the time since which requests are served, or 0 */
	uint64_t flushes, compares, verifies, zeroes, deallocates, checked_bytes, copies, copied_bytes;
	struct target_latency latency;
	/* limits */
	_Alignas(CACHE_LINE) struct target_namespace *ns;
	struct line over[LIMIT_LINES];	/* requests: the first of each queue pair that waits */
	uint64_t over_places;		/* taken so far */
	struct list_link limited_link;	/* in reactor->limited, while requests wait */
	uint64_t throttled;
	/* buffers of the reactor's pool: see pool.c */
	uint32_t buffers[POOL_CLASSES];
	uint32_t stored;		/* of them, those that the store uses */
	struct fifo pool_line;		/* requests that wait because its share is used up */
	struct fifo_link pool_link;	/* in pool.returned, while pool_listed */
	bool pool_listed;
	/* latches */
	struct latch_readers *readers;	/* by entry */
	struct fifo latch_line;		/* latches that wait, the oldest first */
	struct fifo_link latch_link;	/* in reactor->latching, while latches wait */
	uint32_t latch_seen;		/* of latches.released, at the last check */
	uint64_t latch_checked;		/* ns: end of the last check */
	uint64_t latch_cost;		/* ns: how long it took */
} __attribute__((aligned(CACHE_LINE)));

struct invalid_mail {
	struct mail mail;
	struct ns_invalid *invalid;
};

struct invalid_range {
	uint64_t start, end;		/* bytes */
};

struct ns_invalid {			/* never changes while reactors see it */
	uint32_t count;
	struct invalid_range *range;	/* sorted, without overlaps */
	struct ns_invalid *next;	/* control: in target->old_invalid */
	_Atomic unsigned left;		/* reactors that may still read it after its replacement */
	struct invalid_mail mail[];	/* per reactor */
};

struct ns_barrier {
	struct mail mail;
	struct target_namespace *ns;
};

struct target_namespace {
	struct store *store;
	uint32_t nsid;
	uint8_t block_shift;
	bool memory;			/* accessed in place */
	bool latched;			/* blocks have content that latches protect; false for null stores */
	_Atomic bool limited;		/* see limits.c */
	_Atomic uint64_t blocks;
	_Atomic uint64_t gate;		/* see gate_pack() */
	_Atomic(struct ns_invalid *) invalid;	/* NULL: every block can be read */
	_Atomic(struct ns_window *) window[TARGET_MAX_DEVICES];
	/* control */
	struct target *target;
	struct target_namespace *next;
	unsigned tables;		/* number of tables that contain it */
	unsigned reactors;
	struct ns_barrier *barrier;	/* per reactor */
	struct ns_limits *limits;	/* allocated with the first limits, then kept */
	bool retiring;
	struct target_upcall upcall, freed_upcall;
	struct job close_job;
	/* the first reactor with a failed command sets it; the control thread resets it */
	_Atomic bool faulted;
	struct target_fault fault;
	struct target_upcall fault_upcall;
	struct ns_latches latches;
	_Alignas(CACHE_LINE) _Atomic unsigned barriers_left;
	struct ns_local local[];
};

struct target_nstable {
	struct target_nstable *next;	/* control, as the fields that follow */
	struct target *target;
	uint32_t max_nsid;
	_Atomic(struct target_namespace *) ns[];	/* by NSID; 0 stays NULL */
};

/* ---- gates and fences ---- */

struct target_gates {
	struct target_gates *next;	/* control */
	struct target *target;
	uint32_t max_nsid;
	_Atomic uint64_t gate[];	/* by NSID; see gate_pack() */
};

struct fence_entry {			/* one per queue pair */
	struct mail mail;
	struct fifo_link link;		/* in qp->fences */
	struct target_fence *fence;
	struct target_qpair *qp;
	uint32_t left;			/* requests */
};

struct target_fence {
	struct target_fence *next;	/* control */
	struct target *target;
	uint32_t nsid;
	uint16_t abort;			/* status for commands that can be aborted, or 0 */
	_Atomic unsigned left;		/* entries */
	struct target_upcall upcall;
	struct fence_entry entry[];
};

#endif
