/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores that are refused, with a sentence, and file systems and machines with restrictions. */
#ifndef TESTS_STORE_CASES_REFUSE_H
#define TESTS_STORE_CASES_REFUSE_H

#include "store_rig.h"

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

static int no_permission(void)
{
	const char *path;
	struct store *store;

	/* In a folder that other users may enter, unlike ours. */
	if (getuid() || !shm_folder[0] || chmod(shm_folder, 0755))
		return 99;
	path = make_file(shm_folder, "perm", MIB);
	if (seteuid(65534))
		return 99;
	store = open_store("file", path, 0, 512, 0, false);
	if (seteuid(0))
		return 2;
	check_note("\"%s\"", err);
	return !store && strstr(err, "user 65534 is not permitted to open") ? 0 : 1;
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
	close_store(ring, store);
	store_ring_destroy(ring);
	check_note("write %#x, beyond the room %#x, zeroes %#x, read %#x, pmem refused %d", first,
		   second, zeroes, read, pmem_refused);
	return first == 0 && second == NVME_CAPACITY_EXCEEDED &&
	       zeroes == NVME_CAPACITY_EXCEEDED && read == 0 && pmem_refused ? 0 : 1;
}

/* If io_uring_setup is forbidden, as in most containers, worker threads are used. */
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

#endif
