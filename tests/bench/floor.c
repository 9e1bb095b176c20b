/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor: the rate at which this machine's loopback TCP transfers the bytes of an NVMe-oF exchange over iWARP,
 * between two polling threads without RDMA and NVMe.
 *
 * Data arrives where an application needs it: reads in the buffer of their slot, writes in the store.  With "whole", a
 * write is copied into the store when all of it has arrived, past the caches, so that a connection that ends in the middle
 * leaves no block that is half written.  All data that is ready is sent in one system call.  Prints one JSON object.
 *
 * usage: floor read|write BLOCK_SIZE QUEUE_DEPTH SECONDS [IN_CAPSULE [random|sequential [whole]]]
 */
#include "floor_ends.h"

#include <pthread.h>

static int server_cpu;

static void *serve(void *arg)
{
	struct server *s = arg;

	pin(server_cpu);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (int i = 0; i < ROUNDS && receive(&s->c); i++)
			while (serve_one(s))
				;
		if (s->c.niov)
			flush(&s->c);
	}
	return NULL;
}

/* Run for some seconds; return the elapsed time. */
static double run(struct client *cl, double seconds)
{
	const double from = now();
	double at = from;

	for (unsigned turn = 0; at < from + seconds; turn++) {
		for (int i = 0; i < ROUNDS && receive(&cl->c); i++)
			while (take_one(cl))
				;
		if (cl->c.niov)
			flush(&cl->c);
		if (turn % 64 == 0)
			at = now();
	}
	return at - from;
}

static void parse(int argc, char **argv)
{
	if (argc < 5 || (strcmp(argv[1], "read") && strcmp(argv[1], "write"))) {
		fprintf(stderr, "usage: floor read|write BLOCK_SIZE QUEUE_DEPTH SECONDS [IN_CAPSULE "
				"[random|sequential [whole]]]\n");
		exit(2);
	}
	opt.write = !strcmp(argv[1], "write");
	opt.store = STORE;
	opt.block = strtoul(argv[2], NULL, 0);
	opt.depth = (unsigned)strtoul(argv[3], NULL, 0);
	opt.seconds = strtod(argv[4], NULL);
	opt.capsule = opt.write && argc > 5 && strtoul(argv[5], NULL, 0) >= opt.block;
	opt.random = argc < 7 || strcmp(argv[6], "sequential");
	opt.whole = opt.write && argc > 7 && !strcmp(argv[7], "whole");
	if (!opt.block || opt.block > 4 << 20 || opt.block / SEGMENT * 2 + 3 > ROOM || !opt.depth ||
	    opt.depth > 4096 || opt.seconds <= 0) {
		fprintf(stderr, "floor: block size 1 to %d, queue depth 1 to 4096, seconds above 0\n",
			ROOM / 2 * SEGMENT - 2 * SEGMENT);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct server server;
	static struct client client;
	static struct histogram histogram;
	pthread_t thread;
	int fds[2];

	parse(argc, argv);
	connect_both(&fds[0], &fds[1]);
	conn_init(&client.c, fds[0]);
	conn_init(&server.c, fds[1]);
	client.histogram = &histogram;
	client.buffers = map(opt.depth * opt.block);
	client.started = calloc(opt.depth, sizeof(*client.started));
	server.store = map(opt.store);
	if (opt.whole && opt.block >= DIRECT)	/* less is copied from the staging buffer anyway */
		server.part = map(opt.block);
	server.random = 0x9e3779b97f4a7c15ull;
	server_cpu = processor(1);
	if (!client.started || pthread_create(&thread, NULL, serve, &server))
		die("start");
	pin(processor(0));

	for (unsigned i = 0; i < opt.depth; i++) {
		make_room(&client.c);
		submit(&client);
	}
	flush(&client.c);
	run(&client, opt.seconds / 10);	/* not counted */
	memset(&histogram, 0, sizeof(histogram));

	const uint64_t first = client.finished, ticks = ticks_now();
	const double seconds = run(&client, opt.seconds);
	const double us_per_tick = seconds * 1e6 / (double)(ticks_now() - ticks);
	const double iops = (double)(client.finished - first) / seconds;

	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("{\"iops\": %.1f, \"bytes_per_second\": %.1f, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
	       iops, iops * (double)opt.block, histogram_percentile(&histogram, 50) * us_per_tick,
	       histogram_percentile(&histogram, 99) * us_per_tick);
	return 0;
}
