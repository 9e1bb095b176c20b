/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores that are memory, mapped or empty; intended and unintended faults. */
#ifndef TESTS_STORE_CASES_MEMORY_H
#define TESTS_STORE_CASES_MEMORY_H

#include <linux/userfaultfd.h>

#include "store/fault.h"
#include "store_cases_file.h"

static unsigned resident(const struct store *store)
{
	static unsigned char pages[64 * MIB / 4096];
	unsigned count = 0;

	mincore(store->map, store->map_length, pages);
	for (size_t i = 0; i < store->map_length / 4096; i++)
		count += pages[i] & 1;
	return count;
}

/* Blocks go past the caches if these cannot hold the store: the same bytes, and nothing beside them. */
static void test_streamed(struct store_ring *ring)
{
	struct store *small = open_store("ram", NULL, MIB, 512, 0, false);
	struct store *large = open_store("ram", NULL, 16384ull * MIB, 512, 0, false);
	static uint8_t data[8192], zeroes[512];
	const size_t lengths[] = { 512, 3584, 4096, 4608, 8192 };
	bool same = true, beside = true;

	check(!store_streams(small, 4096) && store_streams(small, 32768), "ram: a small store stays in the caches");
	check(!store_streams(large, 3584) && store_streams(large, 4096), "ram: a large store does not");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251 + 1);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		const uint64_t at = i * MIB + 512;

		store_memory_write(large, at, data, lengths[i], false);
		same &= !memcmp(large->map + at, data, lengths[i]);
		beside &= !memcmp(large->map + at - 512, zeroes, 512) &&
			  !memcmp(large->map + at + lengths[i], zeroes, 512);
	}
	check(same && beside, "ram: both have the bytes, and only these (%d %d)", same, beside);
	check(!store_memory_write_unfenced(small, 0, data, 8192) && !store_memory_write_unfenced(large, 0, data, 3584) &&
	      !small->map[0] && !large->map[0], "ram: what does not go past the caches needs no fence");
	check(store_memory_write_unfenced(large, 0, data, 4096) && !memcmp(large->map, data, 4096) &&
	      !memcmp(large->map + 4096, zeroes, 512), "ram: a write without a fence is there for its thread");
	close_store(ring, small);
	close_store(ring, large);
}

/* Without a fence each, the last cache of one processor counts, as sysfs has it. */
static void test_last_cache(struct store_ring *ring)
{
	char root[] = "/tmp/store-test-XXXXXX", path[256];
	struct store *fits, *exceeds;

	if (!check(mkdtemp(root) != NULL, "a folder for sysfs"))
		return;
	snprintf(path, sizeof(path), "mkdir -p %s/devices/system/cpu/cpu0/cache/index3 && "
		 "echo 2048K > %s/devices/system/cpu/cpu0/cache/index3/size", root, root);
	check(!system(path), "sysfs with a cache of 2 MiB");
	store_sysfs = root;
	fits = open_store("ram", NULL, 2 * MIB, 512, 0, false);
	exceeds = open_store("ram", NULL, 3 * MIB, 512, 0, false);
	store_sysfs = "/sys";
	check(!store_streams_unfenced(fits, 4096) && store_streams_unfenced(fits, 32768) &&
	      store_streams_unfenced(exceeds, 4096) && !store_streams(exceeds, 4096),
	      "ram: 4 KiB go past a cache of 2 MiB if the store has more");
	close_store(ring, fits);
	close_store(ring, exceeds);

	/* The cache of a whole machine, of which this system has a few processors. */
	const unsigned long share = (unsigned long)sysconf(_SC_NPROCESSORS_ONLN) * 16 * MIB;

	snprintf(path, sizeof(path), "echo %luK > %s/devices/system/cpu/cpu0/cache/index3/size", share / 1024 * 4, root);
	check(!system(path), "sysfs with a cache of 64 MiB for each processor");
	store_sysfs = root;
	fits = open_store("ram", NULL, share, 512, 0, false);
	exceeds = open_store("ram", NULL, share + MIB, 512, 0, false);
	store_sysfs = "/sys";
	check(!store_streams_unfenced(fits, 4096) && store_streams_unfenced(exceeds, 4096),
	      "ram: 4 KiB go past the cache if the store exceeds the processors' share of it");
	close_store(ring, fits);
	close_store(ring, exceeds);
	snprintf(path, sizeof(path), "rm -r %s", root);
	check(!system(path), "and remove it");
}

