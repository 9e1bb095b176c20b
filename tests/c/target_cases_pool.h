/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffer pool by itself: shares, the line, and that nobody is left in it. */
#ifndef TESTS_TARGET_CASES_POOL_H
#define TESTS_TARGET_CASES_POOL_H

#include "target_host.h"

#include "target/calls.h"

enum { POOL_BUFFERS = 64, POOL_QPAIRS = 10 };

static void test_pool(void)
{
	struct reactor *r = aligned_alloc(CACHE_LINE, (sizeof(*r) + 63) & ~63ul);
	struct target_qpair *qp = aligned_alloc(CACHE_LINE, sizeof(*qp) * POOL_QPAIRS);
	struct chunk *held[POOL_QPAIRS][POOL_BUFFERS];
	unsigned alone, least = POOL_BUFFERS;

	memset(r, 0, sizeof(*r));
	memset(qp, 0, sizeof(*qp) * POOL_QPAIRS);
	pool_create(&r->pool, 8192, POOL_BUFFERS);
	for (unsigned i = 0; i < POOL_QPAIRS; i++) {
		qp[i].reactor = r;
		atomic_store(&qp[i].connected, true);
		fifo_init(&qp[i].waiting[0]);
		fifo_init(&qp[i].waiting[1]);
		while ((held[i][qp[i].buffers] = pool_get(&qp[i])))
			;
		least = qp[i].buffers < least ? qp[i].buffers : least;
	}
	alone = qp[0].buffers;
	CHECK(alone > POOL_BUFFERS / 2, "alone, a queue pair has %u buffers of %u", alone,
	      (unsigned)POOL_BUFFERS);
	CHECK(least >= 1, "%u that take all they can: each has one", (unsigned)POOL_QPAIRS);
	for (unsigned i = 0; i < POOL_QPAIRS; i++)
		while (qp[i].buffers)
			pool_put(&qp[i], held[i][qp[i].buffers - 1]);
	pool_serve(r);
	CHECK(r->pool.free_count == POOL_BUFFERS && !r->pool.line.head, "all back");
	pool_free(&r->pool);
	free(qp);
	free(r);
}

#endif
