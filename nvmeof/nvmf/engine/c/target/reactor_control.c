/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reactors, on the control thread: created with their rings and pools, started on their processors, stopped, freed.
 * Their threads' work is in reactor.c.
 */
#include "target/calls.h"
#include "util/numa.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STORE_DEPTH = 256 };

static int watch(struct reactor *r, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int reactor_start(struct reactor *r, char *err, size_t len)
{
	char name[16];
	int rc = pthread_create(&r->thread, NULL, reactor_main, r);

	if (rc) {
		snprintf(err, len, "reactor %u: thread: %s", r->index, strerror(rc));
		return -rc;
	}
	r->started = true;
	snprintf(name, sizeof(name), "nvmf-target-%u", r->index % 100);
	pthread_setname_np(r->thread, name);
	if (r->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(r->cpu, &set);
		rc = pthread_setaffinity_np(r->thread, sizeof(set), &set);
		if (rc)
			snprintf(err, len, "reactor %u: cannot run on processor %d: %s: choose others in cpus of "
				 "[target]", r->index, r->cpu, strerror(rc));
	}
	return -rc;
}

struct reactor *reactor_create(struct target *target, unsigned index, char *err, size_t len)
{
	const struct target_options *o = &target->options;
	struct reactor *r = aligned_alloc(CACHE_LINE, (sizeof(*r) + CACHE_LINE - 1) &
							      ~(size_t)(CACHE_LINE - 1));
	const char *what = "memory";
	int rc = -ENOMEM;

	if (!r)
		goto fail;
	memset(r, 0, sizeof(*r));
	r->target = target;
	r->index = index;
	r->cpu = o->cpus ? o->cpus[index] : -1;
	r->node = numa_node_of(r->cpu);
	r->spin_ns = o->spin_us * 1000ull;
	fifo_init(&r->latching);
	fifo_init(&r->halves);
	fifo_init(&r->lingering);
	fifo_init(&r->orphans);
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	what = "epoll";
	rc = r->epoll_fd < 0 || r->event_fd < 0 ? -errno : watch(r, r->event_fd, r);
	if (rc)
		goto fail;
	what = "buffers";
	rc = pool_create(&r->pool, o->buffer_size, o->buffers, r->node);
	if (rc)
		goto fail;
	r->ring = store_ring_create(STORE_DEPTH, err, len);
	if (!r->ring) {
		reactor_free(r);
		return NULL;
	}
	store_ring_buffers(r->ring, r->pool.memory, r->pool.bytes);
	what = "epoll";
	rc = watch(r, store_ring_fd(r->ring), r->ring);
	if (!rc)
		return r;
fail:
	snprintf(err, len, "reactor %u: %s: %s", index, what, strerror(-rc));
	if (r)
		reactor_free(r);
	return NULL;
}

static void stop_deliver(struct reactor *r, struct mail *mail)
{
	(void)mail;
	r->stop = true;
}

void reactor_stop_begin(struct reactor *r)
{
	if (!r->started || r->stopping)
		return;
	r->stopping = true;
	reactor_mail(r, &r->stop_mail, stop_deliver);
}

/* -ETIMEDOUT if it does not stop: then nothing of it may be freed. */
int reactor_stop(struct reactor *r, uint64_t deadline)
{
	const struct timespec pause = { .tv_nsec = 200000 };

	if (!r->started)
		return 0;
	reactor_stop_begin(r);
	while (!atomic_load(&r->ended)) {
		if (clock_ns() >= deadline)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	pthread_join(r->thread, NULL);
	r->started = false;
	return 0;
}

void reactor_free(struct reactor *r)
{
	reactor_stop(r, UINT64_MAX);
	if (r->ring)
		store_ring_destroy(r->ring);
	pool_free(&r->pool);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	if (r->event_fd >= 0)
		close(r->event_fd);
	free(r);
}
