/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores: the storage of namespaces.
 *
 * A store is opened and closed by a control thread and read and written by reactors.  A store
 * that is memory (ram, pmem) is used in place: its bytes are at store->map.  The others take
 * store_io requests, through the reactor's store_ring (io_uring, or worker threads if io_uring
 * is not permitted), and never block the reactor.  Only store->map distinguishes the two, not the kind (a fault
 * filter over a ram store has no map, so that no request bypasses it).
 *
 * The target must use a store that has a map as follows:
 *   read		if store_memory_ready(): post from map + offset after store_memory_check() returned
 *			NVME_SUCCESS; else store_submit()
 *   write		if store_memory_ready(): store_memory_write(), with FUA only if
 *			!store_needs_sync(); else store_submit()
 *   flush		NVME_SUCCESS at once if !store_needs_sync(), else store_submit()
 *   zeroes, deallocate	store_submit(), which may finish later: long ranges are done one piece per poll
 *   registration	with a device that pins pages (system, not iwarp): set store->pinned
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

enum store_kind { STORE_RAM, STORE_FILE, STORE_PMEM, STORE_NULL, STORE_PYTHON };

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
	STORE_IO_PIECE = 4,	/* read: of a store that has a map, when it has its turn among long operations */
};

struct store_options {
	const char *kind;	/* "ram", "file", "pmem", "null", "python" */
	const char *path;	/* file, pmem: the file or device; otherwise NULL */
	uint64_t size;		/* ram, null, python: bytes; file, pmem: at most the size of the file, 0 for all of it */
	uint32_t block_size;	/* logical block size of the namespace: 512 or 4096 */
	int direct;		/* file: 1 O_DIRECT or fail, 0 page cache, -1 O_DIRECT if possible */
	bool read_only;
	/* pmem: use the last STORE_REDO_BYTES to make block writes atomic on power loss */
	bool power_fail_atomic;
	bool persistent;	/* pmem: fail unless completed writes are known to survive a power loss */
	/* python: see python.h; 0: the default (64 calls, 8 MiB, 10 s) */
	uint32_t calls;
	uint64_t bytes;
	uint32_t limit_ms;
	/* python: facts */
	uint32_t physical_block_size;	/* 0: block_size */
	bool volatile_write_cache;
	bool deallocate;	/* deallocated blocks read back as zeroes */
};

struct store {
	enum store_kind kind;
	uint64_t size;			/* bytes, a multiple of block_size */
	uint32_t block_size;
	uint32_t physical_block_size;	/* bytes; at least block_size */
	uint32_t alignment;		/* of buffers; 1: any.  Unaligned buffers are slower */
	bool volatile_write_cache;	/* a completed write may be lost in a crash until a flush */
	bool deallocate;		/* deallocated blocks read back as zeroes */
	bool read_only;
	bool direct;			/* file: O_DIRECT in force */
	const char *guarantee;		/* a sentence: why a flushed write is stable in this store */
	char *said;			/* the memory of guarantee, if it was allocated for this store */
	char *path;			/* NULL for ram and null */
	uint8_t *map;			/* ram, pmem: the bytes; else NULL */
	size_t map_length;		/* bytes to register: at least size; never changes */
	uint32_t streamed;		/* map: writes of so many bytes or more go past the caches, with a fence each */
	uint32_t streamed_unfenced;	/* the same for those that need no fence of their own */
	uint64_t *touched;		/* see store_memory_ready(); NULL: all pages are ready */
	struct store_redo *redo;	/* NULL: a power loss may tear a block that is being written */
	uint64_t reserved;		/* bytes at the end of the file that do not belong to the namespace */
	/*
	 * map: data is as stable as possible when store_memory_write returns, with or without FUA, and
	 * a flush does nothing (ram, devdax, fsdax).  If it is false (a mapped file on tmpfs), FUA
	 * writes and flushes use store_submit, which syncs the file without blocking, whereas
	 * store_memory_flush blocks.
	 */
	bool memory_is_stable;
	bool sync_is_nothing;		/* map of a file on tmpfs: a sync of the file does nothing, so that none is made */
	/*
	 * To be set, before the first I/O, if map is registered with a device that pins its pages:
	 * zeroes are then written in place, because after a pinned page is freed the device and the
	 * processor would use different pages.
	 */
	bool pinned;
	unsigned faults;		/* atomic: how often the map had no file behind it: it was truncated */
	unsigned repaired;		/* atomic: faults at the last repair; while they differ, I/O fails */
	int sync_failed;		/* atomic: a sync failed, so no later one may succeed */
	int last_error;			/* atomic: errno of the last failure, until it is reported */
	uint16_t line;			/* its line in every ring: see line.c */
	uint16_t place;			/* of fd in the table of files of every ring */
	uint64_t number;		/* unique in the process, from 1: identifies the owner of fd */
	int fd;				/* file, pmem; else -1 */
	int page_cache_fd;		/* direct: the same file for unaligned buffers; else -1 */
	int sync_fd;			/* the same file for syncs alone: see store_sync_fd(); or -1 */
	const struct store_ops *ops;
	void *own;			/* data of the kind */
};

struct store_io {
	enum store_op op;
	uint32_t flags;
	uint64_t offset;		/* bytes */
	uint64_t length;		/* bytes */
	void *buffer;			/* read, write */
	void (*done)(struct store_io *io, uint16_t status);	/* on the reactor's thread */
	struct store *store;
	struct store_io *next;		/* this and the following fields: used by the ring */
	uint64_t moved;
	uint64_t deadline;
	uint16_t attempt;
	uint16_t status;
	uint8_t step;
	uint8_t tag;			/* used by the caller */
};

