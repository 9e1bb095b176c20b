/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores: what stands behind a namespace.
 *
 * A store is opened and closed by a control thread and read and written by reactors.  A store
 * that is memory (ram, pmem) is used in place: its bytes are at store->map.  The others take
 * store_io requests, through the reactor's store_ring (io_uring, or worker threads where io_uring
 * is not permitted), and never block the reactor.  Which of the two is told by store->map alone,
 * never by the kind (a fault filter over a ram store has no map, so that nothing goes around it).
 *
 * What the target does with a store that has a map, and nothing else is right:
 *   read		where store_memory_ready(): post from map + offset once store_memory_check() said
 *			NVME_SUCCESS; else store_submit()
 *   write		where store_memory_ready(): store_memory_write(), with FUA only where
 *			memory_is_stable; else store_submit()
 *   flush		NVME_SUCCESS at once where memory_is_stable, else store_submit()
 *   zeroes, deallocate	store_submit(), which may finish later: big ranges go a piece per poll
 *   registered	with a device that pins pages (system, not iwarp): set store->pinned
 *
 * Statuses are NVMe status codes (nvme.h), already translated from errno:
 * EIO on read UNRECOVERED_READ_ERROR, on write WRITE_FAULT; ENOSPC and EDQUOT CAPACITY_EXCEEDED;
 * EROFS, EPERM and EBADF NAMESPACE_WRITE_PROTECTED; the rest INTERNAL_ERROR.
 */
#ifndef NVMF_STORE_H
#define NVMF_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_kind { STORE_RAM, STORE_FILE, STORE_PMEM, STORE_NULL };

enum store_op {
	STORE_READ,
	STORE_WRITE,
	STORE_FLUSH,
	STORE_WRITE_ZEROES,
	STORE_DEALLOCATE,
};

enum {
	STORE_IO_FUA = 1,	/* stable before it completes */
	STORE_IO_DEALLOCATE = 2,	/* write zeroes may deallocate (DEAC) */
};

struct store_options {
	const char *kind;	/* "ram", "file", "pmem", "null" */
	const char *path;	/* file, pmem: what to open; NULL otherwise */
	uint64_t size;		/* ram, null: bytes; file, pmem: 0 for what is there, else at most it */
	uint32_t block_size;	/* logical block size of the namespace to come: 512 or 4096 */
	int direct;		/* file: 1 O_DIRECT or fail, 0 page cache, -1 direct where it can be */
	bool read_only;
	/* pmem: the last STORE_REDO_BYTES of what there is make writes of a block whole at a power loss */
	bool power_fail_atomic;
	bool persistent;	/* pmem: fail unless what completes is known to survive a power loss */
};

struct store {
	enum store_kind kind;
	uint64_t size;			/* bytes, a multiple of block_size */
	uint32_t block_size;
	uint32_t physical_block_size;	/* bytes; at least block_size */
	uint32_t alignment;		/* of buffers; 1: any.  Others are taken too, but slower */
	bool volatile_write_cache;	/* a completed write may be lost in a crash until a flush */
	bool deallocate;		/* deallocated blocks read back as zeroes */
	bool read_only;
	bool direct;			/* file: O_DIRECT in force */
	const char *guarantee;		/* a sentence: what makes a flushed write stable here */
	char *said;			/* it, if it was made up for this store */
	char *path;			/* NULL for ram and null */
	uint8_t *map;			/* ram, pmem: the bytes; else NULL */
	size_t map_length;		/* what to register: at least size, the same for life */
	uint64_t *touched;		/* see store_memory_ready(); NULL: all is */
	struct store_redo *redo;	/* NULL: a power loss may tear a block that is being written */
	uint64_t reserved;		/* bytes at the end of the file that are not the namespace's */
	/*
	 * map: what store_memory_write wrote is as stable as it can get when that returns, FUA or
	 * not, and a flush has nothing to do (ram, devdax, fsdax).  Where it is false (a file on
	 * tmpfs, mapped) FUA writes and flushes go through store_submit, which syncs the file
	 * without blocking; store_memory_flush blocks there.
	 */
	bool memory_is_stable;
	/*
	 * Set by whoever registers map with a device that pins its pages, before the first I/O:
	 * zeroes are then written in place, since giving a pinned page back would part what the
	 * device sees from what the processor sees.
	 */
	bool pinned;
	int failed;			/* atomic: the file under map went away; I/O gets errors */
	int sync_failed;		/* atomic: a sync failed, so none may succeed after it */
	int last_error;			/* atomic: errno of the last failure, until it is told */
	uint16_t line;			/* its line in every ring: see line.c */
	uint16_t place;			/* of fd in the table of files of every ring */
	uint64_t number;		/* of all stores that ever were, from 1: whose fd that is */
	int fd;				/* file, pmem; else -1 */
	int page_cache_fd;		/* direct: the same file for unaligned buffers; else -1 */
	const struct store_ops *ops;
	void *own;			/* the kind's */
};

