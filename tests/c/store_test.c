/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores of every kind, through io_uring and through worker threads.
 *
 *	store_test [-v]		the checks; files are made in $TMPDIR (else /var/tmp) and /dev/shm
 *	store_test bench [FILE]	4 KiB random reads of a file through the ring, printed
 *
 * STORE_TEST_TRACE in the environment prints every request that fails, meant or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "store/fault.h"
#include "store/store_internal.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static char context[128];
static char folder[128], shm_folder[64];
static char err[512];

__attribute__((format(printf, 2, 3)))
static bool check(bool ok, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return check_that(ok, "", "%s%s%s%s%s", context, context[0] ? ": " : "", text,
			  !ok && err[0] ? "; last error: " : "", !ok ? err : "");
}

static void skip(const char *what, const char *why)
{
	printf("skip %s%s%s: %s\n", context, context[0] ? ": " : "", what, why);
}

/* One request at a time, sleeping on the ring's descriptor as an idle reactor would. */
struct request {
	struct store_io io;
	int calls;
	uint16_t status;
};

static void on_done(struct store_io *io, uint16_t status)
{
	struct request *request = (struct request *)io;

	request->calls++;
	request->status = status;
}

static bool wait_for(struct store_ring *ring, const int *calls)
{
	uint64_t end = store_now() + CHECK_PATIENCE_S * UINT64_C(1000000000);

	while (!*calls && store_now() < end) {
		struct pollfd fd = { .fd = store_ring_fd(ring), .events = POLLIN };

		if (!store_ring_poll(ring) && !*calls)
			poll(&fd, 1, 5000);
	}
	return *calls == 1;
}

static uint16_t run(struct store_ring *ring, struct store *store, enum store_op op,
		    uint64_t offset, uint64_t length, void *buffer, uint32_t flags)
{
	struct request request = { .io = { .op = op, .flags = flags, .offset = offset,
					   .length = length, .buffer = buffer, .done = on_done } };

	store_submit(ring, store, &request.io);
	if (!wait_for(ring, &request.calls)) {
		check(false, "request of op %d was called back %d times", op, request.calls);
		exit(check_report());
	}
	if (getenv("STORE_TEST_TRACE") && request.status)
		printf("     op %d flags %u offset %#lx length %#lx buffer %p status %#x\n", op, flags,
		       (unsigned long)offset, (unsigned long)length, buffer, request.status);
	return request.status;
}

static const char *make_file(const char *in, const char *name, off_t size)
{
	static char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", in, name);
	fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	if (fd < 0 || ftruncate(fd, size))
		err[0] = '\0', check(false, "make %s: %s", path, strerror(errno));
	close(fd);
	return path;
}

static struct store *open_store(const char *kind, const char *path, uint64_t size, uint32_t block,
				int direct, bool read_only)
{
	struct store_options options = { .kind = kind, .path = path, .size = size,
					 .block_size = block, .direct = direct,
					 .read_only = read_only };

	err[0] = '\0';
	return store_open(&options, err, sizeof(err));
}

static void refused(struct store *store, const char *what, const char *words)
{
	check(!store && strstr(err, words), "%s is refused: \"%s\"", what, err);
	store_close(store);
}

