/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures of files: what was flushed, or written with FUA, has reached the device when that completes.
 *
 * This program has a model in place of fdatasync, pwritev2 and the submission to io_uring: the media have what the
 * file had when a sync began, and what was written with RWF_DSYNC.  The proof can fail: without syncs, nothing is there.
 *
 * It also has the kernel's reports of writeback that has failed in the background: one to each open file.
 */
#include <dlfcn.h>
#include <liburing.h>
#include <sys/uio.h>

#include "store_rig.h"

enum { FILE_BYTES = MIB };

static uint8_t media[FILE_BYTES];
static int file = -1;			/* the test's own descriptor */
static bool left_out;			/* syncs do nothing */
static _Atomic unsigned syncs;

enum { FILES = 1024 };

static unsigned failures;		/* of writeback, so far */
static unsigned reported[FILES];	/* to each open file */

/* As fsync and a write with RWF_DSYNC do, at their end. */
static bool model_fails(int fd)
{
	if (fd < 0 || fd >= FILES || reported[fd] == failures)
		return false;
	reported[fd] = failures;
	errno = ENOSPC;
	return true;
}

static void model_sync(void)
{
	syncs++;
	if (!left_out && pread(file, media, FILE_BYTES, 0) != FILE_BYTES)
		check(false, "read the file: %s", strerror(errno));
}

static void model_write(uint64_t at, const void *data, size_t length)
{
	syncs++;
	if (!left_out && check(at <= FILE_BYTES && length <= FILE_BYTES - at, "a write within the file"))
		memcpy(media + at, data, length);
}

int fdatasync(int fd)
{
	model_sync();
	return model_fails(fd) ? -1 : 0;
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	if (flags & RWF_DSYNC)
		for (int i = 0; i < count; i++)
			model_write((uint64_t)at, iov[i].iov_base, iov[i].iov_len);
	return flags & RWF_DSYNC && model_fails(fd) ? -1 : pwritev(fd, iov, count, at);
}

static void model_submit(const struct io_uring *ring)
{
	const struct io_uring_sq *sq = &ring->sq;

	for (unsigned at = sq->sqe_head; at != sq->sqe_tail; at++) {
		const struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];
		const bool write = sqe->opcode == IORING_OP_WRITE || sqe->opcode == IORING_OP_WRITE_FIXED;

		if (sqe->opcode == IORING_OP_FSYNC)
			model_sync();
		else if (write && sqe->rw_flags & RWF_DSYNC)
			model_write(sqe->off, (const void *)(uintptr_t)sqe->addr, sqe->len);
	}
}

typedef int (*submit_fn)(struct io_uring *ring);

int io_uring_submit(struct io_uring *ring)
{
	model_submit(ring);
	return ((submit_fn)dlsym(RTLD_NEXT, "io_uring_submit"))(ring);
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
	model_submit(ring);
	return ((submit_fn)dlsym(RTLD_NEXT, "io_uring_submit_and_get_events"))(ring);
}

/* ---- operations ---- */

static bool is_on_media(uint64_t at, const uint8_t *data, size_t length)
{
	return !memcmp(media + at, data, length);
}

/* How many of some operations were on the media when they had completed. */
static unsigned operations(struct store_ring *ring, struct store *store, unsigned count)
{
	static _Alignas(4096) uint8_t data[64 * KIB], zeroes[64 * KIB];
	unsigned there = 0;

	for (unsigned i = 0; i < count; i++) {
		const uint64_t length = (1 + rnd(16)) * 4096, at = rnd((FILE_BYTES - length) / 4096) * 4096;
		bool good;

		memset(data, (int)(1 + rnd(255)), sizeof(data));
		good = !run(ring, store, STORE_WRITE, at, length, data, i % 3 ? 0 : STORE_IO_FUA);
		if (i % 3 == 1)
			good &= !run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
		if (i % 3 == 2)
			good &= !run(ring, store, STORE_WRITE_ZEROES, at, length, NULL, STORE_IO_FUA);
		check(good, "operation %u succeeds", i);
		there += is_on_media(at, i % 3 == 2 ? zeroes : data, length);
	}
	return there;
}

