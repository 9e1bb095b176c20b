/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that the target's files use so often that they are inline.  Reactor's thread.
 */
#ifndef NVMF_TARGET_INLINE_H
#define NVMF_TARGET_INLINE_H

#include "target/calls.h"

/* ---- reactors ---- */

/* The time, read at most twice per iteration: for completions, and for the work that they cause. */
static inline uint64_t reactor_now(struct reactor *reactor)
{
	if (!reactor->now)
		reactor->now = clock_ns();
	return reactor->now;
}

static inline void reactor_mark(struct target_qpair *qp)
{
	if (!qp->marked) {
		qp->marked = true;
		qp->mark_next = qp->reactor->marked;
		qp->reactor->marked = qp;
	}
}

/* ---- requests ---- */

/* Post the receive again: its content is no longer needed. */
static inline void recv_give_back(struct target_qpair *qp, struct recv *recv)
{
	if (recv->srq) {
		qp->recv_taken--;
		stack_push(&recv->srq->spare, &recv->link);
		recv->srq->spares++;
	} else {
		fifo_push(&qp->repost, &recv->link);
	}
	reactor_mark(qp);
}

static inline bool chunk_is_own(const struct chunk *chunk)
{
	return chunk == &chunk->req->qp->own;
}

static inline uint32_t chunk_lkey(const struct chunk *chunk)
{
	return chunk_is_own(chunk) ? chunk->req->qp->own_lkey : chunk->req->qp->pool_lkey;
}

static inline const struct sgl_entry *request_sgl(const struct target_request *req)
{
	return req->sgl_count > 1 ? req->qp->sgls + (size_t)req->index * TARGET_MAX_SGL : &req->sgl;
}

/* The host's memory at an offset of the data; returns how much of max is contiguous there. */
static inline uint32_t request_piece(const struct target_request *req, uint32_t offset,
				     uint32_t max, uint64_t *addr, uint32_t *key)
{
	const struct sgl_entry *e = request_sgl(req);

	while (offset >= e->length) {
		offset -= e->length;
		e++;
	}
	*addr = e->addr + offset;
	*key = e->key;
	return max < e->length - offset ? max : e->length - offset;
}

static inline uint32_t request_pieces(const struct target_request *req, uint32_t offset,
				      uint32_t length)
{
	uint32_t pieces = 1, key;
	uint64_t addr;

	if (req->sgl_count == 1)
		return 1;
	for (;; pieces++) {
		uint32_t n = request_piece(req, offset, length, &addr, &key);

		if (n == length)
			return pieces;
		offset += n;
		length -= n;
	}
}

/* ---- namespaces ---- */

static inline uint16_t gate_status(uint64_t gate, enum gate_group group)
{
	return (uint16_t)(gate >> 16 * group);
}

static inline struct ns_local *namespace_local(const struct target_request *req)
{
	return &req->ns->local[req->qp->reactor->index];
}

static inline void namespace_leave(struct target_namespace *ns, struct ns_local *local)
{
	if (!--local->inflight && local->retiring)
		namespace_unused(ns, local);
}

/* The response was sent, or will not be sent: the namespace no longer serves the request. */
static inline void namespace_served(struct target_request *req)
{
	struct ns_local *local = namespace_local(req);

	if (!req->serving)
		return;
	req->serving = false;
	if (--local->serving)
		return;
	stat_add(&local->busy_ns, reactor_now(req->qp->reactor) - local->busy_since);
	__atomic_store_n(&local->busy_since, 0, __ATOMIC_RELAXED);
}

static inline struct target_namespace *namespace_get(struct target_request *req, uint32_t nsid)
{
	struct target_nstable *table = atomic_load_explicit(&req->qp->table, memory_order_acquire);

	if (nsid > table->max_nsid)
		return NULL;
	req->ns = atomic_load_explicit(&table->ns[nsid], memory_order_acquire);
	if (req->ns) {
		struct ns_local *local = namespace_local(req);

		local->inflight++;
		req->serving = true;
		if (!local->serving++)
			__atomic_store_n(&local->busy_since, reactor_now(req->qp->reactor),
					 __ATOMIC_RELAXED);
	}
	return req->ns;
}

/* The NVMe status of the gates for a command on its namespace. */
static inline uint16_t namespace_gate(const struct target_request *req, enum gate_group group)
{
	const struct target_namespace *ns = req->ns;
	struct target_gates *gates = atomic_load_explicit(&req->qp->gates, memory_order_acquire);
	uint16_t status = 0;

	if (gates && ns->nsid <= gates->max_nsid)
		status = gate_status(atomic_load_explicit(&gates->gate[ns->nsid],
							  memory_order_relaxed), group);
	return status ? status
		      : gate_status(atomic_load_explicit(&ns->gate, memory_order_relaxed), group);
}

/* Let the request use a namespace; returns an NVMe status. */
static inline uint16_t namespace_use(struct target_request *req, uint32_t nsid,
				     enum gate_group group)
{
	if (!namespace_get(req, nsid))
		return NVME_INVALID_NAMESPACE | NVME_DNR;
	return namespace_gate(req, group);
}

static inline bool namespace_has(const struct target_namespace *ns, uint64_t slba, uint64_t blocks)
{
	uint64_t size = atomic_load_explicit(&ns->blocks, memory_order_relaxed);

	return slba <= size && blocks <= size - slba;
}

/* Whether a write is a copy to memory; otherwise it uses the store's ring. */
static inline bool namespace_copies(const struct target_request *req)
{
	const struct store *store = req->ns->store;

	return req->ns->memory && (!req->fua || !store_needs_sync(store)) &&
	       store_memory_ready(store, req->offset, req->length);
}

/* Whether a write of this length goes past the caches. */
static inline bool namespace_streams(const struct target_namespace *ns, size_t length)
{
	return store_streams(ns->store, length) || (!ns->latches.shared && store_streams_unfenced(ns->store, length));
}

/* Copy data of a Write for which namespace_copies(); the caller holds its latch. */
static inline uint16_t namespace_copy(const struct target_request *req, uint64_t offset, const void *from, size_t length)
{
	struct store *store = req->ns->store;

	/*
	 * Several reactors may use the blocks as soon as the latch is dropped.  With one, nobody knows of the write before
	 * its response, and post_chain() has the fence.
	 */
	if (req->ns->latches.shared || !store_memory_write_unfenced(store, offset, from, length))
		return store_memory_write(store, offset, from, length, req->fua);
	req->qp->reactor->unfenced = true;
	return NVME_SUCCESS;
}

static inline void namespace_put(struct target_request *req)
{
	namespace_served(req);
	namespace_leave(req->ns, namespace_local(req));
	req->ns = NULL;
}

/* Whether any of these bytes is marked as invalid. */
static inline bool invalid_overlaps(struct target_namespace *ns, uint64_t offset, uint64_t length)
{
	const struct ns_invalid *invalid = atomic_load_explicit(&ns->invalid, memory_order_acquire);

	return invalid && invalid_find(invalid, offset, length);
}

static inline bool limited(struct target_request *req, const struct nvme_sqe *sqe)
{
	return atomic_load_explicit(&req->ns->limited, memory_order_acquire) &&
	       limits_wait(req, sqe);
}

#endif
