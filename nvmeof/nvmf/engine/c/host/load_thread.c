/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work of a load's thread: keeps a number of commands outstanding on each of its queues, and records how long
 * each took.
 *
 * It polls one group, and reads the time stamp counter once per command sent and once per batch completed.
 */
#include "load_thread.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOAD_BATCH = 64, LOAD_YIELD_EVERY = 64, LOAD_LAST_SECONDS = 10, LOAD_PATIENCE_SECONDS = 30, LOAD_FUA = 1 << 30 };

static uint64_t load_random(struct load_thread *t)
{
	uint64_t x = t->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return t->random = x;
}

static double load_thread_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- before and after a run ---- */

static void load_thread_fill(struct load_thread *t)
{
	const struct host_load_run *what = &t->run->what;
	unsigned n = 0;

	for (size_t i = 0; i < t->memory->length / 8; i++)
		((uint64_t *)t->memory->addr)[i] = load_random(t);
	for (unsigned i = 0; i < what->queues; i++) {
		struct load_queue *q = &t->queues[i];

		if (q->thread != t)
			continue;
		atomic_store(&q->done[0], 0);
		atomic_store(&q->done[1], 0);
		q->next = t->slots / what->queues * i;
		q->left = what->commands ? what->commands : UINT64_MAX;
		for (unsigned k = 0; k < what->depth; k++, n++)
			t->ios[n] = (struct load_io){
				.queue = q,
				.data = {
					.addr = (uint8_t *)t->memory->addr + (size_t)n * what->block_size,
					.length = what->block_size,
					.memory = t->memory,
					.in_capsule = true,
				},
			};
	}
}

int load_thread_prepare(struct load_thread *thread, struct load_run *run, struct load_queue *queues,
			struct host_device *device, struct host_error *error)
{
	struct load_thread *t = thread;
	const struct host_load_run *what = &run->what;

	t->run = run;
	t->queues = queues;
	t->nios = t->outstanding = t->idle = 0;
	t->cpu_seconds = 0;
	t->ret = 0;
	memset(t->times, 0, sizeof(t->times));
	host_error_clear(&t->error);
	t->slots = (what->size ? what->size : run->info.blocks * run->info.block_size - what->offset) /
		   what->block_size;
	t->counting = false;
	for (unsigned i = 0; i < what->queues; i++)
		t->nios += queues[i].thread == t ? what->depth : 0;
	if (!t->nios)
		return 0;
	t->ios = calloc(t->nios, sizeof(*t->ios));
	if (!t->ios)
		return host_error_set(error, -ENOMEM, "no memory for %u commands", t->nios);
	t->memory = host_memory_alloc(device, (size_t)t->nios * what->block_size, error->text,
				      sizeof(error->text));
	if (!t->memory)
		return -ENOMEM;
	load_thread_fill(t);
	return 0;
}

void load_thread_release(struct load_thread *thread)
{
	host_memory_free(thread->memory);
	thread->memory = NULL;
	free(thread->ios);
	thread->ios = NULL;
}

/* ---- commands ---- */

static uint64_t load_pick(struct load_thread *t, struct load_queue *q)
{
	if (t->run->what.random)
		return (uint64_t)(((unsigned __int128)load_random(t) * t->slots) >> 64);

	const uint64_t at = q->next++;

	if (q->next == t->slots)
		q->next = 0;
	return at;
}

static int load_submit(struct load_thread *t, struct load_io *io, bool more)
{
	const struct host_load_run *what = &t->run->what;
	const uint32_t blocks = what->block_size / t->run->info.block_size;
	const uint64_t first = what->offset / t->run->info.block_size;
	const uint64_t lba = first + load_pick(t, io->queue) * blocks;
	const int percent = what->read_percent;
	const bool read = percent >= 100 ||
			  (percent > 0 && (int)(load_random(t) >> 33) % 100 < percent);
	const struct nvme_sqe sqe = {
		.opc = read ? NVME_OPC_READ : NVME_OPC_WRITE,
		.nsid = t->run->info.nsid,
		.cdw10 = (uint32_t)lba,
		.cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = (blocks - 1) | (!read && what->fua ? LOAD_FUA : 0),
	};

	io->counted = t->counting;
	io->flushing = false;
	io->data.to_device = !read;
	io->start = ticks_now();

	const int ret = host_queue_submit(io->queue->queue, &sqe, &io->data, io, more);

	t->outstanding += ret >= 0;
	return ret;
}

/* Send the next command, if the queue has one left; commands of the ramp are not counted. */
static int load_next(struct load_thread *t, struct load_io *io)
{
	if (t->counting && !io->queue->left)
		return 0;
	io->queue->left -= t->counting;
	return load_submit(t, io, true);
}

/* Send the Flush of a completed Write, if the run has flushes. */
static int load_flush(struct load_thread *t, struct load_io *io)
{
	const struct nvme_sqe sqe = { .opc = NVME_OPC_FLUSH, .nsid = t->run->info.nsid };
	const int ret = host_queue_submit(io->queue->queue, &sqe, NULL, io, true);

	io->flushing = true;
	t->outstanding += ret >= 0;
	return ret;
}

