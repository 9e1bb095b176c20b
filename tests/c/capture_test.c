/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of captures: several threads record at once, a reader that stops makes them lose packets but never
 * wait, and what is lost is counted.  Work on devices that do not show their packets becomes frames.
 */
#include "check.h"

#include "capture/capture.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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

static void *record_when_on(void *thread)
{
	while (!capture_on())
		sched_yield();
	return record(thread);
}

struct seen {
	uint64_t packets, whole, wrong, dropped, expected;
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

static void see_block(void *to, const uint8_t *b, uint32_t size)
{
	const uint32_t kind = word(b);
	struct seen *s = to;

	if (word(b + size - 4) != size)
		s->wrong++;
	else if (kind == 6)
		see_packet(s, b);
	else if (kind == 5)
		memcpy(&s->dropped, b + 36, 8);
	else if (kind != 1 && kind != 0x0a0d0d0a)
		s->wrong++;
}

/* Pass on every block that arrives until done() is true of what they were added to, or no further data arrives. */
static void read_blocks(int fd, void *to, void (*see)(void *to, const uint8_t *block, uint32_t size),
			bool (*done)(const void *to))
{
	static uint8_t buf[8 * OUT];
	uint32_t have = 0;

	while (!done(to)) {
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
			see(to, buf + at, word(buf + at + 4));
			at += word(buf + at + 4);
		}
		memmove(buf, buf + at, have - at);
		have -= at;
	}
}

static bool all_seen(const void *to)
{
	const struct seen *s = to;

	return s->packets + s->dropped >= s->expected;
}

