/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor: the rate at which this machine's loopback TCP transfers the bytes of an NVMe-oF exchange over iWARP,
 * between two polling threads without RDMA and NVMe.
 *
 *   read      88 B request, answered by the data in WRITE frames and a 40 B response
 *   write     88 B request, 52 B READ request, the data in READ response frames, 40 B response;
 *             or, where the data fits a capsule, 88 B and the data, and a 40 B response
 *
 * Data arrives where an application needs it: reads in the buffer of their slot, writes in the store.  With "whole", a
 * write is copied into the store when all of it has arrived, past the caches, so that a connection that ends in the middle
 * leaves no block that is half written.  All data that is ready is sent in one system call.  Prints one JSON object.
 *
 * usage: floor read|write BLOCK_SIZE QUEUE_DEPTH SECONDS [IN_CAPSULE [random|sequential [whole]]]
 */
#include "floor_conn.h"
#include "host/histogram.h"
#include "store/store_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <unistd.h>

/* ---- the target's side ---- */

struct server {
	struct conn c;
	uint8_t *store;
	uint8_t *part;		/* where a write's data arrives, if it is copied as a whole */
	uint64_t random, next;
	bool landing;		/* a write's data is under way */
	int cpu;
};

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static uint8_t *place(struct server *s)
{
	const uint64_t slots = STORE / opt.block;

	return s->store + (opt.random ? next_random(&s->random) : s->next++) % slots * opt.block;
}

static void serve_landing(struct server *s, size_t header, size_t trailer)
{
	land_begin(&s->c.landing, s->part ? s->part : place(s), header, trailer);
	s->landing = true;
}

/* Handle a frame of the client, or its data; false if more must arrive first. */
static bool serve_one(struct server *s)
{
	struct conn *c = &s->c;

	make_room(c);
	if (s->landing) {
		if (!landed(c))
			return false;
		s->landing = false;
		if (s->part)
			store_persist_copy(place(s), s->part, opt.block);
		put(c, response, RESPONSE);
	} else if (!staged(c)) {
		return false;
	} else if (c->staging[c->head] == DATA_FRAME) {
		serve_landing(s, TAGGED, CRC);
	} else if (staged(c) < REQUEST) {
		return false;
	} else {
		c->head += REQUEST;
		if (opt.capsule) {
			serve_landing(s, 0, 0);
		} else if (opt.write) {
			put(c, read_request, READ_REQUEST);
		} else {
			put_frames(c, place(s));
			put(c, crc_response, sizeof(crc_response));
		}
	}
	return true;
}

static void *serve(void *arg)
{
	struct server *s = arg;

	pin(s->cpu);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (int i = 0; i < ROUNDS && receive(&s->c); i++)
			while (serve_one(s))
				;
		if (s->c.niov)
			flush(&s->c);
	}
	return NULL;
}

/* ---- the host's side ---- */

struct client {
	struct conn c;
	uint8_t *buffers;
	uint64_t *started;		/* ticks, by slot */
	uint64_t sent, read, finished;	/* commands; the target serves them in order */
	bool landing;
	struct histogram histogram;
};

static uint8_t *slot(const struct client *c, uint64_t command)
{
	return c->buffers + command % opt.depth * opt.block;
}

static void submit(struct client *cl)
{
	cl->started[cl->sent % opt.depth] = ticks_now();
	put(&cl->c, request, REQUEST);
	if (opt.capsule)
		put(&cl->c, slot(cl, cl->sent), opt.block);
	cl->sent++;
}

static void finish(struct client *cl)
{
	histogram_add(&cl->histogram, ticks_now() - cl->started[cl->finished % opt.depth]);
	cl->finished++;
	submit(cl);
}

static bool take_one(struct client *cl)
{
	struct conn *c = &cl->c;

	make_room(c);
	if (cl->landing) {
		if (!landed(c))
			return false;
		cl->landing = false;
		return true;
	}
	if (!staged(c))
		return false;
	switch (c->staging[c->head]) {
	case DATA_FRAME:
		land_begin(&c->landing, slot(cl, cl->read++), TAGGED, CRC);
		cl->landing = true;
		return true;
	case READ_FRAME:
		if (staged(c) < READ_REQUEST)
			return false;
		c->head += READ_REQUEST;
		put_frames(c, slot(cl, cl->read++));
		put(c, between, CRC);
		return true;
	default:
		if (staged(c) < RESPONSE)
			return false;
		c->head += RESPONSE;
		finish(cl);
		return true;
	}
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

/* ---- the whole ---- */

static int tcp(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int one = 1;

	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	return fd;
}

static void connect_both(int *client, int *server)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	const int listener = tcp();

	if (bind(listener, (struct sockaddr *)&a, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &len))
		die("listen");
	*client = tcp();
	if (connect(*client, (struct sockaddr *)&a, len))
		die("connect");
	*server = accept(listener, NULL, NULL);
	if (*server < 0)
		die("accept");
	close(listener);
}

static void parse(int argc, char **argv)
{
	if (argc < 5 || (strcmp(argv[1], "read") && strcmp(argv[1], "write"))) {
		fprintf(stderr, "usage: floor read|write BLOCK_SIZE QUEUE_DEPTH SECONDS [IN_CAPSULE "
				"[random|sequential [whole]]]\n");
		exit(2);
	}
	opt.write = !strcmp(argv[1], "write");
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
	pthread_t thread;
	int fds[2];

	parse(argc, argv);
	connect_both(&fds[0], &fds[1]);
	conn_init(&client.c, fds[0]);
	conn_init(&server.c, fds[1]);
	client.buffers = map(opt.depth * opt.block);
	client.started = calloc(opt.depth, sizeof(*client.started));
	server.store = map(STORE);
	if (opt.whole && opt.block >= DIRECT)	/* less is copied from the staging buffer anyway */
		server.part = map(opt.block);
	server.random = 0x9e3779b97f4a7c15ull;
	server.cpu = processor(1);
	if (!client.started || pthread_create(&thread, NULL, serve, &server))
		die("start");
	pin(processor(0));

	for (unsigned i = 0; i < opt.depth; i++) {
		make_room(&client.c);
		submit(&client);
	}
	flush(&client.c);
	run(&client, opt.seconds / 10);	/* not counted */
	memset(&client.histogram, 0, sizeof(client.histogram));

	const uint64_t first = client.finished, ticks = ticks_now();
	const double seconds = run(&client, opt.seconds);
	const double us_per_tick = seconds * 1e6 / (double)(ticks_now() - ticks);
	const double iops = (double)(client.finished - first) / seconds;

	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("{\"iops\": %.1f, \"bytes_per_second\": %.1f, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
	       iops, iops * (double)opt.block, histogram_percentile(&client.histogram, 50) * us_per_tick,
	       histogram_percentile(&client.histogram, 99) * us_per_tick);
	return 0;
}
