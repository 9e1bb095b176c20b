/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal declarations of a load's thread, shared by load.c and load_thread.c.
 *
 * A thread and its queues belong to load.c between runs, and to the thread during a run.
 */
#ifndef NVMF_HOST_LOAD_THREAD_H
#define NVMF_HOST_LOAD_THREAD_H

#include "histogram.h"
#include "internal.h"
#include "load.h"

/* A run, shared by the threads. */
struct load_run {
	struct host_load_run what;
	struct host_namespace_info info;
	atomic_bool go, stop;
	atomic_bool counting;		/* the ramp is over */
	atomic_uint busy;		/* threads with commands left */
	_Atomic(uint64_t) ended;	/* when the last command of a limited run was complete; 0: not yet */
};

struct load_queue {
	struct host_queue *queue;
	struct load_thread *thread;
	_Atomic(uint64_t) done[2];	/* reads, writes of this run, before its end; written by the thread */
	uint64_t next;			/* slot of a sequential load */
	uint64_t left;			/* commands to send */
};

/* The latencies of one direction, in ticks. */
struct load_times {
	struct histogram histogram;
	uint64_t min, max;
	double sum, squares;
};

static inline void load_times_add(struct load_times *t, uint64_t ticks)
{
	if (!t->histogram.count || ticks < t->min)
		t->min = ticks;
	if (ticks > t->max)
		t->max = ticks;
	t->sum += (double)ticks;
	t->squares += (double)ticks * (double)ticks;
	histogram_add(&t->histogram, ticks);
}

void load_times_merge(struct load_times *into, const struct load_times *from);
void load_times_part(const struct load_times *t, const struct host_load_run *what, double us_per_tick,
		     struct host_load_part *part);

/* A command that is sent repeatedly. */
struct load_io {
	uint64_t start;			/* ticks */
	struct load_queue *queue;
	bool counted;			/* it was sent after the ramp */
	bool flushing;			/* its Write is complete, and its Flush is not */
	struct host_data data;
};

struct load_thread {
	struct host_poll_group *group;
	int cpu;			/* -1: not pinned */
	pthread_t thread;
	uint64_t random;

	/* for a run */
	struct load_run *run;
	struct load_queue *queues;	/* all queues of the load: those with this thread are its own */
	struct load_io *ios;
	unsigned nios, outstanding;
	struct host_memory *memory;
	uint64_t slots;			/* of the range that is used, of one block_size each */
	bool counting;
	unsigned idle;			/* consecutive polls without a completion */
	uint64_t quiet;			/* the time soon after the first of these */
	double cpu_seconds;
	struct load_times times[2];	/* of reads, of writes */
	struct host_error error;
	int ret;
};

extern atomic_bool load_cancelled;

/* Allocate buffers and commands for a run: 0, or a negative errno with error filled. */
int load_thread_prepare(struct load_thread *thread, struct load_run *run, struct load_queue *queues,
			struct host_device *device, struct host_error *error);
void load_thread_release(struct load_thread *thread);
void *load_thread_main(void *thread);

#endif
