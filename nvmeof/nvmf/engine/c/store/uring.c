/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The io_uring engine.  Owns one io_uring, which belongs to the first thread that begins or polls (it is created
 * disabled and enabled by that thread, as IORING_SETUP_SINGLE_ISSUER requires).  Completions do not interrupt a
 * reactor: a flag in shared memory announces them, so that polling needs no system call while there are none.
 *
 * The reactor's buffers (uring_piece) and the stores' files (uring_file) are registered with it, so that the
 * kernel does not look them up for each call.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store_internal.h"

#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_FEAT_RW_ATTR
#define IORING_FEAT_RW_ATTR (1U << 16)
#endif

struct uring {
	struct store_engine engine;
	struct io_uring ring;
	unsigned depth;
	bool disabled;		/* it was created disabled */
	bool enabled;		/* its thread has enabled it */
	uint8_t *memory;	/* registered in pieces at the first direct I/O */
	size_t bytes;
	bool registered;
	bool files;		/* there is a table of files */
	uint64_t file[STORE_LINES];	/* number of the store whose descriptor has this place; 0: free */
};

enum { PIECE_SHIFT = 30, PIECES = 8 };	/* the kernel's limit for a registered buffer */

static struct uring *uring_of(struct store_engine *engine)
{
	return (struct uring *)engine;	/* its first member */
}

/*
 * The table keeps a file open and locked until its place is released.  Before Linux 6.13 the kernel released a file
 * only after all earlier calls of the ring, including those of a store that hangs: so files are registered only on
 * newer kernels, which are recognised by a feature of Linux 6.14.
 */
static bool uring_may_hold(const struct uring *u)
{
	return (u->ring.features & IORING_FEAT_RW_ATTR) != 0;
}

/*
 * The kernel runs blocking calls on threads, by default four per processor for all files, so that a few calls that
 * never end would stop all others.  Here the limit allows a thread for each call.  It does not help buffered writes
 * of regular files: the kernel runs those of one inode in turn, in 64 queues chosen by a hash of the inode, so a file
 * waits with a file that hangs if both have the same queue.
 */
static void uring_enable(struct uring *u)
{
	unsigned threads[2] = { u->depth, 0 };	/* of regular files and block devices; 0: unchanged */

	if (u->enabled)
		return;
	/* liburing 2.3 declares io_uring_enable_rings, but does not export it. */
	if (u->disabled)
		syscall(__NR_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
			NULL, 0);
	io_uring_register_iowq_max_workers(&u->ring, threads);
	u->files = uring_may_hold(u) && !io_uring_register_files_sparse(&u->ring, STORE_LINES);
	u->enabled = true;
}

static void uring_buffers(struct store_engine *engine, void *memory, size_t bytes)
{
	struct uring *u = uring_of(engine);

	u->memory = memory;
	u->bytes = bytes < (size_t)PIECES << PIECE_SHIFT ? bytes : (size_t)PIECES << PIECE_SHIFT;
}

/* If this is not permitted (locked memory, an old kernel), buffers are not registered. */
static void uring_register(struct uring *u)
{
	struct iovec piece[PIECES];
	unsigned count = 0;

	u->registered = true;
	for (size_t at = 0; at < u->bytes; at += (size_t)1 << PIECE_SHIFT, count++) {
		size_t left = u->bytes - at, most = (size_t)1 << PIECE_SHIFT;

		piece[count] = (struct iovec){ .iov_base = u->memory + at,
					       .iov_len = left < most ? left : most };
	}
	if (io_uring_register_buffers(&u->ring, piece, count))
		u->bytes = 0;
}

/* The registered piece that contains a call's buffer, or -1. */
static int uring_piece(struct uring *u, const struct store_call *call)
{
	uintptr_t at = (uintptr_t)call->buffer - (uintptr_t)u->memory;

	if (!call->direct || at >= u->bytes || call->length > u->bytes - at)
		return -1;
	if (!u->registered)
		uring_register(u);
	if (!u->bytes || at >> PIECE_SHIFT != (at + call->length - 1) >> PIECE_SHIFT)
		return -1;
	return (int)(at >> PIECE_SHIFT);
}

/* The place of a call's descriptor in the table, or -1. */
static int uring_file(struct uring *u, const struct store *store, const struct store_call *call)
{
	unsigned place = store->place;

	if (!u->files || call->fd != store->fd || call->type == STORE_CALL_POPULATE)
		return -1;
	if (u->file[place] == store->number)
		return (int)place;
	/* Other stores that share the place use their descriptors; so does this one if the kernel refuses. */
	if (u->file[place] || io_uring_register_files_update(&u->ring, place, &store->fd, 1) != 1)
		return -1;
	u->file[place] = store->number;
	return (int)place;
}

/* Calls that were submitted keep the file until they end; the others use the descriptor. */
static void uring_forget(struct store_engine *engine, const struct store *store)
{
	struct uring *u = uring_of(engine);
	const struct io_uring_sq *sq = &u->ring.sq;
	int none = -1;

	if (!u->files || u->file[store->place] != store->number)
		return;
	for (unsigned at = io_uring_smp_load_acquire(sq->khead); at != sq->sqe_tail; at++) {
		struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];

		if (sqe->flags & IOSQE_FIXED_FILE && sqe->fd == store->place) {
			sqe->flags &= (uint8_t)~IOSQE_FIXED_FILE;
			sqe->fd = store->fd;
		}
	}
	io_uring_register_files_update(&u->ring, store->place, &none, 1);
	u->file[store->place] = 0;
}

