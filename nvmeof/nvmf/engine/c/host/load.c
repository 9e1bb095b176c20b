/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load's life cycle: its controllers and queues, the threads of a run and the sum of their measurements. The work
 * of a thread is in load_thread.c.
 *
 * Runs on the thread that created the load.
 */
#include "load_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct host_load {
	struct host_load_options options;
	struct host_device *device;
	struct host_namespace_info info;
	struct host_controller **controllers;
	unsigned ncontrollers;
	struct load_queue *queues;
	struct load_thread *threads;
	unsigned nthreads;
};

atomic_bool load_cancelled;
static _Atomic(uint64_t) load_reads, load_writes, load_ns; /* of the present run */

void host_bench_cancel(void)
{
	atomic_store(&load_cancelled, true);
}

/* ---- connecting ---- */

unsigned host_load_default_threads(unsigned queues)
{
	unsigned n = 1;
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 1)
		n = (unsigned)CPU_COUNT(&set) - 1;
	return n < queues ? n : queues;
}

static int load_add_controller(struct host_load *l, struct host_error *error)
{
	const struct host_controller_options where = {
		.traddr = l->options.traddr,
		.trsvcid = l->options.trsvcid,
		.subnqn = l->options.subnqn,
		.hostnqn = l->options.hostnqn,
		.hostid = l->options.hostid,
		.device = l->device,
	};
	struct host_controller *c = host_controller_connect(&where, error);

	if (!c)
		return -errno;
	l->controllers[l->ncontrollers++] = c;
	if (!host_controller_queues(c))
		return host_error_set(error, -EMFILE, "controller %u of the load grants no I/O queue",
				      l->ncontrollers);
	return l->ncontrollers > 1 ? 0 : host_controller_namespace(c, l->options.nsid, &l->info, error);
}

static int load_connect_queue(struct host_load *l, unsigned i, struct host_error *error)
{
	struct load_thread *t = &l->threads[i % l->nthreads];
	const uint16_t depth = l->options.queue_depth;
	struct host_queue *q = host_controller_queue(l->controllers[l->ncontrollers - 1],
						     (uint16_t)(depth + 1), t->group, false, error);

	if (!q)
		return -errno;
	l->queues[i].queue = q;
	l->queues[i].thread = t;
	if (depth > host_queue_size(q) - 1)
		return host_error_set(error, -EINVAL, "the target allows a queue depth of at most %u",
				      host_queue_size(q) - 1);
	return 0;
}

static int load_make_threads(struct host_load *l, struct host_error *error)
{
	const struct host_load_options *o = &l->options;

	l->threads = calloc(l->nthreads, sizeof(*l->threads));
	l->queues = calloc(o->queues, sizeof(*l->queues));
	l->controllers = calloc(o->queues, sizeof(*l->controllers));
	if (!l->threads || !l->queues || !l->controllers)
		return host_error_set(error, -ENOMEM, "no memory for %u queues", o->queues);
	l->device = host_device_get(o->verbs, o->keys, error->text, sizeof(error->text));
	for (unsigned i = 0; i < l->nthreads && l->device; i++) {
		struct load_thread *t = &l->threads[i];

		t->group = host_poll_group_create(l->device, false, error->text, sizeof(error->text));
		if (!t->group)
			return -ENOMEM;
		t->cpu = o->cpu < 0 ? -1 : o->cpu + (int)i;
		t->random = 0x9e3779b97f4a7c15ull * (i + 1);
	}
	return l->device ? 0 : -ENOMEM;
}

static int load_connect(struct host_load *l, struct host_error *error)
{
	const struct host_load_options *o = &l->options;
	unsigned left = 0;
	int ret;

	if (!o->queue_depth || !o->queues || o->queue_depth >= HOST_SIZE_MAX)
		return host_error_set(error, -EINVAL, "the queue depth must be 1 to %d with at least one "
				      "queue, not %u and %u", HOST_SIZE_MAX - 1, o->queue_depth, o->queues);
	l->nthreads = o->threads ? o->threads : host_load_default_threads(o->queues);
	if (l->nthreads > o->queues)
		l->nthreads = o->queues;
	ret = load_make_threads(l, error);
	for (unsigned i = 0; !ret && i < o->queues; i++) {
		if (!left) {
			ret = load_add_controller(l, error);
			if (ret)
				return ret;
			left = host_controller_queues(l->controllers[l->ncontrollers - 1]);
		}
		left--;
		ret = load_connect_queue(l, i, error);
	}
	return ret;
}

struct host_load *host_load_connect(const struct host_load_options *options,
				    struct host_error *error)
{
	struct host_load *l = calloc(1, sizeof(*l));
	int ret;