/* The same by calls, as a target writes to a map. */
static unsigned calls(struct store *store, unsigned count)
{
	static uint8_t data[8192];
	unsigned there = 0;

	for (unsigned i = 0; i < count; i++) {
		const uint64_t at = rnd(FILE_BYTES / 4096 - 2) * 4096;

		memset(data, (int)(1 + rnd(255)), sizeof(data));
		check(!store_memory_write(store, at, data, sizeof(data), i % 2) &&
			      (i % 2 || !store_memory_flush(store)),
		      "call %u succeeds", i);
		there += is_on_media(at, data, sizeof(data));
	}
	return there;
}

static void calls_hold(struct store *store)
{
	enum { COUNT = 40 };
	unsigned there = calls(store, COUNT);

	check(there == COUNT, "what was written by calls is on the media (%u of %d)", there, COUNT);
	left_out = true;
	there = calls(store, COUNT);
	left_out = false;
	check(there < COUNT / 4, "without syncs it is not (%u of %d is)", there, COUNT);
}

static void store_holds(const char *kind, const char *engine)
{
	enum { COUNT = 60 };
	const char *path = make_file(folder, kind, FILE_BYTES);
	struct store_ring *ring;
	struct store *store;
	unsigned there, before;

	snprintf(context, sizeof(context), "%s, %s", kind, engine);
	memset(media, 0x55, sizeof(media));
	file = open(path, O_RDWR | O_CLOEXEC);
	ring = store_ring_create(8, err, sizeof(err));
	store = open_store(kind, path, FILE_BYTES, 4096, 0, false);
	if (check(ring && store && file >= 0, "opens")) {
		there = operations(ring, store, COUNT);
		check(there == COUNT, "what has completed is on the media (%u of %d)", there, COUNT);
		left_out = true;
		before = syncs;
		there = operations(ring, store, COUNT);
		left_out = false;
		check(there < COUNT / 4 && syncs - before >= COUNT, "without %u syncs it is not (%u of %d is)",
		      syncs - before, there, COUNT);
		if (store->map)
			calls_hold(store);
	}
	close_store(ring, store);
	store_ring_destroy(ring);
	close(file);
}

/* A write with FUA is told of the failure, which may be one of earlier writes. */
static void failures_are_kept(const char *kind)
{
	static _Alignas(4096) uint8_t data[4096];
	const char *path = make_file(folder, "fails", FILE_BYTES);
	struct store_ring *ring = store_ring_create(8, err, sizeof(err));
	struct store *store = open_store(kind, path, FILE_BYTES, 4096, 0, false);
	uint16_t write, later, flush, again, blocking;

	snprintf(context, sizeof(context), "%s, writeback fails", kind);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (check(ring && store && file >= 0, "opens")) {
		failures++;
		write = run(ring, store, STORE_WRITE, 0, 4096, data, STORE_IO_FUA);
		later = run(ring, store, STORE_WRITE, 0, 4096, data, STORE_IO_FUA);
		flush = run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
		again = run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
		blocking = store_flush(store);
		check(write == NVME_CAPACITY_EXCEEDED && !later, "the write with FUA fails once (%#x, %#x)", write,
		      later);
		check(flush == NVME_CAPACITY_EXCEEDED && again == NVME_WRITE_FAULT && blocking == again,
		      "each flush fails (%#x, %#x, %#x)", flush, again, blocking);
	}
	close_store(ring, store);
	store_ring_destroy(ring);
	close(file);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	char command[256];

	check_begin(&argc, argv);
	snprintf(folder, sizeof(folder), "%s/store_sync.XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
	if (!mkdtemp(folder)) {
		fprintf(stderr, "cannot make %s: %s\n", folder, strerror(errno));
		return 1;
	}
	unsetenv("NVMF_NO_IO_URING");
	store_holds("file", "io_uring");
	store_holds("pmem", "io_uring");
	setenv("NVMF_NO_IO_URING", "1", 1);
	store_holds("file", "worker threads");
	store_holds("pmem", "worker threads");
	failures_are_kept("file");
	failures_are_kept("pmem");
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (system(command))
		printf("could not remove %s\n", folder);
	return check_report();
}
