/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores whose calls do not end, while others use the same ring. */
#ifndef TESTS_STORE_CASES_STUCK_H
#define TESTS_STORE_CASES_STUCK_H

#include <sys/utsname.h>

#include "store_cases_block.h"

enum { STUCK_STORES = 6, STUCK_EACH = 300 };

static struct store_io *line_io(struct store *store)
{
	static struct store_io all[4096];
	static unsigned used;
	struct store_io *io = &all[used++];

	io->op = STORE_FLUSH;
	io->store = store;
	return io;
}

static unsigned line_fill(struct store_lines *lines, struct store *store, unsigned wanted)
{
	unsigned count = 0;

	for (unsigned i = 0; i < wanted; i++)
		count += store_lines_enter(lines, line_io(store));
	return count;
}

/* The computation of shares, without an engine. */
static void test_lines(void)
{
	enum { DEPTH = 256, MANY = 40, MORE = 32 };
	struct store_lines *lines = calloc(1, sizeof(*lines));
	static struct store store[MANY], late = { .line = MANY };
	unsigned least = DEPTH, first, seen = 0;
	struct store_io *io;

	store_lines_init(lines, DEPTH);
	for (unsigned i = 0; i < MANY; i++)
		store[i].line = (uint16_t)i;
	first = line_fill(lines, &store[0], 2 * DEPTH);
	check(first == DEPTH, "alone, a store has the depth of the ring (%u)", first);
	first = line_fill(lines, &store[1], 2 * DEPTH);
	check(first >= DEPTH / 4, "the second still has a good part (%u)", first);
	for (unsigned i = 2; i < MANY; i++) {
		unsigned count = line_fill(lines, &store[i], MORE);

		least = count < least ? count : least;
	}
	check(least >= 4, "and every later one has some (%u)", least);
	check(line_fill(lines, &late, 4) == 4, "who comes last does not wait");
	for (unsigned i = 0; i < 100; i++) {	/* one of the first ends: the next from the line */
		store_lines_leave(lines, &(struct store_io){ .store = &store[0] });
		while ((io = store_lines_next(lines)))
			seen |= 1u << io->store->line % 32;
	}
	check(__builtin_popcount(seen) > 20, "places that get free go around (%#x)", seen);
	free(lines);
}

static bool kernel_punts_frozen_writes(void)
{
	struct utsname name;
	unsigned major, minor;

	/* Before 6.12, io_uring waited for a frozen filesystem in the submitting call. */
	return uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2 ||
	       major > 6 || (major == 6 && minor >= 12);
}

/* A separate filesystem on a loop device: its folder, and a descriptor with which it is frozen. */
static int make_filesystem(char *path, size_t len)
{
	char command[512], device[64];
	int fd;

	snprintf(path, len, "%s/stuck", folder);
	if ((mkdir(path, 0700) && errno != EEXIST) || mount("none", path, "tmpfs", 0, "size=40M"))
		return -1;
	snprintf(command, sizeof(command), "mkfs.ext4 -q -F '%s' 2>/dev/null",
		 make_file(path, "disk", 32 * MIB));
	if (system(command))
		return -1;
	snprintf(command, sizeof(command), "%s/disk", path);
	fd = attach_loop(command, device, sizeof(device));
	if (fd < 0)
		return -1;
	snprintf(path, len, "%s/stuck/on", folder);
	if (mkdir(path, 0700) || mount(device, path, "ext4", 0, NULL))
		return -1;
	close(fd);
	return open(path, O_RDONLY | O_DIRECTORY);
}

/* Whether a store answers.  Unlike run() it returns if the store does not. */
static bool answers(struct store_ring *ring, struct store *store, struct request *request,
		    enum store_op op, uint64_t offset, uint64_t length, uint32_t flags)
{
	static uint8_t area[4096] __attribute__((aligned(4096)));

	*request = (struct request){ .io = { .op = op, .flags = flags, .offset = offset,
					     .length = length, .buffer = area, .done = on_done } };
	store_submit(ring, store, &request->io);
	return wait_for(ring, &request->calls) && !request->status;
}

/*
 * io_uring runs the buffered writes of regular files in 64 queues, which it chooses by a hash of the inode.  A file
 * whose queue is that of a file that hangs waits with it, and no caller can see which files share one.
 */
enum { STUCK_SHARED = 4 };