static void test_ram(struct store_ring *ring)
{
	struct store *store = open_store("ram", NULL, 64 * MIB + 100, 512, 0, false);
	static uint8_t data[MIB];
	uint8_t byte = 9;
	unsigned before;

	check(store && store->map && store->size == 64 * MIB && store->memory_is_stable &&
	      !store->volatile_write_cache, "ram opens: \"%s\"", store->guarantee);
	check(resident(store) == 0, "ram: nothing is resident before it is written");
	memset(data, 1, sizeof(data));
	for (unsigned i = 0; i < 64; i++)
		store_memory_write(store, i * MIB, data, sizeof(data), i & 1);
	before = resident(store);
	check(!run(ring, store, STORE_DEALLOCATE, 100, 64 * MIB - 200, NULL, 0) &&
	      store->map[99] == 1 && store->map[100] == 0 && store->map[64 * MIB - 101] == 0 &&
	      store->map[64 * MIB - 100] == 1, "ram: deallocate zeroes to the byte");
	check(resident(store) <= 2 && before == 64 * MIB / 4096,
	      "ram: and gives memory back (%u pages, then %u)", before, resident(store));
	store->pinned = true;
	store_memory_write(store, 0, data, sizeof(data), false);
	before = resident(store);
	check(!run(ring, store, STORE_WRITE_ZEROES, 0, 8 * MIB, NULL, STORE_IO_DEALLOCATE) &&
	      !store->map[0] && resident(store) >= before, "ram: but not where it is pinned");
	store->pinned = false;
	check(!store_memory_write(store, 3, &byte, 1, true) && store->map[3] == 9 &&
	      !store_memory_flush(store) && !store_memory_check(store, 0, 64 * MIB),
	      "ram: in place");
	check(store_resize(store, 128 * MIB, err, sizeof(err)) == -ENOTSUP,
	      "ram: does not grow: \"%s\"", err);
	check(!store_resize(store, MIB, err, sizeof(err)) && store->size == MIB, "ram: shrinks");
	store_memory_write(store, MIB + 512, data, 512, false);	/* that began before */
	check(!store_resize(store, 2 * MIB, err, sizeof(err)) && store->size == 2 * MIB && !store->map[MIB + 512],
	      "ram: grows back, with zeroes");
	test_model(ring, store);
	test_queue(ring, store);
	test_chain(ring, store);
	close_store(ring, store);
}

static void test_null(struct store_ring *ring)
{
	struct store *store = open_store("null", NULL, MIB, 4096, 0, false);
	uint8_t area[4096];

	memset(area, 1, sizeof(area));
	check(!run(ring, store, STORE_WRITE, 0, 4096, area, 0) &&
	      !run(ring, store, STORE_READ, 0, 4096, area, 0) && !area[0] && !area[4095] &&
	      !run(ring, store, STORE_FLUSH, 0, 0, NULL, 0) &&
	      !run(ring, store, STORE_DEALLOCATE, 0, MIB, NULL, 0), "null reads zeroes");
	check(!store_resize(store, 8192, err, sizeof(err)) && store->size == 8192, "null resizes");
	close_store(ring, store);
}

