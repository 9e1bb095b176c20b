/* SPDX-License-Identifier: BSD-3-Clause */
/* Python stores, answered by a thread of the test. */
#ifndef TESTS_STORE_CASES_PYTHON_H
#define TESTS_STORE_CASES_PYTHON_H

#include <stdatomic.h>

#include "store/python.h"
#include "store_rig.h"

enum { PYTHON_BYTES = MIB, PYTHON_KEPT = STORE_PYTHON_CALLS };

/* An answering thread, which keeps the bytes in memory. */
struct answerer {
	struct store *store;
	pthread_t thread;
	_Atomic bool hold;		/* calls are taken but not answered */
	_Atomic bool stop;
	_Atomic unsigned shorter;	/* bytes missing from the result of reads */
	_Atomic uint16_t fails;		/* the status of all answers */
	_Atomic unsigned refused;	/* answers that came too late */
	_Atomic unsigned with_it, most;	/* calls that it has; and their maximum */
	uint64_t kept[PYTHON_KEPT];
	_Atomic unsigned kept_count;
	uint8_t memory[PYTHON_BYTES];
};

static void answerer_end(struct answerer *a, uint64_t number, const void *data, uint64_t length)
{
	atomic_fetch_sub(&a->with_it, 1);
	if (!store_python_answer(a->store, number, a->fails, a->fails ? ENOSPC : 0, data, length))
		atomic_fetch_add(&a->refused, 1);
}

static void answerer_call(struct answerer *a, const struct store_python_call *call)
{
	if (call->op == STORE_WRITE)
		memcpy(a->memory + call->offset, call->data, call->length);
	if (call->op == STORE_WRITE_ZEROES || call->op == STORE_DEALLOCATE)
		memset(a->memory + call->offset, 0, call->length);
	store_python_taken(a->store, call->number);
	if (atomic_fetch_add(&a->with_it, 1) + 1 > a->most)
		a->most = a->with_it;
	if (a->hold)
		a->kept[a->kept_count++] = call->number;
	else
		answerer_end(a, call->number, a->memory + call->offset, call->length - a->shorter);
}

static void *answerer_run(void *argument)
{
	struct answerer *a = argument;
	struct pollfd fd = { .fd = store_python_fd(a->store), .events = POLLIN };
	struct store_python_call call;

	while (!a->stop) {
		poll(&fd, 1, 20);
		while (store_python_take(a->store, &call))
			answerer_call(a, &call);
		while (!a->hold && a->kept_count)
			answerer_end(a, a->kept[--a->kept_count], a->memory, 512);
	}
	return NULL;
}

static struct answerer *answerer_start(unsigned calls, uint64_t bytes, uint32_t limit_ms)
{
	struct store_options options = { .kind = "python", .size = PYTHON_BYTES, .block_size = 512,
					 .calls = calls, .bytes = bytes, .limit_ms = limit_ms,
					 .physical_block_size = 4096, .volatile_write_cache = true,
					 .deallocate = true };
	struct answerer *a = calloc(1, sizeof(*a));

	err[0] = '\0';
	a->store = store_open(&options, err, sizeof(err));
	if (!check(a->store != NULL, "python opens"))
		exit(check_report());
	pthread_create(&a->thread, NULL, answerer_run, a);
	return a;
}

static void answerer_close(struct answerer *a)
{
	a->hold = false;
	a->stop = true;
	pthread_join(a->thread, NULL);
	store_close(a->store);
	free(a);
}

static void answerer_has(struct answerer *a, struct store_ring *ring, unsigned count)
{
	uint64_t end = clock_ns() + CHECK_PATIENCE_S * UINT64_C(1000000000);

	while (a->kept_count != count && clock_ns() < end)
		if (!store_ring_poll(ring))
			sched_yield();
	check(a->kept_count == count, "the answering thread has %u calls (%u)", count, a->kept_count);
}

static void python_submit_one(struct store_ring *ring, struct store *store, struct request *request,
			      enum store_op op, uint64_t offset, uint64_t length, void *buffer)
{
	*request = (struct request){ .io = { .op = op, .offset = offset, .length = length,
					     .buffer = buffer, .done = on_done } };
	store_submit(ring, store, &request->io);
}

