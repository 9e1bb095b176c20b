/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many connected queues of one thread, and loads on some of them, for connections.py.
 *
 * usage: many ADDRESS PORT NQN QUEUES DEPTH [CPU]
 *
 * Prints the time to connect as a line of JSON.  Then it runs the load of each line of its input, and prints the
 * result as a line of JSON:
 *   QUEUES DEPTH BLOCK_SIZE read|write|randread|randwrite SECONDS
 * Between loads it sleeps.  It disconnects at the end of its input.
 */
#include "host/load.h"
#include "util/clock.h"
#include "util/stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int many_fail(const struct host_error *error)
{
	fprintf(stderr, "many: %s\n", error->text);
	return 1;
}

static int many_run(struct host_load *load, const char *line)
{
	struct host_load_run run = { 0 };
	struct host_load_result r;
	struct host_error error;
	unsigned depth;
	char rw[16];

	if (sscanf(line, "%u %u %u %15s %lf", &run.queues, &depth, &run.block_size, rw, &run.seconds) != 5) {
		fprintf(stderr, "many: cannot read \"%s\"\n", line);
		return 1;
	}
	run.depth = (uint16_t)depth;
	run.random = !strncmp(rw, "rand", 4);
	run.read_percent = strstr(rw, "read") ? 100 : 0;
	if (host_load_run(load, &run, &r, &error))
		return many_fail(&error);
	printf("{\"ios\": %llu, \"seconds\": %.6f, \"p50_us\": %.3f, \"p99_us\": %.3f, "
	       "\"queue_min_iops\": %.3f, \"queue_max_iops\": %.3f, \"host_cpu_seconds\": %.6f}\n",
	       (unsigned long long)r.ios, r.seconds, r.p50_us, r.p99_us, r.queue_min_iops,
	       r.queue_max_iops, r.cpu_seconds);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	const struct host_load_options options = {
		.traddr = argc > 1 ? argv[1] : NULL,
		.trsvcid = argc > 2 ? argv[2] : NULL,
		.subnqn = argc > 3 ? argv[3] : NULL,
		.hostnqn = "nqn.2026-11.io.example:many",
		.nsid = 1,
		.queues = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 0) : 0,
		.queue_depth = argc > 5 ? (uint16_t)strtoul(argv[5], NULL, 0) : 0,
		.threads = 1,
		.cpu = argc > 6 ? atoi(argv[6]) : -1,
	};
	struct iwarp_options device;
	struct host_error error;
	struct host_load *load;
	char line[128];
	uint64_t begun;
	int ret = 0;

	if (argc < 6) {
		fprintf(stderr, "usage: many ADDRESS PORT NQN QUEUES DEPTH [CPU]\n");
		return 2;
	}
	/* without the pause of 2 ms before the first frame, which only siw needs: it would dominate the result */
	iwarp_get_options(&device);
	device.first_fpdu_delay_us = 0;
	iwarp_set_options(&device);
	begun = clock_ns();
	load = host_load_connect(&options, &error);
	if (!load)
		return many_fail(&error);
	printf("{\"queues\": %u, \"seconds\": %.6f}\n", options.queues, (double)(clock_ns() - begun) * 1e-9);
	fflush(stdout);
	while (!ret && fgets(line, sizeof(line), stdin))
		ret = many_run(load, line);
	host_load_destroy(load);
	return ret;
}
