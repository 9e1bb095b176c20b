/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of RoCEv2: the rate at which this machine's loopback UDP transfers the bytes of an NVMe-oF read, between
 * two polling threads without RDMA and NVMe, with the same offloads as the device (UDP_SEGMENT, UDP_GRO), and without a
 * copy of sent data.  With "icrc" both ends compute the CRC of the data as the device does, the receiver while it
 * copies; otherwise neither does.
 *
 *   80 B request, answered by the data in packets of 4128 B and a 32 B response; acknowledgements with the requests.
 *   The data of several commands, then their responses, go together, as those of the target do.
 *
 * No more data is in flight than a socket's buffer holds; a lost packet ends the program.  Prints one JSON object.
 *
 * usage: floor_udp BLOCK_SIZE QUEUE_DEPTH SECONDS [icrc]
 */
#include "floor_common.h"
#include "host/histogram.h"
#include "roce/icrc.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	REQUEST = 80,		/* BTH 12, SQE 64, ICRC 4 */
	RESPONSE = 32,		/* BTH 12, CQE 16, ICRC 4 */
	ACK = 20,		/* BTH 12, AETH 4, ICRC 4 */
	HEADER = 28, TRAILER = 4,	/* of a packet with data: BTH 12 and RETH 16, ICRC 4 */
	MTU = 4096,
	DATA = HEADER + MTU + TRAILER,
	BURST = 14,		/* packets with data in a send, which the response may follow */
	WINDOW = 64 + BURST,	/* packets on their way to the client, responses among them */
	BATCH = 16,
	DATAGRAM = 65536,
	STORE = 1 << 28,
};

static struct {
	size_t block;
	unsigned depth;
	double seconds;
	bool icrc;
} opt;

static atomic_bool stop;

struct side {
	int fd;
	uint8_t *staging;
	void (*take)(void *owner, const uint8_t *packet, size_t len);
	void *owner;
};

/* Receive all available packets. */
static void receive(struct side *s)
{
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	_Alignas(struct cmsghdr) uint8_t control[BATCH][CMSG_SPACE(sizeof(int))];
	int n;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ s->staging + (size_t)i * DATAGRAM, DATAGRAM };
		msgs[i].msg_hdr = (struct msghdr){
			.msg_iov = &iov[i], .msg_iovlen = 1,
			.msg_control = control[i], .msg_controllen = sizeof(control[i]),
		};
	}
	n = recvmmsg(s->fd, msgs, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		const size_t len = msgs[i].msg_len;
		const struct cmsghdr *c = CMSG_FIRSTHDR(&msgs[i].msg_hdr);
		size_t segment = len;
		int value;

		if (c && c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&value, CMSG_DATA(c), sizeof(value));
			segment = (size_t)value;
		}
		for (size_t off = 0; off < len; off += segment)
			s->take(s->owner, (uint8_t *)iov[i].iov_base + off, len - off < segment ? len - off : segment);
	}
}

static void send_all(const struct side *s, struct iovec *iov, size_t n, uint16_t segment)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(segment))] = { 0 };
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	const struct msghdr h = {
		.msg_iov = iov, .msg_iovlen = n, .msg_control = control, .msg_controllen = sizeof(control),
	};

	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	while (sendmsg(s->fd, &h, 0) < 0)
		if (errno != EAGAIN && errno != ENOBUFS)
			die("send");
}

/* ---- the target's side ---- */

struct server {
	struct side side;
	uint8_t *store;
	uint64_t random;
	uint64_t asked, done;		/* commands */
	uint64_t sent, acked;		/* packets */
	size_t at, off;			/* of the command that is being answered */
	int cpu;
};

static void server_take(void *owner, const uint8_t *packet, size_t len)
{
	struct server *s = owner;

	if (len == REQUEST)
		s->asked++;
	else
		memcpy(&s->acked, packet, sizeof(s->acked));
}

/* Add up to n packets with data of the command that is being answered; returns their number. */
static int server_data(struct server *s, struct iovec *iov, int n)
{
	static uint8_t header[HEADER], trailers[BURST][TRAILER];
	int i;

	if (!s->off) {
		s->random ^= s->random << 13;
		s->random ^= s->random >> 7;
		s->random ^= s->random << 17;
		s->at = s->random % (STORE / opt.block) * opt.block;
	}
	for (i = 0; i < n && s->off < opt.block; i++) {
		/* n: what is left of the burst, each packet of which has a trailer of its own until it is sent */
		uint8_t *data = s->store + s->at + s->off, *trailer = trailers[BURST - n + i];

		if (opt.icrc) {
			const uint32_t sum = ro_crc32(ro_crc32(~0u, header, HEADER), data, MTU);

			memcpy(trailer, &sum, TRAILER);
		}
		*iov++ = (struct iovec){ header, HEADER };
		*iov++ = (struct iovec){ data, MTU };
		*iov++ = (struct iovec){ trailer, TRAILER };
		s->off += MTU;
	}
	return i;
}

