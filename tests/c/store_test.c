/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores of every kind, through io_uring and through worker threads.
 *
 *	store_test [-v]		the checks; files are made in $TMPDIR (else /var/tmp) and /dev/shm
 *	store_test bench [FILE]	4 KiB random reads of a file through the ring, and what redo slots cost
 *
 * STORE_TEST_TRACE in the environment prints every request that fails, meant or not.
 */
#include "store_cases_block.h"
#include "store_cases_dax.h"
#include "store_cases_file.h"
#include "store_cases_memory.h"
#include "store_cases_refuse.h"
#include "store_cases_stuck.h"
#include "store_cases_table.h"

static bool is_this(const struct store_io *io, const void *arg)
{
	return io == arg;
}

#include "store_cases_python.h"

static void test_cancel(void)
{
	struct store *store = open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false);
	struct store_ring *ring = store_ring_create(1, err, sizeof(err));
	struct request requests[4] = { 0 };

	for (int i = 0; i < 4; i++) {
		requests[i].io = (struct store_io){ .op = STORE_FLUSH, .done = on_done };
		store_submit(ring, store, &requests[i].io);
	}
	check(!store_ring_waiting(ring, is_this, &requests[0].io) &&
		      store_ring_waiting(ring, is_this, &requests[2].io) == 1,
	      "with room for one the others are in line");
	store_ring_cancel(ring, is_this, &requests[0].io);
	store_ring_cancel(ring, is_this, &requests[2].io);
	store_ring_cancel(ring, is_this, &requests[2].io);
	check(requests[2].calls == 1 && requests[2].status == NVME_ABORTED_BY_REQUEST &&
		      store_ring_inflight(ring) == 3,
	      "what is in line can be cancelled, once");
	store_ring_destroy(ring);
	check(requests[0].calls == 1 && !requests[0].status && requests[1].calls == 1 &&
		      !requests[1].status && requests[2].calls == 1 && requests[3].calls == 1,
	      "and the others run");
	store_close(store);
}

static void test_engine(const char *name)
{
	struct store_ring *ring;

	/* They fork: before there are threads. */
	snprintf(context, sizeof(context), "%s", name);
	staged("a full filesystem", full_filesystem, true);
	staged("a block device", block_device, true);
	staged("stores that hang", stuck_stores, true);
	context[0] = err[0] = '\0';
	ring = store_ring_create(8, err, sizeof(err));
	if (!ring || strcmp(store_ring_kind(ring), name)) {
		skip(name, "not to be had here");
		store_ring_destroy(ring);
		return;
	}
	snprintf(context, sizeof(context), "%s: ", name);
	test_file(ring, folder, 4096, 0);
	test_file(ring, folder, 512, 0);
	test_file(ring, folder, 4096, 1);
	test_file(ring, folder, 512, 1);
	if (shm_folder[0])
		test_file(ring, shm_folder, 4096, 0);
	snprintf(context, sizeof(context), "%s", name);
	test_dax(ring);
	test_null(ring);
	test_ram(ring);
	test_streamed(ring);
	test_last_cache(ring);
	test_plain_pmem(ring);
	if (shm_folder[0]) {
		test_pmem(ring);
		test_page_fault(ring);
	}
	test_fault(ring);
	test_buffers();
	test_table(0);
	test_table(-1);
	test_threads();
	test_destroy();
	test_cancel();
	test_python_calls(ring);
	test_python_stuck(ring);
	test_python_stop();
	test_python_rings();
	context[0] = '\0';
	store_ring_destroy(ring);
}

