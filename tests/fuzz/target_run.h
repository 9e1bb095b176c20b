/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of an input: its bytes, requests to the control thread and its answers, and the check that nothing is left at
 * the end.
 */
#ifndef FUZZ_TARGET_RUN_H
#define FUZZ_TARGET_RUN_H

#include "target_world.h"

enum { DEPTH = 8, HELD = 64, IN_CAPSULE = 4096 };

struct run {
	const uint8_t *p, *end;
	struct target_qpair *qp;
	struct target_request *held[HELD];
	unsigned held_count, capsules, fences;
	bool closed, ended, destroyed;
};

static bool changed[65536];		/* by CID: a store was changed for the last command that had it */
static uint16_t sent[65536];		/* commands, by CID */
static bool shared[65536];		/* by CID: one was sent before the one before it was answered */

static uint8_t take8(struct run *r)
{
	return r->p < r->end ? *r->p++ : 0;
}

static uint32_t take32(struct run *r)
{
	uint32_t v = take8(r);

	v |= (uint32_t)take8(r) << 8;
	v |= (uint32_t)take8(r) << 16;
	return v | (uint32_t)take8(r) << 24;
}

static void upcalls(struct run *r)
{
	struct target_upcall *up = target_upcalls(world.target), *next;

	for (; up; up = next) {
		next = up->next;
		if (up->type == TARGET_UPCALL_FAULTED) {
			target_namespace_rearm(up->ns);
			continue;
		}
		if (up->type == TARGET_UPCALL_ABORTED) {
			/*
			 * of two commands with one CID, it is unknown which one changed a store, and which one was
			 * taken back
			 */
			REQUIRE(!up->aborted || !changed[(uintptr_t)up->cookie] || shared[(uintptr_t)up->cookie]);
			target_abort_destroy(world.target, up->abort);
			continue;
		}
		if (up->type == TARGET_UPCALL_FENCED) {
			r->fences--;
			target_fence_destroy(up->fence);
			continue;
		}
		if (up->type == TARGET_UPCALL_DESTROYED) {
			REQUIRE(r->closed && !r->destroyed);
			r->destroyed = true;
			continue;
		}
		REQUIRE(up->type == TARGET_UPCALL_COMMAND || up->type == TARGET_UPCALL_CLOSED);
		if (up->type == TARGET_UPCALL_CLOSED) {
			REQUIRE(!r->closed && up->reason);	/* "": no reason was given */
			r->closed = true;
			continue;
		}
		REQUIRE(!r->closed && r->held_count < HELD);
		r->held[r->held_count++] = up->request;
	}
}

static void poll(struct run *r, unsigned completions)
{
	mock.give = completions;
	reactor_poll(world.target->reactor[0]);
	upcalls(r);
}

static void answer(struct run *r, uint8_t how)
{
	static uint8_t data[70000];
	struct target_request *request;
	const uint8_t *fetched;
	uint32_t length;

	if (!r->held_count)
		return;
	request = r->held[--r->held_count];
	fetched = target_request_data(request, &length);
	for (uint32_t i = 0; i < length; i++)
		data[i] ^= fetched[i];
	target_complete(request, how & 1 ? NVME_INVALID_FIELD : 0, how, how,
			data, how & 2 ? (uint32_t)how * 270 : 0);
}

/* The first of a fused pair, whose second the input does not have. */
static unsigned waits(const struct target_qpair *qp)
{
	return qp->fused_first != NULL;
}

/* And its receive, if its data came with it. */
static unsigned holds(const struct target_qpair *qp)
{
	return qp->fused_first && qp->fused_first->recv;
}

static bool all_back(const struct target_qpair *qp)
{
	const struct reactor *reactor = world.target->reactor[0];

	if (mock.wc_head != mock.wc_tail || mock.ios || qp->active != waits(qp) || !qp->own_free ||
	    !pool_is_whole(&reactor->pool))
		return false;
	for (unsigned i = 0; i < 4; i++)
		if (world.ns[i]->local[0].inflight)
			return false;
	return true;
}

/* Everything ends while the connection is up: one response for each capsule. */
static void settle(struct run *r)
{
	unsigned before = mock.responses;

	for (unsigned i = 0; i < 4; i++)
		unlimited(i);
	for (unsigned i = 0; i < 2000; i++) {
		poll(r, 64);
		while (r->held_count)
			answer(r, (uint8_t)(i * 7));
		if (all_back(r->qp) && !r->ended)
			break;
		if (r->closed)
			break;
	}
	(void)before;
	REQUIRE(r->closed || all_back(r->qp));
	if (!mock.error) {
		REQUIRE(mock.responses + waits(r->qp) == r->capsules);
		REQUIRE(r->qp->commands == mock.responses);
		REQUIRE(mock.init.srq || mock.own.head - mock.own.tail == DEPTH - holds(r->qp));
		REQUIRE(!mock.sq_used && !mock.reads);
	}
}

/* Whether any block of the range is. */
static bool latched(const struct target_namespace *ns)
{
	uint64_t entries = (ns->store->size >> ns->block_shift) / LATCH_BLOCKS + 1;
	bool any = false;

	for (uint64_t i = 0; i < entries; i++) {
		const struct latch_readers *r = &ns->local[0].readers[i];

		any |= ns->latches.held[i] || r->all || r->waiting;
		for (unsigned k = 0; k < LATCH_BLOCKS; k++)
			any |= r->block[k];
	}
	return any;
}

/* All shared receives of the target are posted to the device again. */
static void share_is_whole(const struct reactor *reactor)
{
	const struct target_srq *srq = world.target->devices->srqs;

	REQUIRE(!reactor->orphans.head);
	REQUIRE(!srq || (!srq->reserved && !srq->next && srq->total &&
			 srq->posted + srq->spares == srq->total &&
			 mock.shared.head - mock.shared.tail == srq->posted));
}

static void finish(struct run *r)
{
	const struct reactor *reactor = world.target->reactor[0];

	target_qpair_disconnect(r->qp);
	mock.io_fails = false;
	for (unsigned i = 0; i < 2000 && !r->closed; i++)
		poll(r, 64);
	REQUIRE(r->closed);
	while (r->held_count)
		answer(r, 3);
	for (unsigned i = 0; i < 10 && r->fences; i++)	/* the latest one is still in the mailbox */
		poll(r, 64);
	REQUIRE(!r->fences);
	target_qpair_destroy(r->qp);
	for (unsigned i = 0; i < 10; i++)
		poll(r, 64);
	REQUIRE(r->destroyed && !world.target->qpairs && !reactor->marked && !pool_has_line(reactor) &&
		!reactor->lingering.head && pool_is_whole(&reactor->pool));
	REQUIRE(!reactor->latching.head && !reactor->qpairs.head);
	share_is_whole(reactor);
	for (unsigned i = 0; i < 4; i++) {
		REQUIRE(!world.ns[i]->local[0].inflight);
		REQUIRE(!latched(world.ns[i]));
	}
}

#endif
