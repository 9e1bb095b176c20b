/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffer pool alone: shares, the line, and that no queue pair is left in it. */
#ifndef TESTS_TARGET_CASES_POOL_H
#define TESTS_TARGET_CASES_POOL_H

#include "target_host.h"

#include "target/calls.h"
#include "util/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>

enum { POOL_BUFFERS = 64, POOL_QPAIRS = 10, POOL_STORES = 3 };

struct pool_rig {
	struct reactor *reactor;
	struct target_qpair *qp;
	struct target_request req[POOL_QPAIRS];
	struct chunk *held[POOL_QPAIRS][POOL_BUFFERS];
	unsigned count[POOL_QPAIRS];
};

static struct pool_rig *pool_rig_new(uint32_t buffer_size)
{
	struct pool_rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + 63) & ~63ul);

	memset(rig, 0, sizeof(*rig));
	rig->reactor = aligned_alloc(CACHE_LINE, (sizeof(*rig->reactor) + 63) & ~63ul);
	rig->qp = aligned_alloc(CACHE_LINE, sizeof(*rig->qp) * POOL_QPAIRS);
	memset(rig->reactor, 0, sizeof(*rig->reactor));
	memset(rig->qp, 0, sizeof(*rig->qp) * POOL_QPAIRS);
	rig->reactor->node = numa_node_of(0);
	pool_create(&rig->reactor->pool, buffer_size, POOL_BUFFERS, rig->reactor->node);
	for (unsigned i = 0; i < POOL_QPAIRS; i++) {
		struct target_qpair *qp = &rig->qp[i];

		qp->reactor = rig->reactor;
		qp->pool = &rig->reactor->pool;
		for (unsigned class = 0; class < POOL_CLASSES; class++)
			qp->pool_place[class].qp = qp;
		atomic_store(&qp->connected, true);
		fifo_init(&qp->waiting[0]);
		fifo_init(&qp->waiting[1]);
		rig->req[i].qp = qp;
	}
	return rig;
}

/* Take as many buffers as permitted; returns their number. */
static unsigned pool_rig_take(struct pool_rig *rig, unsigned i, uint32_t bytes)
{
	struct chunk *chunk;
	unsigned before = rig->count[i];

	while (!pool_namespace_line(&rig->req[i], bytes) &&
	       (chunk = pool_get(&rig->req[i], bytes))) {
		chunk->req = &rig->req[i];
		rig->held[i][rig->count[i]++] = chunk;
	}
	return rig->count[i] - before;
}

static void pool_rig_free(struct pool_rig *rig)
{
	struct pool *pool = &rig->reactor->pool;

	for (unsigned i = 0; i < POOL_QPAIRS; i++)
		while (rig->count[i])
			pool_put(&rig->qp[i], rig->held[i][--rig->count[i]]);
	pool_serve(rig->reactor);
	for (unsigned class = 0; class < POOL_CLASSES; class++)
		CHECK(pool->shelf[class].free_count == pool->shelf[class].count &&
		      !pool->shelf[class].line.head, "class %u: all back", class);
	pool_free(pool);
	free(rig->qp);
	free(rig->reactor);
	free(rig);
}

static void case_pool_shares(void)
{
	struct pool_rig *rig = pool_rig_new(8192);
	unsigned alone = 0, least = POOL_BUFFERS;

	for (unsigned i = 0; i < POOL_QPAIRS; i++) {
		unsigned taken = pool_rig_take(rig, i, 8192);

		alone = i ? alone : taken;
		least = taken < least ? taken : least;
	}
	CHECK(alone > POOL_BUFFERS / 2, "alone, a queue pair has %u buffers of %u", alone,
	      (unsigned)POOL_BUFFERS);
	CHECK(least >= 1, "%u that take all they can: each has one", (unsigned)POOL_QPAIRS);
	pool_rig_free(rig);
}

/* Stores that never answer, one after the other, and on one queue pair: the buffers left for the next. */
static void case_pool_namespaces(void)
{
	struct pool_rig *rig = pool_rig_new(8192);
	struct target_namespace *ns[POOL_STORES + 2];
	unsigned first = 0, taken;

	for (unsigned i = 0; i < POOL_STORES + 2; i++) {
		size_t bytes = sizeof(*ns[i]) + sizeof(ns[i]->local[0]);

		ns[i] = aligned_alloc(CACHE_LINE, (bytes + 63) & ~63ul);
		memset(ns[i], 0, bytes);
		fifo_init(&ns[i]->local[0].pool_line);
	}
	for (unsigned i = 0; i < POOL_STORES; i++) {
		rig->req[0].ns = ns[i];
		taken = 0;
		for (unsigned n; (n = pool_rig_take(rig, 0, 8192)); taken += n)
			for (unsigned k = rig->count[0] - n; k < rig->count[0]; k++)
				pool_lend(rig->held[0][k], true);
		first = i ? first : taken;
		CHECK(taken >= 1, "store %u that hangs: it has %u buffers", i, taken);
	}
	CHECK(first <= POOL_BUFFERS * 2 / 3 + 1, "the first has no more than its share: %u", first);
	rig->req[0].ns = ns[POOL_STORES];
	rig->req[1].ns = ns[POOL_STORES + 1];
	taken = pool_rig_take(rig, 0, 8192);
	CHECK(taken, "another store of the same queue pair has %u", taken);
	taken = pool_rig_take(rig, 1, 8192);
	CHECK(taken, "and one more, of another queue pair, %u", taken);
	for (unsigned k = 0; k < rig->count[0]; k++)
		if (rig->held[0][k]->sharer != &ns[POOL_STORES]->local[0])
			pool_lend(rig->held[0][k], false);
	pool_rig_free(rig);
	for (unsigned i = 0; i < POOL_STORES + 2; i++)
		free(ns[i]);
}

/* A quarter of the memory is divided into small buffers: more of them than there are buffers in total. */
static void case_pool_small(void)
{
	struct pool_rig *rig = pool_rig_new(131072);
	struct pool *pool = &rig->reactor->pool;
	unsigned small = 0;
	int policy = -1;

	for (unsigned i = 0; i < POOL_BUFFERS; i++) {
		struct chunk *chunk = pool_get(&rig->req[0], 4096);

		if (!chunk)
			break;
		chunk->req = &rig->req[0];
		rig->held[0][rig->count[0]++] = chunk;
		small += chunk->class == POOL_SMALL;
	}
	if (rig->reactor->node >= 0) {	/* the system reports the node of a processor */
		CHECK(!syscall(SYS_get_mempolicy, &policy, NULL, 0, pool->memory, MPOL_F_ADDR) &&
		      policy == MPOL_PREFERRED, "buffers come from the reactor's node: policy %d", policy);
	}
	CHECK(small == POOL_BUFFERS, "%u commands for a block: %u small buffers",
	      (unsigned)POOL_BUFFERS, small);
	CHECK(pool->shelf[POOL_LARGE].free_count == pool->shelf[POOL_LARGE].count,
	      "the large ones are all there");
	pool_rig_free(rig);
}

static void test_pool(void)
{
	case_pool_shares();
	case_pool_namespaces();
	case_pool_small();
}

#endif
