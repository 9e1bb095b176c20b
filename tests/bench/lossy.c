/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path with delay and loss for RoCEv2, as tc netem makes one where the kernel has it: passes the packets of one host on
 * to a target, and back, each after the delay, and drops some of them by chance.  The host connects to NEAR; FAR is the
 * address that the target sees.  Packets have other addresses behind it, so their ICRCs are computed again.  Prints a line
 * when it is ready, and ends with its standard input.
 *
 * usage: lossy TARGET NEAR FAR DELAY_US LOSS_PER_MILLE
 */
#include "floor_common.h"
#include "roce/icrc.h"
#include "roce/wire.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PACKETS = 4096,			/* on the way in a direction; a power of two */
	DATAGRAM = 65536,
	TRAIN = 15,			/* packets in a send */
	TRAIN_BYTES = 61440,
	BATCH = 8,
	NAP_US = 30,
	CLEAR_NAPS = 100,
};

struct packet {
	uint64_t due;			/* microseconds */
	uint32_t len;			/* without ICRC */
	uint8_t data[RO_PACKET_MAX];
};

struct way {
	int in, out;			/* sockets */
	struct sockaddr_in from, to;	/* of what is sent */
	struct packet *packets;
	unsigned head, tail;
	uint64_t passed, dropped, full;
};

static struct {
	uint64_t delay;
	unsigned loss;
	uint64_t random;
} opt;

static uint64_t now_us(void)
{
	return (uint64_t)(now() * 1e6);
}

static bool unlucky(void)
{
	opt.random ^= opt.random << 13;
	opt.random ^= opt.random >> 7;
	opt.random ^= opt.random << 17;
	return opt.random % 1000 < opt.loss;
}

static void put(struct way *w, const uint8_t *data, size_t len, uint64_t due)
{
	struct packet *p = &w->packets[w->head % PACKETS];

	if (len <= RO_ICRC || len > sizeof(p->data))
		return;
	if (unlucky()) {
		w->dropped++;
	} else if (w->head - w->tail == PACKETS) {
		w->full++;
	} else {
		p->due = due;
		p->len = (uint32_t)len - RO_ICRC;
		memcpy(p->data, data, p->len);
		w->head++;
	}
}

/* Receive what is there; false if nothing is.  back: the opposite way, whose packets go to the sender of these. */
static bool receive(struct way *w, struct way *back, uint8_t *staging)
{
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_in from[BATCH];
	_Alignas(struct cmsghdr) uint8_t control[BATCH][CMSG_SPACE(sizeof(int))];
	int n;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ staging + (size_t)i * DATAGRAM, DATAGRAM };
		msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &from[i], .msg_namelen = sizeof(from[i]), .msg_iov = &iov[i], .msg_iovlen = 1,
			.msg_control = control[i], .msg_controllen = sizeof(control[i]),
		};
	}
	n = recvmmsg(w->in, msgs, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		const size_t len = msgs[i].msg_len;
		const struct cmsghdr *c = CMSG_FIRSTHDR(&msgs[i].msg_hdr);
		const uint64_t due = now_us() + opt.delay;
		size_t segment = len;
		int value;

		if (c && c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&value, CMSG_DATA(c), sizeof(value));
			segment = (size_t)value;
		}
		for (size_t off = 0; off < len; off += segment)
			put(w, (uint8_t *)iov[i].iov_base + off, len - off < segment ? len - off : segment, due);
		if (!back->to.sin_family)
			back->to = from[i];
	}
	return n > 0;
}

/* Send a train of packets that are due: all of one size, the last perhaps shorter; false if none is. */
static bool send_train(struct way *w, uint8_t *buf)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	struct iovec iov = { buf, 0 };
	struct msghdr h = { .msg_name = &w->to, .msg_namelen = sizeof(w->to), .msg_iov = &iov, .msg_iovlen = 1 };
	const uint64_t at = now_us();
	struct ro_flow flow;
	uint16_t n = 0, segment = 0;
	bool closed = false;

	ro_flow_set(&flow, (struct sockaddr *)&w->from, (struct sockaddr *)&w->to);
	for (; w->tail != w->head && n < TRAIN && !closed; n++) {
		const struct packet *p = &w->packets[w->tail % PACKETS];
		const uint32_t size = p->len + RO_ICRC;
		uint8_t *to = buf + iov.iov_len;
		uint32_t icrc;

		if (p->due > at || (n && size > segment) || iov.iov_len + size > TRAIN_BYTES)
			break;
		if (!n)
			segment = (uint16_t)size;
		closed = size < segment;
		memcpy(to, p->data, p->len);
		icrc = ro_icrc(&flow, n, to, p->len);
		memcpy(to + p->len, &icrc, RO_ICRC);
		iov.iov_len += size;
		w->tail++;
	}
	if (!n)
		return false;
	if (n > 1) {
		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(segment));
		memcpy(CMSG_DATA(c), &segment, sizeof(segment));
		h.msg_control = control;
		h.msg_controllen = sizeof(control);
	}
	if (sendmsg(w->out, &h, MSG_DONTWAIT) >= 0)
		w->passed += n;
	return true;
}

static int open_socket(struct sockaddr_in *a, const char *address)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, size = 8 << 20, whole = IP_PMTUDISC_DO;

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT) };
	if (inet_pton(AF_INET, address, &a->sin_addr) != 1) {
		fprintf(stderr, "lossy: %s is not an IPv4 address\n", address);
		exit(2);
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole));
	if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof(*a)))
		die(address);
	return fd;
}

int main(int argc, char **argv)
{
	static struct way to_target, to_host;
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	const struct sched_param first = { .sched_priority = 10 };
	unsigned naps = 0;
	uint8_t *staging, *train;

	if (argc != 6) {
		fprintf(stderr, "usage: lossy TARGET NEAR FAR DELAY_US LOSS_PER_MILLE\n");
		return 2;
	}
	opt.delay = strtoul(argv[4], NULL, 0);
	opt.loss = (unsigned)strtoul(argv[5], NULL, 0);
	opt.random = 0x9e3779b97f4a7c15ull;
	to_target.in = to_host.out = open_socket(&to_host.from, argv[2]);
	to_host.in = to_target.out = open_socket(&to_target.from, argv[3]);
	to_target.to = to_target.from;
	if (inet_pton(AF_INET, argv[1], &to_target.to.sin_addr) != 1)
		die(argv[1]);
	to_target.packets = (void *)map(PACKETS * sizeof(struct packet));
	to_host.packets = (void *)map(PACKETS * sizeof(struct packet));
	staging = map((size_t)BATCH * DATAGRAM);
	train = map(TRAIN_BYTES);
	/* a network does not wait for the processors of its ends; without the privilege the delay is longer at times */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		(void)setpriority(PRIO_PROCESS, 0, -20);
	puts("ready");
	fflush(stdout);
	for (;;) {
		bool busy = receive(&to_target, &to_host, staging);

		busy |= receive(&to_host, &to_target, staging);
		while (send_train(&to_target, train) || (to_host.to.sin_family && send_train(&to_host, train)))
			busy = true;
		if (busy)
			continue;
		usleep(NAP_US);
		if (++naps % CLEAR_NAPS == 0 && poll(&input, 1, 0) == 1)
			break;
	}
	printf("{\"passed\": %llu, \"dropped\": %llu, \"full\": %llu}\n",
	       (unsigned long long)(to_target.passed + to_host.passed),
	       (unsigned long long)(to_target.dropped + to_host.dropped),
	       (unsigned long long)(to_target.full + to_host.full));
	return 0;
}