/* A ring ends in the background, some time after its exit, and its files would have their locks for so long. */
static void uring_forget_all(struct store_engine *engine)
{
	struct uring *u = uring_of(engine);

	if (!u->files || io_uring_unregister_files(&u->ring))
		return;		/* -EEXIST: not the thread of the ring, which has done that before it ended */
	u->files = false;
}

static void uring_prepare(struct uring *u, struct io_uring_sqe *sqe, const struct store *store,
			  const struct store_call *call)
{
	int piece = uring_piece(u, call), file = uring_file(u, store, call);

	switch (call->type) {
	case STORE_CALL_READ:
		io_uring_prep_read(sqe, call->fd, call->buffer, (unsigned)call->length,
				   call->offset);
		break;
	case STORE_CALL_WRITE:
		io_uring_prep_write(sqe, call->fd, call->buffer, (unsigned)call->length,
				    call->offset);
		sqe->rw_flags = call->flags;
		break;
	case STORE_CALL_FALLOCATE:
		io_uring_prep_fallocate(sqe, call->fd, call->flags, (off_t)call->offset,
					(off_t)call->length);
		break;
	case STORE_CALL_SYNC:
		io_uring_prep_fsync(sqe, call->fd, IORING_FSYNC_DATASYNC);
		/* If the length does not fit, it stays 0: the whole file, which includes the range. */
		if (call->length <= UINT32_MAX && call->length) {
			sqe->off = call->offset;
			sqe->len = (unsigned)call->length;
		}
		break;
	case STORE_CALL_POPULATE:
		io_uring_prep_madvise(sqe, call->buffer, (off_t)call->length, call->flags);
		break;
	}
	if (piece >= 0) {
		sqe->opcode = call->type == STORE_CALL_READ ? IORING_OP_READ_FIXED
							    : IORING_OP_WRITE_FIXED;
		sqe->buf_index = (uint16_t)piece;
	}
	if (file >= 0) {
		sqe->fd = file;
		sqe->flags |= IOSQE_FIXED_FILE;
	}
	if (call->blocks)
		sqe->flags |= IOSQE_ASYNC;
}

static void uring_begin(struct store_engine *engine, struct store_io *io)
{
	struct uring *u = uring_of(engine);
	struct store_call call;
	/* Never NULL: there is an entry for each io that the ring may begin. */
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	uring_enable(u);
	store_call_next(io, &call);
	uring_prepare(u, sqe, io->store, &call);
	io_uring_sqe_set_data(sqe, io);
}

static bool uring_push(struct store_engine *engine)
{
	struct uring *u = uring_of(engine);

	if (!io_uring_sq_ready(&u->ring))
		return true;
	io_uring_submit(&u->ring);
	return !io_uring_sq_ready(&u->ring);
}

static void uring_poll(struct store_engine *engine, struct store_list *finished)
{
	struct uring *u = uring_of(engine);
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;

	uring_enable(u);
	if (io_uring_sq_ready(&u->ring))
		io_uring_submit_and_get_events(&u->ring);
	else if (IO_URING_READ_ONCE(*u->ring.sq.kflags) &
		 (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
		io_uring_get_events(&u->ring);
	io_uring_for_each_cqe(&u->ring, head, cqe) {
		struct store_io *io = io_uring_cqe_get_data(cqe);

		seen++;
		if (store_call_result(io, cqe->res))
			uring_begin(engine, io);
		else
			store_list_push(finished, io);
	}
	io_uring_cq_advance(&u->ring, seen);
}

static void uring_destroy(struct store_engine *engine)
{
	struct uring *u = uring_of(engine);

	uring_forget_all(engine);
	io_uring_queue_exit(&u->ring);
	free(u);
}

static bool uring_has_calls(struct io_uring *ring)
{
	static const int wanted[] = { IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC,
				      IORING_OP_FALLOCATE, IORING_OP_MADVISE };
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool all = probe != NULL;

	for (size_t i = 0; all && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		all = io_uring_opcode_supported(probe, wanted[i]);
	io_uring_free_probe(probe);
	return all;
}

struct store_engine *store_uring_create(unsigned depth, int wake_fd)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,	/* 6.1 */
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,		/* 5.19 */
		0,
	};
	struct uring *u = calloc(1, sizeof(*u));
	int rc = -EINVAL;

	if (!u)
		return NULL;
	u->engine.name = "io_uring";
	u->depth = depth;
	u->engine.begin = uring_begin;
	u->engine.poll = uring_poll;
	u->engine.push = uring_push;
	u->engine.buffers = uring_buffers;
	u->engine.forget = uring_forget;
	u->engine.forget_all = uring_forget_all;
	u->engine.destroy = uring_destroy;
	for (size_t i = 0; rc == -EINVAL && i < sizeof(flags) / sizeof(flags[0]); i++) {
		rc = io_uring_queue_init(depth, &u->ring, flags[i]);
		u->disabled = (flags[i] & IORING_SETUP_R_DISABLED) != 0;
	}
	if (rc) {
		free(u);
		return NULL;
	}
	if (!uring_has_calls(&u->ring) || io_uring_register_eventfd(&u->ring, wake_fd)) {
		io_uring_queue_exit(&u->ring);
		free(u);
		return NULL;
	}
	return &u->engine;
}