	host_error_clear(error);
	if (!l) {
		errno = -host_error_set(error, -ENOMEM, "no memory for a load");
		return NULL;
	}
	l->options = *options;
	ret = load_connect(l, error);
	if (!ret)
		return l;
	host_load_destroy(l);
	errno = -ret;
	return NULL;
}

void host_load_destroy(struct host_load *load)
{
	struct host_load *l = load;

	if (!l)
		return;
	for (unsigned i = 0; l->queues && i < l->options.queues; i++)
		host_queue_destroy(l->queues[i].queue);
	for (unsigned i = 0; l->threads && i < l->nthreads; i++)
		host_poll_group_destroy(l->threads[i].group);
	for (unsigned i = 0; i < l->ncontrollers; i++)
		host_controller_destroy(l->controllers[i]);
	host_device_put(l->device);
	free(l->controllers);
	free(l->queues);
	free(l->threads);
	free(l);
}

/* ---- running ---- */

static int load_check_range(const struct host_namespace_info *info, const struct host_load_run *run,
			    struct host_error *error)
{
	const uint64_t there = info->blocks * info->block_size;

	if (run->offset % info->block_size)
		return host_error_set(error, -EINVAL, "offset %" PRIu64 " is not a multiple of the "
				      "namespace's block size of %u", run->offset, info->block_size);
	if (run->offset > there || run->size > there - run->offset)
		return host_error_set(error, -EINVAL, "%" PRIu64 " bytes from offset %" PRIu64 " extend "
				      "past the end of the namespace, which has %" PRIu64, run->size,
				      run->offset, there);
	if ((run->size ? run->size : there - run->offset) < run->block_size)
		return host_error_set(error, -EINVAL, "%s smaller than one block of the load",
				      run->size || run->offset ? "the range is" : "the namespace is");
	return 0;
}

static int load_check(const struct host_load *l, const struct host_load_run *run,
		      struct host_error *error)
{
	const struct host_namespace_info *info = &l->info;

	if (run->depth > l->options.queue_depth || run->queues > l->options.queues)
		return host_error_set(error, -EINVAL, "%u commands on each of %u queues exceed the %u on "
				      "each of %u of the load", run->depth, run->queues,
				      l->options.queue_depth, l->options.queues);
	if (run->npercentiles > HOST_LOAD_PERCENTILES)
		return host_error_set(error, -EINVAL, "%u percentiles exceed the limit of %d", run->npercentiles,
				      HOST_LOAD_PERCENTILES);
	if (!run->block_size || run->block_size % info->block_size)
		return host_error_set(error, -EINVAL, "block size %u is not a multiple of the namespace's %u",
				      run->block_size, info->block_size);
	if (info->max_transfer && run->block_size > info->max_transfer)
		return host_error_set(error, -EINVAL, "block size %u is more than the target's limit of %u",
				      run->block_size, info->max_transfer);
	return load_check_range(info, run, error);
}

static uint64_t load_done(const struct load_queue *queue, bool write)
{
	return atomic_load_explicit(&queue->done[write], memory_order_relaxed);
}

static void load_publish(const struct host_load *l, unsigned queues, uint64_t ns)
{
	uint64_t reads = 0, writes = 0;

	for (unsigned i = 0; i < queues; i++) {
		reads += load_done(&l->queues[i], false);
		writes += load_done(&l->queues[i], true);
	}
	atomic_store(&load_reads, reads);
	atomic_store(&load_writes, writes);
	atomic_store(&load_ns, ns);
}

void host_bench_live(struct host_load_live *live)
{
	live->ns = atomic_load(&load_ns);
	live->reads = atomic_load(&load_reads);
	live->writes = atomic_load(&load_writes);
}

/* Wait for this many seconds, or until a thread failed or the run ended or was cancelled. */
static void load_wait(const struct host_load *l, const struct load_run *run, double seconds)
{
	const uint64_t from = clock_ns(), until = from + (uint64_t)(seconds * 1e9);
	uint64_t now;

	while ((now = clock_ns()) < until && !atomic_load(&run->stop) && !atomic_load(&load_cancelled)) {
		const uint64_t left = until - now, step = 20000000;

		nanosleep(&(struct timespec){ .tv_nsec = (long)(left < step ? left : step) }, NULL);
		if (atomic_load(&run->counting))
			load_publish(l, run->what.queues, clock_ns() - from);
	}
}

static void load_sum_queues(const struct host_load *l, const struct load_run *run,
			    struct host_load_result *r)
{
	for (unsigned i = 0; i < run->what.queues; i++) {
		const uint64_t done = load_done(&l->queues[i], false) + load_done(&l->queues[i], true);
		const double rate = (double)done / r->seconds;

		if (!i || rate < r->queue_min_iops)
			r->queue_min_iops = rate;
		if (rate > r->queue_max_iops)
			r->queue_max_iops = rate;
		r->ios += done;
	}
	r->bytes = r->ios * run->what.block_size;
}

