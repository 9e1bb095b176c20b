/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread of a load, inside: what load.c and load_thread.c share.
 *
 * A thread and its queues are load.c's between runs, and the thread's own while a run lasts.
 */
#ifndef NVMF_HOST_LOAD_THREAD_H
#define NVMF_HOST_LOAD_THREAD_H

#include "histogram.h"
#include "internal.h"
#include "load.h"

/* A run, common to the threads. */
struct load_run {
	struct host_load_run what;
	struct host_namespace_info info;
	atomic_bool go, stop;
};

struct load_queue {
	struct host_queue *queue;
	struct load_thread *thread;
	uint64_t done;			/* commands of this run, before its end */
	uint64_t next;			/* slot of a sequential load */
};

/* A command that is sent again and again. */
struct load_io {
	uint64_t start;			/* ticks */
	struct load_queue *queue;
	struct host_data data;
};

struct load_thread {
	struct host_poll_group *group;
	int cpu;			/* -1: not pinned */
	pthread_t thread;
	uint64_t random;

	/* of a run */
	struct load_run *run;
	struct load_queue *queues;	/* all of the load's: those with this thread are its own */
	struct load_io *ios;
	unsigned nios, outstanding;
	struct host_memory *memory;
	uint64_t slots;			/* of the namespace, of one block_size each */
	unsigned idle;			/* polls without a completion in a row */
	uint64_t ticks_sum;
	double cpu_seconds;
	struct histogram histogram;
	struct host_error error;
	int ret;
};

extern atomic_bool load_cancelled;

/* Buffers and commands for a run: 0, or a negative errno with error filled. */
int load_thread_prepare(struct load_thread *thread, struct load_run *run, struct load_queue *queues,
			struct host_device *device, struct host_error *error);
void load_thread_release(struct load_thread *thread);
void *load_thread_main(void *thread);

#endif
