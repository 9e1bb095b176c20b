/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole blocks: hosts that read and write the same few blocks at the same time, on every store, on one reactor and on
 * two.  Every block of every write is filled with one 64-bit word that no other write has, so a block with two
 * different words is torn.
 *
 * Three kinds of mixture are checked: in the result of a Read, in the blocks after all writers have ended, and in a
 * Read whose frames the socket did not take at once.
 *
 * usage: target_torn_test [-v] [READS]
 */
#include "target_raw_host.h"

enum {
	BLOCK = 4096,
	WORDS = BLOCK / 8,
	HOT = 4,		/* blocks used by all */
	LONG = 32,		/* blocks of a long command, with the hot ones in its middle */
	LONG_LBA = 8,
	HOT_LBA = LONG_LBA + LONG / 2,
	DEPTH = 24,
	TORN_QUEUES = 4,
};

struct load {
	struct queue *q;
	bool writes, longs;
	uint16_t cid[DEPTH];
	uint64_t done, torn;
};

static uint64_t word;

static uint32_t slot_at(const struct load *l, unsigned slot)
{
	return slot * (l->longs ? LONG : 1) * BLOCK;
}

static void fill(uint8_t *block)
{
	uint64_t value = ++word;

	for (unsigned i = 0; i < WORDS; i++)
		memcpy(block + 8 * i, &value, 8);
}

static bool whole(const uint8_t *block)
{
	return !memcmp(block, block + 8, BLOCK - 8);
}

static void load_send(struct load *l, unsigned slot)
{
	static uint32_t x = 1;
	uint32_t blocks = l->longs ? LONG : 1, at = slot_at(l, slot);
	uint64_t lba = l->longs ? LONG_LBA : HOT_LBA + (x = x * 1664525u + 1013904223u) / 65536 % HOT;
	struct nvme_sqe sqe = sqe_new(l->q, l->writes ? NVME_OPC_WRITE : NVME_OPC_READ, at,
				      blocks * BLOCK);

	sqe.cdw10 = (uint32_t)lba;
	sqe.cdw12 = blocks - 1;
	for (uint32_t i = 0; l->writes && i < blocks; i++)
		fill(l->q->memory + at + i * BLOCK);
	l->cid[slot] = sqe.cid;
	queue_send(l->q, &sqe, NULL, 0);
}

/* Check completed commands and send them again; returns their number. */
static unsigned load_turn(struct load *l, bool again)
{
	uint32_t blocks = l->longs ? LONG : 1;
	unsigned ended = 0;

	for (unsigned slot = 0; slot < DEPTH; slot++) {
		if (!l->cid[slot] || !l->q->done[l->cid[slot]])
			continue;
		if (l->q->cqe[l->cid[slot]].status)
			l->torn += 1u << 30;	/* a command that failed */
		for (uint32_t i = 0; !l->writes && i < blocks; i++)
			l->torn += !whole(l->q->memory + slot_at(l, slot) + i * BLOCK);
		l->done++;
		ended++;
		l->cid[slot] = 0;
		if (again)
			load_send(l, slot);
	}
	return ended;
}

static bool load_idle(const struct load *l)
{
	for (unsigned slot = 0; slot < DEPTH; slot++)
		if (l->cid[slot])
			return false;
	return true;
}

static bool loads_idle(struct load *loads, unsigned count)
{
	bool idle = true;

	for (unsigned i = 0; i < count; i++) {
		load_turn(&loads[i], false);
		idle &= load_idle(&loads[i]);
	}
	return idle;
}

/* Check the hot blocks when all commands have ended. */
static unsigned torn_at_rest(struct queue *q)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_READ, 0, LONG * BLOCK);
	unsigned torn = 0;

	sqe.cdw10 = LONG_LBA;
	sqe.cdw12 = LONG - 1;
	CHECK(!queue_run(q, &sqe, NULL, 0), "what is at rest can be read");
	for (unsigned i = 0; i < LONG; i++)
		torn += !whole(q->memory + i * BLOCK);
	return torn;
}

static void hammer(struct load *loads, unsigned count, uint64_t reads)
{
	for (unsigned i = 0; i < count; i++)
		for (unsigned slot = 0; slot < DEPTH; slot++)
			load_send(&loads[i], slot);
	for (;;) {
		uint64_t done = UINT64_MAX;

		lab_turn();
		for (unsigned i = 0; i < count; i++) {
			load_turn(&loads[i], true);
			if (!loads[i].writes && loads[i].done < done)
				done = loads[i].done;
			if (loads[i].q->lost) {
				CHECK(false, "a connection was lost");
				return;
			}
		}
		if (done >= reads)
			break;
	}
	CHECK(LAB_UNTIL(loads_idle(loads, count)), "all commands end");
}

