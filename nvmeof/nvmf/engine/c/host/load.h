/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load on the native host path: connected queues, polled by a few threads with a poll group each, and runs of
 * commands on all or some of them.
 *
 * A load belongs to the thread that created it, which waits during a run.
 */
#ifndef NVMF_HOST_LOAD_H
#define NVMF_HOST_LOAD_H

#include "host.h"

struct host_load_options {
	const char *traddr, *trsvcid, *subnqn;
	const char *hostnqn;		/* NULL: that of /etc/nvme/hostnqn, or derived from the machine-id */
	const char *hostid;		/* NULL: that of /etc/nvme/hostid, or derived from the NQN */
	uint32_t nsid;
	unsigned queues;		/* to connect, on as many controllers as needed */
	uint16_t queue_depth;		/* of each, at most */
	unsigned threads;		/* 0: host_load_default_threads() */
	int cpu;			/* of the first thread, -1: not pinned; the others use the next ones */
	const struct verbs *verbs;	/* NULL: embedded */
	enum host_remote_keys keys;
};
struct host_load;
/* NULL with errno, and a sentence in error. */
struct host_load *host_load_connect(const struct host_load_options *options,
				    struct host_error *error);
void host_load_destroy(struct host_load *load);
/* One per queue, but one less than the number of processors: other threads need one as well. */
unsigned host_load_default_threads(unsigned queues);

enum { HOST_LOAD_PERCENTILES = 20 };
struct host_load_run {
	unsigned queues;		/* number of queues, from the load's first; 0: all */
	uint16_t depth;			/* commands outstanding on each; 0: queue_depth */
	uint32_t block_size;		/* bytes of a command */
	bool random;
	int read_percent;		/* 0..100 */
	bool fua;			/* Writes with Force Unit Access */
	bool flush;			/* a Flush after each Write: its latency is that of both */
	double seconds;
	double ramp;			/* seconds before these, in which nothing is counted */
	double patience;		/* seconds without any response, after which the run fails; 0: 30 */
	uint64_t offset, size;		/* bytes of the namespace that are used; size 0: to its end */
	uint64_t commands;		/* of each queue, after which the run ends; 0: no limit */
	unsigned npercentiles;		/* of percentiles, HOST_LOAD_PERCENTILES at most */
	double percentiles[HOST_LOAD_PERCENTILES];
};
/* Commands of one direction and their latencies, which are 0 if there were no commands. */
struct host_load_part {
	uint64_t ios;
	double min_us, max_us, mean_us, stddev_us;
	double percentile_us[HOST_LOAD_PERCENTILES];	/* in the order of the run's percentiles */
};
struct host_load_result {
	uint64_t ios, bytes;
	double seconds, cpu_seconds;
	double mean_us, p50_us, p99_us, p999_us;
	double queue_min_iops, queue_max_iops;	/* of the slowest and of the fastest queue */
	struct host_load_part read, write;
};
/* 0, or a negative errno with error filled. */
int host_load_run(struct host_load *load, const struct host_load_run *run,
		  struct host_load_result *result, struct host_error *error);

/* Connect, run, disconnect. */
int host_bench(const struct host_load_options *options, const struct host_load_run *run,
	       struct host_load_result *result, struct host_error *error);
/* End the present host_load_run or host_bench early: it returns its results so far.  Any thread. */
void host_bench_cancel(void);
/* The reads and writes of the present run, and its nanoseconds; updated about every 20 ms.  Any thread. */
struct host_load_live {
	uint64_t reads, writes, ns;
};
void host_bench_live(struct host_load_live *live);

#endif