/* Send one burst, whose last packet is the response to a command that it ends; then the responses to the others. */
static void server_answer(struct server *s)
{
	static uint8_t response[RESPONSE];
	struct iovec iov[3 * BURST + 1], more[BURST];
	int packets = 0, ended = 0;

	while (packets < BURST && s->done + (uint64_t)ended != s->asked) {
		packets += server_data(s, iov + 3 * packets, BURST - packets);
		if (s->off < opt.block)
			break;
		s->off = 0;
		more[ended++] = (struct iovec){ response, RESPONSE };
	}
	iov[3 * packets] = (struct iovec){ response, RESPONSE };
	send_all(&s->side, iov, (size_t)(3 * packets + (ended > 0)), DATA);
	if (ended > 1)
		send_all(&s->side, more, (size_t)(ended - 1), RESPONSE);
	s->sent += (uint64_t)(packets + ended);
	s->done += (uint64_t)ended;
}

static void *serve(void *arg)
{
	struct server *s = arg;

	pin(s->cpu);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		receive(&s->side);
		while (s->done != s->asked && s->sent - s->acked + 2 * BURST < WINDOW)
			server_answer(s);
	}
	return NULL;
}

/* ---- the host's side ---- */

struct client {
	struct side side;
	uint8_t *buffers;
	uint64_t *started;		/* ticks, by slot */
	uint64_t sent, served, finished;	/* commands, in this order; served: their data is here */
	uint64_t received, acked;	/* packets */
	size_t off;
	unsigned fresh;			/* commands to be sent */
	struct histogram histogram;
};

static void client_copy(uint8_t *to, const uint8_t *packet)
{
	uint32_t sum;

	if (!opt.icrc) {
		memcpy(to, packet + HEADER, MTU);
		return;
	}
	sum = ro_crc32_copy(ro_crc32(~0u, packet, HEADER), to, packet + HEADER, MTU, 0);
	if (memcmp(&sum, packet + HEADER + MTU, TRAILER)) {
		fprintf(stderr, "floor_udp: the CRC of a packet is wrong\n");
		exit(1);
	}
}

static void client_take(void *owner, const uint8_t *packet, size_t len)
{
	struct client *c = owner;

	c->received++;
	if (len == DATA) {
		client_copy(c->buffers + c->served % opt.depth * opt.block + c->off, packet);
		c->off += MTU;
		if (c->off == opt.block) {
			c->off = 0;
			c->served++;
		}
		return;
	}
	histogram_add(&c->histogram, ticks_now() - c->started[c->finished++ % opt.depth]);
	c->fresh++;
}

static void client_send(struct client *c)
{
	static uint8_t request[REQUEST];
	uint8_t ack[ACK] = { 0 };
	struct iovec iov[BURST + 1];
	size_t n = 0;

	if (!c->fresh && c->received == c->acked)
		return;
	for (; c->fresh && n < BURST; c->fresh--) {
		c->started[c->sent++ % opt.depth] = ticks_now();
		iov[n++] = (struct iovec){ request, REQUEST };
	}
	memcpy(ack, &c->received, sizeof(c->received));
	iov[n] = (struct iovec){ ack, ACK };
	c->acked = c->received;
	send_all(&c->side, iov, n + 1, n ? REQUEST : ACK);
}

static double run(struct client *c, double seconds)
{
	const double from = now();
	double at = from, moved = from;
	uint64_t seen = c->received;

	for (unsigned turn = 0; at < from + seconds; turn++) {
		receive(&c->side);
		client_send(c);
		if (turn % 64)
			continue;
		at = now();
		if (c->received != seen)
			moved = at;
		seen = c->received;
		if (at - moved > 5) {
			fprintf(stderr, "floor_udp: a packet was lost\n");
			exit(1);
		}
	}
	return at - from;
}

/* ---- the whole ---- */

static void open_side(struct side *s, struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int one = 1, size = 8 << 20;

	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	s->staging = map((size_t)BATCH * DATAGRAM);
	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(s->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)a, len) || getsockname(s->fd, (struct sockaddr *)a, &len))
		die("socket");
}

int main(int argc, char **argv)
{
	static struct server server = { .side.take = server_take, .side.owner = &server };
	static struct client client = { .side.take = client_take, .side.owner = &client };
	struct sockaddr_in one, two;
	pthread_t thread;

	opt.icrc = argc == 5 && !strcmp(argv[4], "icrc");

	const bool enough = argc == 4 || opt.icrc;

	opt.block = enough ? strtoul(argv[1], NULL, 0) : 0;
	opt.depth = enough ? (unsigned)strtoul(argv[2], NULL, 0) : 0;
	opt.seconds = enough ? strtod(argv[3], NULL) : 0;
	if (!opt.block || opt.block % MTU || opt.block > 4 << 20 || !opt.depth || opt.depth > 4096 || opt.seconds <= 0) {
		fprintf(stderr, "usage: floor_udp BLOCK_SIZE QUEUE_DEPTH SECONDS [icrc]; the block size in steps of 4096\n");
		return 2;
	}
	open_side(&client.side, &one);
	open_side(&server.side, &two);
	if (connect(client.side.fd, (struct sockaddr *)&two, sizeof(two)) ||
	    connect(server.side.fd, (struct sockaddr *)&one, sizeof(one)))
		die("connect");
	client.buffers = map(opt.depth * opt.block);
	client.started = calloc(opt.depth, sizeof(*client.started));
	client.fresh = opt.depth;
	server.store = map(STORE);
	server.random = 0x9e3779b97f4a7c15ull;
	server.cpu = processor(1);
	if (!client.started || pthread_create(&thread, NULL, serve, &server))
		die("start");
	pin(processor(0));
	while (client.fresh)
		client_send(&client);
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
