/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's ring: the operations on stores that it has begun.  Owns the lines of ios that wait for the engine, the
 * lists of long memory operations and of delayed ones, the calls of python stores, the engine that runs the other
 * calls, and the descriptor on which a sleeping reactor waits.  All but create runs on the reactor's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "python_internal.h"

enum { DRAIN_EVERY = 32 };	/* idle polls between two reads of wake_fd, which cost more than a poll */

struct store_ring {
	struct store_engine *engine;
	struct python_ring *python;	/* calls of python stores */
	unsigned inflight;		/* all ios in this ring */
	unsigned idle;			/* consecutive polls that found nothing */
	struct store_list pieces;	/* long memory operations, served round-robin */
	struct store_io *delayed;	/* the earliest deadline first */
	int wake_fd;
	int timer_fd;
	int epoll_fd;			/* watches both */
	struct store_lines lines;
};

static void ring_wake(const struct store_ring *ring)
{
	static const uint64_t one = 1;

	/* It fails only if the counter would overflow: then the descriptor is readable. */
	if (write(ring->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static int ring_open_descriptors(struct store_ring *ring)
{
	struct epoll_event event = { .events = EPOLLIN };

	ring->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ring->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	ring->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ring->wake_fd < 0 || ring->timer_fd < 0 || ring->epoll_fd < 0 ||
	    epoll_ctl(ring->epoll_fd, EPOLL_CTL_ADD, ring->wake_fd, &event) ||
	    epoll_ctl(ring->epoll_fd, EPOLL_CTL_ADD, ring->timer_fd, &event))
		return -errno;
	return 0;
}

static void ring_close_descriptors(struct store_ring *ring)
{
	int fds[] = { ring->wake_fd, ring->timer_fd, ring->epoll_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct store_ring *store_ring_create(unsigned depth, char *err, size_t len)
{
	struct store_ring *ring = calloc(1, sizeof(*ring));
	const char *no = getenv("NVMF_NO_IO_URING");
	int rc;

	if (!ring) {
		store_refuse(err, len, ENOMEM, "out of memory for a store ring");
		return NULL;
	}
	ring->wake_fd = ring->timer_fd = ring->epoll_fd = -1;
	store_lines_init(&ring->lines, depth ? depth : 1);
	store_list_init(&ring->pieces);
	rc = ring_open_descriptors(ring);
	if (!rc && !(no && no[0] && strcmp(no, "0")))
		ring->engine = store_uring_create(ring->lines.depth, ring->wake_fd);
	if (!rc && !ring->engine)
		ring->engine = store_worker_create(ring->wake_fd);
	if (!rc)
		ring->python = python_ring_create(ring->wake_fd);
	if (rc || !ring->engine || !ring->python) {
		store_refuse(err, len, rc ? -rc : EAGAIN,
			     "cannot create a store ring of depth %u: %s", depth,
			     rc ? strerror(-rc)
			     : !ring->engine ? "neither io_uring nor threads are available"
					     : "out of memory");
		if (ring->engine)
			ring->engine->destroy(ring->engine);
		python_ring_destroy(ring->python);
		ring_close_descriptors(ring);
		free(ring);
		return NULL;
	}
	return ring;
}

void store_ring_destroy(struct store_ring *ring)
{
	struct epoll_event event;

	if (!ring)
		return;
	while (ring->inflight)
		if (!store_ring_poll(ring))
			epoll_wait(ring->epoll_fd, &event, 1, 10);
	ring->engine->destroy(ring->engine);
	python_ring_destroy(ring->python);
	ring_close_descriptors(ring);
	free(ring);
}

void store_ring_buffers(struct store_ring *ring, void *memory, size_t bytes)
{
	if (ring->engine->buffers)
		ring->engine->buffers(ring->engine, memory, bytes);
}

void store_ring_forget(struct store_ring *ring, const struct store *store)
{
	if (ring->engine->forget)
		ring->engine->forget(ring->engine, store);
}

void store_ring_forget_all(struct store_ring *ring)
{
	if (!ring->inflight && ring->engine->forget_all)
		ring->engine->forget_all(ring->engine);
}

const char *store_ring_kind(const struct store_ring *ring)
{
	return ring->engine->name;
}

unsigned store_ring_inflight(const struct store_ring *ring)
{
	return ring->inflight;
}

int store_ring_fd(const struct store_ring *ring)
{
	return ring->epoll_fd;
}

void store_ring_call(struct store_ring *ring, struct store_io *io, enum store_step step)
{
	io->step = (uint8_t)step;
	if (step != STORE_STEP_FAULT)
		io->moved = 0;
	ring->inflight++;
	if (store_lines_enter(&ring->lines, io))
		ring->engine->begin(ring->engine, io);
}

void store_ring_piece(struct store_ring *ring, struct store_io *io)
{
	ring->inflight++;
	if (!ring->pieces.head)
		ring_wake(ring);
	store_list_push(&ring->pieces, io);
}

static void ring_set_timer(const struct store_ring *ring)
{
	struct itimerspec when = { 0 };
	uint64_t at = ring->python->look;

	if (ring->delayed && (!at || ring->delayed->deadline < at))
		at = ring->delayed->deadline ? ring->delayed->deadline : 1;
	if (at) {
		when.it_value.tv_sec = (time_t)(at / 1000000000u);
		when.it_value.tv_nsec = (long)(at % 1000000000u);
	}
	/* Setting the timer also makes its descriptor unreadable. */
	timerfd_settime(ring->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void store_ring_delay(struct store_ring *ring, struct store_io *io)
{
	struct store_io **at = &ring->delayed;

	ring->inflight++;
	while (*at && (*at)->deadline <= io->deadline)
		at = &(*at)->next;
	io->next = *at;
	*at = io;
	if (ring->delayed == io)
		ring_set_timer(ring);
}

void store_ring_python(struct store_ring *ring, struct store_io *io)
{
	ring->inflight++;
	if (python_ring_begin(ring->python, io))
		ring_set_timer(ring);
}

static int ring_poll_python(struct store_ring *ring)
{
	struct store_list finished;
	struct store_io *io;
	int count = 0;

	if (!ring->python->held && !ring->python->look)
		return 0;
	store_list_init(&finished);
	if (python_ring_poll(ring->python, &finished))
		ring_set_timer(ring);
	while ((io = store_list_pop(&finished))) {
		ring->inflight--;
		count++;
		io->done(io, io->status);
	}
	return count;
}

/* End finished calls; waiting ios take their places before done can submit more. */
static int ring_poll_engine(struct store_ring *ring)
{
	struct store_list finished;
	struct store_io *io;
	int count = 0;

	store_list_init(&finished);
	ring->engine->poll(ring->engine, &finished);
	for (io = finished.head; io; io = io->next) {
		store_lines_leave(&ring->lines, io);
		count++;
	}
	ring->inflight -= (unsigned)count;
	while (count && (io = store_lines_next(&ring->lines)))
		ring->engine->begin(ring->engine, io);
	while ((io = store_list_pop(&finished)))
		if (io->step == STORE_STEP_FAULT && !io->status)
			io->store->ops->submit(ring, io->store, io);
		else
			io->done(io, io->status);
	return count;
}

/* Do one piece of one operation, or begin the call that it needs; 1 if the operation has ended. */
static int ring_poll_pieces(struct store_ring *ring)
{
	struct store_io *io = store_list_pop(&ring->pieces);
	struct store *store = io->store;
	bool ready = store_memory_ready(store, io->offset + io->moved, store_memory_next(store, io));

	if (ready && store->ops->piece(store, io)) {
		store_list_push(&ring->pieces, io);
		return 0;
	}
	ring->inflight--;
	if (!ready) {
		store_ring_call(ring, io, STORE_STEP_FAULT);
		return 0;
	}
	if (!io->status && (io->flags & STORE_IO_FUA) && io->op == STORE_WRITE_ZEROES &&
	    store_needs_sync(store)) {
		store_ring_call(ring, io, STORE_STEP_SYNC);
		return 0;
	}
	io->done(io, io->status);
	return 1;
}

static int ring_poll_delayed(struct store_ring *ring)
{
	uint64_t now = clock_ns();
	struct store_io *io;
	int count = 0;

	if (ring->delayed->deadline > now)
		return 0;
	while ((io = ring->delayed) && io->deadline <= now) {
		ring->delayed = io->next;
		ring->inflight--;
		count++;
		if (io->status)
			io->done(io, io->status);
		else
			io->store->ops->submit(ring, io->store, io);
	}
	ring_set_timer(ring);
	return count;
}

int store_ring_poll(struct store_ring *ring)
{
	uint64_t ignored;
	bool again;
	int count = ring_poll_engine(ring) + ring_poll_python(ring);

	if (ring->delayed)
		count += ring_poll_delayed(ring);
	if (ring->pieces.head)
		count += ring_poll_pieces(ring);
	again = !ring->engine->push(ring->engine);
	if (count || again || ring->pieces.head) {
		ring->idle = 0;
		if (again)
			ring_wake(ring);
		return count;
	}
	/* A completion between the last poll and the read is found by the poll after the read. */
	if (++ring->idle % DRAIN_EVERY == 0 &&
	    read(ring->wake_fd, &ignored, sizeof(ignored)) > 0) {
		count = ring_poll_engine(ring) + ring_poll_python(ring);
		if (!ring->engine->push(ring->engine))
			ring_wake(ring);
	}
	return count;
}

unsigned store_ring_waiting(const struct store_ring *ring,
			    bool (*wanted)(const struct store_io *io, const void *arg),
			    const void *arg)
{
	return store_lines_waiting(&ring->lines, wanted, arg) +
	       python_ring_waiting(ring->python, wanted, arg);
}

void store_ring_cancel(struct store_ring *ring,
		       bool (*wanted)(const struct store_io *io, const void *arg), const void *arg)
{
	struct store_list cancelled;
	struct store_io *io;

	store_list_init(&cancelled);
	store_lines_cancel(&ring->lines, wanted, arg, &cancelled);
	python_ring_cancel(ring->python, wanted, arg, &cancelled);
	while ((io = store_list_pop(&cancelled))) {
		ring->inflight--;
		io->done(io, NVME_ABORTED_BY_REQUEST);
	}
}