static void test_refusals(void)
{
	const char *path;
	char copy[256];
	struct store *store;

	refused(open_store("tape", NULL, MIB, 512, 0, false), "an unknown kind", "tape");
	refused(open_store("ram", NULL, MIB, 1000, 0, false), "a block size of 1000", "512 or 4096");
	refused(open_store("ram", NULL, 100, 512, 0, false), "a ram store under a block", "too small");
	refused(open_store("ram", NULL, UINT64_C(1) << 62, 512, 0, false), "an endless ram store",
		"cannot map");
	refused(open_store("null", NULL, 0, 512, 0, false), "a null store of nothing", "too small");
	refused(open_store("file", NULL, 0, 512, 0, false), "a file store without a path", "path");
	refused(open_store("file", "/nonexistent/x", MIB, 512, 0, false), "a missing file",
		"truncate -s 1048576 /nonexistent/x");
	refused(open_store("file", folder, 0, 512, 0, false), "a directory", "a directory");
	refused(open_store("file", "/dev/null", 0, 512, 0, false), "a character device",
		"a character device");
	refused(open_store("pmem", "/dev/null", 0, 4096, 0, false), "/dev/null as pmem", "size of");
	path = make_file(folder, "small", 100);
	refused(open_store("file", path, 0, 512, 0, false), "a small file", "too small");
	refused(open_store("file", path, 4096, 512, 0, false), "a size beyond the file", "fewer than");
	path = make_file(folder, "odd", 10000);
	store = open_store("file", path, 0, 4096, 0, false);
	check(store && store->size == 8192, "a size of 10000 is rounded down to whole blocks");
	strcpy(copy, path);
	refused(open_store("file", copy, 0, 4096, 0, false), "a file served already", "served by");
	store_close(store);
	store = open_store("pmem", copy, 0, 4096, 0, true);
	err[0] = '\0';
	check(store != NULL, "read only, a file opens");
	{
		struct store *second = open_store("file", copy, 0, 4096, 0, true);

		check(second != NULL, "and opens a second time");
		store_close(second);
	}
	store_close(store);
	if (shm_folder[0])
		refused(open_store("file", make_file(shm_folder, "d", MIB), 0, 512, 1, false),
			"direct I/O on tmpfs", "direct I/O does not work");
}

/* Things only root can stage, in a child with its own mounts; 99 means it could not be staged. */
static void staged(const char *what, int (*child)(void), bool mounts)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		if (mounts && (unshare(CLONE_NEWNS) ||
			       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)))
			_exit(99);
		_exit(child());
	}
	waitpid(pid, &status, 0);
	err[0] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		skip(what, "needs root and the right to mount");
	else
		check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s (status %#x)", what,
		      status);
}

static int no_permission(void)
{
	const char *path;
	struct store *store;

	/* In a folder that others may enter, unlike ours. */
	if (getuid() || !shm_folder[0] || chmod(shm_folder, 0755))
		return 99;
	path = make_file(shm_folder, "perm", MIB);
	if (seteuid(65534))
		return 99;
	store = open_store("file", path, 0, 512, 0, false);
	if (seteuid(0))
		return 2;
	check_note("\"%s\"", err);
	return !store && strstr(err, "user 65534 may not open") ? 0 : 1;
}

static int read_only_filesystem(void)
{
	char path[160];
	struct store *store;

	snprintf(path, sizeof(path), "%s/ro", folder);
	if (mkdir(path, 0700) || mount("none", path, "tmpfs", 0, "size=1M"))
		return 99;
	strcpy(path, make_file(path, "f", 64 * KIB));
	snprintf(err, sizeof(err), "%s/ro", folder);
	if (mount(NULL, err, NULL, MS_REMOUNT | MS_RDONLY, NULL))
		return 99;
	store = open_store("file", path, 0, 512, -1, false);
	if (store || !strstr(err, "read-only"))
		return 1;
	store = open_store("file", path, 0, 512, -1, true);
	store_close(store);
	return store ? 0 : 2;
}

