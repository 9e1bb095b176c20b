/* SPDX-License-Identifier: BSD-3-Clause */
/* The load of a memory client: operations of one size at random places, with a fixed number outstanding. */
#include "host/histogram.h"
#include "memory/client_internal.h"
#include "util/pause.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BATCH = 32, YIELD_EVERY = 16 };

struct tally {
	struct histogram histogram;
	uint64_t sum, least, most;
};

struct load {
	struct memory_client *client;
	const struct memory_bench_options *options;
	struct tally *tallies;		/* of writes, and of reads */
	uint64_t places, state;
	uint64_t begun[MEMORY_DEPTH_MAX];
	bool reads[MEMORY_DEPTH_MAX];
};

static uint64_t next_random(struct load *l)
{
	l->state ^= l->state << 13;
	l->state ^= l->state >> 7;
	l->state ^= l->state << 17;
	return l->state;
}

static int begin(struct load *l, unsigned slot)
{
	const uint64_t random = next_random(l);
	const uint64_t place = random % l->places;
	const bool read = l->options->read_percent && (random >> 40) % 100 < l->options->read_percent;

	l->begun[slot] = clock_ns();
	l->reads[slot] = read;
	return memory_client_begin(l->client, slot, read ? MEMORY_READ : l->options->method,
				   place * l->options->size, l->options->size);
}

static void count(struct load *l, unsigned slot, uint64_t now)
{
	const uint64_t took = now - l->begun[slot];
	struct tally *t = &l->tallies[l->reads[slot]];

	t->least = !t->histogram.count || took < t->least ? took : t->least;
	t->most = took > t->most ? took : t->most;
	t->sum += took;
	histogram_add(&t->histogram, took);
}

static int run(struct load *l, const volatile bool *cancel, uint64_t until)
{
	struct memory_done done[BATCH];
	unsigned outstanding = 0, idle = 0;
	bool over = false;
	int rc = 0;

	for (; outstanding < l->options->depth && !rc; outstanding++)
		rc = begin(l, outstanding);
	while (!rc && outstanding) {
		const int n = memory_client_poll(l->client, done, BATCH);
		const uint64_t now = clock_ns();

		if (n < 0)
			return n;
		idle = n ? 0 : idle + 1;
		if (idle && !(idle % YIELD_EVERY))	/* the processor may be shared */
			sched_yield();
		else if (idle)
			cpu_pause();
		over |= now >= until || *cancel;
		for (int i = 0; i < n && !rc; i++) {
			if (done[i].status)
				return -EIO;
			count(l, done[i].slot, now);
			if (over)
				outstanding--;
			else
				rc = begin(l, done[i].slot);
		}
		if (over && now >= until + 10000000000ull)
			return -ETIMEDOUT;
	}
	return rc;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void summarise(const struct load *l, const struct tally *t, struct memory_bench_part *r)
{
	r->ios = t->histogram.count;
	if (!r->ios)
		return;
	r->mean_us = (double)t->sum / (double)r->ios / 1000;
	r->min_us = (double)t->least / 1000;
	r->max_us = (double)t->most / 1000;
	for (unsigned i = 0; i < l->options->npercentiles; i++)
		r->percentile_us[i] = histogram_percentile(&t->histogram, l->options->percentiles[i]) / 1000;
}

int memory_client_bench(struct memory_client *client, const struct memory_bench_options *options,
			const volatile bool *cancel, struct memory_bench_result *result, char *err, size_t len)
{
	struct load l = { .client = client, .options = options };
	const double cpu = cpu_seconds();
	const uint64_t start = clock_ns();
	int rc;

	*result = (struct memory_bench_result){ 0 };
	l.places = options->size ? client->size / options->size : 0;
	l.state = start | 1;
	if (!l.places || options->size > client->slot_bytes || !options->depth || options->depth > client->depth) {
		snprintf(err, len, "operations of %u bytes with %u outstanding do not fit the connection",
			 options->size, options->depth);
		return -EINVAL;
	}
	l.tallies = calloc(2, sizeof(*l.tallies));
	if (!l.tallies) {
		snprintf(err, len, "no memory for a histogram");
		return -ENOMEM;
	}
	rc = run(&l, cancel, start + (uint64_t)(options->seconds * 1e9));
	result->seconds = (double)(clock_ns() - start) / 1e9;
	result->cpu_seconds = cpu_seconds() - cpu;
	summarise(&l, &l.tallies[false], &result->write);
	summarise(&l, &l.tallies[true], &result->read);
	free(l.tallies);
	if (rc == -EIO)
		snprintf(err, len, "the target of %s failed to make a range persistent", client->where);
	else if (rc)
		snprintf(err, len, "%s", client->lost ? client->why : strerror(-rc));
	return rc;
}