static void read_all(int fd, struct seen *s, uint64_t expected)
{
	s->expected = expected;
	for (int i = 0; i < THREADS; i++)
		s->last[i] = -1;
	read_blocks(fd, s, see_block, all_seen);
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

/* early: the threads exist before the capture, and notice its beginning by themselves, as those of devices do. */
static void many_threads(bool reads, bool early)
{
	pthread_t threads[THREADS];
	struct seen s = { 0 };
	char why[256] = "";
	int fd;

	for (uintptr_t i = 0; early && i < THREADS; i++)
		pthread_create(&threads[i], NULL, record_when_on, (void *)i);
	fd = begin();
	CHECK(capture_on());
	CHECK(capture_start(name, why, sizeof(why)) == -EBUSY);
	CHECK_HAS(why, "is running");
	for (uintptr_t i = 0; !early && i < THREADS; i++)
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

/* ---- work ---- */

enum { IP_TCP = 40, MPA_REQUEST = 20 + 4, WRITE_BYTES = 150000, SEND_BYTES = 64 + 70000, TAGGED = 16, UNTAGGED = 20 };

struct frames {
	uint32_t packets, comments, requests, sends, writes, last, ends;
	uint64_t write_to;		/* address of the next WRITE */
	uint32_t offset;		/* of the next frame of the Send */
	uint32_t wrong;
};

static uint32_t net16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t net32(const uint8_t *p)
{
	return net16(p) << 16 | net16(p + 2);
}

static void see_fpdu(struct frames *f, const uint8_t *fpdu, uint32_t size)
{
	const uint32_t control = net16(fpdu + 2), length = net16(fpdu) + 2;
	const bool tagged = control & 0x8000;
	const uint8_t *payload = fpdu + (tagged ? TAGGED : UNTAGGED);
	const uint32_t n = length - (tagged ? TAGGED : UNTAGGED);

	f->wrong += size != length + (-length & 3u) + 4;
	f->last += !!(control & 0x4000);
	if (tagged) {
		f->writes++;
		f->wrong += net32(fpdu + 4) != 0x1234 || net32(fpdu + 12) != (uint32_t)f->write_to;
		for (uint32_t i = 0; i < n; i++)
			f->wrong += payload[i] != (uint8_t)((f->write_to + i) * 7);
		f->write_to += n;
	} else {
		f->sends++;
		f->wrong += net32(fpdu + 12) != 1 || net32(fpdu + 16) != f->offset;
		for (uint32_t i = 0; i < n; i++)
			f->wrong += payload[i] != (uint8_t)((f->offset + i) * 3);
		f->offset += n;
	}
}

static void see_frame(struct frames *f, const uint8_t *b, uint32_t size)
{
	static const char said[] = "synthesised";
	const uint32_t kept = word(b + 20), flags = b[28 + 33];
	const uint8_t *data = b + 28 + IP_TCP, *options = b + 28 + ((kept + 3) & ~3u);

	f->packets++;
	f->wrong += kept != word(b + 24);
	f->comments += size > (uint32_t)(options - b) + 16 && !memcmp(options + 4, said, sizeof(said) - 1);
	if (flags & 1)
		f->ends++;
	else if (kept == IP_TCP + MPA_REQUEST && !memcmp(data, "MPA ID Req Frame", 16))
		f->requests++;
	else if (kept > IP_TCP)
		see_fpdu(f, data, kept - IP_TCP);
}

static void see_work(void *to, const uint8_t *b, uint32_t size)
{
	if (word(b) == 6)
		see_frame(to, b, size);
}

static bool ended(const void *to)
{
	const struct frames *f = to;

	return f->ends;
}

/* A request, a Send and an RDMA WRITE that need several records and frames, whose data is in two parts. */
static void work(void)
{
	static uint8_t send[SEND_BYTES], written[WRITE_BYTES];
	const struct sockaddr_in local = end(2000), peer = end(4420);
	const struct sockaddr unix_end = { .sa_family = AF_UNIX };
	const struct capture_ends ends = { (const struct sockaddr *)&local, (const struct sockaddr *)&peer, false };
	const struct capture_ends foreign = { &unix_end, &unix_end, false };
	const struct capture_place to = { 1000, 0x1234 };
	const struct iovec sent[] = { { send, 64 }, { send + 64, SEND_BYTES - 64 } };
	const struct iovec data[] = { { written, 1 }, { written + 1, 0 }, { written + 1, WRITE_BYTES - 1 } };
	struct frames f = { .write_to = to.address };
	int fd;

	check_section("work");
	for (uint32_t i = 0; i < SEND_BYTES; i++)
		send[i] = (uint8_t)(i * 3);
	for (uint32_t i = 0; i < WRITE_BYTES; i++)
		written[i] = (uint8_t)((to.address + i) * 7);
	fd = begin();
	capture_message(&foreign, CAPTURE_REQUEST, true, "1234", 4);	/* not of IP: not recorded */
	capture_message(&ends, CAPTURE_REQUEST, true, "1234", 4);
	capture_send(&ends, true, sent, 2, NULL);
	capture_write(&ends, true, to, data, 3);
	capture_closed(&ends, true);
	capture_send(&ends, true, sent, 1, NULL);	/* after the end: left out */
	read_blocks(fd, &f, see_work, ended);
	CHECK(!f.wrong, "(%u)", f.wrong);
	CHECK(f.requests == 1);
	CHECK(f.offset == SEND_BYTES && f.sends > 2, "(%u bytes, %u frames)", f.offset, f.sends);
	CHECK(f.write_to == to.address + WRITE_BYTES && f.writes > 2, "(%u frames)", f.writes);
	CHECK(f.last == 2, "(%u: of the Send, and of the WRITE)", f.last);
	CHECK(f.comments == f.packets && f.packets == 3 + 1 + f.sends + f.writes + 1, "(%u of %u)", f.comments,
	      f.packets);
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
	check_section("threads that were there before the first capture");
	many_threads(true, true);
	check_section("a reader");
	many_threads(true, false);
	check_section("a reader that stops");
	many_threads(false, false);
	check_section("again");
	many_threads(true, false);
	work();
	child();
	nobody_listens();
	return check_report();
}
