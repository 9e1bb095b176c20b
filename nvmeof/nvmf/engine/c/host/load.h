/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load on the native host path: connected queues, polled by a few threads with a poll group each,
 * and runs of commands on all or some of them.
 *
 * A load belongs to the thread that made it, which waits while a run lasts.
 */
#ifndef NVMF_HOST_LOAD_H
#define NVMF_HOST_LOAD_H

#include "host.h"

struct host_load_options {
	const char *traddr, *trsvcid, *subnqn;
	const char *hostnqn;		/* NULL: that of /etc/nvme/hostnqn, or made from a random host ID */
	uint32_t nsid;
	unsigned queues;		/* to connect, on as many controllers as it takes */
	uint16_t queue_depth;		/* of each, at most */
	unsigned threads;		/* 0: host_load_default_threads() */
	int cpu;			/* of the first thread, -1 not pinned; the others follow */
	const struct verbs *verbs;	/* NULL: embedded */
	enum host_remote_keys keys;
};
struct host_load;
/* NULL with errno, and a sentence in error. */
struct host_load *host_load_connect(const struct host_load_options *options,
				    struct host_error *error);
void host_load_destroy(struct host_load *load);
/* One for each queue, but one less than the process has processors: others have work to do, too. */
unsigned host_load_default_threads(unsigned queues);

struct host_load_run {
	unsigned queues;		/* the first of the load's; 0: all */
	uint16_t depth;			/* commands outstanding on each; 0: queue_depth */
	uint32_t block_size;		/* bytes of a command */
	bool random;
	int read_percent;		/* 0..100 */
	double seconds;
};
struct host_load_result {
	uint64_t ios, bytes;
	double seconds, cpu_seconds;
	double mean_us, p50_us, p99_us, p999_us;
	double queue_min_iops, queue_max_iops;	/* the slowest queue's, the fastest queue's */
};
/* 0, or a negative errno with error filled. */
int host_load_run(struct host_load *load, const struct host_load_run *run,
		  struct host_load_result *result, struct host_error *error);

/* Connect, run, disconnect. */
int host_bench(const struct host_load_options *options, const struct host_load_run *run,
	       struct host_load_result *result, struct host_error *error);
/* End the host_load_run or host_bench under way early: it returns what it has.  Any thread. */
void host_bench_cancel(void);

#endif
