/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of captures: several threads record at once, a reader that stops makes them lose packets but never
 * wait, and what is lost is counted.
 */
#include "check.h"

#include "capture/capture.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, EACH = 20000, PAYLOAD = 1500, IP_UDP = 28, OUT = 1 << 16 };

static int listener;
static char name[64];

static void listen_somewhere(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const int n = snprintf(name, sizeof(name), "@nvmeof-capture-test-%d", (int)getpid());

	memcpy(to.sun_path, name, (size_t)n);
	to.sun_path[0] = 0;
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!bind(listener, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)));
	CHECK(!listen(listener, 4));
}

static struct sockaddr_in end(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void *record(void *thread)
{
	const uint32_t number = (uint32_t)(uintptr_t)thread;
	struct sockaddr_in local = end((uint16_t)(1000 + number)), peer = end(4791);
	uint32_t payload[PAYLOAD / 4] = { number };

	for (uint32_t i = 0; i < EACH; i++) {
		payload[1] = i;
		for (uint32_t k = 2; k < PAYLOAD / 4; k++)
			payload[k] = i * 31 + k;
		capture_datagram((struct sockaddr *)&local, (struct sockaddr *)&peer, true, 0, payload,
				 sizeof(payload));
	}
	return NULL;
}

struct seen {
	uint64_t packets, whole, wrong, dropped;
	int64_t last[THREADS];
};

static uint32_t word(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void see_packet(struct seen *s, const uint8_t *b)
{
	const uint32_t kept = word(b + 20), length = word(b + 24), thread = (uint32_t)(b[28 + 20] << 8 | b[28 + 21]) - 1000;
	const uint8_t *payload = b + 28 + IP_UDP;

	s->packets++;
	if (length != IP_UDP + PAYLOAD || (kept != length && kept != IP_UDP) || thread >= THREADS) {
		s->wrong++;
		return;
	}
	if (kept == IP_UDP)
		return;
	s->whole++;
	if (word(payload) != thread || (int64_t)word(payload + 4) <= s->last[thread])
		s->wrong++;
	s->last[thread] = word(payload + 4);
	for (uint32_t k = 2; k < PAYLOAD / 4; k++)
		s->wrong += word(payload + 4 * k) != word(payload + 4) * 31 + k;
}

static void see_block(struct seen *s, const uint8_t *b, uint32_t size)
{
	const uint32_t kind = word(b);

	if (word(b + size - 4) != size)
		s->wrong++;
	else if (kind == 6)
		see_packet(s, b);
	else if (kind == 5)
		memcpy(&s->dropped, b + 36, 8);
	else if (kind != 1 && kind != 0x0a0d0d0a)
		s->wrong++;
}

/* Read until all packets have arrived, or no further data arrives. */
static void read_all(int fd, struct seen *s, uint64_t expected)
{
	static uint8_t buf[4 * OUT];
	uint32_t have = 0;

	for (int i = 0; i < THREADS; i++)
		s->last[i] = -1;
	while (s->packets + s->dropped < expected) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;
		uint32_t at = 0;

		if (poll(&p, 1, CHECK_PATIENCE_S * 1000) <= 0)
			break;
		n = read(fd, buf + have, sizeof(buf) - have);
		if (n <= 0)
			break;
		have += (uint32_t)n;
		while (have - at >= 8 && word(buf + at + 4) >= 12 && have - at >= word(buf + at + 4)) {
			see_block(s, buf + at, word(buf + at + 4));
			at += word(buf + at + 4);
		}
		memmove(buf, buf + at, have - at);
		have -= at;
	}
}

static int begin(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	char why[256] = "";
	int e;

	/* the thread of the last capture may not have seen yet that its reader has gone */
	for (int i = 0; i < CHECK_PATIENCE_S * 1000; i++) {
		e = capture_start(name, why, sizeof(why));
		if (e != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	CHECK(!e, "(%s)", why);
	return accept(listener, NULL, NULL);
}

static void many_threads(bool reads)
{
	pthread_t threads[THREADS];
	struct seen s = { 0 };
	char why[256] = "";
	int fd = begin();

	CHECK(capture_on());
	CHECK(capture_start(name, why, sizeof(why)) == -EBUSY);
	CHECK_HAS(why, "is running");
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, record, (void *)i);
	if (!reads)	/* no thread waits for the reader */
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	read_all(fd, &s, THREADS * EACH);
	if (reads)
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	CHECK(!s.wrong, "(%llu)", (unsigned long long)s.wrong);
	CHECK(s.packets + s.dropped == THREADS * EACH, "(%llu packets, %llu dropped)", (unsigned long long)s.packets,
	      (unsigned long long)s.dropped);
	CHECK(s.whole > 0);
	if (!reads) {
		CHECK(s.whole < s.packets, "(some have lost their data: the ring is smaller)");
		CHECK(s.dropped > 0);
	}
	close(fd);
}

static void child(void)
{
	struct sockaddr_in local = end(1000), peer = end(4791);
	int fd, status;
	pid_t pid;

	check_section("a child does not capture");
	fd = begin();
	pid = fork();
	if (!pid)
		_exit(capture_on());
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK(capture_on());
	capture_datagram((struct sockaddr *)&local, (struct sockaddr *)&peer, true, 0, "12345678", 8);
	close(fd);
}

static void nobody_listens(void)
{
	char why[256] = "";

	check_section("nobody listens");
	close(listener);
	for (int i = 0; i < CHECK_PATIENCE_S * 1000; i++) {
		const struct timespec pause = { .tv_nsec = 1000000 };

		if (capture_start(name, why, sizeof(why)) != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	CHECK_HAS(why, "cannot connect to the capturing program");
	CHECK(!capture_on());
	CHECK(capture_start("", why, sizeof(why)) == -ENAMETOOLONG);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	listen_somewhere();
	check_section("a reader");
	many_threads(true);
	check_section("a reader that stops");
	many_threads(false);
	check_section("again");
	many_threads(true);
	child();
	nobody_listens();
	return check_report();
}