static void test_pmem(struct store_ring *ring)
{
	struct store *store = open_store("pmem", make_file(shm_folder, "pmem", 2 * MIB), 0, 4096, 0, 0);
	struct store *other = open_store("pmem", make_file(shm_folder, "other", 2 * MIB), 0, 512, 0, 0);
	static uint8_t area[8192];
	struct stat st;

	if (!check(store && other && store->map, "pmem opens: \"%s\"",
		   store ? store->guarantee : ""))
		return;
	stat(store->path, &st);
	check(st.st_blocks * 512 >= 2 * MIB, "pmem: its blocks are allocated");
	check(store->volatile_write_cache == !store->memory_is_stable, "pmem: cache as stability");
	store->streamed_unfenced = 512;
	check(!store_memory_write_unfenced(store, 0, area, 4096), "pmem: no write is without a fence");
	test_model(ring, store);
	test_queue(ring, store);
	if (!store->memory_is_stable) {
		check(store->sync_is_nothing, "pmem: a file on tmpfs is never synced");
		store->sync_is_nothing = false;	/* as if it were not on tmpfs */
		test_model(ring, store);
		test_sleep(ring, store);
		store->memory_is_stable = true;	/* the other way to write */
		test_model(ring, store);
		store->memory_is_stable = false;
		store_memory_write(store, 4096, "synced", 6, true);
		check(!store_memory_flush(store), "pmem: a flush that blocks");
		store->sync_is_nothing = true;
	}
	store_memory_write(store, 8192, "seen", 4, false);
	{
		int fd = open(store->path, O_RDONLY);

		check(pread(fd, area, 4, 8192) == 4 && !memcmp(area, "seen", 4),
		      "pmem: the file has what the map has");
		close(fd);
	}
	check(store_resize(store, 4 * MIB, err, sizeof(err)) < 0, "pmem: does not grow: \"%s\"", err);
	check(!store_memory_check(store, 0, 2 * MIB), "pmem: all of it can be read");
	if (truncate(store->path, MIB))
		check(false, "truncate: %s", strerror(errno));
	check(!store_memory_check(store, 0, MIB), "pmem: cut short, the rest can be read");
	check(store_memory_check(store, MIB - 4096, 8192) == NVME_UNRECOVERED_READ_ERROR,
	      "pmem: and what was cut is an error, not a fault");
	check(store_memory_write(store, 2 * MIB - 4096, area, 4096, true) == NVME_WRITE_FAULT &&
	      run(ring, store, STORE_READ, 0, 4096, area, 0) == NVME_UNRECOVERED_READ_ERROR &&
	      run(ring, store, STORE_WRITE, 0, 4096, area, STORE_IO_FUA) == NVME_WRITE_FAULT &&
	      run(ring, store, STORE_FLUSH, 0, 0, NULL, 0) == NVME_WRITE_FAULT &&
	      run(ring, store, STORE_WRITE_ZEROES, 0, MIB, NULL, 0) == NVME_WRITE_FAULT,
	      "pmem: from then on every request is");
	check(!store_memory_check(other, 0, 2 * MIB), "pmem: other stores notice nothing");
	if (truncate(store->path, 2 * MIB))
		check(false, "truncate: %s", strerror(errno));
	check(!store_resize(store, 0, err, sizeof(err)) && !store_memory_check(store, 0, 2 * MIB) &&
	      !memcmp(store->map + 8192, "seen", 4), "pmem: resize brings it back with its data");
	if (truncate(store->path, MIB))
		check(false, "truncate: %s", strerror(errno));
	check(store_memory_write(store, MIB + 8192, area, 8192, false) == NVME_WRITE_FAULT,
	      "pmem: a write into what was cut is an error too");
	close_store(ring, store);
	close_store(ring, other);
}

/* A plain file is not memory: its page faults would delay a reactor. */
static void test_plain_pmem(struct store_ring *ring)
{
	struct store *store = open_store("pmem", make_file(folder, "plain", 2 * MIB), 0, 4096, 0, 0);

	if (!check(store && store->volatile_write_cache, "plain file as pmem opens: \"%s\"",
		   store ? store->guarantee : ""))
		return;
	if (store->memory_is_stable)
		skip("a plain file as pmem", "the filesystem here is a DAX one");
	else
		check(!store->map && !store->deallocate, "and is not used in place");
	test_model(ring, store);
	test_queue(ring, store);
	test_sleep(ring, store);
	close_store(ring, store);
}