/*
 * Open a store outside the filesystem that hangs, which shares no queue of the kernel with it.  Stores that do are
 * left open: they are in shared[], and their write in first[].
 */
static struct store *open_apart(struct store_ring *ring, struct store **shared, struct request *first, unsigned *count)
{
	static uint8_t area[4096] __attribute__((aligned(4096)));

	for (*count = 0; *count < STUCK_SHARED; ++*count) {
		struct request *request = &first[*count];
		uint64_t end = clock_ns() + (UINT64_C(5000000000) << *count);
		struct store *store;
		char name[16];

		snprintf(name, sizeof(name), "other%u", *count);
		store = open_store("file", make_file(folder, name, 2 * MIB), 0, 4096, 0, false);
		request->io = (struct store_io){ .op = STORE_WRITE, .length = 4096, .buffer = area, .done = on_done };
		store_submit(ring, store, &request->io);
		while (!request->calls && clock_ns() < end) {
			struct pollfd fd = { .fd = store_ring_fd(ring), .events = POLLIN };

			if (!store_ring_poll(ring))
				poll(&fd, 1, 100);
		}
		if (request->calls)
			return store;
		shared[*count] = store;
	}
	return NULL;
}

static int stuck_stores(void)
{
	struct request *requests = calloc(STUCK_STORES * STUCK_EACH, sizeof(*requests));
	static uint8_t area[4096] __attribute__((aligned(4096)));
	struct store *store[STUCK_STORES], *shared[STUCK_SHARED], *other;
	struct request one, first[STUCK_SHARED] = { 0 };
	struct store_ring *ring = store_ring_create(256, err, sizeof(err));
	unsigned failed_before = check_failures(), done = 0, good = 0, with, waiting;
	char path[160], name[16];
	int fs;

	if (!strcmp(store_ring_kind(ring), "io_uring") && !kernel_punts_frozen_writes())
		return 99;
	fs = make_filesystem(path, sizeof(path));
	if (fs < 0)
		return 99;
	for (int i = 0; i < STUCK_STORES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		store[i] = open_store(i ? "file" : "pmem", make_file(path, name, 2 * MIB), 0, 4096,
				      i % 2 ? -1 : 0, false);
	}
	if (ioctl(fs, FIFREEZE, 0))
		return 99;
	for (int i = 0; i < STUCK_STORES * STUCK_EACH; i++) {
		requests[i].io = (struct store_io){
			.op = STORE_WRITE, .flags = i % 3 ? 0 : STORE_IO_FUA, .done = on_done,
			.offset = (uint64_t)(i % 500) * 4096, .length = 4096, .buffer = area };
		store_submit(ring, store[i % STUCK_STORES], &requests[i].io);
	}
	store_ring_poll(ring);
	other = open_apart(ring, shared, first, &with);
	while (other && done < 100 &&
	       answers(ring, other, &one, done % 2 ? STORE_WRITE : STORE_READ, done * 4096ull, 4096,
		       done % 4 == 3 ? STORE_IO_FUA : 0) &&
	       answers(ring, other, &one, STORE_FLUSH, 0, 0, 0))
		done++;
	waiting = store_ring_inflight(ring) - with;
	check(done == 100 && waiting == STUCK_STORES * STUCK_EACH,
	      "%u stores hang with %u writes, and a different one answers", (unsigned)STUCK_STORES,
	      waiting);
	if (!other) {
		ioctl(fs, FITHAW, 0);
		return 1;
	}
	strcpy(path, other->path);
	close_store(ring, other);
	other = open_store("file", path, 0, 4096, -1, false);
	check(other && answers(ring, other, &one, STORE_READ, 0, 4096, 0),
	      "that one is closed, and opened again");
	ioctl(fs, FITHAW, 0);
	for (int i = 0; i < STUCK_STORES * STUCK_EACH; i++)
		good += wait_for(ring, &requests[i].calls) && !requests[i].status;
	for (unsigned i = 0; i < with; i++) {
		good += !wait_for(ring, &first[i].calls);
		store_close(shared[i]);
	}
	check(good == waiting, "and when they go on all of theirs is done (%u)", good);
	store_ring_destroy(ring);
	for (int i = 0; i < STUCK_STORES; i++)
		store_close(store[i]);
	store_close(other);
	close(fs);
	umount2(path, MNT_DETACH);
	free(requests);
	return check_failures() > failed_before;
}

#endif