static int full_filesystem(void)
{
	char path[160];
	struct store_ring *ring = store_ring_create(8, err, sizeof(err));
	static uint8_t data[512 * KIB];
	struct store *store;
	uint16_t first, second, zeroes, read, pmem_refused;

	snprintf(path, sizeof(path), "%s/full", folder);
	if ((mkdir(path, 0700) && errno != EEXIST) || mount("none", path, "tmpfs", 0, "size=1M"))
		return 99;
	strcpy(path, make_file(path, "f", 4 * MIB));
	pmem_refused = !open_store("pmem", path, 0, 4096, 0, false) && strstr(err, "no room");
	store = open_store("file", path, 0, 4096, -1, false);
	memset(data, 7, sizeof(data));
	first = run(ring, store, STORE_WRITE, 0, sizeof(data), data, 0);
	run(ring, store, STORE_WRITE, MIB, sizeof(data), data, 0);
	second = run(ring, store, STORE_WRITE, 2 * MIB, sizeof(data), data, 0);
	zeroes = run(ring, store, STORE_WRITE_ZEROES, 2 * MIB, 2 * MIB, NULL, 0);
	read = run(ring, store, STORE_READ, 0, sizeof(data), data, 0);
	store_close(store);
	store_ring_destroy(ring);
	check_note("write %#x, beyond the room %#x, zeroes %#x, read %#x, pmem refused %d", first,
		   second, zeroes, read, pmem_refused);
	return first == 0 && second == NVME_CAPACITY_EXCEEDED &&
	       zeroes == NVME_CAPACITY_EXCEEDED && read == 0 && pmem_refused ? 0 : 1;
}

/* Where io_uring_setup is forbidden, as in most containers, worker threads take over. */
static int forbidden_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };
	struct store_ring *ring;
	int rc;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
		return 99;
	ring = store_ring_create(8, err, sizeof(err));
	rc = ring && !strcmp(store_ring_kind(ring), "worker threads") ? 0 : 1;
	store_ring_destroy(ring);
	return rc;
}

/* A loop device: a real block device, and one that fails once its file is cut short or full. */
static int attach_loop(const char *path, char *device, size_t len)
{
	int control = open("/dev/loop-control", O_RDWR), file = open(path, O_RDWR), loop = -1;
	struct loop_info64 info = { .lo_flags = LO_FLAGS_AUTOCLEAR };
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);

	snprintf(device, len, "/dev/loop%d", number);
	if (number >= 0)
		loop = open(device, O_RDWR);
	if (loop >= 0 && (ioctl(loop, LOOP_SET_FD, file) || ioctl(loop, LOOP_SET_STATUS64, &info))) {
		close(loop);
		loop = -1;
	}
	close(control);
	close(file);
	return loop;
}

static void test_model(struct store_ring *ring, struct store *store);

static int block_device(void)
{
	unsigned failed_before = check_failures();
	static uint8_t area[64 * KIB] __attribute__((aligned(4096)));
	struct store_ring *ring = store_ring_create(8, err, sizeof(err));
	char path[160], device[64];
	struct store *store, *second;
	uint16_t cut, direct_cut, written, flush, later, fua;
	int loop;

	snprintf(path, sizeof(path), "%s/loop", folder);
	if ((mkdir(path, 0700) && errno != EEXIST) || mount("none", path, "tmpfs", 0, "size=1M"))
		return 99;
	strcpy(path, make_file(path, "f", 512 * KIB));
	loop = attach_loop(path, device, sizeof(device));
	if (loop < 0)
		return 99;
	store = open_store("file", device, 0, 4096, -1, false);
	if (!check(store && store->direct && store->size == 512 * KIB,
		   "a block device opens: alignment %u, physical %u, deallocate %d",
		   store ? store->alignment : 0, store ? store->physical_block_size : 0,
		   store ? store->deallocate : 0))
		return 1;
	second = open_store("file", device, 0, 4096, -1, false);
	check(!second && strstr(err, "in use"), "and is refused to a second one: \"%s\"", err);
	test_model(ring, store);
	if (run(ring, store, STORE_FLUSH, 0, 0, NULL, 0) || truncate(path, 256 * KIB))
		return 2;
	direct_cut = run(ring, store, STORE_READ, 300 * KIB, 4096, area, 0);
	store_close(store);
	ioctl(loop, BLKFLSBUF);
	store = open_store("file", device, 0, 4096, 0, false);
	cut = run(ring, store, STORE_READ, 400 * KIB, 4096, area, 0);
	if (pread(loop, area, 4096, 400 * KIB) == 4096)
		skip("EIO", "this kernel's loop device reads zeroes behind the end of its file");
	else
		check(cut == NVME_UNRECOVERED_READ_ERROR && direct_cut == cut,
		      "EIO is an unrecovered read error (%#x, %#x)", cut, direct_cut);
	store_close(store);
	/* Sparse again and larger than its filesystem: writes go to the cache, and no further. */
	if (truncate(path, 0) || truncate(path, 4 * MIB) || ioctl(loop, LOOP_SET_CAPACITY))
		return 3;
	store = open_store("file", device, 0, 4096, 0, false);
	memset(area, 3, sizeof(area));
	for (written = 0; store->size && written < 48; written++)
		if (run(ring, store, STORE_WRITE, written * sizeof(area), sizeof(area), area, 0))
			break;
	flush = run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
	later = run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
	fua = run(ring, store, STORE_WRITE, 0, 4096, area, STORE_IO_FUA);
	check(written == 48 && flush == NVME_WRITE_FAULT && later == flush && fua == flush,
	      "a flush that fails is a write fault, and no later one succeeds (%u, %#x, %#x, %#x)",
	      written, flush, later, fua);
	store_close(store);
	ioctl(loop, LOOP_CLR_FD);
	close(loop);
	store_ring_destroy(ring);
	return check_failures() > failed_before;
}