enum { STORE_REDO_BYTES = 256 << 10 };

struct store_ring;	/* one per reactor */

/* If NULL or a negative errno is returned, err has a sentence (at most len bytes). */
struct store *store_open(const struct store_options *options, char *err, size_t len);
void store_close(struct store *store);
/*
 * Adopt the new size of a backing file, or shorten a ram or null store.  size: the new size; 0: that of the file.
 * Memory stores cannot exceed the map with which they were opened, because it is registered.  Returns 0, or a
 * negative errno with a sentence, with store->size unchanged.
 */
int store_resize(struct store *store, uint64_t size, char *err, size_t len);
/* Make all writes stable; returns an NVMe status.  Blocks.  Does nothing for a python store. */
uint16_t store_flush(struct store *store);

/*
 * depth: maximum calls of one store in the kernel at a time; fewer while other stores have many, so that these do not
 * wait for it.  Any thread may create a ring; it belongs to the thread of its first submit or poll.  It is destroyed
 * by that thread, or by any thread if nothing is in flight: destroy waits until all is done.
 */
struct store_ring *store_ring_create(unsigned depth, char *err, size_t len);
void store_ring_destroy(struct store_ring *ring);
/*
 * Set the memory that contains most buffers, before the first submit; it must exist as long as the ring.  It is
 * registered with the kernel at the first direct I/O, so that its pages need not be pinned for each call.
 */
void store_ring_buffers(struct store_ring *ring, void *memory, size_t bytes);
/*
 * Remove the store's file from the ring, which may keep it open after its first use.  Must be called on the ring's
 * thread after the last use and before store_close(); otherwise the file stays open and locked until the ring is
 * destroyed.
 */
void store_ring_forget(struct store_ring *ring, const struct store *store);
/*
 * Remove all files, on the ring's thread before it ends and after the last use of the ring, if nothing is in flight: a
 * ring that is destroyed by another thread keeps them open and locked for some time.
 */
void store_ring_forget_all(struct store_ring *ring);
/* "io_uring" or "worker threads", for logs. */
const char *store_ring_kind(const struct store_ring *ring);
/*
 * Begin io.  May call io->done before it returns (memory stores complete most requests at once).
 * Never fails and never blocks: if the store uses its share of the ring, io waits in line.
 * Memory stores accept every op here, too.
 */
void store_submit(struct store_ring *ring, struct store *store, struct store_io *io);
/*
 * Submit begun calls to the kernel, and call done for completed ones; returns their number.
 * A thread may sleep only after a poll that followed its last submit.
 */
int store_ring_poll(struct store_ring *ring);
unsigned store_ring_inflight(const struct store_ring *ring);
/*
 * Count the wanted ios among those that wait in line and have not begun; or cancel them: done is called with
 * NVME_ABORTED_BY_REQUEST before the function returns.
 */
unsigned store_ring_waiting(const struct store_ring *ring,
			    bool (*wanted)(const struct store_io *io, const void *arg),
			    const void *arg);
void store_ring_cancel(struct store_ring *ring,
		       bool (*wanted)(const struct store_io *io, const void *arg), const void *arg);
/* A descriptor that is readable if store_ring_poll has work, for a reactor that is about to sleep. */
int store_ring_fd(const struct store_ring *ring);

/* Memory stores, in place, without a ring, on any thread. */
/* Whether FUA and flushes of a store that is memory mean a sync of its file, which may block. */
static inline bool store_needs_sync(const struct store *store)
{
	return !store->memory_is_stable && !store->sync_is_nothing;
}
/*
 * Whether these bytes of the map can be used without waiting for a filesystem.  store_submit() needs no such check.
 */
bool store_touched(const struct store *store, uint64_t offset, uint64_t length);
static inline bool store_memory_ready(const struct store *store, uint64_t offset, uint64_t length)
{
	return !store->touched || store_touched(store, offset, length);
}
/* Whether a write of this length to map goes past the caches, so that it is of no use to prefetch there. */
static inline bool store_streams(const struct store *store, size_t length)
{
	return length >= store->streamed || (store->fd >= 0 && store->memory_is_stable);
}
static inline bool store_streams_unfenced(const struct store *store, size_t length)
{
	return length >= store->streamed_unfenced && store->fd < 0;
}
/* Copy into map; on return, all bytes are there (and stable, if memory_is_stable). */
uint16_t store_memory_write(struct store *store, uint64_t offset, const void *from, size_t length,
			    bool fua);
/*
 * Copy into the map of a ram store past the caches, if a write of this length goes that way: returns false if it does
 * not, and then nothing was done.  The calling thread reads the new bytes at once.  Others do so after store_fence(),
 * which has to come before they are told of the write: a fence for each write would take as long as its copy.
 */
bool store_memory_write_unfenced(struct store *store, uint64_t offset, const void *from, size_t length);
static inline void store_fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}
/* Make all writes stable.  Blocks if !memory_is_stable: not on a reactor. */
uint16_t store_memory_flush(struct store *store);
/*
 * Whether these bytes can be read in place, as an NVMe status.  Touches each page of a mapped file, so that a
 * truncated file or bad memory is found here, and not by a device.
 */
uint16_t store_memory_check_file(struct store *store, uint64_t offset, size_t length);
static inline uint16_t store_memory_check(struct store *store, uint64_t offset, size_t length)
{
	return store->fd < 0 ? 0 : store_memory_check_file(store, offset, length);
}

/* Whether Verify has to read.  The memory of a file can fail where other memory cannot: see store_memory_check(). */
static inline bool store_verify_reads(const struct store *store)
{
	return store->kind != STORE_NULL && (!store->map || store->fd >= 0);
}

#endif
