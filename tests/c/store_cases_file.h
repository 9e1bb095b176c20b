/* SPDX-License-Identifier: BSD-3-Clause */
/* Random operations compared with a model, and other properties of all stores that keep data. */
#ifndef TESTS_STORE_CASES_FILE_H
#define TESTS_STORE_CASES_FILE_H

#include "store_rig.h"

static void test_model(struct store_ring *ring, struct store *store)
{
	uint64_t blocks = store->size / store->block_size;
	uint8_t *model = calloc(1, store->size), *area = aligned_alloc(4096, MIB + 4096);
	bool statuses = true, same = true;

	statuses &= !run(ring, store, STORE_WRITE_ZEROES, 0, store->size, NULL, STORE_IO_DEALLOCATE);
	for (int i = 0; i < 400; i++) {
		uint64_t first = rnd(blocks), count = 1 + rnd(blocks - first);
		uint64_t offset = first * store->block_size, length = count * store->block_size;
		uint32_t flags = rnd(8) ? 0 : STORE_IO_FUA;
		/* Mostly aligned, sometimes not. */
		uint8_t *buffer = area + (rnd(4) ? 0 : 1 + rnd(4095));

		switch (rnd(12)) {
		case 0:
			statuses &= !run(ring, store, STORE_WRITE_ZEROES, offset, length, NULL,
					 flags | (rnd(2) ? STORE_IO_DEALLOCATE : 0));
			memset(model + offset, 0, length);
			break;
		case 1:
			statuses &= !run(ring, store, STORE_DEALLOCATE, offset, length, NULL, 0);
			if (store->deallocate)
				memset(model + offset, 0, length);
			break;
		case 2:
			statuses &= !run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
			break;
		case 3: case 4: case 5: case 6: case 7:
			if (length > 64 * KIB)
				length = 64 * KIB;
			for (uint64_t j = 0; j < length; j++)
				buffer[j] = model[offset + j] = (uint8_t)rnd(251);
			statuses &= !run(ring, store, STORE_WRITE, offset, length, buffer, flags);
			break;
		default:
			if (length > MIB)
				length = MIB;
			statuses &= !run(ring, store, STORE_READ, offset, length, buffer, 0);
			same &= !memcmp(buffer, model + offset, length);
		}
	}
	check(statuses, "400 random operations succeed");
	check(same, "and read what was written");
	err[0] = '\0';
	check(run(ring, store, STORE_READ, store->size, store->block_size, area, 0) ==
		      NVME_LBA_OUT_OF_RANGE &&
	      run(ring, store, STORE_WRITE, store->size - 512, 1024, area, 0) ==
		      NVME_LBA_OUT_OF_RANGE &&
	      run(ring, store, STORE_WRITE_ZEROES, UINT64_MAX - 511, 1024, NULL, 0) ==
		      NVME_LBA_OUT_OF_RANGE,
	      "what is out of range is refused");
	check(!run(ring, store, STORE_READ, store->size, 0, NULL, 0), "nothing can be read anywhere");
	free(model);
	free(area);
}

static void test_queue(struct store_ring *ring, struct store *store)
{
	enum { COUNT = 200, EACH = 4096 };
	struct request *requests = calloc(COUNT, sizeof(*requests));
	uint8_t *data = aligned_alloc(4096, COUNT * EACH), *back = aligned_alloc(4096, COUNT * EACH);
	bool once = true, good = true;

	for (int i = 0; i < COUNT * EACH; i++)
		data[i] = (uint8_t)rnd(256);
	for (int round = 0; round < 2; round++) {
		memset(requests, 0, COUNT * sizeof(*requests));
		for (unsigned i = 0; i < COUNT; i++) {
			requests[i].io = (struct store_io){
				.op = round ? STORE_READ : STORE_WRITE, .done = on_done,
				.offset = i * EACH, .length = EACH,
				.buffer = (round ? back : data) + i * EACH };
			store_submit(ring, store, &requests[i].io);
		}
		for (int i = 0; i < COUNT; i++) {
			wait_for(ring, &requests[i].calls);
			once &= requests[i].calls == 1;
			good &= !requests[i].status;
		}
		good &= store_ring_inflight(ring) == 0;
	}
	check(once && good, "%d at once, more than the ring holds, wait in line", COUNT);
	check(!memcmp(data, back, COUNT * EACH), "and keep their data apart");
	free(requests);
	free(data);
	free(back);
}

