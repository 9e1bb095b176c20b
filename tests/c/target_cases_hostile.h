/* SPDX-License-Identifier: BSD-3-Clause */
/* Malicious or failed hosts: the others are unaffected, and no resources remain in use. */
#ifndef TESTS_TARGET_CASES_HOSTILE_H
#define TESTS_TARGET_CASES_HOSTILE_H

#include "target_cases_io.h"
#include "util/fetch.h"
#include "target_raw_host.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * The request, then RST, before it is accepted: the receives posted by accept are flushed to a reactor that polls all
 * the time, while the control thread frees the id.
 */
static void case_reset_before_accept(struct queue *other)
{
	unsigned refused = 0, closed = 0;

	for (unsigned i = 0; i < 300; i++) {
		struct queue *q = queue_new(3, 128, 4096);
		struct linger now = { .l_onoff = 1 };
		struct raw_host h;
		struct pollfd p = { .fd = lab.server->fd, .events = POLLIN };

		raw_request(&h, q);
		poll(&p, 1, CHECK_PATIENCE_S * 1000);
		setsockopt(h.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(h.fd);
		LAB_UNTIL(q->qp || *q->reason);
		refused += !q->qp && *q->reason;
		if (q->qp)
			closed += LAB_UNTIL(q->closed);
		queue_close(q);
	}
	CHECK(refused && refused + closed == 300,
	      "300 hosts reset before they were accepted: %u refused, %u closed", refused, closed);
	CHECK(round_trip(other, 1, 0, 64), "the other queue noticed nothing");
}

/* A host that lets the target request data that it never sends: Connect's, or a write's. */
static bool raw_stall(struct raw_host *h, bool connected, unsigned commands)
{
	struct nvme_sqe sqe;

	if (!raw_open(h, 3, 32) || (connected && !raw_connect(h)))
		return false;
	for (unsigned i = 0; i < commands; i++) {
		sqe = raw_sqe(h, connected ? NVME_OPC_WRITE : NVME_OPC_FABRICS,
			      connected ? 65536 : 1024);
		if (!connected)
			sqe.nsid = NVME_FCTYPE_CONNECT;
		if (!raw_capsule(h, &sqe))
			return false;
	}
	return true;
}

/*
 * Many hosts that hold every buffer they can get and never transfer data: before Connect they have none of the pool,
 * after it the others still make progress.
 */
static void case_hold_buffers(struct queue *other, bool connected)
{
	enum { HOSTS = 24 };
	struct raw_host h[HOSTS];
	unsigned open = 0, done = 0;

	for (unsigned i = 0; i < HOSTS; i++)
		open += raw_stall(&h[i], connected, 8);
	lab_turns(20);
	for (unsigned i = 0; i < 4; i++)
		done += round_trip(other, 1, i * 256, 256);
	CHECK(open == HOSTS && done == 4,
	      "%u hosts that never send %s: another works", open,
	      connected ? "what they write" : "Connect's data");
	for (unsigned i = 0; i < HOSTS; i++)
		raw_close(&h[i], i & 1);
}

static void *raw_drink(void *fd)
{
	static char sink[1 << 20];

	/* dropped in the kernel: the fastest possible reader */
	while (recv(*(int *)fd, sink, sizeof(sink), MSG_TRUNC) > 0)
		;
	return NULL;
}

/* A host that requests a gigabyte at once and reads it at full speed does not monopolise the reactor. */
static void case_greedy_reader(struct queue *other)
{
	enum { READS = 512, SIZE = 1 << 20 };
	struct raw_host h;
	struct nvme_sqe sqe;
	pthread_t thread;
	struct target_qpair_stats stats = { 0 };
	unsigned rounds = 0;
	bool ok = raw_open(&h, 3, READS) && raw_connect(&h);

	pthread_create(&thread, NULL, raw_drink, &h.fd);
	for (unsigned i = 0; i < READS; i++) {
		sqe = raw_sqe(&h, NVME_OPC_READ, SIZE);
		ok &= raw_capsule(&h, &sqe);
	}
	do {
		ok = ok && !run_io(other, 1, NVME_OPC_READ, 0, 8, 0);
		rounds++;
		if (ok)
			target_qpair_stats(h.q->qp, &stats);
	} while (ok && stats.outstanding && rounds < 10000);
	CHECK(ok, "a greedy reader: %u reads of another meanwhile", rounds);
	shutdown(h.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	raw_close(&h, false);
}

enum { FLOODERS = 6 };

struct flood {
	struct raw_host h[FLOODERS];
	_Atomic bool stop;
};

/* An endless series of valid frames without effect: zero-length WRITEs. */
static void *flood(void *arg)
{
	struct flood *f = arg;
	static uint8_t frames[8192][FPDU_TAGGED + FPDU_CRC];

	for (unsigned i = 0; i < 8192; i++)
		fpdu_put_tagged(frames[i], RDMAP_WRITE, true, 0, 0, 0);
	while (!atomic_load(&f->stop)) {
		for (unsigned i = 0; i < FLOODERS; i++) {
			static size_t at[FLOODERS];
			ssize_t n = send(f->h[i].fd, (uint8_t *)frames + at[i], sizeof(frames) - at[i],
					 MSG_NOSIGNAL | MSG_DONTWAIT);

			at[i] = n > 0 ? (at[i] + (size_t)n) % sizeof(frames) : at[i];
		}
	}
	return NULL;
}

/* They get only their share of the reactor. */
static void case_flood(struct queue *other)
{
	struct flood f = { 0 };
	pthread_t thread;
	bool ok = true;

	for (unsigned i = 0; i < FLOODERS; i++)
		ok &= raw_open(&f.h[i], 3, 32) && raw_connect(&f.h[i]);
	pthread_create(&thread, NULL, flood, &f);
	usleep(100000);
	for (unsigned i = 0; i < 50; i++) {
		ok &= !run_io(other, 1, NVME_OPC_READ, 0, 8, 0);
	}
	CHECK(ok, "%u that flood: another's reads are answered", (unsigned)FLOODERS);
	atomic_store(&f.stop, true);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < FLOODERS; i++)
		raw_close(&f.h[i], false);
}

/* Memory is fetched ahead before a command is checked: an address beyond all memory must not be computed. */
static void case_far_blocks(struct queue *q)
{
	static const uint64_t far[] = { UINT64_MAX, UINT64_MAX - 0xffff, 1ull << 54, 1ull << 55, (32 << 20) / 512 };
	const uint32_t blocks[] = { 1, 65536 };
	const bool waits = fetch_waits;

	fetch_waits = true;	/* on other processors, fewer addresses are computed ahead */
	for (unsigned i = 0; i < 2 * sizeof(far) / sizeof(far[0]); i++) {
		uint64_t slba = far[i / 2];
		uint32_t nlb = blocks[i % 2];
		int read = run_io(q, 1, NVME_OPC_READ, slba, nlb, 0), written = run_io(q, 1, NVME_OPC_WRITE, slba, nlb, 0);

		CHECK(read == (NVME_LBA_OUT_OF_RANGE | NVME_DNR) && written == read, "%u blocks from %#llx: %#x, %#x",
		      nlb, (unsigned long long)slba, read, written);
	}
	fetch_waits = waits;
	CHECK(run_io(q, 0x7fffffff, NVME_OPC_READ, 0, 8, 0) == (NVME_INVALID_NAMESPACE | NVME_DNR), "a far namespace");
}

static void test_hostile(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 1000000, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store *store;
	struct queue *q;

	lab_start(&options);
	lab_namespace(1, &ram, &store);
	q = queue_open(1, 64, 4096);
	case_reset_before_accept(q);
	case_hold_buffers(q, false);
	case_hold_buffers(q, true);
	case_far_blocks(q);
	case_greedy_reader(q);
	case_flood(q);
	queue_close(q);
	lab_stop();
	store_close(store);
}

#endif
