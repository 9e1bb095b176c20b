/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private declarations of this folder: the operations of a kind of store, the calls of a store_io, and the engines
 * that run them (io_uring, worker threads).
 */
#ifndef NVMF_STORE_INTERNAL_H
#define NVMF_STORE_INTERNAL_H

#include <sys/stat.h>

#include "../nvme.h"
#include "../util/stat.h"
#include "store.h"

/* A kind of store.  submit and piece run on reactors, the others on a control thread. */
struct store_ops {
	/* Begin an io, which is within the store and, if it writes, permitted. */
	void (*submit)(struct store_ring *ring, struct store *store, struct store_io *io);
	/* Do the next part of a long memory operation; false at its end, with io->status set. */
	bool (*piece)(struct store *store, struct store_io *io);
	/* Write zeroes to a map. */
	void (*zero)(struct store *store, uint64_t offset, size_t length);
	int (*resize)(struct store *store, uint64_t size, char *err, size_t len);
	void (*close)(struct store *store);
};

struct store *store_ram_open(const struct store_options *options, char *err, size_t len);
struct store *store_null_open(const struct store_options *options, char *err, size_t len);
struct store *store_file_open(const struct store_options *options, char *err, size_t len);
struct store *store_pmem_open(const struct store_options *options, char *err, size_t len);
struct store *store_python_open(const struct store_options *options, char *err, size_t len);