static void test_sleep(struct store_ring *ring, struct store *store)
{
	struct pollfd fd = { .fd = store_ring_fd(ring), .events = POLLIN };
	struct request request = { .io = { .op = STORE_FLUSH, .done = on_done } };
	int woken = 0;

	/* a thread that has completed its work may still be about to wake this one */
	for (uint64_t end = clock_ns() + CHECK_PATIENCE_S * UINT64_C(1000000000);
	     poll(&fd, 1, 10) && clock_ns() < end;)
		store_ring_poll(ring);
	check(poll(&fd, 1, 0) == 0, "an idle ring's descriptor is quiet");
	store_submit(ring, store, &request.io);
	store_ring_poll(ring);
	while (!request.calls && poll(&fd, 1, CHECK_PATIENCE_S * 1000) == 1 && ++woken < 1000)
		store_ring_poll(ring);
	check(request.calls == 1 && !request.status, "a sleeper is woken for a flush (%d)", woken);
}

/* A request whose done submits the next one. */
struct chain {
	struct request request;
	struct store_ring *ring;
	struct store *store;
	int left;
};

static void on_link(struct store_io *io, uint16_t status)
{
	struct chain *chain = (struct chain *)io;

	if (!status && --chain->left)
		store_submit(chain->ring, chain->store, io);
	else
		on_done(io, status);
}

static void test_chain(struct store_ring *ring, struct store *store)
{
	static uint8_t area[4096] __attribute__((aligned(4096)));
	struct chain chain = { .ring = ring, .store = store, .left = 100 };

	chain.request.io = (struct store_io){ .op = STORE_READ, .buffer = area, .length = 4096,
					      .done = on_link };
	store_submit(ring, store, &chain.request.io);
	check(wait_for(ring, &chain.request.calls) && !chain.left, "done may submit again");
}

static void test_truncated(struct store_ring *ring, struct store *store)
{
	static uint8_t area[8192] __attribute__((aligned(4096)));
	uint16_t cut, half, before, again;

	if (truncate(store->path, 5 * 4096 + 1000))
		check(false, "truncate: %s", strerror(errno));
	cut = run(ring, store, STORE_READ, 16 * 4096, 4096, area, 0);
	half = run(ring, store, STORE_READ, 4 * 4096, 8192, area, 0);
	before = run(ring, store, STORE_READ, 0, 8192, area, 0);
	check(cut == NVME_UNRECOVERED_READ_ERROR && half == cut && !before,
	      "reads past the end of a file cut short fail (%#x, %#x), others do not (%#x)", cut,
	      half, before);
	check(!store_resize(store, 0, err, sizeof(err)) &&
		      store->size == (5 * 4096 + 1000) / store->block_size * store->block_size,
	      "resize follows it");
	again = run(ring, store, STORE_READ, 16 * 4096, 4096, area, 0);
	check(again == NVME_LBA_OUT_OF_RANGE, "and the removed part is out of range");
	check(store_resize(store, 64 * MIB, err, sizeof(err)) == -EFBIG && store->size < 6 * 4096,
	      "resize beyond it is refused");
	if (truncate(store->path, 2 * MIB))
		check(false, "truncate: %s", strerror(errno));
	check(!store_resize(store, 0, err, sizeof(err)) && store->size == 2 * MIB &&
	      !run(ring, store, STORE_READ, MIB, 4096, area, 0) && area[0] == 0,
	      "resize follows it back");
}