/* Random operations against a model, and whatever else holds of every store that keeps data. */
static uint64_t seed = 1;
static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed % below;
}

static void test_model(struct store_ring *ring, struct store *store)
{
	uint64_t blocks = store->size / store->block_size;
	uint8_t *model = calloc(1, store->size), *area = aligned_alloc(4096, MIB + 4096);
	bool statuses = true, same = true;

	statuses &= !run(ring, store, STORE_WRITE_ZEROES, 0, store->size, NULL, STORE_IO_DEALLOCATE);
	for (int i = 0; i < 400; i++) {
		uint64_t first = rnd(blocks), count = 1 + rnd(blocks - first);
		uint64_t offset = first * store->block_size, length = count * store->block_size;
		uint32_t flags = rnd(8) ? 0 : STORE_IO_FUA;
		/* Mostly aligned, now and then anything. */
		uint8_t *buffer = area + (rnd(4) ? 0 : 1 + rnd(4095));

		switch (rnd(12)) {
		case 0:
			statuses &= !run(ring, store, STORE_WRITE_ZEROES, offset, length, NULL,
					 flags | (rnd(2) ? STORE_IO_DEALLOCATE : 0));
			memset(model + offset, 0, length);
			break;
		case 1:
			statuses &= !run(ring, store, STORE_DEALLOCATE, offset, length, NULL, 0);
			if (store->deallocate)
				memset(model + offset, 0, length);
			break;
		case 2:
			statuses &= !run(ring, store, STORE_FLUSH, 0, 0, NULL, 0);
			break;
		case 3: case 4: case 5: case 6: case 7:
			if (length > 64 * KIB)
				length = 64 * KIB;
			for (uint64_t j = 0; j < length; j++)
				buffer[j] = model[offset + j] = (uint8_t)rnd(251);
			statuses &= !run(ring, store, STORE_WRITE, offset, length, buffer, flags);
			break;
		default:
			if (length > MIB)
				length = MIB;
			statuses &= !run(ring, store, STORE_READ, offset, length, buffer, 0);
			same &= !memcmp(buffer, model + offset, length);
		}
	}
	check(statuses, "400 random operations succeed");
	check(same, "and read what was written");
	err[0] = '\0';
	check(run(ring, store, STORE_READ, store->size, store->block_size, area, 0) ==
		      NVME_LBA_OUT_OF_RANGE &&
	      run(ring, store, STORE_WRITE, store->size - 512, 1024, area, 0) ==
		      NVME_LBA_OUT_OF_RANGE &&
	      run(ring, store, STORE_WRITE_ZEROES, UINT64_MAX - 511, 1024, NULL, 0) ==
		      NVME_LBA_OUT_OF_RANGE,
	      "what is out of range is refused");
	check(!run(ring, store, STORE_READ, store->size, 0, NULL, 0), "nothing can be read anywhere");
	free(model);
	free(area);
}