static void bench_one(const char *path, int direct, unsigned depth)
{
	struct store *store = open_store("file", path, 0, 4096, direct, true);
	struct store_ring *ring = store_ring_create(depth, err, sizeof(err));
	struct request *requests = calloc(depth, sizeof(*requests));
	uint8_t *area = aligned_alloc(4096, depth * 4096);
	uint64_t count = 0, start, now;

	if (!store) {
		printf("%s\n", err);
		exit(1);
	}
	for (unsigned i = 0; i < depth; i++)
		requests[i].calls = 1;
	start = now = clock_ns();
	while (now - start < 2 * UINT64_C(1000000000)) {
		for (unsigned i = 0; i < depth; i++) {
			if (!requests[i].calls)
				continue;
			count++;
			requests[i].calls = 0;
			requests[i].io = (struct store_io){
				.op = STORE_READ, .done = on_done, .length = 4096,
				.offset = rnd(store->size / 4096) * 4096,
				.buffer = area + i * 4096 };
			store_submit(ring, store, &requests[i].io);
		}
		store_ring_poll(ring);
		now = clock_ns();
	}
	printf("%-14s %-10s qd %-3u %9.0f IOPS %8.2f us each\n", store_ring_kind(ring),
	       direct ? "direct" : "page cache", depth, (double)count * 1e9 / (double)(now - start),
	       (double)(now - start) / 1e3 / (double)count);
	store_ring_destroy(ring);
	store_close(store);
	free(requests);
	free(area);
}

/* 4 KiB writes to a dax device that is /dev/zero: what redo slots cost. */
static void bench_redo(bool redo)
{
	enum { COUNT = 200000 };
	struct store_options options = { .kind = "pmem", .path = "/dev/zero", .block_size = 4096,
					 .power_fail_atomic = redo };
	static uint8_t data[64][4096];
	struct store *store;
	uint64_t start;

	dax_sysfs("memory_controller");
	store = store_open(&options, err, sizeof(err));
	if (!store) {
		printf("%s\n", err);
		return;
	}
	start = clock_ns();
	for (unsigned i = 0; i < COUNT; i++)
		store_memory_write(store, i * 37 % 400 * 4096, data[i % 64], 4096, false);
	printf("%-40s %8.0f ns each\n", redo ? "pmem 4 KiB write with redo slots" : "pmem 4 KiB write",
	       (double)(clock_ns() - start) / COUNT);
	store_close(store);
}

static int bench(const char *given)
{
	enum { SIZE = 256 * MIB };
	const char *path = given ? given : make_file(folder, "bench", SIZE);
	static uint8_t data[MIB];
	int fd = open(path, given ? O_RDONLY : O_RDWR);

	memset(data, 5, sizeof(data));
	for (off_t at = 0; at < SIZE; at += MIB)
		if ((given ? pread(fd, data, MIB, at) : pwrite(fd, data, MIB, at)) <= 0)
			break;
	fsync(fd);
	close(fd);
	bench_redo(false);
	bench_redo(true);
	for (int worker = 0; worker < 2; worker++) {
		setenv("NVMF_NO_IO_URING", worker ? "1" : "0", 1);
		for (int direct = 0; direct < 2; direct++)
			for (unsigned depth = 1; depth <= 32; depth *= 32)
				bench_one(path, direct, depth);
	}
	return 0;
}

static void clean(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", folder, shm_folder);
	if (system(command))
		printf("could not remove %s\n", folder);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");

	check_begin(&argc, argv);
	snprintf(folder, sizeof(folder), "%s/store_test.XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
	strcpy(shm_folder, "/dev/shm/store_test.XXXXXX");
	if (!mkdtemp(folder)) {
		fprintf(stderr, "cannot make %s: %s\n", folder, strerror(errno));
		return 1;
	}
	if (!mkdtemp(shm_folder))
		shm_folder[0] = '\0';
	if (argc > 1 && !strcmp(argv[1], "bench")) {
		int rc = bench(argc > 2 ? argv[2] : NULL);

		clean();
		return rc;
	}
	test_refusals();
	staged("a file that may not be opened is refused", no_permission, false);
	staged("a read-only filesystem is refused, but to readers", read_only_filesystem, true);
	staged("where io_uring is forbidden, threads do it", forbidden_uring, false);
	test_persist_copy();
	if (shm_folder[0])
		test_unrelated_fault();
	unsetenv("NVMF_NO_IO_URING");
	test_lines();
	test_engine("io_uring");
	setenv("NVMF_NO_IO_URING", "1", 1);
	test_engine("worker threads");
	clean();
	return check_report();
}
