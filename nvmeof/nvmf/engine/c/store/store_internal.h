/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of this folder share and nobody else sees: the table of a kind, the calls a
 * store_io is made of, the engines that run them (io_uring, worker threads).
 */
#ifndef NVMF_STORE_INTERNAL_H
#define NVMF_STORE_INTERNAL_H

#include <sys/stat.h>

#include "../nvme.h"
#include "../util/stat.h"
#include "store.h"

/* A kind of store.  submit and piece run on reactors, the others on a control thread. */
struct store_ops {
	/* The io is within the store and, where it writes, allowed. */
	void (*submit)(struct store_ring *ring, struct store *store, struct store_io *io);
	/* Do the next part of a long memory operation: true while there is more, else io->status. */
	bool (*piece)(struct store *store, struct store_io *io);
	/* Zeroes in a map. */
	void (*zero)(struct store *store, uint64_t offset, size_t length);
	int (*resize)(struct store *store, uint64_t size, char *err, size_t len);
	void (*close)(struct store *store);
};

struct store *store_ram_open(const struct store_options *options, char *err, size_t len);
struct store *store_null_open(const struct store_options *options, char *err, size_t len);
struct store *store_file_open(const struct store_options *options, char *err, size_t len);
struct store *store_pmem_open(const struct store_options *options, char *err, size_t len);