static void test_queue(struct store_ring *ring, struct store *store)
{
	enum { COUNT = 200, EACH = 4096 };
	struct request *requests = calloc(COUNT, sizeof(*requests));
	uint8_t *data = aligned_alloc(4096, COUNT * EACH), *back = aligned_alloc(4096, COUNT * EACH);
	bool once = true, good = true;

	for (int i = 0; i < COUNT * EACH; i++)
		data[i] = (uint8_t)rnd(256);
	for (int round = 0; round < 2; round++) {
		memset(requests, 0, COUNT * sizeof(*requests));
		for (unsigned i = 0; i < COUNT; i++) {
			requests[i].io = (struct store_io){
				.op = round ? STORE_READ : STORE_WRITE, .done = on_done,
				.offset = i * EACH, .length = EACH,
				.buffer = (round ? back : data) + i * EACH };
			store_submit(ring, store, &requests[i].io);
		}
		for (int i = 0; i < COUNT; i++) {
			wait_for(ring, &requests[i].calls);
			once &= requests[i].calls == 1;
			good &= !requests[i].status;
		}
		good &= store_ring_inflight(ring) == 0;
	}
	check(once && good, "%d at once, more than the ring holds, wait in line", COUNT);
	check(!memcmp(data, back, COUNT * EACH), "and keep their data apart");
	free(requests);
	free(data);
	free(back);
}

static void test_sleep(struct store_ring *ring, struct store *store)
{
	struct pollfd fd = { .fd = store_ring_fd(ring), .events = POLLIN };
	struct request request = { .io = { .op = STORE_FLUSH, .done = on_done } };
	int woken = 0;

	/* a thread that has said what it has to say may still be about to wake us */
	for (uint64_t end = store_now() + CHECK_PATIENCE_S * UINT64_C(1000000000);
	     poll(&fd, 1, 10) && store_now() < end;)
		store_ring_poll(ring);
	check(poll(&fd, 1, 0) == 0, "an idle ring's descriptor is quiet");
	store_submit(ring, store, &request.io);
	store_ring_poll(ring);
	while (!request.calls && poll(&fd, 1, CHECK_PATIENCE_S * 1000) == 1 && ++woken < 1000)
		store_ring_poll(ring);
	check(request.calls == 1 && !request.status, "a sleeper is woken for a flush (%d)", woken);
}

/* A request whose done submits the next one. */
struct chain {
	struct request request;
	struct store_ring *ring;
	struct store *store;
	int left;
};

static void on_link(struct store_io *io, uint16_t status)
{
	struct chain *chain = (struct chain *)io;

	if (!status && --chain->left)
		store_submit(chain->ring, chain->store, io);
	else
		on_done(io, status);
}

static void test_chain(struct store_ring *ring, struct store *store)
{
	static uint8_t area[4096] __attribute__((aligned(4096)));
	struct chain chain = { .ring = ring, .store = store, .left = 100 };

	chain.request.io = (struct store_io){ .op = STORE_READ, .buffer = area, .length = 4096,
					      .done = on_link };
	store_submit(ring, store, &chain.request.io);
	check(wait_for(ring, &chain.request.calls) && !chain.left, "done may submit again");
}

