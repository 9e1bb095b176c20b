/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of many connections: the rate at which this machine's loopback TCP transfers the bytes of 4 KiB random reads
 * over iWARP, with some reads outstanding on each connection, between two threads without RDMA and NVMe.
 *
 * Each thread finds the connections that have data with epoll, edge-triggered, so that the others cost nothing.  Each message
 * takes one receive and one send.  Prints one JSON object.
 *
 * usage: floor_many CONNECTIONS DEPTH SECONDS STORE_BYTES
 */
#include "floor_ends.h"

#include <pthread.h>
#include <sys/epoll.h>

enum { EVENTS = 64, MOST_DEPTH = 16 };

/* One receive takes all that can be under way, so that no further one has to say that nothing is left. */
static_assert(MOST_DEPTH * (REQUEST + TAGGED + 4096 + CRC + RESPONSE) < STAGING / 2, "fits the staging buffer");

struct servers {
	struct server *server;
	int epoll, cpu;
};

static void watch(int epoll, int fd, void *end)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = end };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
}

static int epoll_new(void)
{
	const int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		die("epoll_create1");
	return epoll;
}

static void *serve_all(void *arg)
{
	const struct servers *all = arg;
	struct epoll_event ev[EVENTS];

	pin(all->cpu);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		const int n = epoll_wait(all->epoll, ev, EVENTS, 0);

		for (int i = 0; i < n; i++) {
			struct server *s = ev[i].data.ptr;

			receive(&s->c);
			while (serve_one(s))
				;
			flush(&s->c);
		}
	}
	return NULL;
}

/* Run for some seconds; return the elapsed time. */
static double run_all(int epoll, double seconds)
{
	struct epoll_event ev[EVENTS];
	const double from = now();
	double at = from;

	for (unsigned turn = 0; at < from + seconds; turn++) {
		const int n = epoll_wait(epoll, ev, EVENTS, 0);

		for (int i = 0; i < n; i++) {
			struct client *cl = ev[i].data.ptr;

			receive(&cl->c);
			while (take_one(cl))
				;
			flush(&cl->c);
		}
		if (turn % 16 == 0)
			at = now();
	}
	return at - from;
}

/* Commands since the last call: of all connections, and of the slowest and the fastest one. */
struct progress {
	uint64_t sum, least, most;
};

static struct progress progressed(const struct client *client, uint64_t *before, unsigned connections)
{
	struct progress p = { .least = UINT64_MAX };

	for (unsigned i = 0; i < connections; i++) {
		const uint64_t n = client[i].finished - before[i];

		p.sum += n;
		p.least = n < p.least ? n : p.least;
		p.most = n > p.most ? n : p.most;
		before[i] = client[i].finished;
	}
	return p;
}

static void connect_all(struct servers *servers, struct client *client, int epoll, unsigned connections,
			struct histogram *histogram)
{
	uint8_t *buffers = map(connections * opt.depth * opt.block), *store = map(opt.store);

	for (unsigned i = 0; i < connections; i++) {
		struct server *s = &servers->server[i];
		int fds[2];

		connect_both(&fds[0], &fds[1]);
		conn_init(&client[i].c, fds[0]);
		conn_init(&s->c, fds[1]);
		client[i].buffers = buffers + i * opt.depth * opt.block;
		client[i].started = calloc(opt.depth, sizeof(*client->started));
		if (!client[i].started)
			die("memory");
		client[i].histogram = histogram;
		s->store = store;
		s->random = 0x9e3779b97f4a7c15ull * (i + 1);
		watch(epoll, fds[0], &client[i]);
		watch(servers->epoll, fds[1], s);
	}
}

int main(int argc, char **argv)
{
	/* static: what they point to ends with the process */
	static struct histogram histogram;
	static struct servers servers;
	static struct client *client;
	static uint64_t *before;
	const unsigned connections = argc == 5 ? (unsigned)strtoul(argv[1], NULL, 0) : 0;
	pthread_t thread;

	if (argc == 5) {
		opt.block = 4096;
		opt.random = true;
		opt.depth = (unsigned)strtoul(argv[2], NULL, 0);
		opt.seconds = strtod(argv[3], NULL);
		opt.store = strtoul(argv[4], NULL, 0);
	}
	if (!connections || connections > 20000 || !opt.depth || opt.depth > MOST_DEPTH || opt.seconds <= 0 ||
	    opt.store < opt.block) {
		fprintf(stderr, "usage: floor_many CONNECTIONS DEPTH SECONDS STORE_BYTES\n"
				"up to 20000 connections and a depth of %d\n", MOST_DEPTH);
		return 2;
	}
	client = calloc(connections, sizeof(*client));
	before = calloc(connections, sizeof(*before));
	servers = (struct servers){
		.server = calloc(connections, sizeof(*servers.server)),
		.epoll = epoll_new(),
		.cpu = processor(1),
	};
	if (!client || !before || !servers.server)
		die("memory");
	const int epoll = epoll_new();

	connect_all(&servers, client, epoll, connections, &histogram);
	if (pthread_create(&thread, NULL, serve_all, &servers))
		die("start");
	pin(processor(0));
	for (unsigned i = 0; i < connections; i++) {
		for (unsigned k = 0; k < opt.depth; k++)
			submit(&client[i]);
		flush(&client[i].c);
	}
	run_all(epoll, opt.seconds / 10);	/* not counted */
	memset(&histogram, 0, sizeof(histogram));
	progressed(client, before, connections);

	const uint64_t ticks = ticks_now();
	const double seconds = run_all(epoll, opt.seconds);
	const double us_per_tick = seconds * 1e6 / (double)(ticks_now() - ticks);
	const struct progress p = progressed(client, before, connections);

	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("{\"iops\": %.1f, \"queue_min_iops\": %.1f, \"queue_max_iops\": %.1f, \"p50_us\": %.3f, "
	       "\"p99_us\": %.3f}\n", (double)p.sum / seconds, (double)p.least / seconds, (double)p.most / seconds,
	       histogram_percentile(&histogram, 50) * us_per_tick,
	       histogram_percentile(&histogram, 99) * us_per_tick);
	return 0;
}