struct store_io {
	enum store_op op;
	uint32_t flags;
	uint64_t offset;		/* bytes */
	uint64_t length;		/* bytes */
	void *buffer;			/* read, write */
	void (*done)(struct store_io *io, uint16_t status);	/* on the reactor's thread */
	struct store *store;
	struct store_io *next;		/* the ring's own, as what follows */
	uint64_t moved;
	uint64_t deadline;
	uint16_t attempt;
	uint16_t status;
	uint8_t step;
	uint8_t tag;			/* the caller's own */
};

enum { STORE_REDO_BYTES = 256 << 10 };

struct store_ring;	/* one per reactor */

/* A sentence goes to err (at most len bytes) where NULL or a negative errno is returned. */
struct store *store_open(const struct store_options *options, char *err, size_t len);
void store_close(struct store *store);
/*
 * Follow a backing file that has grown or shrunk, or cut a ram or null store: the new size, 0 for
 * all that is there.  Memory stores stay within the map they were opened with, since it is
 * registered.  0, or a negative errno with a sentence; store->size is then as it was.
 */
int store_resize(struct store *store, uint64_t size, char *err, size_t len);
/* What was written to any kind of store is stable when it returns: NVMe status.  Blocks. */
uint16_t store_flush(struct store *store);

/*
 * depth: how many calls of one store go to the kernel at once; fewer while other stores have many, and
 * never so many that those wait for this one.  Made by any thread; from its first submit or poll it
 * belongs to that thread.  Destroyed by that thread, or by any once nothing is in flight:
 * destroy waits for what is, and calls done for it.
 */
struct store_ring *store_ring_create(unsigned depth, char *err, size_t len);
void store_ring_destroy(struct store_ring *ring);
/*
 * Memory that most buffers are in, before the first submit and for as long as the ring lives.  It is given to the
 * kernel with the first direct I/O, which saves looking its pages up and pinning them each time.
 */
void store_ring_buffers(struct store_ring *ring, void *memory, size_t bytes);
/*
 * Remove the store's file from the ring, whose engine may hold it open from its first use on.  To be called after the
 * last use and before store_close(), on the ring's thread: otherwise the file stays open and locked until the
 * ring is destroyed.
 */
void store_ring_forget(struct store_ring *ring, const struct store *store);
/* "io_uring" or "worker threads", for logs. */
const char *store_ring_kind(const struct store_ring *ring);
/*
 * Begin io.  May call io->done before it returns (memory stores do everything at once).
 * Never fails and never blocks: where the store has its share of the ring it waits in line inside.
 * Memory stores accept every op here too.
 */
void store_submit(struct store_ring *ring, struct store *store, struct store_io *io);
/*
 * Push what was begun to the kernel and call done for what has completed; how many were.
 * Sleep only after a poll that followed the last submit.
 */
int store_ring_poll(struct store_ring *ring);
unsigned store_ring_inflight(const struct store_ring *ring);
/*
 * Of what stands in line and was not begun, so many are wanted; and cancel: done is called for them
 * with NVME_ABORTED_BY_REQUEST, before it returns.
 */
unsigned store_ring_waiting(const struct store_ring *ring,
			    bool (*wanted)(const struct store_io *io, const void *arg),
			    const void *arg);
void store_ring_cancel(struct store_ring *ring,
		       bool (*wanted)(const struct store_io *io, const void *arg), const void *arg);
/* An fd that is readable when store_ring_poll has something to do, for a reactor about to sleep. */
int store_ring_fd(const struct store_ring *ring);

/* Memory stores, in place, without a ring, on any thread. */
/*
 * Whether these bytes of the map can be used without waiting for a filesystem.  A store that has a map takes
 * care of that itself in store_submit().
 */
bool store_touched(const struct store *store, uint64_t offset, uint64_t length);
static inline bool store_memory_ready(const struct store *store, uint64_t offset, uint64_t length)
{
	return !store->touched || store_touched(store, offset, length);
}
/* Copy into map; returns when all bytes are there (and stable, where memory_is_stable). */
uint16_t store_memory_write(struct store *store, uint64_t offset, const void *from, size_t length,
			    bool fua);
/* Everything written so far is stable.  Blocks where !memory_is_stable: not on a reactor. */
uint16_t store_memory_flush(struct store *store);
/*
 * May these bytes be read in place?  Touches each page of a mapped file, so that one which was
 * truncated or is bad turns into a status here and not into a fault in a device.
 */
uint16_t store_memory_check_file(struct store *store, uint64_t offset, size_t length);
static inline uint16_t store_memory_check(struct store *store, uint64_t offset, size_t length)
{
	return store->fd < 0 ? 0 : store_memory_check_file(store, offset, length);
}

#endif