static void test_file(struct store_ring *ring, const char *in, uint32_t block, int direct)
{
	size_t end = strlen(context);
	struct store *store = open_store("file", make_file(in, "file", 2 * MIB + 77), 0, block,
					 direct, false);

	snprintf(context + end, sizeof(context) - end, "file %s, %u, %s", in, block,
		 direct ? "direct" : "page cache");
	if (!store && direct == 1) {
		skip("direct I/O", err);
	} else if (check(store && store->size == 2 * MIB, "opens")) {
		check(store->direct == (direct == 1) && store->volatile_write_cache &&
		      store->physical_block_size >= block && store->guarantee && !store->map,
		      "says what it is: alignment %u, physical blocks of %u, deallocate %d, \"%s\"",
		      store->alignment, store->physical_block_size, store->deallocate,
		      store->guarantee);
		test_model(ring, store);
		test_queue(ring, store);
		test_sleep(ring, store);
		test_chain(ring, store);
		test_truncated(ring, store);
		close_store(ring, store);
		store = open_store("file", make_file(in, "file", MIB), 0, block, direct, true);
		check(run(ring, store, STORE_WRITE, 0, 512, folder, 0) ==
			      NVME_NAMESPACE_WRITE_PROTECTED &&
		      run(ring, store, STORE_DEALLOCATE, 0, 512, NULL, 0) ==
			      NVME_NAMESPACE_WRITE_PROTECTED &&
		      !run(ring, store, STORE_FLUSH, 0, 0, NULL, 0),
		      "read only, it refuses to write and has nothing to flush");
	}
	close_store(ring, store);
	context[end] = '\0';
}

static unsigned long pinned_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmPin: %lu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/* Buffers inside the ring's memory, across its end, and elsewhere. */
static void test_buffers(void)
{
	enum { GIVEN = MIB, EACH = 64 * KIB };
	struct store *store = open_store("file", make_file(folder, "f", 2 * MIB), 0, 4096, -1, false);
	struct store_ring *ring = store_ring_create(8, err, sizeof(err));
	uint8_t *area = aligned_alloc(4096, 2 * GIVEN);
	bool good = true, uring = !strcmp(store_ring_kind(ring), "io_uring");
	unsigned long before = pinned_kib();

	store_ring_buffers(ring, area, GIVEN);
	for (unsigned at = 0; at + EACH <= 2 * GIVEN; at += 4096) {
		memset(area + at, (int)(at / 4096), EACH);
		good &= !run(ring, store, STORE_WRITE, at / 2 & ~4095u, EACH, area + at, 0);
		memset(area + at, 0xee, EACH);
		good &= !run(ring, store, STORE_READ, at / 2 & ~4095u, EACH, area + at, 0) &&
			area[at] == (uint8_t)(at / 4096) && !memcmp(area + at, area + at + 1, EACH - 1);
	}
	check(good, "buffers inside and outside of the ring's memory");
	if (!uring || !store->direct)
		skip("registered buffers", uring ? "no direct I/O here" : "io_uring's");
	else if (pinned_kib() == before)
		skip("registered buffers", "not enough locked memory is permitted");
	else
		check(pinned_kib() - before == GIVEN / KIB, "its memory is registered once");
	store_ring_destroy(ring);
	store_close(store);
	free(area);
}

static void *own_thread(void *argument)
{
	struct store *store = argument;
	struct store_ring *ring = store_ring_create(16, NULL, 0);
	static __thread uint8_t area[4096] __attribute__((aligned(4096)));
	bool good = ring != NULL;

	for (int i = 0; good && i < 2000; i++)
		good = !run(ring, store, STORE_READ, (uint64_t)(i % 256) * 4096, 4096, area, 0);
	store_ring_destroy(ring);
	return good ? store : NULL;
}

static void test_threads(void)
{
	struct store *store = open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false);
	pthread_t threads[3];
	void *result;
	bool good = true;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, own_thread, store);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		good &= result == store;
	}
	check(good, "three reactors, three rings, one store");
	store_close(store);
}

static void test_destroy(void)
{
	struct store *store = open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false);
	struct store_ring *ring = store_ring_create(4, err, sizeof(err));
	struct request requests[32] = { 0 };
	bool good = true;

	for (int i = 0; i < 32; i++) {
		requests[i].io = (struct store_io){ .op = STORE_FLUSH, .done = on_done };
		store_submit(ring, store, &requests[i].io);
	}
	store_ring_destroy(ring);
	for (int i = 0; i < 32; i++)
		good &= requests[i].calls == 1 && !requests[i].status;
	check(good, "a ring that is destroyed waits for what it holds");
	store_close(store);
}

#endif
