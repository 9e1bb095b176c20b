/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases of host_test.c: loads. */
#ifndef TESTS_HOST_CASES_BENCH_H
#define TESTS_HOST_CASES_BENCH_H

#include "check.h"
#include "host/load.h"
#include "mini_target.h"

static void test_bench(struct mini *m)
{
	struct host_load_options o = {
		.traddr = "127.0.0.1", .trsvcid = m->port, .subnqn = MINI_NQN, .nsid = 1,
		.queue_depth = 8, .queues = 4, .threads = 2, .cpu = -1,
	};
	struct host_load_run run = {
		.random = true, .read_percent = 50, .block_size = 4096, .seconds = 0.3,
		.npercentiles = 3, .percentiles = { 1, 50, 100 },
	};
	struct host_load_live live;
	struct host_load_result r;
	struct host_load *load;
	struct host_error e;

	do	/* on a stalled machine, the first attempt may have no time for any */
		CHECK(host_bench(&o, &run, &r, &e) == 0);
	while (r.queue_min_iops * r.seconds < 2 && (run.seconds *= 2) < CHECK_PATIENCE_S);
	CHECK(r.ios > 10 && r.bytes == r.ios * 4096 && r.p50_us > 0 && r.p99_us >= r.p50_us);
	CHECK(r.queue_min_iops > 0 && r.queue_max_iops >= r.queue_min_iops);
	CHECK(r.queue_max_iops <= (double)r.ios / r.seconds);
	CHECK(r.read.ios && r.write.ios && r.read.ios + r.write.ios == r.ios);
	for (int i = 0; i < 2; i++) {
		const struct host_load_part *p = i ? &r.write : &r.read;

		CHECK(p->min_us > 0 && p->min_us <= p->mean_us && p->mean_us <= p->max_us && p->stddev_us >= 0);
		CHECK(p->percentile_us[0] >= p->min_us && p->percentile_us[0] <= p->percentile_us[1]);
		CHECK(p->percentile_us[2] <= p->max_us && p->percentile_us[2] > 0.99 * p->max_us);
	}
	host_bench_live(&live);
	CHECK(live.ns > 0 && live.reads + live.writes > 0 && live.reads + live.writes <= r.ios);
	run.npercentiles = HOST_LOAD_PERCENTILES + 1;
	CHECK(host_bench(&o, &run, &r, &e) == -EINVAL);
	CHECK_HAS(e.text, "21 percentiles");
	run.npercentiles = 0;
	run.block_size = 1000;
	CHECK(host_bench(&o, &run, &r, &e) == -EINVAL);
	CHECK_HAS(e.text, "block size 1000");
	run.block_size = 4096;
	o.nsid = 3;
	CHECK(host_bench(&o, &run, &r, &e) < 0);

	/* a run on some of the queues, and one on all, with the same load */
	o.nsid = 1;
	o.queues = 5;
	load = host_load_connect(&o, &e);
	CHECK(load);
	run.seconds = 0.1;
	for (unsigned i = 0; load && i < 3; i++) {
		run.queues = 1 + 2 * i;
		run.depth = (uint16_t)(1 + i);
		CHECK(host_load_run(load, &run, &r, &e) == 0, "%s", e.text);
	}
	run.depth = 9;
	CHECK(!load || host_load_run(load, &run, &r, &e) == -EINVAL);
	CHECK_HAS(e.text, "9 commands on each of 5 queues");
	host_load_destroy(load);
}

/* A range, a number of commands after which the load ends, and a ramp, in which nothing is counted. */
static void test_bench_range(struct mini *m)
{
	const struct host_load_options o = {
		.traddr = "127.0.0.1", .trsvcid = m->port, .subnqn = MINI_NQN, .nsid = 1,
		.queue_depth = 8, .queues = 2, .threads = 2, .cpu = -1,
	};
	struct host_load_run run = {
		.read_percent = 100, .block_size = 4096, .seconds = CHECK_PATIENCE_S,
		.offset = 8192, .size = 16384, .commands = 50,
	};
	struct host_load_result r;
	struct host_error e;

	CHECK(host_bench(&o, &run, &r, &e) == 0, "%s", e.text);
	CHECK(r.ios == 100 && r.seconds < CHECK_PATIENCE_S);
	run.commands = 3;	/* fewer than the depth */
	run.ramp = 0.01;
	run.random = true;
	CHECK(host_bench(&o, &run, &r, &e) == 0, "%s", e.text);
	CHECK(r.read.ios == r.ios && r.ios == 6);
	run.size = 4095;
	CHECK(host_bench(&o, &run, &r, &e) == -EINVAL);
	CHECK_HAS(e.text, "the range is smaller than one block");
	run.size = 1ull << 60;
	CHECK(host_bench(&o, &run, &r, &e) == -EINVAL);
	CHECK_HAS(e.text, "extend past the end");
	run.offset = 100;
	CHECK(host_bench(&o, &run, &r, &e) == -EINVAL);
	CHECK_HAS(e.text, "offset 100 is not a multiple");
}

/* The target keeps the connection and answers nothing: a load without a time limit ends nevertheless. */
static void test_bench_silence(struct mini *m)
{
	const struct host_load_options o = {
		.traddr = "127.0.0.1", .trsvcid = m->port, .subnqn = MINI_NQN, .nsid = 1,
		.queue_depth = 4, .queues = 1, .threads = 1, .cpu = -1,
	};
	struct host_load_run run = {
		.read_percent = 100, .block_size = 4096, .seconds = CHECK_PATIENCE_S, .commands = 50, .patience = 0.2,
	};
	struct target_inject_options drop = {
		.kind = TARGET_INJECT_DROP, .threshold = 1ull << 32, .opcodes = { 1ull << NVME_OPC_READ },
	};
	struct host_load_result r;
	struct host_error e;
	const int slot = target_inject_begin(m->target, &drop, m);

	CHECK(slot >= 0);
	atomic_store(&m->inject, 1u << slot);
	CHECK(host_bench(&o, &run, &r, &e) == -ETIMEDOUT);
	CHECK_HAS(e.text, "the target has answered none of 4 commands for 0.2 s");
	atomic_store(&m->inject, 0);
	target_inject_end(m->target, (unsigned)slot);
	run.patience = CHECK_PATIENCE_S;
	CHECK(host_bench(&o, &run, &r, &e) == 0, "%s", e.text);
}

/* More queues than a controller grants: the load makes a second controller. */
static void test_bench_controllers(struct mini *m)
{
	const struct host_load_options o = {
		.traddr = "127.0.0.1", .trsvcid = m->port, .subnqn = MINI_NQN, .nsid = 1,
		.queue_depth = 1, .queues = 150, .threads = 1, .cpu = -1,
	};
	const struct host_load_run run = { .read_percent = 100, .block_size = 512, .seconds = 0.1 };
	struct host_load_result r;
	struct host_error e;

	CHECK(host_bench(&o, &run, &r, &e) == 0, "%s", e.text);
}

#endif
