/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load of memory clients: operations of one size at random places, with a fixed number outstanding.  Each operation
 * is done on all clients at the same time, and has ended when all of them have.
 */
#include "host/histogram.h"
#include "memory/client_internal.h"
#include "util/pause.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
	BATCH = 32,
	YIELD_EVERY = 16,
	SLEEP_AFTER = 64,	/* polls without a completion, if the load sleeps */
	SLEEP_MS = 1,
};

struct tally {
	struct histogram histogram;
	uint64_t sum, least, most;
};

struct load {
	struct memory_client *const *clients;
	unsigned nclients;
	const struct memory_bench_options *options;
	struct tally *tallies;		/* of writes, and of reads */
	uint64_t places, state;
	uint64_t begun[MEMORY_DEPTH_MAX];
	unsigned left[MEMORY_DEPTH_MAX];	/* clients that have not ended the operation of a slot */
	bool reads[MEMORY_DEPTH_MAX];
	const struct memory_client *failed;
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
	l->left[slot] = l->nclients;
	for (unsigned i = 0; i < l->nclients; i++) {
		const int rc = memory_client_begin(l->clients[i], slot, read ? MEMORY_READ : l->options->method,
						   place * l->options->size, l->options->size);

		if (rc) {
			l->failed = l->clients[i];
			return rc;
		}
	}
	return 0;
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

/* Take what has ended; returns a negative errno, or the number of completions. */
static int take(struct load *l, unsigned *outstanding, bool over)
{
	struct memory_done done[BATCH];
	int taken = 0;

	for (unsigned c = 0; c < l->nclients; c++) {
		const int n = memory_client_poll(l->clients[c], done, BATCH);
		const uint64_t now = clock_ns();

		if (n < 0) {
			l->failed = l->clients[c];
			return n;
		}
		taken += n;
		for (int i = 0; i < n; i++) {
			const unsigned slot = done[i].slot;

			if (done[i].status) {
				l->failed = l->clients[c];
				return -EIO;
			}
			if (--l->left[slot])
				continue;
			count(l, slot, now);
			if (over) {
				(*outstanding)--;
				continue;
			}

			const int rc = begin(l, slot);

			if (rc)
				return rc;
		}
	}
	return taken;
}

/* Nothing has ended for idle polls: let others have the processor, or sleep once the clients were armed and polled. */
static void wait_for_news(struct load *l, unsigned idle)
{
	struct pollfd fds[MEMORY_BENCH_CLIENTS];

	if (!l->options->sleeps || idle < SLEEP_AFTER) {
		if (idle % YIELD_EVERY)
			cpu_pause();
		else
			sched_yield();	/* the processor may be shared */
		return;
	}
	if (idle % 2 == SLEEP_AFTER % 2) {
		for (unsigned i = 0; i < l->nclients; i++)
			memory_client_arm(l->clients[i]);
		return;
	}
	for (unsigned i = 0; i < l->nclients; i++)
		fds[i] = (struct pollfd){ .fd = memory_client_fd(l->clients[i]), .events = POLLIN };
	if (poll(fds, l->nclients, SLEEP_MS) <= 0)
		return;
	for (unsigned i = 0; i < l->nclients; i++)
		if (fds[i].revents)
			memory_client_drain(l->clients[i]);
}

static int run(struct load *l, const volatile bool *cancel, uint64_t until)
{
	unsigned outstanding = 0, idle = 0;
	bool over = false;

	for (; outstanding < l->options->depth; outstanding++) {
		const int rc = begin(l, outstanding);

		if (rc)
			return rc;
	}
	while (outstanding) {
		const int n = take(l, &outstanding, over);
		const uint64_t now = clock_ns();

		if (n < 0)
			return n;
		idle = n ? 0 : idle + 1;
		if (idle)
			wait_for_news(l, idle);
		over |= now >= until || *cancel;
		if (over && now >= until + 10000000000ull)
			return -ETIMEDOUT;
	}
	return 0;
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

/* The places that all clients have; 0: the load does not fit a client. */
static uint64_t places_of(const struct load *l)
{
	uint64_t places = UINT64_MAX;

	for (unsigned i = 0; i < l->nclients; i++) {
		const struct memory_client *client = l->clients[i];
		const uint64_t here = l->options->size ? client->size / l->options->size : 0;

		if (l->options->size > client->slot_bytes || l->options->depth > client->depth)
			return 0;
		places = here < places ? here : places;
	}
	return places;
}

static void say_why(const struct load *l, int rc, char *err, size_t len)
{
	const struct memory_client *client = l->failed;

	if (rc == -EIO && client)
		snprintf(err, len, "the target of %s failed to make a range persistent", client->where);
	else if (rc)
		snprintf(err, len, "%s", client && client->lost ? client->why : strerror(-rc));
}

int memory_client_bench(struct memory_client *const *clients, unsigned nclients,
			const struct memory_bench_options *options, const volatile bool *cancel,
			struct memory_bench_result *result, char *err, size_t len)
{
	struct load l = { .clients = clients, .nclients = nclients, .options = options };
	const double cpu = cpu_seconds();
	const uint64_t start = clock_ns();
	int rc;

	*result = (struct memory_bench_result){ 0 };
	l.places = nclients && nclients <= MEMORY_BENCH_CLIENTS ? places_of(&l) : 0;
	l.state = start | 1;
	if (!l.places || !options->depth) {
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
	say_why(&l, rc, err, len);
	return rc;
}
