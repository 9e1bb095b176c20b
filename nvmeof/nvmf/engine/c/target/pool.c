/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of transfer buffers: a reactor's, and those of queue pairs with buffers of their own (region.c).
 *
 * Owns one mapping, registered once per device (device.c), and the chunks that represent its buffers.  Created and
 * freed by the control thread, used by the reactor's thread only.  A part of the memory is divided into small
 * buffers, so that a command for one block does not take a buffer for 128 KiB.
 *
 * If no buffer is free, queue pairs wait in line: first in, first out; each takes as many as it may and then goes to
 * the end.  A queue pair may hold at most twice the number of free buffers, and the last eighth is for queue pairs
 * that hold none, so hosts that take buffers and do not transfer data leave some for others.  Buffers that a
 * store uses do not count for the queue pair: by the same rule a namespace whose store is slow leaves some for other
 * namespaces, and its commands wait in a line of the namespace.  Buffers for data that is to be written count before the
 * store has them, or a store that hangs could get all; but while it uses none, it is not the store that is slow, and
 * only the shares of queue pairs count.
 *
 * If that is not enough (with many such queue pairs), hosts that transferred no data for seconds while others waited
 * lose their connection.  In the meantime each queue pair has a small buffer of its own, so that it may be slow but
 * never stops because of others.  Before Connect it has only that buffer.
 */
#include "target/calls.h"
#include "util/numa.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
/*
 * Extra distance between buffers, so that their beginnings, the only part that small I/O uses, do not fall into the
 * same cache sets.
 */
#define STAGGER 4096u

#define PRESS_NS 250000000ull	/* time between two searches for hosts that hold buffers for too long */
#define PATIENCE_NS 4000000000ull	/* time limit for a host that holds a buffer while others wait, and moves no data */
#define LIMIT_NS 15000000000ull		/* and for one that moves some data now and then, but not that of the buffer */