/* store.c: write a sentence to err; returns -error. */
int store_refuse(char *err, size_t len, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* store.c: create a store from the options common to all kinds; NULL with a sentence. */
struct store *store_new(enum store_kind kind, const struct store_options *options,
			const struct store_ops *ops, char *err, size_t len);
/* store.c: calculate the size in whole blocks; asked: 0 for all that is there.  0 or -errno. */
int store_fit(const char *name, uint64_t asked, uint64_t there, uint32_t block_size,
	      uint64_t *size, char *err, size_t len);

/* backing.c: an opened file or device. */
struct store_backing {
	int fd;
	uint64_t size;		/* bytes */
	struct stat stat;
	bool volatile_memory;	/* tmpfs or ramfs */
};
int store_backing_open(const struct store_options *options, struct store_backing *backing,
		       char *err, size_t len);
int store_backing_size(int fd, const struct stat *stat, uint64_t *size);
uint64_t store_sysfs_number(const struct stat *stat, const char *attribute, uint64_t otherwise);

/* dax.c: data in mapped memory that survives a power failure; the best first. */
enum store_persistence {
	STORE_PERSISTENT_CACHES,	/* all stores, even those still in caches */
	STORE_PERSISTENT,		/* flushed and fenced stores */
	STORE_UNKNOWN,			/* not known */
	STORE_VOLATILE,
};
/* Return the persistence of a DAX device, or of a file on a DAX filesystem. */
enum store_persistence store_persistence(const struct stat *stat);
/* Describe it in a sentence; device: a DAX device, not a file. */
const char *store_dax_guarantee(bool device, enum store_persistence persistence);
extern const char *store_sysfs;	/* path of sysfs: "/sys", except in tests */

/* direct.c: 0 and the buffer alignment if direct I/O works for these blocks, otherwise -errno. */
int store_direct_probe(const struct store_backing *backing, uint32_t block_size,
		       uint32_t *alignment, uint32_t *offset_alignment);
/* Open the same file again with these flags. */
int store_reopen(int fd, const char *path, int flags);

/*
 * The kernel reports a failed writeback once to each open file, and a write with FUA takes the report for earlier
 * writes, too: so syncs have an open file of their own, or a later flush would succeed.
 */
static inline int store_sync_fd(const struct store *store)
{
	return store->sync_fd < 0 ? store->fd : store->sync_fd;
}
/* file.c: open it, if that is possible. */
void store_file_open_sync(struct store *store);

/* file.c: a store without a map, with direct or buffered I/O. */
extern const struct store_ops store_file_ops;
/* memory.c: submit and piece of every store that has a map. */
void store_memory_mapped(struct store *store);	/* once, when map and map_length are set */
void store_memory_submit(struct store_ring *ring, struct store *store, struct store_io *io);
bool store_memory_piece(struct store *store, struct store_io *io);
/* Length of the next piece in bytes. */
uint64_t store_memory_next(const struct store *store, const struct store_io *io);
/* stream.c: copy past the caches; other processors may see the bytes only after a fence. */
void store_stream_copy(void *to, const void *from, size_t length);
/* persist.c: copy; on return, the bytes are in the persistence domain. */
void store_persist_copy(void *to, const void *from, size_t length);
bool store_persist_supported(void);
/* The same for an aligned word, which after a power failure is old or new. */
void store_persist_word(uint64_t *to, uint64_t value);

/* redo.c: writes that are atomic on power failure.  pages: the last STORE_REDO_BYTES. */
enum { STORE_REDO_DATA = 4096 };
/*
 * Repeat writes that a power failure has interrupted, and use slots from now on if they are wanted.  The store must
 * be mapped.  Returns 0, or a negative errno with a sentence.
 */
int store_redo_open(struct store *store, uint8_t *pages, bool wanted, char *err, size_t len);
bool store_redo_there(const uint8_t *pages);
unsigned store_redo_pending(uint8_t *pages);	/* number of interrupted writes */
/* Write whole units of 512 bytes, at most STORE_REDO_DATA. */
void store_redo_write(struct store *store, uint64_t offset, const void *from, size_t length);

/* touch.c: records pages that are known to be mapped. */
int store_touch_init(struct store *store);	/* none so far; returns 0, or -1: out of memory */
void store_touch(struct store *store, uint64_t offset, uint64_t length);
void store_touch_forget(struct store *store);

/* sigbus.c: a fault in this map increments *faults instead of ending the process. */
int store_guard_map(void *map, size_t length, size_t granularity, unsigned *faults);
void store_unguard_map(void *map);
static inline unsigned store_faults(const struct store *store)
{
	/* The handler runs on the same thread: only the compiler must not reorder. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&store->faults, __ATOMIC_RELAXED);
}
static inline bool store_failed(const struct store *store)
{
	return store_faults(store) != __atomic_load_n(&store->repaired, __ATOMIC_ACQUIRE);
}

/*
 * call.c: an io on a file is a sequence of blocking calls; `step` is the present one.  Engines run the calls and pass
 * their results to store_call_result().  These functions use only the io.
 */
enum store_step {
	STORE_STEP_MOVE,	/* read or write, until all is transferred */
	STORE_STEP_RANGE,	/* fallocate */
	STORE_STEP_FILL,	/* write zeroes, if fallocate is not supported */
	STORE_STEP_SYNC,	/* fdatasync */
	STORE_STEP_FAULT,	/* map the pages of a memory operation, which is then submitted again */
};
enum store_call_type {
	STORE_CALL_READ,
	STORE_CALL_WRITE,
	STORE_CALL_FALLOCATE,
	STORE_CALL_SYNC,
	STORE_CALL_POPULATE,	/* madvise of [buffer, buffer + length) */
};
struct store_call {
	enum store_call_type type;
	int fd;
	void *buffer;
	uint64_t offset;
	uint64_t length;	/* sync: 0 for the whole file */
	int flags;		/* RWF_*, the fallocate mode, or the advice */
	bool blocks;		/* known to block: not on the reactor's thread */
	bool direct;		/* between the device and the buffer */
};
void store_call_next(const struct store_io *io, struct store_call *call);
/* result: of the call, or -errno.  True if a further call follows; otherwise io->status is set. */
bool store_call_result(struct store_io *io, int64_t result);

/* ring.c, for kinds of stores: keep io in the ring until done is called. */
void store_ring_call(struct store_ring *ring, struct store_io *io, enum store_step step);
void store_ring_piece(struct store_ring *ring, struct store_io *io);
/* Post io to the answering thread of its store (python_ring.c). */
void store_ring_python(struct store_ring *ring, struct store_io *io);
/* At io->deadline (monotonic ns), call done with io->status; if that is 0, submit io to io->store. */
void store_ring_delay(struct store_ring *ring, struct store_io *io);

struct store_list {
	struct store_io *head;
	struct store_io **tail;
};
static inline void store_list_init(struct store_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
}
static inline void store_list_push(struct store_list *list, struct store_io *io)
{
	io->next = NULL;
	*list->tail = io;
	list->tail = &io->next;
}
static inline struct store_io *store_list_pop(struct store_list *list)
{
	struct store_io *io = list->head;

	if (io && !(list->head = io->next))
		list->tail = &list->head;
	return io;
}

/* line.c: ios that may begin, and ios that wait. */
enum {
	STORE_LINES = 1024,	/* if there are more stores, they share lines */
	STORE_LINE_OWN = 4,
	STORE_LINE_STUCK = 160,
	STORE_DEPTH_MOST = 4096,	/* maximum of an engine */
};
struct store_line {
	struct store_list waiting;
	struct store_line *next;	/* next in round-robin order, while ios wait */
	unsigned active;		/* begun in the engine */
};
struct store_lines {
	unsigned own, shared, depth;	/* places: of each store, shared by all, of the engine */
	unsigned active, shared_used;
	struct store_line *turn;	/* lines that are not empty, in round-robin order */
	struct store_line **turn_tail;
	struct store_line line[STORE_LINES];
};
/* Return the line used by the fewest open stores.  Control thread. */
uint16_t store_line_take(void);
void store_line_give(uint16_t line);
/* lines: zeroed memory; depth: maximum calls of one store while no other has any. */
void store_lines_init(struct store_lines *lines, unsigned depth);
/* Whether io may begin now; otherwise it waits in line. */
bool store_lines_enter(struct store_lines *lines, struct store_io *io);
/* An io has ended.  Afterwards call store_lines_next() until it returns NULL. */
void store_lines_leave(struct store_lines *lines, const struct store_io *io);
struct store_io *store_lines_next(struct store_lines *lines);
/* As store_ring_waiting() and store_ring_cancel(), but without calling done. */
unsigned store_lines_waiting(const struct store_lines *lines,
			     bool (*wanted)(const struct store_io *io, const void *arg),
			     const void *arg);
void store_lines_cancel(struct store_lines *lines,
			bool (*wanted)(const struct store_io *io, const void *arg), const void *arg,
			struct store_list *cancelled);

/* An engine runs calls.  wake_fd is an eventfd, written if poll has work. */
struct store_engine {
	const char *name;
	void (*begin)(struct store_engine *engine, struct store_io *io);
	/* Append finished ios, with io->status set. */
	void (*poll)(struct store_engine *engine, struct store_list *finished);
	/* Submit begun calls; false if it must be tried again. */
	bool (*push)(struct store_engine *engine);
	/* As store_ring_buffers(); NULL: not used. */
	void (*buffers)(struct store_engine *engine, void *memory, size_t bytes);
	/* As store_ring_forget(); NULL: the engine keeps nothing of stores. */
	void (*forget)(struct store_engine *engine, const struct store *store);
	void (*forget_all)(struct store_engine *engine);	/* nothing is in flight; NULL: as above */
	void (*destroy)(struct store_engine *engine);
};
/* depth: maximum ios that have begun and not finished. */
struct store_engine *store_uring_create(unsigned depth, int wake_fd);
struct store_engine *store_worker_create(int wake_fd);

/* Zeroes, read only. */
enum { STORE_ZEROES = 256 << 10 };
extern uint8_t store_zeroes[STORE_ZEROES];

#endif