static void test_python_calls(struct store_ring *ring)
{
	enum { MANY = 300 };
	struct answerer *a = answerer_start(16, 64 * KIB, 0);
	static struct request many[MANY];
	static uint8_t data[MANY][512], back[MANY * 512];
	bool good = true;

	check(a->store->physical_block_size == 4096 && a->store->volatile_write_cache &&
		      a->store->deallocate && a->store->guarantee && !a->store->map,
	      "python: facts are those given");
	for (int i = 0; i < MANY; i++) {
		memset(data[i], i + 1, 512);
		python_submit_one(ring, a->store, &many[i], STORE_WRITE, (uint64_t)i * 512, 512,
				  data[i]);
	}
	for (int i = 0; i < MANY; i++)
		good &= wait_for(ring, &many[i].calls) && !many[i].status;
	check(good && a->most <= 16, "python: writes, at most 16 at a time (%u)", a->most);
	check(!run(ring, a->store, STORE_READ, 0, sizeof(back), back, 0) &&
		      !memcmp(back, data, sizeof(back)), "python: a read larger than the limit of bytes");
	check(!run(ring, a->store, STORE_FLUSH, 0, 0, NULL, 0) &&
		      !run(ring, a->store, STORE_WRITE_ZEROES, 512, 512, NULL, 0) &&
		      !run(ring, a->store, STORE_DEALLOCATE, 1024, 512, NULL, 0) &&
		      !run(ring, a->store, STORE_READ, 0, 2048, back, 0) && back[511] == 1 &&
		      !back[512] && !back[1535] && back[1536] == 4, "python: flush, zeroes, deallocate");
	check(run(ring, a->store, STORE_READ, PYTHON_BYTES, 512, back, 0) == NVME_LBA_OUT_OF_RANGE,
	      "python: the end is kept");
	a->shorter = 512;
	check(run(ring, a->store, STORE_READ, 0, 1024, back, 0) == NVME_INTERNAL_ERROR,
	      "python: a read without all of its bytes fails");
	a->fails = NVME_CAPACITY_EXCEEDED;
	check(run(ring, a->store, STORE_WRITE, 0, 512, back, 0) == NVME_CAPACITY_EXCEEDED &&
		      a->store->last_error == ENOSPC, "python: a status, and its errno");
	check(!store_resize(a->store, PYTHON_BYTES / 2, err, sizeof(err)) &&
		      a->store->size == PYTHON_BYTES / 2, "python: resize");
	close_store(ring, NULL);
	answerer_close(a);
}

/* The store does not answer: requests that wait for it, and requests that do not. */
static void test_python_stuck(struct store_ring *ring)
{
	struct answerer *a = answerer_start(4, 0, 1000), *other = answerer_start(4, 0, 0);
	static uint8_t old[4096], new[4096], back[4096];
	struct request first, later, apart, many[8];
	bool good = true;
	uint64_t end = clock_ns() + CHECK_PATIENCE_S * UINT64_C(1000000000);

	memset(old, 1, sizeof(old));
	memset(new, 2, sizeof(new));
	a->hold = true;
	python_submit_one(ring, a->store, &first, STORE_WRITE, 0, 4096, old);
	answerer_has(a, ring, 1);
	check(!run(ring, other->store, STORE_WRITE, 0, 4096, new, 0), "a store beside it answers");
	check(wait_for(ring, &first.calls) && first.status == NVME_INTERNAL_ERROR &&
		      a->store->last_error == ETIMEDOUT, "a call without an answer ends with an error");
	python_submit_one(ring, a->store, &later, STORE_WRITE, 512, 512, new);
	python_submit_one(ring, a->store, &apart, STORE_READ, 8192, 512, back);
	answerer_has(a, ring, 2);
	check(wait_for(ring, &apart.calls) && apart.status == NVME_INTERNAL_ERROR &&
		      wait_for(ring, &later.calls) && later.status == NVME_INTERNAL_ERROR &&
		      a->kept_count == 2, "what overlaps a write that is under way is not begun");
	for (int i = 0; i < 8; i++)	/* more than there are slots */
		python_submit_one(ring, a->store, &many[i], STORE_READ, 16384, 512, back);
	for (int i = 0; i < 8; i++)
		good &= wait_for(ring, &many[i].calls) && many[i].status == NVME_INTERNAL_ERROR;
	check(good && a->most <= 4, "with every slot taken, commands still end (%u)", a->most);
	check(!run(ring, other->store, STORE_READ, 0, 4096, back, 0) && back[7] == 2,
	      "and others have their answers");
	a->hold = false;
	while (a->refused < 4 && clock_ns() < end)	/* before that, a command may have to wait too long */
		sched_yield();
	check(a->refused == 4 && !run(ring, a->store, STORE_WRITE, 512, 512, new, 0) &&
		      !run(ring, a->store, STORE_READ, 0, 4096, back, 0) && back[0] == 1 &&
		      back[512] == 2, "late answers free the slots and do no more (%u)", a->refused);
	answerer_close(a);
	answerer_close(other);
}

