/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The io_uring engine.  Owns one io_uring, which belongs to the first thread that begins or polls
 * (it is made disabled and enabled there, as IORING_SETUP_SINGLE_ISSUER wants), so that no
 * completion interrupts a reactor: it is told by a flag in shared memory, and polling costs no
 * system call while nothing has happened.
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

struct uring {
	struct store_engine engine;
	struct io_uring ring;
	unsigned depth;
	bool disabled;		/* made so */
	bool enabled;		/* by the thread that it belongs to */
};

static struct uring *uring_of(struct store_engine *engine)
{
	return (struct uring *)engine;	/* its first member */
}

/*
 * The kernel makes calls that block on threads, by default four a processor for all files together, so that
 * a few that never end would stop all others.  Here each call may have one.
 */
static void uring_enable(struct uring *u)
{
	unsigned threads[2] = { u->depth, 0 };	/* of regular files and block devices; the rest stays */

	if (u->enabled)
		return;
	/* liburing 2.3 declares io_uring_enable_rings and forgot to export it. */
	if (u->disabled)
		syscall(__NR_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
			NULL, 0);
	io_uring_register_iowq_max_workers(&u->ring, threads);
	u->enabled = true;
}

static void uring_prepare(struct io_uring_sqe *sqe, const struct store_call *call)
{
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
		/* A length that does not fit means the whole file, which is never less. */
		if (call->length <= UINT32_MAX && call->length) {
			sqe->off = call->offset;
			sqe->len = (unsigned)call->length;
		}
		break;
	case STORE_CALL_POPULATE:
		io_uring_prep_madvise(sqe, call->buffer, (off_t)call->length, call->flags);
		break;
	}
	if (call->blocks)
		io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

static void uring_begin(struct store_engine *engine, struct store_io *io)
{
	struct uring *u = uring_of(engine);
	struct store_call call;
	/* Never NULL: there are as many entries as the ring begins at most. */
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	store_call_next(io, &call);
	uring_prepare(sqe, &call);
	io_uring_sqe_set_data(sqe, io);
}

static bool uring_push(struct store_engine *engine)
{
	struct uring *u = uring_of(engine);

	if (!io_uring_sq_ready(&u->ring))
		return true;
	uring_enable(u);
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