/* store.c: write a sentence to err; returns -error. */
int store_refuse(char *err, size_t len, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* store.c: a store with the options' common parts filled in; NULL with a sentence. */
struct store *store_new(enum store_kind kind, const struct store_options *options,
			const struct store_ops *ops, char *err, size_t len);
/* store.c: whole blocks of what there is, at most what was asked (0: all); -errno. */
int store_fit(const char *name, uint64_t asked, uint64_t there, uint32_t block_size,
	      uint64_t *size, char *err, size_t len);

/* backing.c: what a path led to. */
struct store_backing {
	int fd;
	uint64_t size;		/* bytes there */
	struct stat stat;
	bool volatile_memory;	/* tmpfs or ramfs */
};
int store_backing_open(const struct store_options *options, struct store_backing *backing,
		       char *err, size_t len);
int store_backing_size(int fd, const struct stat *stat, uint64_t *size);
uint64_t store_sysfs_number(const struct stat *stat, const char *attribute, uint64_t otherwise);

/* dax.c: what a power failure leaves of memory that was mapped; the best first. */
enum store_persistence {
	STORE_PERSISTENT_CACHES,	/* what was stored, flushed out of the caches or not */
	STORE_PERSISTENT,		/* what was flushed and fenced */
	STORE_UNKNOWN,			/* nobody tells */
	STORE_VOLATILE,
};
/* Of a DAX device, or a file on a DAX filesystem. */
enum store_persistence store_persistence(const struct stat *stat);
/* A sentence for it; device: a DAX device, not a file. */
const char *store_dax_guarantee(bool device, enum store_persistence persistence);
extern const char *store_sysfs;	/* where sysfs is: "/sys", but for tests */

/* direct.c: 0 and the buffer alignment where direct I/O works for these blocks, else -errno. */
int store_direct_probe(const struct store_backing *backing, uint32_t block_size,
		       uint32_t *alignment, uint32_t *offset_alignment);
/* Another descriptor of the same file, with these flags. */
int store_reopen(int fd, const char *path, int flags);

/* file.c: a store without a map, on a descriptor that uses the page cache or not. */
extern const struct store_ops store_file_ops;
/* memory.c: submit and piece of every store that has a map. */
void store_memory_submit(struct store_ring *ring, struct store *store, struct store_io *io);
bool store_memory_piece(struct store *store, struct store_io *io);
/* The bytes that the next piece is for. */
uint64_t store_memory_next(const struct store *store, const struct store_io *io);
/* persist.c: copy so that the bytes are in the persistence domain when it returns. */
void store_persist_copy(void *to, const void *from, size_t length);
bool store_persist_supported(void);
/* The same of an aligned word, which a power failure leaves old or new. */
void store_persist_word(uint64_t *to, uint64_t value);

/* redo.c: writes of which a power failure leaves nothing or all.  pages: the last STORE_REDO_BYTES. */
enum { STORE_REDO_DATA = 4096 };
/*
 * Do again what a power failure has interrupted, and have slots from here on where they are wanted.  The map is
 * there.  0, or a negative errno with a sentence.
 */
int store_redo_open(struct store *store, uint8_t *pages, bool wanted, char *err, size_t len);
bool store_redo_there(const uint8_t *pages);
unsigned store_redo_pending(uint8_t *pages);	/* writes that were interrupted */
/* Whole units of 512 bytes, at most STORE_REDO_DATA. */
void store_redo_write(struct store *store, uint64_t offset, const void *from, size_t length);

/* touch.c: pages of a map are known to be mapped. */
int store_touch_init(struct store *store);	/* none is; 0, or -1: out of memory */
void store_touch(struct store *store, uint64_t offset, uint64_t length);
void store_touch_forget(struct store *store);

/* sigbus.c: keep a fault in this map from ending the process; it sets *failed instead. */
int store_guard_map(void *map, size_t length, size_t granularity, int *failed);
void store_unguard_map(void *map);
static inline bool store_failed(const struct store *store)
{
	/* The handler runs on this very thread: only the compiler has to be held back. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&store->failed, __ATOMIC_RELAXED) != 0;
}

/*
 * call.c: an io on a file is one or more blocking calls, one at a time; `step` says which it is
 * at.  Engines run the calls and feed the results back.  All of it touches the io alone.
 */
enum store_step {
	STORE_STEP_MOVE,	/* read or write, until all is moved */
	STORE_STEP_RANGE,	/* fallocate */
	STORE_STEP_FILL,	/* writes of zeroes, where fallocate cannot */
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
	bool blocks;		/* known to: not to be tried on the reactor's thread */
	bool direct;		/* between the device and the buffer */
};
void store_call_next(const struct store_io *io, struct store_call *call);
/* What the call gave (-errno): true when there is a next one, else io->status is set. */
bool store_call_result(struct store_io *io, int64_t result);

/* ring.c, for kinds: hold io in the ring until its done is called. */
void store_ring_call(struct store_ring *ring, struct store_io *io, enum store_step step);
void store_ring_piece(struct store_ring *ring, struct store_io *io);
/* At io->deadline (monotonic ns): done with io->status, or where that is 0 submit to io->store. */
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

/* line.c: who may begin, and who waits. */
enum {
	STORE_LINES = 1024,	/* stores beyond so many share lines */
	STORE_LINE_OWN = 4,
	STORE_LINE_STUCK = 160,
	STORE_DEPTH_MOST = 4096,	/* of an engine */
};
struct store_line {
	struct store_list waiting;
	struct store_line *next;	/* in turn, while any wait */
	unsigned active;		/* begun in the engine */
};
struct store_lines {
	unsigned own, shared, depth;	/* places: of each store, of all beyond them, of the engine */
	unsigned active, shared_used;
	struct store_line *turn;	/* lines that are not empty: the next first */
	struct store_line **turn_tail;
	struct store_line line[STORE_LINES];
};
/* A number that as few open stores as possible have.  Control thread. */
uint16_t store_line_take(void);
void store_line_give(uint16_t line);
/* Zeroed memory; depth: calls of one store, while no other has any. */
void store_lines_init(struct store_lines *lines, unsigned depth);
/* Whether io may begin now; else it waits in line. */
bool store_lines_enter(struct store_lines *lines, struct store_io *io);
/* One that has begun has ended.  Then ask for the next until there is none. */
void store_lines_leave(struct store_lines *lines, const struct store_io *io);
struct store_io *store_lines_next(struct store_lines *lines);
/* store_ring_waiting() and, without calling done, store_ring_cancel(). */
unsigned store_lines_waiting(const struct store_lines *lines,
			     bool (*wanted)(const struct store_io *io, const void *arg),
			     const void *arg);
void store_lines_cancel(struct store_lines *lines,
			bool (*wanted)(const struct store_io *io, const void *arg), const void *arg,
			struct store_list *cancelled);

/* An engine runs calls.  wake_fd is an eventfd to be written when poll has something to do. */
struct store_engine {
	const char *name;
	void (*begin)(struct store_engine *engine, struct store_io *io);
	/* Appends what has finished, with io->status set. */
	void (*poll)(struct store_engine *engine, struct store_list *finished);
	/* Pushes what was begun; false where it has to be tried again. */
	bool (*push)(struct store_engine *engine);
	/* As store_ring_buffers(); NULL: of no use here. */
	void (*buffers)(struct store_engine *engine, void *memory, size_t bytes);
	/* As store_ring_forget(); NULL: it holds nothing of stores. */
	void (*forget)(struct store_engine *engine, const struct store *store);
	void (*destroy)(struct store_engine *engine);
};
/* depth: at most so many are begun and not finished. */
struct store_engine *store_uring_create(unsigned depth, int wake_fd);
struct store_engine *store_worker_create(int wake_fd);

/* Zeroes to write from, never written to. */
enum { STORE_ZEROES = 256 << 10 };
extern uint8_t store_zeroes[STORE_ZEROES];

#endif