/* The store is stopped, and its ring destroyed, with calls that are answered afterwards. */
static void test_python_stop(void)
{
	struct answerer *a = answerer_start(2, 0, 0);
	struct store_ring *ring = store_ring_create(4, err, sizeof(err));
	static uint8_t data[4][512];
	struct request requests[4];
	bool good = true;

	a->hold = true;
	for (int i = 0; i < 4; i++)
		python_submit_one(ring, a->store, &requests[i], i & 1 ? STORE_WRITE : STORE_READ,
				  (uint64_t)i * 512, 512, data[i]);
	answerer_has(a, ring, 2);
	store_ring_cancel(ring, is_this, &requests[0].io);
	store_ring_cancel(ring, is_this, &requests[3].io);
	check(!requests[0].calls && requests[3].calls == 1 &&
		      requests[3].status == NVME_ABORTED_BY_REQUEST, "what waits can be cancelled");
	store_python_stop(a->store);
	store_ring_destroy(ring);
	for (int i = 0; i < 3; i++)
		good &= requests[i].calls == 1 && requests[i].status == NVME_ABORTED_SQ_DELETED;
	check(good, "a store that is stopped ends its commands");
	answerer_close(a);
}

struct python_user {
	struct answerer *a;
	unsigned index;
	bool good;
};

static void *python_use(void *argument)
{
	enum { DEPTH = 24, ROUNDS = 400 };
	struct python_user *user = argument;
	struct store_ring *ring = store_ring_create(8, err, sizeof(err));
	struct request requests[DEPTH];
	uint8_t data[DEPTH][512], back[512];

	user->good = true;
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < DEPTH; i++) {
			memset(data[i], round + (int)i, 512);
			python_submit_one(ring, user->a->store, &requests[i], STORE_WRITE,
					  (user->index * DEPTH + i) * 512, 512, data[i]);
		}
		for (unsigned i = 0; i < DEPTH; i++)
			user->good &= wait_for(ring, &requests[i].calls) && !requests[i].status;
		user->good &= !run(ring, user->a->store, STORE_READ, (user->index * DEPTH + 5) * 512, 512,
				   back, 0) && back[100] == (uint8_t)(round + 5);
	}
	store_ring_destroy(ring);	/* while the thread may be about to wake it */
	return NULL;
}

static void test_python_rings(void)
{
	enum { RINGS = 3 };
	struct answerer *a = answerer_start(8, 0, 0);
	struct python_user users[RINGS];
	pthread_t threads[RINGS];

	for (unsigned i = 0; i < RINGS; i++) {
		users[i] = (struct python_user){ .a = a, .index = i };
		pthread_create(&threads[i], NULL, python_use, &users[i]);
	}
	for (unsigned i = 0; i < RINGS; i++) {
		pthread_join(threads[i], NULL);
		check(users[i].good, "ring %u of a python store's", i);
	}
	check(a->most <= 8, "rings share the limit (%u)", a->most);
	answerer_close(a);
}

#endif
