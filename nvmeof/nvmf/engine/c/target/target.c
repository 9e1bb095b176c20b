/* SPDX-License-Identifier: BSD-3-Clause */
/* A target: its reactors, the upcall list, and its destruction.  Control thread. */
#include "target/calls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define DESTROY_DRAIN_NS 1500000000ull	/* time for connections to end in order */
#define DESTROY_STOP_NS 5000000000ull	/* further time, for threads that wait for a processor */

/* ---- upcalls ---- */

void target_post_upcall(struct target *target, struct target_upcall *upcall)
{
	struct target_upcall *head = atomic_load_explicit(&target->upcalls, memory_order_relaxed);
	uint64_t one = 1;

	do
		upcall->next = head;
	while (!atomic_compare_exchange_weak(&target->upcalls, &head, upcall));
	/*
	 * The thread that finds the list empty signals the eventfd; target_upcalls() resets it before it takes the
	 * list.  The upcall itself may have been freed by now.
	 */
	if (!head)
		(void)!write(target->event_fd, &one, sizeof(one));
}

/* ---- memory that the caller may still use ---- */

struct freed {
	struct freed *next;
	void *memory;
};

void target_free_later(struct target *target, void *memory)
{
	struct freed *freed = malloc(sizeof(*freed));

	if (!freed)
		return;		/* leak the memory rather than risk a use after free */
	freed->memory = memory;
	freed->next = target->freed;
	target->freed = freed;
}

static void free_now(struct target *target)
{
	struct freed *freed;

	while ((freed = target->freed)) {
		target->freed = freed->next;
		free(freed->memory);
		free(freed);
	}
}

/* The control thread's own work for an upcall; false: the upcall is not for the caller. */
static bool take_upcall(struct target *target, struct target_upcall *upcall)
{
	struct target_qpair *qp = upcall->qpair;

	switch ((int)upcall->type) {
	case TARGET_UPCALL_RELEASED:
		background_post(target->ends, &qp->release_job, qpair_release_job);
		return false;
	case TARGET_UPCALL_DESTROYED:
		qpair_unlink(qp);
		qpair_clear(qp);
		target_free_later(target, qp);
		device_let_go(target);
		return !qp->abandoned;	/* the caller does not know an abandoned queue pair */
	case TARGET_UPCALL_CQ_GONE:
		cq_gone(upcall->cookie);
		return false;
	case TARGET_UPCALL_SRQ_GONE:
		device_srq_gone(upcall->cookie);
		return false;
	case TARGET_UPCALL_DEVICE:
		device_opened(upcall->cookie);
		return true;
	case TARGET_UPCALL_DEVICE_CLOSED:
		device_closed(upcall->cookie);
		return false;
	case TARGET_UPCALL_INJECTION_GONE:
		injection_gone(target, upcall->cookie);
		return false;
	case TARGET_UPCALL_CLOSED:
		qp->closed_seen = true;
		return !qp->destroy_sent;
	case TARGET_UPCALL_RETIRED:
		upcall->ns->retiring = false;
		return true;
	case TARGET_UPCALL_FREED:
		namespace_free(upcall->ns);
		target_free_later(target, upcall->ns);
		return true;
	default:
		return true;
	}
}

struct target_upcall *target_upcalls(struct target *target)
{
	struct target_upcall *upcall, *next, *oldest = NULL, **last = &oldest;
	uint64_t count;

	free_now(target);
	(void)!read(target->event_fd, &count, sizeof(count));
	for (upcall = atomic_exchange(&target->upcalls, NULL); upcall; upcall = next) {
		next = upcall->next;
		upcall->next = oldest;
		oldest = upcall;
	}
	for (upcall = oldest; upcall; upcall = next) {
		next = upcall->next;
		if (take_upcall(target, upcall)) {
			*last = upcall;
			last = &upcall->next;
		}
	}
	*last = NULL;
	return oldest;
}

/* Handle upcalls until there are none: an upcall may cause further ones. */
void target_drain_upcalls(struct target *target)
{
	while (atomic_load(&target->upcalls))
		target_upcalls(target);
	free_now(target);
}

int target_fd(const struct target *target)
{
	return target->event_fd;
}

/* ---- creation ---- */

static int target_check_options(struct target_options *o, char *err, size_t len)
{
	const char *why = NULL;

	if (!o->fused_wait_ms)
		o->fused_wait_ms = 10000;
	if (!o->buffer_size)
		o->buffer_size = 131072;
	if (!o->buffers)
		o->buffers = 128;
	if (!o->cq_entries)
		o->cq_entries = 4096;
	if (!o->reactors || o->reactors > 64)
		why = "it must have 1 to 64 reactors";
	else if (o->buffer_size < 4096 || o->buffer_size > 1u << 30 ||
		 o->buffer_size & (o->buffer_size - 1))
		why = "the size of buffers must be a power of two of at least 4096 bytes";
	if (why) {
		snprintf(err, len, "cannot create a target: %s", why);
		errno = EINVAL;
		return -EINVAL;
	}
	if (o->buffer_size < 8192)
		o->buffer_size = 8192;	/* a comparison needs two blocks of 4 KiB in one buffer */
	return 0;
}