static void case_torn(const char *name, unsigned reactors, uint64_t reads, bool longs)
{
	struct load loads[TORN_QUEUES] = { 0 };
	uint64_t torn = 0, done = 0;
	unsigned rest;

	/* One writer and one reader on each reactor. */
	for (unsigned i = 0; i < TORN_QUEUES; i++) {
		struct queue *q = queue_new(1, 32, 0);

		q->reactor = i % reactors;
		if (!CHECK(queue_dial(q) && !queue_connect_command(q), "a queue"))
			return;
		loads[i].q = q;
		loads[i].writes = i / 2 == 0;
		loads[i].longs = longs && i == TORN_QUEUES - 1;
	}
	hammer(loads, TORN_QUEUES, reads);
	for (unsigned i = 0; i < TORN_QUEUES; i++) {
		torn += loads[i].torn;
		done += loads[i].writes ? 0 : loads[i].done;
	}
	rest = torn_at_rest(loads[0].q);
	CHECK(!torn && !rest, "%s, %u reactors%s: of %llu Reads %llu blocks torn, %u at rest", name,
	      reactors, longs ? ", long Reads" : "", (unsigned long long)done,
	      (unsigned long long)torn, rest);
	for (unsigned i = 0; i < TORN_QUEUES; i++)
		queue_close(loads[i].q);
}

/* Bursts of writes to one block from both reactors: the last content is one of them. */
static void case_rest(const char *name, unsigned bursts)
{
	struct load loads[2] = { 0 };
	unsigned torn = 0;

	for (unsigned i = 0; i < 2; i++) {
		loads[i].q = queue_new(1, 32, 0);
		loads[i].q->reactor = i;
		loads[i].writes = true;
		if (!CHECK(queue_dial(loads[i].q) && !queue_connect_command(loads[i].q), "a queue"))
			return;
	}
	for (unsigned burst = 0; burst < bursts; burst++) {
		for (unsigned slot = 0; slot < DEPTH; slot++)
			for (unsigned i = 0; i < 2; i++)
				load_send(&loads[i], slot);
		if (!LAB_UNTIL(loads_idle(loads, 2)))
			break;
		torn += torn_at_rest(loads[burst & 1].q);
	}
	CHECK(!torn, "%s: %u blocks torn at rest after %u bursts of writes", name, torn, bursts);
	for (unsigned i = 0; i < 2; i++)
		queue_close(loads[i].q);
}

/* ---- a host that lets its socket fill ---- */

enum { STALLED_READS = 120, STALLED_BYTES = LONG * BLOCK, STALLED_ROUNDS = 4,
       STALLED_SPURT = 10 /* FPDUs */ };

static uint8_t *stalled_data;

/*
 * Receive FPDUs until all responses are here; the data of read i is at i * STALLED_BYTES.  They are received in
 * spurts, so that the socket is repeatedly full, while the writer continues.
 */
static unsigned stalled_drain(struct raw_host *h, struct load *writer)
{
	static uint8_t frame[FPDU_MAX];
	unsigned responses = 0, spurt = 0;

	while (responses < STALLED_READS) {
		uint8_t *p = frame;
		uint32_t size, ulpdu;

		if (recv(h->fd, p, FPDU_LEN, MSG_WAITALL) != FPDU_LEN)
			break;
		if (++spurt % STALLED_SPURT == 0) {
			lab_turns(1);
			load_turn(writer, true);
		}
		ulpdu = iw_get16(p);
		size = fpdu_size(ulpdu);
		if (recv(h->fd, p + FPDU_LEN, size - FPDU_LEN, MSG_WAITALL) !=
		    (ssize_t)(size - FPDU_LEN))
			break;
		if (iw_get16(p + OFF_CTRL) & DDP_TAGGED)
			memcpy(stalled_data + iw_get64(p + OFF_TO), p + FPDU_TAGGED,
			       ulpdu + FPDU_LEN - FPDU_TAGGED);
		else
			responses++;
	}
	return responses;
}

/* Reads for which its socket has no room, with a queue on each reactor that writes all of their blocks meanwhile. */
static bool stalled_begin(struct raw_host *h, struct load *writer, unsigned reactor)
{
	struct target_qpair_stats stats;

	writer->q = queue_new(1, 32, 0);
	writer->q->reactor = reactor;
	writer->writes = writer->longs = true;
	if (!CHECK(queue_dial(writer->q) && !queue_connect_command(writer->q), "a queue that writes") ||
	    !CHECK(raw_open(h, 1, 128) && raw_connect(h), "a host that does not read its socket"))
		return false;
	load_send(writer, 0);
	if (!LAB_UNTIL(loads_idle(writer, 1)))
		return false;
	for (unsigned i = 0; i < STALLED_READS; i++) {
		struct nvme_sqe sqe = raw_sqe(h, NVME_OPC_READ, STALLED_BYTES);

		sqe.cdw10 = LONG_LBA;
		sqe.cdw12 = STALLED_BYTES / BLOCK - 1;
		sqe.sgl.addr = (uint64_t)i * STALLED_BYTES;
		raw_capsule(h, &sqe);
	}
	if (!CHECK(LAB_UNTIL((target_qpair_stats(h->q->qp, &stats),
			      stats.commands == 1 + STALLED_READS)), "all Reads are under way"))
		return false;
	for (unsigned slot = 0; slot < DEPTH; slot++)
		load_send(writer, slot);
	lab_turns(20);
	return true;
}