static void test_truncated(struct store_ring *ring, struct store *store)
{
	static uint8_t area[8192] __attribute__((aligned(4096)));
	uint16_t cut, half, before, again;

	if (truncate(store->path, 5 * 4096 + 1000))
		check(false, "truncate: %s", strerror(errno));
	cut = run(ring, store, STORE_READ, 16 * 4096, 4096, area, 0);
	half = run(ring, store, STORE_READ, 4 * 4096, 8192, area, 0);
	before = run(ring, store, STORE_READ, 0, 8192, area, 0);
	check(cut == NVME_UNRECOVERED_READ_ERROR && half == cut && !before,
	      "reads behind the end of a file cut short fail (%#x, %#x), others do not (%#x)", cut,
	      half, before);
	check(!store_resize(store, 0, err, sizeof(err)) &&
		      store->size == (5 * 4096 + 1000) / store->block_size * store->block_size,
	      "resize follows it");
	again = run(ring, store, STORE_READ, 16 * 4096, 4096, area, 0);
	check(again == NVME_LBA_OUT_OF_RANGE, "and what is gone is out of range");
	check(store_resize(store, 64 * MIB, err, sizeof(err)) == -EFBIG && store->size < 6 * 4096,
	      "resize beyond it is refused");
	if (truncate(store->path, 2 * MIB))
		check(false, "truncate: %s", strerror(errno));
	check(!store_resize(store, 0, err, sizeof(err)) && store->size == 2 * MIB &&
	      !run(ring, store, STORE_READ, MIB, 4096, area, 0) && area[0] == 0,
	      "resize follows it back");
}

static void test_file(struct store_ring *ring, const char *in, uint32_t block, int direct)
{
	size_t end = strlen(context);
	struct store *store = open_store("file", make_file(in, "file", 2 * MIB + 77), 0, block,
					 direct, false);

	snprintf(context + end, sizeof(context) - end, "file %s, %u, %s", in, block,
		 direct ? "direct" : "page cache");
	if (!store && direct == 1) {
		skip("direct I/O", err);
	} else if (check(store && store->size == 2 * MIB, "opens")) {
		check(store->direct == (direct == 1) && store->volatile_write_cache &&
		      store->physical_block_size >= block && store->guarantee && !store->map,
		      "says what it is: alignment %u, physical blocks of %u, deallocate %d, \"%s\"",
		      store->alignment, store->physical_block_size, store->deallocate,
		      store->guarantee);
		test_model(ring, store);
		test_queue(ring, store);
		test_sleep(ring, store);
		test_chain(ring, store);
		test_truncated(ring, store);
		store_close(store);
		store = open_store("file", make_file(in, "file", MIB), 0, block, direct, true);
		check(run(ring, store, STORE_WRITE, 0, 512, folder, 0) ==
			      NVME_NAMESPACE_WRITE_PROTECTED &&
		      run(ring, store, STORE_DEALLOCATE, 0, 512, NULL, 0) ==
			      NVME_NAMESPACE_WRITE_PROTECTED &&
		      !run(ring, store, STORE_FLUSH, 0, 0, NULL, 0),
		      "read only, it refuses to write and has nothing to flush");
	}
	store_close(store);
	context[end] = '\0';
}

static unsigned resident(const struct store *store)
{
	static unsigned char pages[64 * MIB / 4096];
	unsigned count = 0;

	mincore(store->map, store->map_length, pages);
	for (size_t i = 0; i < store->map_length / 4096; i++)
		count += pages[i] & 1;
	return count;
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
	check(!store_resize(store, MIB, err, sizeof(err)) && store->size == MIB &&
	      !store_resize(store, 2 * MIB, err, sizeof(err)) && store->size == 2 * MIB,
	      "ram: shrinks and grows back");
	test_model(ring, store);
	test_queue(ring, store);
	test_chain(ring, store);
	store_close(store);
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
	store_close(store);
}

