/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's pool of transfer buffers.
 *
 * Owns one mapping, registered once per device (device.c), and the chunks that stand for its
 * buffers.  Made and freed by the control thread, used by the reactor's alone.
 *
 * Running out means waiting in line: queue pairs stand first in, first out, each takes what it may
 * and stands at the end again.  A queue pair may hold at most twice what is free, and the last
 * eighth is for those that hold none, so hosts that take buffers and do not move leave some for the
 * others.  Where that is not enough (many such queue pairs), those whose hosts have not moved for
 * seconds while others waited lose their connection; and meanwhile each has a small buffer of its own,
 * so that it is slow and never stands still for what others do.  Before Connect that is all it has.
 */
#include "target/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
/*
 * Buffers are this much further apart than they are long, so that the beginnings of them, which
 * is all that small I/O uses, do not all fall into the same cache sets.
 */
#define STAGGER 4096u

#define PRESS_NS 250000000ull	/* between two looks at who sits on buffers */
#define PATIENCE_NS 4000000000ull	/* that a host may sit on a buffer that others wait for */

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

int pool_create(struct pool *pool, uint32_t buffer_size, uint32_t count)
{
	size_t stride = (size_t)buffer_size + STAGGER;

	pool->buffer_size = buffer_size;
	pool->count = pool->free_count = count;
	pool->bytes = stride * count;
	fifo_init(&pool->line);
	pool->chunks = aligned_alloc(CACHE_LINE, sizeof(*pool->chunks) * count);
	if (!pool->chunks)
		return -ENOMEM;
	pool->memory = map_memory(&pool->bytes);
	if (!pool->memory)
		return -ENOMEM;
	for (uint32_t i = count; i-- > 0;) {
		struct chunk *chunk = &pool->chunks[i];

		*chunk = (struct chunk){ .tx.is_chunk = true, .buffer = pool->memory + stride * i };
		stack_push(&pool->free, &chunk->tx.link);
	}
	return 0;
}

void pool_free(struct pool *pool)
{
	if (pool->memory)
		munmap(pool->memory, pool->bytes);
	free(pool->chunks);
}

static void pool_stand_in_line(struct pool *pool, struct target_qpair *qp)
{
	stat_add(&qp->waited_for_buffer, 1);
	if (qp->in_pool_line)
		return;
	qp->in_pool_line = true;
	fifo_push(&pool->line, &qp->pool_link);
}

static struct chunk *take(struct target_qpair *qp)
{
	struct pool *pool = &qp->reactor->pool;

	if (!pool->free_count || (pool->line.head && pool->line.head != &qp->pool_link)) {
		pool_stand_in_line(pool, qp);
		return NULL;
	}
	/* Over its share: a buffer of its own coming back kicks it. */
	if (qp->buffers && (qp->buffers >= 2 * pool->free_count ||
			    pool->free_count <= pool->count / 8)) {
		stat_add(&qp->waited_for_buffer, 1);
		return NULL;
	}
	pool->free_count--;
	qp->buffers++;
	return container_of(stack_pop(&pool->free), struct chunk, tx.link);
}

struct chunk *pool_get(struct target_qpair *qp)
{
	bool known = atomic_load_explicit(&qp->connected, memory_order_relaxed);
	struct chunk *chunk = known ? take(qp) : NULL;

	if (chunk || !qp->own_free)
		return chunk;
	qp->own_free = false;
	return &qp->own;
}

void pool_put(struct target_qpair *qp, struct chunk *chunk)
{
	struct pool *pool = &qp->reactor->pool;

	if (chunk == &qp->own) {
		qp->own_free = true;
		return;
	}
	chunk->with_host = 0;
	stack_push(&pool->free, &chunk->tx.link);
	pool->free_count++;
	qp->buffers--;
}

/* A dead one wants nothing any more. */
void pool_leave_line(struct target_qpair *qp)
{
	if (!qp->in_pool_line)
		return;
	qp->in_pool_line = false;
	fifo_remove(&qp->reactor->pool.line, &qp->pool_link);
}

void pool_serve(struct reactor *reactor)
{
	struct pool *pool = &reactor->pool;

	while (pool->free_count && pool->line.head) {
		struct target_qpair *qp = container_of(pool->line.head, struct target_qpair,
						       pool_link);

		/* It keeps its place while it takes, so that pool_get knows whose turn it is. */
		transfer_kick(qp);
		fifo_pop(&pool->line);
		qp->in_pool_line = false;
		if (!qp->dead && (qp->waiting[0].head || qp->waiting[1].head) &&
		    !pool->free_count)
			pool_stand_in_line(pool, qp);
	}
}

/* With its host for too long, which has moved nothing else meanwhile. */
static bool is_sat_on(const struct chunk *chunk, uint64_t now)
{
	return chunk->with_host && now > chunk->with_host + PATIENCE_NS &&
	       now > chunk->req->qp->moved + PATIENCE_NS;
}

void pool_press(struct reactor *reactor)
{
	struct pool *pool = &reactor->pool;
	uint64_t now = reactor_now(reactor);

	if (now < pool->next_press)
		return;
	pool->next_press = now + PRESS_NS;
	for (uint32_t i = 0; i < pool->count; i++)
		if (is_sat_on(&pool->chunks[i], now))
			qpair_fail(pool->chunks[i].req->qp, "for %u s the host did not move data for "
				   "which it held a buffer that others waited for",
				   (unsigned)(PATIENCE_NS / 1000000000));
}
