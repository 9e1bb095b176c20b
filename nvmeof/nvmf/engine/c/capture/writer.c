/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that empties the ring into a socket, as pcapng.  It exists while something is captured, and ends the
 * capture when the reader has closed the socket.  Control calls: any thread, under the lock.
 */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	OUT = 1 << 20,			/* bytes collected for a send */
	IDLE_NS = 2000000,
	FINISH_TRIES = 1000,		/* pauses of IDLE_NS at the end of the process */
	BLOCK_SHB = 0x0a0d0d0a,
	BLOCK_IDB = 1,
	BLOCK_ISB = 5,
	BLOCK_EPB = 6,
	LINK_RAW = 101,			/* packets begin with the IP header */
	EPB_OUTBOUND = 2,
	EPB_INBOUND = 1,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool running;			/* lock: the thread has not ended */
static atomic_bool finishing;		/* the process ends */

/* the thread's own */
static int fd = -1;
static bool gone;			/* the reader */
static uint8_t out[OUT];
static uint32_t used;
static uint64_t packets, dropped_before, since;

static void flush(void)
{
	uint32_t off = 0;

	while (off < used && !gone) {
		const ssize_t n = send(fd, out + off, used - off, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			gone = true;
		else
			off += (uint32_t)n;
	}
	used = 0;
}

static void put(const void *data, uint32_t n)
{
	if (n)
		memcpy(out + used, data, n);
	used += n;
}

static void put_word(uint32_t v)
{
	put(&v, sizeof(v));
}

/* An option: code, length, value, padded to 32 bits. */
static void put_option(uint16_t code, const void *value, uint16_t n)
{
	const uint32_t zero = 0;

	put(&code, sizeof(code));
	put(&n, sizeof(n));
	put(value, n);
	put(&zero, -n & 3u);
}

static void put_section(void)
{
	static const char program[] = "nvmeof";
	const uint64_t unknown = UINT64_MAX;
	const uint8_t nanoseconds = 9;
	uint32_t begin, n;
	char name[48];

	n = 28 + 4 + 8 + 4;
	put_word(BLOCK_SHB);
	put_word(n);
	put_word(0x1a2b3c4d);
	put_word(1);			/* version 1.0 */
	put(&unknown, sizeof(unknown));
	put_option(4, program, sizeof(program) - 1);
	put_word(0);
	put_word(n);

	begin = used;
	snprintf(name, sizeof(name), "process %d", (int)getpid());
	put_word(BLOCK_IDB);
	put_word(0);
	put_word(LINK_RAW);
	put_word(0);
	put_option(2, name, (uint16_t)strlen(name));
	put_option(9, &nanoseconds, 1);
	put_word(0);
	n = used + 4 - begin;
	memcpy(out + begin + 4, &n, 4);
	put_word(n);
}

static void put_time(uint64_t when)
{
	put_word((uint32_t)(when >> 32));
	put_word((uint32_t)when);
}

static void put_packet(const struct capture_record *r, bool sent, const uint8_t *headers, uint32_t n,
		       const uint8_t *data, uint32_t stored, uint32_t length, const char *comment)
{
	const uint32_t kept = n + stored, flags = sent ? EPB_OUTBOUND : EPB_INBOUND, zero = 0;
	const uint32_t text = comment ? (uint32_t)strlen(comment) : 0, option = text ? 4 + ((text + 3) & ~3u) : 0;
	const uint32_t size = 28 + ((kept + 3) & ~3u) + option + 8 + 4 + 4;

	if (used + size > OUT)
		flush();
	put_word(BLOCK_EPB);
	put_word(size);
	put_word(0);
	put_time(r->when);
	put_word(kept);
	put_word(n + length);
	put(headers, n);
	put(data, stored);
	put(&zero, -kept & 3u);
	if (text)
		put_option(1, comment, (uint16_t)text);
	put_option(2, &flags, 4);
	put_word(0);
	put_word(size);
	packets++;
}

/* Write the numbers of recorded and of dropped packets. */
static void put_statistics(uint64_t dropped)
{
	struct timespec now;
	const uint64_t received = packets + dropped;
	const uint32_t size = 20 + 12 + 12 + 4 + 4;

	if (used + size > OUT)
		flush();
	clock_gettime(CLOCK_REALTIME, &now);
	put_word(BLOCK_ISB);
	put_word(size);
	put_word(0);
	put_time((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	put_option(4, &received, 8);
	put_option(5, &dropped, 8);
	put_word(0);
	put_word(size);
}

/* Whether the reader is still there; it never writes. */
static bool reader_there(void)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) <= 0 || !(p.revents & (POLLHUP | POLLERR | POLLRDHUP));
}

static void *write_all(void *unused)
{
	const struct timespec pause = { .tv_nsec = IDLE_NS };
	uint64_t said = 0;

	(void)unused;
	put_section();
	while (!gone) {
		struct capture_record *r = capture_ring_next();
		const uint64_t dropped = capture_ring_dropped() - dropped_before;

		if (r) {
			if (r->when >= since)	/* others were recorded at the end of an earlier capture */
				capture_packets(r, put_packet);
			capture_ring_done(r);
			continue;
		}
		if (dropped != said)
			put_statistics(said = dropped);
		flush();
		if (gone || finishing || !reader_there())
			break;
		nanosleep(&pause, NULL);
	}
	atomic_store(&capture_active, false);
	pthread_mutex_lock(&lock);
	close(fd);
	fd = -1;
	running = false;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- control ---- */

static int connect_to(const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const size_t n = strlen(name);
	int s, e;

	if (!n || n >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, name, n);
	if (name[0] == '@')
		to.sun_path[0] = 0;
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	if (!connect(s, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)))
		return s;
	e = errno;
	close(s);
	return -e;
}

static void forget_in_child(void)
{
	atomic_store(&capture_active, false);
	pthread_mutex_init(&lock, NULL);
	if (fd >= 0)
		close(fd);
	fd = -1;
	running = false;
}

static bool is_running(void)
{
	bool now;

	pthread_mutex_lock(&lock);
	now = running;
	pthread_mutex_unlock(&lock);
	return now;
}

/* The process ends: give the thread time to write the remaining records. */
static void finish(void)
{
	const struct timespec pause = { .tv_nsec = IDLE_NS };

	atomic_store(&capture_active, false);
	atomic_store(&finishing, true);
	for (int i = 0; i < FINISH_TRIES && is_running(); i++)
		nanosleep(&pause, NULL);
}

static void setup(void)
{
	pthread_atfork(NULL, NULL, forget_in_child);
	atexit(finish);
}

static int start(const char *name, char *why, size_t size)
{
	struct timespec now;
	pthread_attr_t attr;
	pthread_t thread;
	int e;

	if (running) {
		snprintf(why, size, "a capture of this process is running");
		return -EBUSY;
	}
	e = capture_ring_make();
	if (e) {
		snprintf(why, size, "no memory for the ring of the capture: %s", strerror(-e));
		return e;
	}
	fd = connect_to(name);
	if (fd < 0) {
		e = fd;
		snprintf(why, size, "cannot connect to the capturing program at %s: %s", name, strerror(-e));
		return e;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	since = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	gone = false;
	used = 0;
	packets = 0;
	dropped_before = capture_ring_dropped();
	capture_packets_begin();
	running = true;
	atomic_store(&capture_active, true);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	e = pthread_create(&thread, &attr, write_all, NULL);
	pthread_attr_destroy(&attr);
	if (e) {
		atomic_store(&capture_active, false);
		running = false;
		close(fd);
		fd = -1;
		snprintf(why, size, "cannot start the thread of the capture: %s", strerror(e));
		return -e;
	}
	return 0;
}

int capture_start(const char *name, char *why, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int e;

	pthread_once(&once, setup);
	pthread_mutex_lock(&lock);
	e = start(name, why, size);
	pthread_mutex_unlock(&lock);
	return e;
}

static void begin_from_environment(void)
{
	const char *name = getenv("NVMEOF_CAPTURE");
	char why[256];

	if (name && *name && capture_start(name, why, sizeof(why)))
		fprintf(stderr, "NVMEOF_CAPTURE: %s\n", why);
}

void capture_from_environment(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin_from_environment);
}