static int fault_handler(const struct store *store)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register where = { .range = { (uintptr_t)store->map, store->map_length },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = (int)syscall(__NR_userfaultfd, O_CLOEXEC);

	if (fd >= 0 && (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &where))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A page of the map is not delivered while nothing handles the faults: only its user waits. */
static void test_page_fault(struct store_ring *ring)
{
	enum { COUNT = 3 };
	static const enum store_op ops[COUNT] = { STORE_WRITE, STORE_READ, STORE_WRITE_ZEROES };
	struct store *store = open_store("pmem", make_file(shm_folder, "fault", 2 * MIB), 0, 4096, 0, 0);
	struct store *other = open_store("file", make_file(folder, "f", MIB), 0, 4096, 0, false);
	static uint8_t area[4096];
	struct request requests[COUNT] = { 0 };
	struct uffdio_zeropage zero = { .range.len = 2 * MIB };
	int fd;

	fallocate(store->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * MIB);
	fd = store_touch_init(store) ? -1 : fault_handler(store);
	if (fd < 0) {
		skip("a page fault that waits", "userfaultfd is not permitted");
	} else {
		zero.range.start = (uintptr_t)store->map;
		check(!store_memory_ready(store, 4095, 2), "no page is known to be mapped at first");
		for (unsigned i = 0; i < COUNT; i++) {
			requests[i].io = (struct store_io){ .op = ops[i], .done = on_done,
							    .offset = i * MIB / 2, .buffer = area,
							    .length = 4096 };
			store_submit(ring, store, &requests[i].io);
		}
		for (unsigned i = 0; i < 50; i++)
			check(!run(ring, other, STORE_FLUSH, 0, 0, NULL, 0), "another store answers");
		check(!requests[0].calls && !requests[1].calls && !requests[2].calls,
		      "while page faults wait");
		ioctl(fd, UFFDIO_ZEROPAGE, &zero);
		for (unsigned i = 0; i < COUNT; i++)
			check(wait_for(ring, &requests[i].calls) && !requests[i].status,
			      "and go on when their page is there");
		check(store_memory_ready(store, 0, 4096) && !store_memory_ready(store, 0, 4097) &&
		      !store_memory_ready(store, MIB - 4096, 4096), "which is known from then on");
		close(fd);
		test_model(ring, store);
		test_queue(ring, store);
	}
	close_store(ring, store);
	close_store(ring, other);
}

static int unrelated_fault(void)
{
	const char *path = make_file(folder, "unrelated", 4096);
	int fd = open(path, O_RDWR);
	volatile char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct store *store;

	signal(SIGBUS, SIG_DFL);	/* ASan's would report it */
	store = open_store("pmem", make_file(shm_folder, "guarded", MIB), 0, 4096, 0, false);
	if (!store || ftruncate(fd, 0))
		return 2;
	map[0] = 1;
	return 3;
}

static void test_unrelated_fault(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(unrelated_fault());
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS,
	      "a fault in somebody else's map ends the process (status %#x)", status);
}

static void test_persist_copy(void)
{
	static uint8_t to[1024], from[1024];
	bool good = true;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (size_t at = 0; at < 70; at++)
		for (size_t length = 0; length < 300; length += 1 + length / 9) {
			memset(to, 0, sizeof(to));
			store_persist_copy(to + at, from + 3, length);
			good &= !memcmp(to + at, from + 3, length) && !to[at + length] &&
				(!at || !to[at - 1]);
		}
	check(good, "non-temporal copies of every alignment and length");
}

static void test_fault(struct store_ring *ring)
{
	struct store_fault_options eio = { .ops = 1 << STORE_READ, .offset = 8192, .length = 4096,
					   .status = NVME_UNRECOVERED_READ_ERROR };
	struct store_fault_options late = { .after = 1, .count = 1, .delay_us = 20000 };
	struct store_fault_options both = { .ops = 1 << STORE_FLUSH, .delay_us = 1000,
					    .status = NVME_WRITE_FAULT };
	struct store *store = store_fault(open_store("ram", NULL, MIB, 4096, 0, false), &eio);
	static uint8_t area[8192];
	uint64_t before;

	check(store && !store->map && store->size == MIB, "fault: a filter has no map");
	check(run(ring, store, STORE_READ, 8192, 4096, area, 0) == NVME_UNRECOVERED_READ_ERROR &&
	      run(ring, store, STORE_READ, 4096, 8192, area, 0) == NVME_UNRECOVERED_READ_ERROR &&
	      !run(ring, store, STORE_READ, 4096, 4096, area, 0) &&
	      !run(ring, store, STORE_WRITE, 8192, 4096, area, 0) && store_fault_hits(store) == 2,
	      "fault: a range fails for one op");
	store_fault_set(store, &late);
	run(ring, store, STORE_READ, 0, 4096, area, 0);
	before = clock_ns();
	check(!run(ring, store, STORE_READ, 0, 4096, area, 0) && clock_ns() - before > 19000000,
	      "fault: one is late, and done");
	before = clock_ns();
	check(!run(ring, store, STORE_READ, 0, 4096, area, 0) && store_fault_hits(store) == 1,
	      "fault: and those after it are not");
	store_fault_set(store, &both);
	check(run(ring, store, STORE_FLUSH, 0, 0, NULL, 0) == NVME_WRITE_FAULT,
	      "fault: a flush is late and fails");
	store_fault_set(store, NULL);
	test_model(ring, store);
	close_store(ring, store);
	store = store_fault(open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false), NULL);
	test_model(ring, store);
	close_store(ring, store);
}

#endif
