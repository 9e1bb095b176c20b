/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory stores (ram, pmem): reads and writes in place, and through store_submit.  Owns nothing; runs on reactors.
 *
 * Long ranges of zeroes are written one piece per poll, so that a host that clears a terabyte does not delay others, nor
 * do many hosts that clear a little; so are reads that only copy within a store (STORE_IO_PIECE).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store_internal.h"

enum {
	PIECE_GIVEN_BACK = 4 << 20,	/* at most about 0.2 ms of madvise */
	PIECE_WRITTEN = 1 << 20,	/* about 0.2 ms of stores */
	PIECE_AT_ONCE = 64 << 10,	/* no longer than a command with as much data takes */
	/* Larger copies go past the caches: they would evict other data, and need not read what they overwrite. */
	STREAMED_SMALL = 32 << 10,	/* in a store that the last cache can hold */
	STREAMED_LARGE = 4 << 10,	/* in a larger one */
	CACHE_USUAL = 32 << 20,		/* the last cache where the system does not say its size */
	CACHE_EACH = 16 << 20,		/* the most of it that one processor has */
};

/*
 * Bytes of the last cache that a processor uses.  A virtual machine sees the whole cache of the real one, whose other
 * processors it does not have: of 480 MiB, two (a Xeon's) keep so little that blocks of 256 MiB are in memory.
 */
static size_t last_cache(void)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const size_t most = (size_t)(processors > 0 ? processors : 1) * CACHE_EACH;
	size_t size = CACHE_USUAL;
	char path[256];
	unsigned kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu0/cache/index3/size", store_sysfs);
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%uK", &kib) == 1 && kib)
			size = (size_t)kib << 10;
		fclose(file);
	}
	return size < most ? size : most;
}

/*
 * With a fence each, 4 KiB past the caches pay off only in a store that no cache of the processor's package holds, which
 * is what sysconf() counts: 4 KiB writes by two reactors were 6 % slower otherwise (Zen 5).
 */
void store_memory_mapped(struct store *store)
{
	const long all = sysconf(_SC_LEVEL3_CACHE_SIZE);

	store->streamed = store->map_length > (size_t)(all > 0 ? all : CACHE_USUAL) ? STREAMED_LARGE : STREAMED_SMALL;
	store->streamed_unfenced = store->map_length > last_cache() ? STREAMED_LARGE : STREAMED_SMALL;
}

bool store_memory_write_unfenced(struct store *store, uint64_t offset, const void *from, size_t length)
{
	if (!store_streams_unfenced(store, length))
		return false;
	store_stream_copy(store->map + offset, from, length);
	return true;
}

uint16_t store_memory_write(struct store *store, uint64_t offset, const void *from, size_t length,
			    bool fua)
{
	unsigned faults = store_faults(store);

	if (store_failed(store))
		return NVME_WRITE_FAULT;
	if (store->redo && length <= STORE_REDO_DATA && !((offset | length) & 511))
		store_redo_write(store, offset, from, length);
	else if (store_streams(store, length))
		store_persist_copy(store->map + offset, from, length);
	else
		memcpy(store->map + offset, from, length);
	if (store_faults(store) != faults)	/* it may have been repaired since */
		return NVME_WRITE_FAULT;
	return fua && store_needs_sync(store) ? store_memory_flush(store) : NVME_SUCCESS;
}

uint16_t store_memory_flush(struct store *store)
{
	if (store_failed(store))
		return NVME_WRITE_FAULT;
	return store_needs_sync(store) ? store_flush(store) : NVME_SUCCESS;
}

uint16_t store_flush(struct store *store)
{
	struct store_io io = { .op = STORE_FLUSH, .store = store, .step = STORE_STEP_SYNC };

	if (store->fd < 0 || store->read_only || (store->map && !store_needs_sync(store)))
		return NVME_SUCCESS;
	while (store_call_result(&io, fdatasync(store_sync_fd(store)) ? -errno : 0))
		;
	return io.status;
}

uint16_t store_memory_check_file(struct store *store, uint64_t offset, size_t length)
{
	const volatile uint8_t *map = store->map;
	uint64_t end = offset + length;
	unsigned faults = store_faults(store);

	if (store_failed(store))
		return NVME_UNRECOVERED_READ_ERROR;
	for (uint64_t at = offset; at < end; at = (at | 4095) + 1)
		(void)map[at];
	return store_faults(store) != faults ? NVME_UNRECOVERED_READ_ERROR : NVME_SUCCESS;
}

static uint16_t memory_read(struct store *store, const struct store_io *io)
{
	unsigned faults = store_faults(store);
	uint16_t status = store_memory_check(store, io->offset, io->length);

	if (status)
		return status;
	memcpy(io->buffer, store->map + io->offset, io->length);
	return store_faults(store) != faults ? NVME_UNRECOVERED_READ_ERROR : NVME_SUCCESS;
}

static bool memory_needs_sync(const struct store *store, const struct store_io *io)
{
	return store_needs_sync(store) &&
	       (io->op == STORE_FLUSH ||
		((io->flags & STORE_IO_FUA) && io->op != STORE_DEALLOCATE));
}

uint64_t store_memory_next(const struct store *store, const struct store_io *io)
{
	bool pinned = __atomic_load_n(&store->pinned, __ATOMIC_ACQUIRE);
	uint64_t limit = store->kind == STORE_RAM && !pinned ? PIECE_GIVEN_BACK : PIECE_WRITTEN;
	uint64_t left = io->length - io->moved;

	if (io->op == STORE_READ || io->op == STORE_WRITE)
		return left;
	/* Pieces end at page boundaries, so that whole pages can be freed. */
	limit -= (io->offset + io->moved) & 4095;
	return left < limit ? left : limit;
}

bool store_memory_piece(struct store *store, struct store_io *io)
{
	uint64_t now = store_memory_next(store, io);
	unsigned faults = store_faults(store);
	bool failed = store_failed(store);

	if (io->op == STORE_READ) {
		io->status = memory_read(store, io);
		return false;
	}
	if (!failed)
		store->ops->zero(store, io->offset + io->moved, now);
	if (failed || store_faults(store) != faults) {
		io->status = NVME_WRITE_FAULT;
		return false;
	}
	io->moved += now;
	return io->moved < io->length;
}

/* Flushes, and operations that do nothing, need no pages. */
static bool memory_is_ready(const struct store *store, const struct store_io *io)
{
	return io->op == STORE_FLUSH || (io->op == STORE_DEALLOCATE && !store->deallocate) ||
	       store_memory_ready(store, io->offset + io->moved, store_memory_next(store, io));
}

void store_memory_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	if (!memory_is_ready(store, io)) {
		store_ring_call(ring, io, STORE_STEP_FAULT);
		return;
	}
	switch (io->op) {
	case STORE_READ:
		if (io->flags & STORE_IO_PIECE)
			store_ring_piece(ring, io);
		else
			io->done(io, memory_read(store, io));
		return;
	case STORE_WRITE:
		io->status = store_memory_write(store, io->offset, io->buffer, io->length, false);
		break;
	case STORE_FLUSH:
		io->status = store_failed(store) ? NVME_WRITE_FAULT : NVME_SUCCESS;
		break;
	case STORE_DEALLOCATE:
		if (!store->deallocate)
			break;
		/* fall through */
	case STORE_WRITE_ZEROES:
		if (io->length > PIECE_AT_ONCE || store_memory_piece(store, io)) {
			store_ring_piece(ring, io);
			return;
		}
		break;
	}
	if (!io->status && memory_needs_sync(store, io))
		store_ring_call(ring, io, STORE_STEP_SYNC);
	else
		io->done(io, io->status);
}