static int load_failed(struct load_thread *t, const struct host_queue *q, int ret, uint16_t status)
{
	const char *reason = host_queue_reason(q);

	if (status) {
		t->error.nvme_status = status;
		return host_error_set(&t->error, -EIO, "a command of the load failed: %s (status 0x%x)",
				      host_nvme_status_name(status, false), status);
	}
	return host_error_set(&t->error, ret, "the load ended early: %s", *reason ? reason : strerror(-ret));
}

static void load_count(struct load_thread *t, const struct load_io *io, uint64_t now)
{
	_Atomic(uint64_t) *done = &io->queue->done[io->data.to_device];

	if (!io->counted)
		return;
	load_times_add(&t->times[io->data.to_device], now - io->start);
	/* only this thread writes it, so a locked instruction is not needed */
	atomic_store_explicit(done, atomic_load_explicit(done, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* A target that is stopped, or whose store hangs, keeps the connection: a run without a time limit would not end. */
static int load_wait(struct load_thread *t, bool stopping)
{
	const double patience = t->run->what.patience > 0 ? t->run->what.patience : LOAD_PATIENCE_SECONDS;
	const uint64_t now = clock_ns();

	if (t->idle == LOAD_YIELD_EVERY)
		t->quiet = now;
	if (stopping || (double)(now - t->quiet) < patience * 1e9)
		return 0;
	return host_error_set(&t->error, -ETIMEDOUT, "the load ended early: the target has answered none of %u commands "
			      "for %g s", t->outstanding, patience);
}

/* Account for completed commands and, unless stopping, send as many again. */
static int load_turn(struct load_thread *t, bool stopping)
{
	struct host_completion done[LOAD_BATCH];
	const int n = host_poll_group_poll(t->group, done, LOAD_BATCH);

	if (!n) {
		const struct host_queue *lost = host_poll_group_lost(t->group);

		if (lost)
			return load_failed(t, lost, -ENOTCONN, 0);
		if (++t->idle % LOAD_YIELD_EVERY)
			return 0;
		sched_yield();	/* the processor may be shared */
		return load_wait(t, stopping);
	}
	t->idle = 0;

	const uint64_t now = ticks_now();

	for (int i = 0; i < n; i++) {
		struct load_io *io = done[i].user;

		t->outstanding--;
		if (done[i].cqe.status >> 1)
			return load_failed(t, done[i].queue, 0, done[i].cqe.status >> 1);
		if (stopping)
			continue;

		const bool half = t->run->what.flush && io->data.to_device && !io->flushing;

		if (!half)
			load_count(t, io, now);

		const int ret = half ? load_flush(t, io) : load_next(t, io);

		if (ret < 0)
			return load_failed(t, done[i].queue, ret, 0);
	}
	return n;
}

/* Wait for the commands that are outstanding when the time is over; they do not count. */
static int load_drain(struct load_thread *t)
{
	const uint64_t limit = clock_ns() + LOAD_LAST_SECONDS * 1000000000ull;
	bool late = false;
	int ret = 0;

	while (ret >= 0 && t->outstanding && !late && !atomic_load(&load_cancelled)) {
		late = clock_ns() >= limit;
		ret = load_turn(t, true);
	}
	if (ret >= 0 && t->outstanding && !atomic_load(&load_cancelled))
		ret = host_error_set(&t->error, -ETIMEDOUT, "the target left %u commands of the load "
				     "unanswered, %d s after its end", t->outstanding, LOAD_LAST_SECONDS);
	return ret;
}

static void load_thread_pin(const struct load_thread *t)
{
	cpu_set_t set;

	if (t->cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(t->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* All commands of a thread's queues are complete: the last thread ends the run. */
static void load_finished(struct load_run *run)
{
	if (atomic_fetch_sub(&run->busy, 1) > 1)
		return;
	atomic_store(&run->ended, clock_ns());
	atomic_store(&run->stop, true);
}

void *load_thread_main(void *thread)
{
	struct load_thread *t = thread;
	struct load_run *run = t->run;
	int ret = 0;

	load_thread_pin(t);
	while (!atomic_load(&run->go))
		sched_yield();

	double cpu = load_thread_cpu();

	t->counting = atomic_load(&run->counting);
	for (unsigned i = 0; ret >= 0 && i < t->nios && !atomic_load(&run->stop); i++) {
		ret = load_next(t, &t->ios[i]);
		if (ret < 0)
			load_failed(t, t->ios[i].queue->queue, ret, 0);
	}
	while (ret >= 0 && t->outstanding && !atomic_load_explicit(&run->stop, memory_order_relaxed)) {
		if (!t->counting && atomic_load_explicit(&run->counting, memory_order_relaxed)) {
			t->counting = true;
			cpu = load_thread_cpu();
		}
		ret = load_turn(t, false);
	}
	if (ret >= 0 && t->nios && !t->outstanding)
		load_finished(run);
	t->cpu_seconds = load_thread_cpu() - cpu;
	if (ret >= 0)
		ret = load_drain(t);
	t->ret = ret < 0 ? ret : 0;
	if (t->ret)
		atomic_store(&run->stop, true);	/* stop the other threads as well */
	return NULL;
}
