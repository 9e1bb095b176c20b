/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of stores: one request at a time, files, and environments that only root can create. */
#ifndef TESTS_STORE_RIG_H
#define TESTS_STORE_RIG_H

#include <dirent.h>
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
#include "store/store_internal.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static char context[128];
static char folder[128];
__attribute__((unused)) static char shm_folder[64];
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
	uint64_t end = clock_ns() + CHECK_PATIENCE_S * UINT64_C(1000000000);

	while (!*calls && clock_ns() < end) {
		struct pollfd fd = { .fd = store_ring_fd(ring), .events = POLLIN };

		if (!store_ring_poll(ring) && !*calls)
			poll(&fd, 1, 5000);
	}
	return *calls == 1;
}

/* Prints a file in /proc. */
static void tell_file(const char *format, ...)
{
	char path[512], line[512];
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		printf("     %s: %s", path, line);
	if (file)
		fclose(file);
}

/*
 * For a request that does not end: what each thread, the kernel's workers among them, does (its stack is readable by
 * root only), and what the kernel tells of each ring.
 */
static void tell_threads(void)
{
	struct dirent *entry;
	char link[512], to[64];
	DIR *all = opendir("/proc/self/task");

	while (all && (entry = readdir(all))) {
		if (entry->d_name[0] == '.')
			continue;
		tell_file("/proc/self/task/%s/comm", entry->d_name);
		tell_file("/proc/self/task/%s/stat", entry->d_name);
		tell_file("/proc/self/task/%s/stack", entry->d_name);
	}
	if (all)
		closedir(all);
	all = opendir("/proc/self/fd");
	while (all && (entry = readdir(all))) {
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%s", entry->d_name);
		length = readlink(link, to, sizeof(to) - 1);
		to[length > 0 ? length : 0] = '\0';
		if (strstr(to, "io_uring"))
			tell_file("/proc/self/fdinfo/%s", entry->d_name);
	}
	if (all)
		closedir(all);
	fflush(stdout);
}

static uint16_t run(struct store_ring *ring, struct store *store, enum store_op op,
		    uint64_t offset, uint64_t length, void *buffer, uint32_t flags)
{
	struct request request = { .io = { .op = op, .flags = flags, .offset = offset,
					   .length = length, .buffer = buffer, .done = on_done } };

	store_submit(ring, store, &request.io);
	if (!wait_for(ring, &request.calls)) {
		check(false, "request of op %d was called back %d times", op, request.calls);
		tell_threads();
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

/* Close a store that was used through this ring, which continues. */
static void close_store(struct store_ring *ring, struct store *store)
{
	if (store)
		store_ring_forget(ring, store);
	store_close(store);
}

static uint64_t seed = 1;
static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed % below;
}

/* Tests that only root can set up, in a child with its own mounts; 99 means that it could not be set up. */
__attribute__((unused))
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

#endif
