/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load on the native host path: one controller, one polling thread per queue, for some seconds.
 *
 * The caller's thread connects and waits; each load thread owns one queue, its buffers and its
 * histogram, and reads the time stamp counter once per command sent and once per batch completed.
 */
#include "histogram.h"
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64, YIELD_EVERY = 64, LAST_SECONDS = 10 };

static atomic_bool cancelled;

struct io {
	uint64_t start;		/* ticks */
	struct host_data data;
};

struct load {
	const struct host_bench_options *options;
	struct host_namespace_info info;
	struct host_queue *queue;
	struct host_memory *memory;
	struct io *ios;
	unsigned index;
	int cpu;
	atomic_bool *go, *stop;
	pthread_t thread;
	bool started;

	uint64_t random, slots, next;	/* where in the namespace: slots of one block_size each */
	unsigned idle;			/* polls in vain in a row */
	uint64_t done, ticks_sum;
	double cpu_seconds;
	struct histogram histogram;
	struct host_error error;
	int ret;
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static double thread_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint64_t pick(struct load *l)
{
	if (l->options->random)
		return (uint64_t)(((unsigned __int128)next_random(&l->random) * l->slots) >> 64);

	const uint64_t at = l->next++;

	if (l->next == l->slots)
		l->next = 0;
	return at;
}

static int submit(struct load *l, struct io *io, bool more)
{
	const uint32_t blocks = l->options->block_size / l->info.block_size;
	const uint64_t lba = pick(l) * blocks;
	const int percent = l->options->read_percent;
	const bool read = percent >= 100 ||
			  (percent > 0 && (int)(next_random(&l->random) >> 33) % 100 < percent);
	const struct nvme_sqe sqe = {
		.opc = read ? NVME_OPC_READ : NVME_OPC_WRITE,
		.nsid = l->info.nsid,
		.cdw10 = (uint32_t)lba,
		.cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = blocks - 1,
	};

	io->data.to_device = !read;
	io->start = ticks_now();
	return host_queue_submit(l->queue, &sqe, &io->data, io, more);
}

static int failed(struct load *l, int ret, uint16_t status)
{
	const char *reason = host_queue_reason(l->queue);

	if (status) {
		l->error.nvme_status = status;
		return host_error_set(&l->error, -EIO, "a command of the load failed: %s (status 0x%x)",
				      host_nvme_status_name(status, false), status);
	}
	return host_error_set(&l->error, ret, "the load ended early: %s", *reason ? reason : strerror(-ret));
}

/* Account for what has completed and, unless stopping, send as many again. */
static int turn(struct load *l, bool stopping)
{
	struct host_completion done[BATCH];
	const int n = host_queue_poll(l->queue, done, BATCH);

	if (n < 0)
		return failed(l, n, 0);
	if (!n) {
		if (++l->idle % YIELD_EVERY == 0)	/* the processor may be shared */
			sched_yield();
		return 0;
	}
	l->idle = 0;

	const uint64_t now = ticks_now();

	for (int i = 0; i < n; i++) {
		struct io *io = done[i].user;

		if (done[i].cqe.status >> 1)
			return failed(l, 0, done[i].cqe.status >> 1);
		histogram_add(&l->histogram, now - io->start);
		l->ticks_sum += now - io->start;
		l->done++;
		if (stopping)
			continue;

		const int ret = submit(l, io, i + 1 < n);

		if (ret < 0)
			return failed(l, ret, 0);
	}
	return n;
}

static void *run(void *arg)
{
	struct load *l = arg;

	if (l->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(l->cpu, &set);
		pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	}
	while (!atomic_load(l->go))
		sched_yield();

	const double cpu = thread_cpu();
	int ret = 0;

	for (unsigned i = 0; ret >= 0 && i < l->options->queue_depth; i++) {
		ret = submit(l, &l->ios[i], i + 1 < l->options->queue_depth);
		if (ret < 0)
			failed(l, ret, 0);
	}
	while (ret >= 0 && !atomic_load_explicit(l->stop, memory_order_relaxed))
		ret = turn(l, false);
	l->cpu_seconds = thread_cpu() - cpu;

	const uint64_t counted = l->done, sum = l->ticks_sum;
	const uint64_t limit = host_now_ns() + LAST_SECONDS * 1000000000ull;
	unsigned left = host_queue_outstanding(l->queue);

	for (bool late = false; ret >= 0 && left && !late && !atomic_load(&cancelled);) {
		late = host_now_ns() >= limit;
		ret = turn(l, true);
		left = host_queue_outstanding(l->queue);
	}
	if (ret >= 0 && left && !atomic_load(&cancelled))
		ret = host_error_set(&l->error, -ETIMEDOUT, "the target left %u commands of the load "
				     "unanswered, %d s after its end", left, LAST_SECONDS);
	l->done = counted;
	l->ticks_sum = sum;
	l->ret = ret < 0 ? ret : 0;
	if (l->ret)
		atomic_store(l->stop, true);	/* the others too */
	return NULL;
}

static int prepare(struct load *l, struct host_controller *c, struct host_error *error)
{
	const struct host_bench_options *o = l->options;

	l->ios = calloc(o->queue_depth, sizeof(*l->ios));
	if (!l->ios)
		return host_error_set(error, -ENOMEM, "no memory for the load");
	l->memory = host_memory_alloc(host_controller_device(c), (size_t)o->queue_depth * o->block_size,
				      error->text, sizeof(error->text));
	if (!l->memory)
		return -ENOMEM;
	l->queue = host_controller_queue(c, (uint16_t)(o->queue_depth + 1), false, error);
	if (!l->queue)
		return -errno;
	if (o->queue_depth > host_queue_size(l->queue) - 1)
		return host_error_set(error, -EINVAL, "the target takes a queue depth of %u at most",
				      host_queue_size(l->queue) - 1);
	l->random = 0x9e3779b97f4a7c15ull * (l->index + 1);
	for (size_t i = 0; i < l->memory->length / 8; i++)
		((uint64_t *)l->memory->addr)[i] = next_random(&l->random);
	for (unsigned i = 0; i < o->queue_depth; i++)
		l->ios[i].data = (struct host_data){
			.addr = (uint8_t *)l->memory->addr + (size_t)i * o->block_size,
			.length = o->block_size,
			.rkey = l->memory->rkey,
			.lkey = l->memory->lkey,
			.in_capsule = true,
		};
	l->slots = l->info.blocks * l->info.block_size / o->block_size;
	l->next = l->slots / o->queues * l->index;
	return 0;
}

static int check(const struct host_bench_options *o, const struct host_namespace_info *info,
		 struct host_error *error)
{
	if (!o->queue_depth || !o->queues || o->queue_depth >= HOST_SIZE_MAX)
		return host_error_set(error, -EINVAL, "queue depth 1 to %d and at least one queue, not %u "
				      "and %u", HOST_SIZE_MAX - 1, o->queue_depth, o->queues);
	if (!o->block_size || o->block_size % info->block_size)
		return host_error_set(error, -EINVAL, "block size %u is not a multiple of the namespace's %u",
				      o->block_size, info->block_size);
	if (info->max_transfer && o->block_size > info->max_transfer)
		return host_error_set(error, -EINVAL, "block size %u is more than the target's limit of %u",
				      o->block_size, info->max_transfer);
	if (info->blocks * info->block_size < o->block_size)
		return host_error_set(error, -EINVAL, "the namespace is smaller than one block");
	return 0;
}

void host_bench_cancel(void)
{
	atomic_store(&cancelled, true);
}

/* For seconds, or until a thread failed, or somebody has enough of it. */
static void wait_for(double seconds, const atomic_bool *stop)
{
	const uint64_t until = host_now_ns() + (uint64_t)(seconds * 1e9);
	uint64_t now;

	while ((now = host_now_ns()) < until && !atomic_load(stop) && !atomic_load(&cancelled)) {
		const uint64_t left = until - now, step = 20000000;

		nanosleep(&(struct timespec){ .tv_nsec = (long)(left < step ? left : step) }, NULL);
	}
}

/* Start the threads, let them run, and collect. */
static int measure(struct load *loads, const struct host_bench_options *o, atomic_bool *go,
		   atomic_bool *stop, struct host_bench_result *r, struct host_error *error)
{
	struct histogram *all = calloc(1, sizeof(*all));
	uint64_t sum = 0;
	int ret = all ? 0 : -ENOMEM;

	for (unsigned i = 0; !ret && i < o->queues; i++) {
		ret = -pthread_create(&loads[i].thread, NULL, run, &loads[i]);
		loads[i].started = !ret;
	}
	if (ret)
		host_error_set(error, ret, "cannot start the load: %s", strerror(-ret));

	const uint64_t from = host_now_ns(), ticks = ticks_now();

	if (ret)
		atomic_store(stop, true);
	atomic_store(go, true);
	if (!ret)
		wait_for(o->seconds, stop);
	atomic_store(stop, true);
	r->seconds = (double)(host_now_ns() - from) * 1e-9;

	const double us_per_tick = r->seconds * 1e6 / (double)(ticks_now() - ticks);

	for (unsigned i = 0; i < o->queues; i++) {
		if (!loads[i].started)
			continue;
		pthread_join(loads[i].thread, NULL);
		if (!ret && loads[i].ret) {
			ret = loads[i].ret;
			*error = loads[i].error;
		}
		r->ios += loads[i].done;
		r->cpu_seconds += loads[i].cpu_seconds;
		sum += loads[i].ticks_sum;
		if (all)
			histogram_merge(all, &loads[i].histogram);
	}
	r->bytes = r->ios * o->block_size;
	if (all && r->ios) {
		r->mean_us = (double)sum / (double)r->ios * us_per_tick;
		r->p50_us = histogram_percentile(all, 50) * us_per_tick;
		r->p99_us = histogram_percentile(all, 99) * us_per_tick;
		r->p999_us = histogram_percentile(all, 99.9) * us_per_tick;
	}
	free(all);
	return ret;
}

static int bench_on(struct host_controller *c, const struct host_bench_options *o,
		    struct host_bench_result *result, struct host_error *error)
{
	struct host_namespace_info info;
	atomic_bool go = false, stop = false;
	int ret = host_controller_namespace(c, o->nsid, &info, error);