static void test_pmem(struct store_ring *ring)
{
	struct store *store = open_store("pmem", make_file(folder, "pmem", 2 * MIB), 0, 4096, 0, 0);
	struct store *other = open_store("pmem", make_file(folder, "other", 2 * MIB), 0, 512, 0, 0);
	static uint8_t area[8192];
	struct stat st;

	if (!check(store && other && store->map, "pmem opens: \"%s\"",
		   store ? store->guarantee : ""))
		return;
	stat(store->path, &st);
	check(st.st_blocks * 512 >= 2 * MIB, "pmem: its blocks are allocated");
	check(store->volatile_write_cache == !store->memory_is_stable, "pmem: cache as stability");
	test_model(ring, store);
	test_queue(ring, store);
	if (!store->memory_is_stable) {
		test_sleep(ring, store);
		store->memory_is_stable = true;	/* the other way of writing */
		test_model(ring, store);
		store->memory_is_stable = false;
		store_memory_write(store, 4096, "synced", 6, true);
		check(!store_memory_flush(store), "pmem: a flush that blocks");
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
	store_close(store);
	store_close(other);
}

static int unrelated_fault(void)
{
	const char *path = make_file(folder, "unrelated", 4096);
	int fd = open(path, O_RDWR);
	volatile char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct store *store;

	signal(SIGBUS, SIG_DFL);	/* ASan's would report it */
	store = open_store("pmem", make_file(folder, "guarded", MIB), 0, 4096, 0, false);
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
	before = store_now();
	check(!run(ring, store, STORE_READ, 0, 4096, area, 0) && store_now() - before > 19000000,
	      "fault: one is late, and done");
	before = store_now();
	check(!run(ring, store, STORE_READ, 0, 4096, area, 0) && store_fault_hits(store) == 1,
	      "fault: and those after it are not");
	store_fault_set(store, &both);
	check(run(ring, store, STORE_FLUSH, 0, 0, NULL, 0) == NVME_WRITE_FAULT,
	      "fault: a flush is late and fails");
	store_fault_set(store, NULL);
	test_model(ring, store);
	store_close(store);
	store = store_fault(open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false), NULL);
	test_model(ring, store);
	store_close(store);
}

static void *own_thread(void *argument)
{
	struct store *store = argument;
	struct store_ring *ring = store_ring_create(16, NULL, 0);
	static __thread uint8_t area[4096] __attribute__((aligned(4096)));
	bool good = ring != NULL;

	for (int i = 0; good && i < 2000; i++)
		good = !run(ring, store, STORE_READ, (uint64_t)(i % 256) * 4096, 4096, area, 0);
	store_ring_destroy(ring);
	return good ? store : NULL;
}

static void test_threads(void)
{
	struct store *store = open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false);
	pthread_t threads[3];
	void *result;
	bool good = true;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, own_thread, store);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		good &= result == store;
	}
	check(good, "three reactors, three rings, one store");
	store_close(store);
}

static void test_destroy(void)
{
	struct store *store = open_store("file", make_file(folder, "f", MIB), 0, 4096, -1, false);
	struct store_ring *ring = store_ring_create(4, err, sizeof(err));
	struct request requests[32] = { 0 };
	bool good = true;

	for (int i = 0; i < 32; i++) {
		requests[i].io = (struct store_io){ .op = STORE_FLUSH, .done = on_done };
		store_submit(ring, store, &requests[i].io);
	}
	store_ring_destroy(ring);
	for (int i = 0; i < 32; i++)
		good &= requests[i].calls == 1 && !requests[i].status;
	check(good, "a ring that is destroyed waits for what it holds");
	store_close(store);
}

static bool is_this(const struct store_io *io, const void *arg)
{
	return io == arg;
}

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
	test_null(ring);
	test_ram(ring);
	test_pmem(ring);
	test_fault(ring);
	test_threads();
	test_destroy();
	test_cancel();
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
	start = now = store_now();
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
		now = store_now();
	}
	printf("%-14s %-10s qd %-3u %9.0f IOPS %8.2f us each\n", store_ring_kind(ring),
	       direct ? "direct" : "page cache", depth, (double)count * 1e9 / (double)(now - start),
	       (double)(now - start) / 1e3 / (double)count);
	store_ring_destroy(ring);
	store_close(store);
	free(requests);
	free(area);
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
	test_unrelated_fault();
	unsetenv("NVMF_NO_IO_URING");
	test_engine("io_uring");
	setenv("NVMF_NO_IO_URING", "1", 1);
	test_engine("worker threads");
	clean();
	return check_report();
}