static void target_free(struct target *target)
{
	for (unsigned i = 0; i < target->reactors; i++)
		if (target->reactor[i])
			reactor_free(target->reactor[i]);
	free(target->reactor);
	if (target->zero)
		munmap(target->zero, TARGET_ZERO_BYTES);
	if (target->event_fd >= 0)
		close(target->event_fd);
	free(target);
}

struct target *target_make(const struct target_options *options, char *err, size_t len)
{
	struct target_options o = *options;
	struct target *target;

	if (target_check_options(&o, err, len))
		return NULL;
	target = aligned_alloc(CACHE_LINE, (sizeof(*target) + CACHE_LINE - 1) &
						   ~(size_t)(CACHE_LINE - 1));
	if (!target) {
		snprintf(err, len, "out of memory");
		return NULL;
	}
	memset(target, 0, sizeof(*target));
	target->options = o;
	target->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	target->reactor = calloc(o.reactors, sizeof(struct reactor *));
	target->zero = mmap(NULL, TARGET_ZERO_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (target->zero == MAP_FAILED)
		target->zero = NULL;
	if (target->event_fd < 0 || !target->reactor || !target->zero) {
		snprintf(err, len, "cannot create a target: %s", strerror(errno));
		target_free(target);
		return NULL;
	}
	for (; target->reactors < o.reactors; target->reactors++) {
		struct reactor *r = reactor_create(target, target->reactors, err, len);

		if (!r) {
			target_free(target);
			return NULL;
		}
		target->reactor[target->reactors] = r;
	}
	target->options.cpus = NULL;	/* the array belongs to the caller */
	return target;
}

static int start_background(struct target *target, char *err, size_t len)
{
	target->ends = background_start("nvmf-ends");
	target->memory = target->ends ? background_start("nvmf-memory") : NULL;
	if (target->memory)
		return 0;
	snprintf(err, len, "cannot start a thread: %s", strerror(errno));
	return -errno;
}

/* Returns whether the threads have ended; a thread that has not keeps its jobs and memory. */
static bool stop_background(struct background **background, uint64_t deadline)
{
	struct background *ending = *background;

	if (ending && background_stop(ending, deadline))
		return false;
	*background = NULL;
	return true;
}

struct target *target_create(const struct target_options *options, char *err, size_t len)
{
	struct target *target = target_make(options, err, len);

	if (target && start_background(target, err, len)) {
		stop_background(&target->ends, UINT64_MAX);
		target_free(target);
		return NULL;
	}
	for (unsigned i = 0; target && i < target->reactors; i++) {
		if (!reactor_start(target->reactor[i], err, len))
			continue;
		stop_background(&target->ends, UINT64_MAX);
		stop_background(&target->memory, UINT64_MAX);
		target_free(target);
		target = NULL;
	}
	return target;
}

/* ---- destruction ---- */

static bool all_closed(const struct target *target)
{
	for (const struct target_qpair *qp = target->qpairs; qp; qp = qp->next)
		if (!qp->closed_seen)
			return false;
	return true;
}

static void wait_for_closed(struct target *target, uint64_t deadline)
{
	uint64_t now;

	for (;;) {
		struct pollfd fd = { .fd = target->event_fd, .events = POLLIN };

		target_upcalls(target);
		now = clock_ns();
		if (all_closed(target) || now >= deadline)
			return;
		poll(&fd, 1, 1 + (int)((deadline - now) / 1000000));
	}
}

/* The reactors have ended: this thread does their work now. */
static void end_qpairs(struct target *target)
{
	struct target_qpair *qp;

	for (qp = target->qpairs; qp; qp = qp->next)
		qp->dead = qp->disconnected = true;
	for (unsigned i = 0; i < target->reactors; i++) {
		reactor_deliver(target->reactor[i]);	/* answers that came too late */
		store_ring_destroy(target->reactor[i]->ring);	/* no store writes to a buffer after this */
		target->reactor[i]->ring = NULL;
	}
	target_drain_upcalls(target);
	while ((qp = target->qpairs)) {
		target->qpairs = qp->next;
		qpair_clear(qp);
		free(qp);
	}
}

void target_destroy(struct target *target)
{
	uint64_t deadline = clock_ns() + DESTROY_DRAIN_NS;
	bool stuck;

	target->ending = true;
	for (struct target_qpair *qp = target->qpairs; qp; qp = qp->next)
		target_qpair_disconnect(qp);
	wait_for_closed(target, deadline);
	deadline = clock_ns() + DESTROY_STOP_NS;
	/* In this order: registering waits for reactors, which post jobs that end connections. */
	stuck = !stop_background(&target->memory, deadline);
	for (unsigned i = 0; i < target->reactors; i++)
		reactor_stop_begin(target->reactor[i]);
	for (unsigned i = 0; i < target->reactors; i++)
		stuck |= reactor_stop(target->reactor[i], deadline) || store_ring_inflight(target->reactor[i]->ring);
	stuck |= !stop_background(&target->ends, deadline);
	if (stuck)
		return;		/* a thread that cannot be ended, or a store that hangs, keeps its memory */
	end_qpairs(target);
	namespace_free_all(target);
	injections_free_all(target);
	device_free_all(target);
	target_free(target);
}