/* all: three zeroed parts: reads, writes, both. */
static void load_sum_times(const struct host_load *l, const struct load_run *run,
			   struct load_times *all, double us_per_tick, struct host_load_result *r)
{
	for (unsigned i = 0; i < l->nthreads; i++) {
		r->cpu_seconds += l->threads[i].cpu_seconds;
		load_times_merge(&all[0], &l->threads[i].times[0]);
		load_times_merge(&all[1], &l->threads[i].times[1]);
	}
	load_times_part(&all[0], &run->what, us_per_tick, &r->read);
	load_times_part(&all[1], &run->what, us_per_tick, &r->write);
	load_times_merge(&all[2], &all[0]);
	load_times_merge(&all[2], &all[1]);
	if (!r->ios)
		return;
	r->mean_us = all[2].sum / (double)r->ios * us_per_tick;
	r->p50_us = histogram_percentile(&all[2].histogram, 50) * us_per_tick;
	r->p99_us = histogram_percentile(&all[2].histogram, 99) * us_per_tick;
	r->p999_us = histogram_percentile(&all[2].histogram, 99.9) * us_per_tick;
}

/* Start the threads, wait, and collect the results. */
static int load_measure(struct host_load *l, struct load_run *run, struct load_times *all,
			struct host_load_result *r, struct host_error *error)
{
	unsigned started = 0;
	int ret = 0;

	for (; !ret && started < l->nthreads; started += !ret)
		ret = -pthread_create(&l->threads[started].thread, NULL, load_thread_main,
				      &l->threads[started]);
	if (ret) {
		host_error_set(error, ret, "cannot start the load: %s", strerror(-ret));
		atomic_store(&run->stop, true);
	}

	atomic_store(&run->counting, run->what.ramp <= 0);
	if (!ret && run->what.ramp > 0) {
		atomic_store(&run->go, true);
		load_wait(l, run, run->what.ramp);
	}

	const uint64_t from = clock_ns(), ticks = ticks_now();

	atomic_store(&run->counting, true);
	atomic_store(&run->go, true);
	if (!ret)
		load_wait(l, run, run->what.seconds);
	atomic_store(&run->stop, true);

	const uint64_t to = clock_ns(), ended = atomic_load(&run->ended);
	const double us_per_tick = (double)(to - from) * 1e-3 / (double)(ticks_now() - ticks);

	r->seconds = (double)((ended ? ended : to) - from) * 1e-9;

	for (unsigned i = 0; i < started; i++) {
		pthread_join(l->threads[i].thread, NULL);
		if (!ret && l->threads[i].ret) {
			ret = l->threads[i].ret;
			*error = l->threads[i].error;
		}
	}
	load_sum_queues(l, run, r);
	load_sum_times(l, run, all, us_per_tick, r);
	return ret;
}

static void load_reset(void)
{
	atomic_store(&load_cancelled, false);
	atomic_store(&load_ns, 0);
	atomic_store(&load_reads, 0);
	atomic_store(&load_writes, 0);
}

static int load_run(struct host_load *load, const struct host_load_run *what,
		    struct host_load_result *result, struct host_error *error)
{
	struct host_load *l = load;
	struct load_run run = { .what = *what, .info = l->info };
	struct load_times *all = calloc(3, sizeof(*all));
	int ret;

	host_error_clear(error);
	memset(result, 0, sizeof(*result));
	if (!run.what.queues)
		run.what.queues = l->options.queues;
	if (!run.what.depth)
		run.what.depth = l->options.queue_depth;
	ret = all ? load_check(l, &run.what, error) : host_error_set(error, -ENOMEM, "no memory for a load");
	for (unsigned i = 0; !ret && i < l->nthreads; i++) {
		ret = load_thread_prepare(&l->threads[i], &run, l->queues, l->device, error);
		run.busy += l->threads[i].nios > 0;
	}
	if (!ret)
		ret = load_measure(l, &run, all, result, error);
	for (unsigned i = 0; i < l->nthreads; i++)
		load_thread_release(&l->threads[i]);
	free(all);
	return ret;
}

int host_load_run(struct host_load *load, const struct host_load_run *what,
		  struct host_load_result *result, struct host_error *error)
{
	load_reset();
	return load_run(load, what, result, error);
}

int host_bench(const struct host_load_options *options, const struct host_load_run *run,
	       struct host_load_result *result, struct host_error *error)
{
	load_reset();	/* before connecting: a cancellation during that counts */
	memset(result, 0, sizeof(*result));

	struct host_load *l = host_load_connect(options, error);
	int ret;

	if (!l)
		return -errno;
	ret = load_run(l, run, result, error);
	host_load_destroy(l);
	return ret;
}