/* A frame cut by a full socket continues with the same bytes with which it began. */
static void case_cut(const char *name, unsigned reactor)
{
	struct load writer = { 0 };
	struct raw_host h;
	unsigned torn = 0, responses = 0;

	for (unsigned round = 0; round < STALLED_ROUNDS; round++) {
		memset(&writer, 0, sizeof(writer));
		if (!stalled_begin(&h, &writer, reactor))
			return;
		responses += stalled_drain(&h, &writer);
		CHECK(LAB_UNTIL(loads_idle(&writer, 1)), "the writes end");
		for (unsigned i = 0; i < STALLED_READS; i++)
			for (unsigned k = 0; k < LONG; k++)
				torn += !whole(stalled_data + (size_t)i * STALLED_BYTES +
					       k * BLOCK);
		raw_close(&h, false);
		queue_close(writer.q);
	}
	CHECK(!torn && responses == STALLED_ROUNDS * STALLED_READS,
	      "%s, written on %s reactor: %u blocks torn in %u Reads that the socket cut", name,
	      reactor ? "the other" : "the same", torn, responses);
}

/* A host that never receives its data does not prevent others from writing those blocks. */
static void case_stalled(const char *name, unsigned reactor)
{
	struct load writer = { 0 };
	struct raw_host h;

	if (!stalled_begin(&h, &writer, reactor))
		return;
	CHECK(LAB_UNTIL(loads_idle(&writer, 1)), "%s: the writes end although a reader has stopped",
	      name);
	CHECK(LAB_UNTIL(h.q->closed) && strstr(h.q->reason, "did not take the data"),
	      "%s: and the reader's connection ended: %s", name, h.q->reason);
	CHECK(!writer.torn, "%s: without an error for the writer", name);
	raw_close(&h, false);
	queue_close(writer.q);
}

static void torn_stalled(const struct store_options *options, const char *name)
{
	struct target_options target = { .reactors = 2, .spin_us = 50 };
	struct store *store;

	stalled_data = malloc((size_t)STALLED_READS * STALLED_BYTES);
	lab_start(&target);
	if (lab_namespace(1, options, &store)) {
		for (unsigned reactor = 0; reactor < 2; reactor++)
			case_cut(name, reactor);
		case_stalled(name, 1);
	}
	lab_stop();
	store_close(store);
	free(stalled_data);
}

static void torn_on(const struct store_options *options, const char *name, unsigned reactors,
		    uint64_t reads)
{
	struct target_options target = { .reactors = reactors, .spin_us = 50 };
	struct store *store;

	lab_start(&target);
	if (lab_namespace(1, options, &store)) {
		case_torn(name, reactors, reads, false);
		case_torn(name, reactors, reads / 16, true);
		if (reactors == 2)
			case_rest(name, 200);
	}
	lab_stop();
	if (store)
		store_close(store);
}

/* An unlinked file in a folder; /proc/self/fd/N refers to it. */
static bool torn_file(const char *folder, char *name, size_t len)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/target_torn_XXXXXX", folder);
	fd = mkstemp(path);
	if (fd < 0)
		return false;
	unlink(path);
	if (ftruncate(fd, 4 << 20))
		return false;
	snprintf(name, len, "/proc/self/fd/%d", fd);
	return true;
}

int main(int argc, char **argv)
{
	struct store_options ram = { .kind = "ram", .size = 4 << 20, .block_size = BLOCK };
	struct store_options file = { .kind = "file", .block_size = BLOCK };
	char disk[32], memory[32];
	uint64_t reads = 20000;

	check_begin(&argc, argv);
	if (argc > 1)
		reads = strtoull(argv[1], NULL, 0);
	if (!torn_file("/var/tmp", disk, sizeof(disk)) || !torn_file("/dev/shm", memory, sizeof(memory))) {
		perror("a file");
		return 1;
	}
	for (unsigned reactors = 1; reactors <= 2; reactors++) {
		torn_on(&ram, "ram", reactors, reactors == 2 ? 6 * reads : reads);
		file.kind = "pmem";
		file.path = memory;
		torn_on(&file, "pmem", reactors, reads);
		file.kind = "file";
		torn_on(&file, "file in memory", reactors, reads / 4);
		file.path = disk;
		torn_on(&file, "file", reactors, reads / 4);
		file.direct = 1;
		torn_on(&file, "direct file", reactors, reads / 8);
		file.direct = 0;
	}
	torn_stalled(&ram, "ram");
	return check_report();
}
