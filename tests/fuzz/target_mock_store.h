/* SPDX-License-Identifier: BSD-3-Clause */
/* The stores of target_mock.h, and no others: this replaces the engine's store/. */
#ifndef FUZZ_TARGET_MOCK_STORE_H
#define FUZZ_TARGET_MOCK_STORE_H

#include "target_mock.h"


struct store_ring *store_ring_create(unsigned depth, char *err, size_t len)
{
	(void)depth;
	(void)err;
	(void)len;
	return malloc(1);
}

void store_ring_destroy(struct store_ring *ring)
{
	while (store_ring_poll(ring))
		;
	free(ring);
}

void store_ring_buffers(struct store_ring *ring, void *memory, size_t bytes)
{
	(void)ring;
	(void)memory;
	(void)bytes;
}

void store_ring_forget(struct store_ring *ring, const struct store *store)
{
	(void)ring;
	REQUIRE(store);
	for (const struct store_io *io = mock.io_head; io; io = io->next)
		REQUIRE(io->store != store);
}

void store_ring_forget_all(struct store_ring *ring)
{
	(void)ring;
}

static uint16_t mock_store_do(struct store_io *io)
{
	struct store *store = io->store;
	uint8_t *bytes = store->own;

	REQUIRE(io->offset <= store->size && io->length <= store->size - io->offset);
	if (mock.io_fails && store->kind == STORE_FILE)
		return NVME_WRITE_FAULT;
	if (mock.done)
		mock.done(io);
	if (io->op == STORE_READ)
		memcpy(io->buffer, bytes + io->offset, io->length);
	else if (io->op == STORE_WRITE)
		memcpy(bytes + io->offset, io->buffer, io->length);
	else if (io->op == STORE_WRITE_ZEROES)
		memset(bytes + io->offset, 0, io->length);
	return NVME_SUCCESS;
}

void store_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	(void)ring;
	REQUIRE(io->store == store);
	if (store->map || store->kind == STORE_NULL) {
		io->done(io, mock_store_do(io));
		return;
	}
	REQUIRE(!io->length || !io->buffer || !((uintptr_t)io->buffer & (store->alignment - 1)));
	io->next = NULL;
	if (mock.io_head)
		mock.io_tail->next = io;
	else
		mock.io_head = io;
	mock.io_tail = io;
	mock.ios++;
}

int store_ring_poll(struct store_ring *ring)
{
	struct store_io *io = mock.io_head;

	(void)ring;
	if (!io)
		return 0;
	mock.io_head = io->next;
	mock.ios--;
	io->done(io, mock_store_do(io));
	return 1;
}

unsigned store_ring_inflight(const struct store_ring *ring)
{
	(void)ring;
	return mock.ios;
}

/* Every request that is not complete is in the queue. */
unsigned store_ring_waiting(const struct store_ring *ring,
			    bool (*wanted)(const struct store_io *io, const void *arg),
			    const void *arg)
{
	unsigned count = 0;

	(void)ring;
	for (const struct store_io *io = mock.io_head; io; io = io->next)
		count += wanted(io, arg);
	return count;
}

void store_ring_cancel(struct store_ring *ring,
		       bool (*wanted)(const struct store_io *io, const void *arg), const void *arg)
{
	struct store_io *io = mock.io_head, *next, *cancelled = NULL;

	(void)ring;
	mock.io_head = mock.io_tail = NULL;
	for (; io; io = next) {
		next = io->next;
		if (wanted(io, arg)) {
			io->next = cancelled;
			cancelled = io;
			mock.ios--;
			continue;
		}
		io->next = NULL;
		*(mock.io_head ? &mock.io_tail->next : &mock.io_head) = io;
		mock.io_tail = io;
	}
	for (io = cancelled; io; io = next) {
		next = io->next;
		io->done(io, NVME_ABORTED_BY_REQUEST);
	}
}

int store_ring_fd(const struct store_ring *ring)
{
	static int fd = -1;

	(void)ring;
	if (fd < 0)
		fd = eventfd(0, EFD_NONBLOCK);
	return fd;
}

uint16_t store_memory_write(struct store *store, uint64_t offset, const void *from, size_t length,
			    bool fua)
{
	(void)fua;
	REQUIRE(offset <= store->size && length <= store->size - offset);
	memcpy(store->map + offset, from, length);
	return NVME_SUCCESS;
}

bool store_memory_write_unfenced(struct store *store, uint64_t offset, const void *from, size_t length)
{
	enum { STREAMED = 1024 };	/* both ways are taken */

	if (length < STREAMED)
		return false;
	store_memory_write(store, offset, from, length, false);
	return true;
}

uint16_t store_memory_check_file(struct store *store, uint64_t offset, size_t length)
{
	REQUIRE(offset <= store->size && length <= store->size - offset);
	return NVME_SUCCESS;
}

#endif