	if (!ret)
		ret = check(o, &info, error);
	if (ret)
		return ret;

	struct load *loads = calloc(o->queues, sizeof(*loads));

	if (!loads)
		return host_error_set(error, -ENOMEM, "no memory for %u queues", o->queues);
	for (unsigned i = 0; !ret && i < o->queues; i++) {
		loads[i].options = o;
		loads[i].info = info;
		loads[i].index = i;
		loads[i].cpu = o->cpu < 0 ? -1 : o->cpu + (int)i;
		loads[i].go = &go;
		loads[i].stop = &stop;
		ret = prepare(&loads[i], c, error);
	}
	if (!ret)
		ret = measure(loads, o, &go, &stop, result, error);
	for (unsigned i = 0; i < o->queues; i++) {
		host_queue_destroy(loads[i].queue);
		host_memory_free(loads[i].memory);
		free(loads[i].ios);
	}
	free(loads);
	return ret;
}

int host_bench(const struct host_bench_options *options, struct host_bench_result *result,
	       struct host_error *error)
{
	const struct host_controller_options where = {
		.traddr = options->traddr,
		.trsvcid = options->trsvcid,
		.subnqn = options->subnqn,
		.hostnqn = options->hostnqn,
		.verbs = options->verbs,
	};
	struct host_controller *c = host_controller_connect(&where, error);

	memset(result, 0, sizeof(*result));
	atomic_store(&cancelled, false);
	if (!c)
		return -errno;

	const int ret = bench_on(c, options, result, error);

	host_controller_destroy(c);
	return ret;
}