static uint8_t *map_memory(size_t *bytes)
{
	size_t size = (*bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	uint8_t *memory, *aligned;
	size_t head;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory != MAP_FAILED) {
		*bytes = size;
		return memory;
	}
	memory = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	aligned = (uint8_t *)(((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	head = (size_t)(aligned - memory);
	if (head)
		munmap(memory, head);
	munmap(aligned + size, HUGE_PAGE - head);
	madvise(aligned, size, MADV_HUGEPAGE);
	*bytes = size;
	return aligned;
}

/* Map a queue pair's own memory: in small pages, so that unused pages take no memory unless they are pinned. */
static uint8_t *map_private(size_t *bytes)
{
	void *memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void shelf_init(struct pool_shelf *shelf, uint32_t size, uint32_t count)
{
	shelf->size = size;
	shelf->count = shelf->free_count = count;
	shelf->free = NULL;
	fifo_init(&shelf->line);
}

/* Divide memory into buffers; returns the address after them. */
static uint8_t *shelf_fill(struct pool *pool, enum pool_class class, uint8_t *memory)
{
	struct pool_shelf *shelf = &pool->shelf[class];
	struct chunk *chunks = pool->chunks + (class == POOL_LARGE ? pool->shelf[POOL_SMALL].count : 0);

	for (uint32_t i = shelf->count; i-- > 0;) {
		struct chunk *chunk = &chunks[i];

		*chunk = (struct chunk){
			.tx.is_chunk = true,
			.class = (uint8_t)class,
			.buffer = memory + ((size_t)shelf->size + STAGGER) * i,
		};
		stack_push(&shelf->free, &chunk->tx.link);
	}
	return memory + ((size_t)shelf->size + STAGGER) * shelf->count;
}

static int pool_make(struct pool *pool, uint8_t *(*map)(size_t *bytes), int node)
{
	struct pool_shelf *shelf = pool->shelf;
	uint32_t count = shelf[POOL_SMALL].count + shelf[POOL_LARGE].count;

	pool->bytes = ((size_t)shelf[POOL_SMALL].size + STAGGER) * shelf[POOL_SMALL].count +
		      ((size_t)shelf[POOL_LARGE].size + STAGGER) * shelf[POOL_LARGE].count;
	fifo_init(&pool->returned);
	pool->chunks = aligned_alloc(CACHE_LINE, sizeof(*pool->chunks) * count);
	if (!pool->chunks)
		return -ENOMEM;
	pool->memory = map(&pool->bytes);
	if (!pool->memory)
		return -ENOMEM;
	numa_prefer(pool->memory, pool->bytes, node);
	shelf_fill(pool, POOL_LARGE, shelf_fill(pool, POOL_SMALL, pool->memory));
	return 0;
}

int pool_create(struct pool *pool, uint32_t buffer_size, uint32_t count, int node)
{
	/* A quarter of the memory is for small buffers, if the others are large enough to make that worthwhile. */
	uint32_t cut = buffer_size >= 4 * POOL_SMALL_SIZE ? count / 4 : 0;

	shelf_init(&pool->shelf[POOL_SMALL], POOL_SMALL_SIZE,
		   cut * (buffer_size / (2 * POOL_SMALL_SIZE)));
	shelf_init(&pool->shelf[POOL_LARGE], buffer_size, count - cut);
	return pool_make(pool, map_memory, node);
}

int pool_create_private(struct pool *pool, const struct pool *like, uint32_t small, uint32_t large,
			int node)
{
	pool->is_private = true;
	shelf_init(&pool->shelf[POOL_SMALL], POOL_SMALL_SIZE, small);
	shelf_init(&pool->shelf[POOL_LARGE], like->shelf[POOL_LARGE].size, large);
	return pool_make(pool, map_private, node);
}

void pool_free(struct pool *pool)
{
	if (pool->memory)
		munmap(pool->memory, pool->bytes);
	free(pool->chunks);
}

/* ---- shares ---- */

/* Whether the holder of this many buffers of a shelf must leave the free ones to others. */
static bool share_is_taken(const struct pool_shelf *shelf, uint32_t held)
{
	return held && (held >= 2 * shelf->free_count || shelf->free_count <= shelf->count / 8);
}

/* The namespace in whose share the request's buffers count as well; NULL if there is none. */
static struct ns_local *pool_sharer(const struct target_request *req)
{
	if (!req->ns || req->ns->memory || req->qp->pool->is_private)
		return NULL;
	return namespace_local(req);
}

static enum pool_class pool_class_for(const struct pool *pool, uint32_t bytes)
{
	const struct pool_shelf *shelf = pool->shelf;

	if (!shelf[POOL_SMALL].count || !shelf[POOL_LARGE].count)
		return shelf[POOL_SMALL].count ? POOL_SMALL : POOL_LARGE;
	return bytes <= POOL_SMALL_SIZE ? POOL_SMALL : POOL_LARGE;
}

struct fifo *pool_namespace_line(const struct target_request *req, uint32_t bytes)
{
	struct ns_local *local = pool_sharer(req);
	const struct pool *pool = req->qp->pool;
	enum pool_class class;

	if (!local)
		return NULL;
	class = pool_class_for(pool, bytes);
	if (local->pool_line.head && local->pool_line.head != &req->tx.link)
		return &local->pool_line;
	return local->stored && share_is_taken(&pool->shelf[class], local->buffers[class]) ? &local->pool_line : NULL;
}

static void pool_stand_in_line(struct target_qpair *qp, enum pool_class class)
{
	struct pool_place *place = &qp->pool_place[class];

	stat_add(&qp->waited_for_buffer, 1);
	place->waits = !qp->pool->is_private;
	if (place->in_line || qp->pool->is_private)
		return;
	place->in_line = true;
	fifo_push(&qp->pool->shelf[class].line, &place->link);
}

static struct chunk *shelf_take(struct target_qpair *qp, enum pool_class class)
{
	struct pool_shelf *shelf = &qp->pool->shelf[class];
	struct pool_place *place = &qp->pool_place[class];

	if (!shelf->free_count || (shelf->line.head && shelf->line.head != &place->link))
		return NULL;
	if (!qp->pool->is_private && share_is_taken(shelf, place->held))
		return NULL;
	shelf->free_count--;
	place->held++;
	return container_of(stack_pop(&shelf->free), struct chunk, tx.link);
}

static struct chunk *pool_take(struct target_request *req, uint32_t bytes)
{
	struct target_qpair *qp = req->qp;
	enum pool_class class = pool_class_for(qp->pool, bytes);
	struct chunk *chunk = shelf_take(qp, class);

	if (!chunk && class == POOL_SMALL)
		chunk = shelf_take(qp, POOL_LARGE);
	if (!chunk) {
		/* Over its share, it does not wait in line: it is called again when one of its buffers returns. */
		if (share_is_taken(&qp->pool->shelf[class], qp->pool_place[class].held))
			stat_add(&qp->waited_for_buffer, 1);
		else
			pool_stand_in_line(qp, class);
		return NULL;
	}
	chunk->sharer = pool_sharer(req);
	if (chunk->sharer)
		chunk->sharer->buffers[chunk->class]++;
	return chunk;
}

struct chunk *pool_get(struct target_request *req, uint32_t bytes)
{
	struct target_qpair *qp = req->qp;
	bool known = atomic_load_explicit(&qp->connected, memory_order_relaxed);
	struct chunk *chunk = known ? pool_take(req, bytes) : NULL;

	/* A queue pair's own buffer is for one that would otherwise stop, not for one that has used its share. */
	if (chunk || !qp->own_free || qp->pool_place[POOL_SMALL].held || qp->pool_place[POOL_LARGE].held)
		return chunk;
	qp->own_free = false;
	return &qp->own;
}

/* The requests that wait for the namespace's share may have their turn: see pool_serve(). */
static void pool_call_sharers(struct pool *pool, struct ns_local *local)
{
	if (!local->pool_line.head || local->pool_listed)
		return;
	local->pool_listed = true;
	local->inflight++;	/* the namespace may retire with its last request: not while it is in this list */
	fifo_push(&pool->returned, &local->pool_link);
}

void pool_put(struct target_qpair *qp, struct chunk *chunk)
{
	struct pool *pool = qp->pool;
	struct ns_local *local = chunk->sharer;
	struct pool_shelf *shelf;

	if (chunk == &qp->own) {
		qp->own_free = true;
		return;
	}
	shelf = &pool->shelf[chunk->class];
	chunk->with_host = 0;
	stack_push(&shelf->free, &chunk->tx.link);
	shelf->free_count++;
	qp->pool_place[chunk->class].held--;
	if (!local)
		return;
	local->buffers[chunk->class]--;
	pool_call_sharers(pool, local);
}

void pool_lend(const struct chunk *chunk, bool to_store)
{
	struct target_qpair *qp = chunk->req->qp;

	if (!chunk->sharer)
		return;
	qp->pool_place[chunk->class].held += to_store ? -1u : 1u;
	chunk->sharer->stored += to_store ? 1 : -1u;
	if (!chunk->sharer->stored)
		pool_call_sharers(qp->pool, chunk->sharer);
	if (to_store && (qp->waiting[0].head || qp->waiting[1].head))
		reactor_mark(qp);	/* it may take a buffer again */
}

/* ---- lines ---- */

/* The connection has ended: no buffers are needed. */
void pool_leave_line(struct target_qpair *qp)
{
	for (enum pool_class class = POOL_SMALL; class < POOL_CLASSES; class++) {
		struct pool_place *place = &qp->pool_place[class];

		if (!place->in_line)
			continue;
		place->in_line = false;
		fifo_remove(&qp->pool->shelf[class].line, &place->link);
	}
}

static bool pool_has_any(const struct pool *pool, enum pool_class class)
{
	return pool->shelf[class].free_count ||
	       (class == POOL_SMALL && pool->shelf[POOL_LARGE].free_count);
}

static void pool_serve_shelf(struct pool *pool, enum pool_class class)
{
	struct fifo *line = &pool->shelf[class].line;

	const struct fifo_link *again = NULL;	/* the first queue pair that went back to the end of the line */

	while (line->head && line->head != again && pool_has_any(pool, class)) {
		struct pool_place *place = container_of(line->head, struct pool_place, link);

		/* It keeps its place while it takes buffers, so that pool_get knows which queue pair is served. */
		place->waits = false;
		transfer_kick(place->qp);
		fifo_pop(line);
		place->in_line = false;
		if (!place->waits || place->qp->dead)
			continue;
		place->in_line = true;
		fifo_push(line, &place->link);
		again = again ? again : &place->link;
	}
}

void pool_serve(struct reactor *reactor)
{
	struct pool *pool = &reactor->pool;
	struct fifo_link *link;

	while ((link = fifo_pop(&pool->returned))) {
		struct ns_local *local = container_of(link, struct ns_local, pool_link);

		local->pool_listed = false;
		transfer_kick_line(&local->pool_line);
		namespace_leave(local->ns, local);
	}
	pool_serve_shelf(pool, POOL_SMALL);
	pool_serve_shelf(pool, POOL_LARGE);
}

static bool pool_has_shelf_line(const struct pool *pool)
{
	return pool->shelf[POOL_SMALL].line.head || pool->shelf[POOL_LARGE].line.head;
}

bool pool_has_line(const struct reactor *reactor)
{
	return pool_has_shelf_line(&reactor->pool) || reactor->pool.sharers_waiting;
}

/* Whether requests wait for a buffer like this one. */
static bool is_wanted(const struct pool *pool, const struct chunk *chunk)
{
	return pool_has_shelf_line(pool) || (chunk->sharer && chunk->sharer->pool_line.head);
}

/*
 * The time limit that the host has exceeded with the buffer, or 0.  A buffer whose data is to be sent waits for nothing but
 * that the host takes what is sent; one to be filled may wait behind data that is sent.
 */
static uint64_t sat_on_for(const struct chunk *chunk, uint64_t now)
{
	const struct target_qpair *qp;

	if (!chunk->with_host || now < chunk->with_host + PATIENCE_NS)
		return 0;
	if (now > chunk->with_host + LIMIT_NS)
		return LIMIT_NS;
	qp = chunk->req->qp;
	return now > (transfer_fetches(chunk->req) ? qp->moved : qp->taken) + PATIENCE_NS ? PATIENCE_NS : 0;
}

void pool_press(struct reactor *reactor)
{
	struct pool *pool = &reactor->pool;
	uint32_t count = pool->shelf[POOL_SMALL].count + pool->shelf[POOL_LARGE].count;
	uint64_t now = reactor_now(reactor);

	if (now < pool->next_press)
		return;
	pool->next_press = now + PRESS_NS;
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t limit = sat_on_for(&pool->chunks[i], now);

		if (limit && is_wanted(pool, &pool->chunks[i]))
			qpair_fail(pool->chunks[i].req->qp, "for %u s the host did not move data for "
				   "which it held a buffer that others waited for",
				   (unsigned)(limit / 1000000000));
	}
}
