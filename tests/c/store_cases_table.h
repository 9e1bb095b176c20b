/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of files of a ring: its entries, that no file stays open in it, and that none is mistaken for another. */
#ifndef TESTS_STORE_CASES_TABLE_H
#define TESTS_STORE_CASES_TABLE_H

#include "rings.h"
#include "store/fault.h"
#include "store_rig.h"

#include <sys/file.h>

enum { TABLE_BYTES = MIB, TABLE_COUNT = 32 };

/*
 * A file full of this byte, and a new one: the kernel ends a ring that was destroyed a while later, and holds the lock of an
 * older file of this name until then.
 */
static struct store *table_open(const char *name, uint8_t byte, int direct)
{
	static uint8_t data[TABLE_BYTES];
	char older[256];
	const char *path;
	int fd;

	snprintf(older, sizeof(older), "%s/%s", folder, name);
	unlink(older);
	path = make_file(folder, name, TABLE_BYTES);
	fd = open(path, O_WRONLY);
	memset(data, byte, sizeof(data));
	if (pwrite(fd, data, sizeof(data), 0) != sizeof(data))
		check(false, "write %s: %s", path, strerror(errno));
	close(fd);
	return open_store("file", path, 0, 4096, direct, false);
}

static bool table_reads(struct store_ring *ring, struct store *store, uint8_t byte)
{
	static uint8_t area[4096] __attribute__((aligned(4096)));

	memset(area, 0, sizeof(area));
	return !run(ring, store, STORE_READ, 8192, sizeof(area), area, 0) && area[0] == byte &&
	       area[4095] == byte;
}

/* Closed with reads in progress: they succeed, and the next one enters it in the table again. */
static void table_in_flight(struct store_ring *ring, struct store *store, uint8_t byte)
{
	struct request *requests = calloc(TABLE_COUNT, sizeof(*requests));
	uint8_t *area = aligned_alloc(4096, TABLE_COUNT * 4096);
	bool good = true, gone;

	memset(area, 0, TABLE_COUNT * 4096);
	for (unsigned i = 0; i < TABLE_COUNT; i++) {
		requests[i].io = (struct store_io){ .op = STORE_READ, .done = on_done,
						    .offset = i * 4096, .length = 4096,
						    .buffer = area + i * 4096 };
		store_submit(ring, store, &requests[i].io);
		if (i == TABLE_COUNT / 2)
			store_ring_poll(ring);
	}
	store_ring_forget(ring, store);
	gone = !rings_have(store->path);
	for (unsigned i = 0; i < TABLE_COUNT; i++)
		good &= wait_for(ring, &requests[i].calls) && !requests[i].status &&
			area[i * 4096] == byte;
	check(good, "what is under way ends as it would have");
	check(gone, "but the table has it no longer");
	free(requests);
	free(area);
}

/* The kernel ends a ring in the background: a target that starts at once must not find the files in use. */
static void table_ends(int direct)
{
	unsigned held = 0;

	for (unsigned i = 0; i < 20; i++) {
		struct store_ring *ring = store_ring_create(64, err, sizeof(err));
		struct store *store = table_open("end", 1, direct);
		bool good = table_reads(ring, store, 1);
		char path[256];
		int fd;

		strcpy(path, store->path);
		store_ring_destroy(ring);
		store_close(store);
		fd = open(path, O_RDWR | O_CLOEXEC);
		held += !good || flock(fd, LOCK_EX | LOCK_NB);
		close(fd);
	}
	check(!held, "a ring that is destroyed holds no locks: %u of 20 do", held);
}

static void test_table(int direct)
{
	struct store_ring *ring = store_ring_create(64, err, sizeof(err));
	struct store *store = table_open("one", 1, direct), *other = table_open("two", 2, direct), *third;
	bool has = false;
	char path[256];

	check(table_reads(ring, store, 1) && table_reads(ring, other, 2), "two files are read");
	has = rings_have(store->path);
	if (has)
		check(rings_have(other->path), "and both are in the ring's table");
	else if (!strcmp(store_ring_kind(ring), "io_uring") && rings_can_hold())
		check(false, "files are registered");
	else
		skip("registered files", "io_uring's, since Linux 6.14");
	if (has)
		table_in_flight(ring, store, 1);
	check(table_reads(ring, store, 1) && has == rings_have(store->path), "it may be used again");
	strcpy(path, store->path);
	close_store(ring, store);
	check(!rings_have(path) && has == rings_have(other->path),
	      "one that is closed leaves the table, the other one stays");
	store = open_store("file", path, 0, 4096, direct, false);
	check(store && table_reads(ring, store, 1) && table_reads(ring, other, 2),
	      "and nothing holds its lock");
	/* The descriptor stays open, so that the number is not used for the next file. */
	store_close(store);
	third = table_open("three", 3, direct);
	check(table_reads(ring, third, 3) && table_reads(ring, other, 2),
	      "a store in the place of one that was not forgotten reads its own file");
	close_store(ring, third);
	third = store_fault(open_store("file", make_file(folder, "four", MIB), 0, 4096, direct, false),
			    NULL);
	check(table_reads(ring, third, 0), "a store behind a filter");
	strcpy(path, third->path);
	close_store(ring, third);
	check(!rings_have(path), "is forgotten as well");
	store_ring_destroy(ring);
	check(!rings_have(other->path), "a ring that is destroyed has no files");
	store_close(other);
	table_ends(direct);
}

#endif
