/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the file or device of a store, and explains in a sentence why it cannot be used: its type, its size, or
 * the process that has it locked.  Owns nothing after it has returned; control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "store_internal.h"

enum { USED_TRIES = 50, USED_WAIT_MS = 20 };

uint64_t store_sysfs_number(const struct stat *stat, const char *attribute, uint64_t otherwise)
{
	/* A partition uses the request queue of its disk. */
	static const char *const where[] = { "", "../" };
	char path[256];
	unsigned long long value;

	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		FILE *file;
		int got;

		snprintf(path, sizeof(path), "%s/dev/%s/%u:%u/%s%s", store_sysfs,
			 S_ISBLK(stat->st_mode) ? "block" : "char", major(stat->st_rdev),
			 minor(stat->st_rdev), where[i], attribute);
		file = fopen(path, "re");
		if (!file)
			continue;
		got = fscanf(file, "%llu", &value);
		fclose(file);
		if (got == 1)
			return value;
	}
	return otherwise;
}

int store_backing_size(int fd, const struct stat *stat, uint64_t *size)
{
	struct stat now;

	if (S_ISBLK(stat->st_mode))
		return ioctl(fd, BLKGETSIZE64, size) ? -errno : 0;
	if (S_ISCHR(stat->st_mode)) {
		*size = store_sysfs_number(stat, "size", 0);
		return *size ? 0 : -ENODEV;
	}
	if (fstat(fd, &now))
		return -errno;
	*size = (uint64_t)now.st_size;
	return 0;
}

/* Whether the path must be a device node: a regular file created there would be in the memory of the machine. */
static bool backing_names_device(const char *path)
{
	return !strncmp(path, "/dev/", 5) && strncmp(path, "/dev/shm/", 9) != 0;
}

/* Explain why a path cannot be looked up or opened. */
static int backing_refuse_open(const struct store_options *options, bool is_device, int error,
			       char *err, size_t len)
{
	const char *path = options->path;

	switch (error) {
	case ENOENT:
		if (backing_names_device(path))
			return store_refuse(err, len, error, "%s does not exist: there is no such "
					    "device now (lsblk lists block devices)", path);
		if (options->size)
			return store_refuse(err, len, error, "%s does not exist: create it "
					    "with \"truncate -s %llu %s\"", path,
					    (unsigned long long)options->size, path);
		return store_refuse(err, len, error, "%s does not exist: create it, for "
				    "example with \"truncate -s 1G %s\"", path, path);
	case EBUSY:
		return store_refuse(err, len, error, "%s is in use: mounted, or held by another "
				    "program (see lsblk %s and fuser -v %s)", path, path, path);
	case EROFS:
		return store_refuse(err, len, error, "%s is on a read-only filesystem or device: "
				    "make the namespace read only, or remount it", path);
	case EACCES:
	case EPERM:
		if (is_device && !options->read_only)
			return store_refuse(err, len, error, "cannot open %s for reading and "
					    "writing: %s; the device may be read only (blockdev "
					    "--getro), or user %u may lack permission", path,
					    strerror(error), (unsigned)geteuid());
		return store_refuse(err, len, error, "user %u is not permitted to open %s for %s: %s",
				    (unsigned)geteuid(), path,
				    options->read_only ? "reading" : "reading and writing",
				    strerror(error));
	case ETXTBSY:
		return store_refuse(err, len, error, "%s is a running program or a swap file",
				    path);
	default:
		return store_refuse(err, len, error, "cannot open %s: %s", path, strerror(error));
	}
}

static int backing_refuse_type(const struct store_options *options, mode_t mode, char *err,
			       size_t len)
{
	bool pmem = !strcmp(options->kind, "pmem");
	const char *what = S_ISDIR(mode) ? "a directory" : S_ISCHR(mode) ? "a character device" :
			   S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : NULL;

	if (S_ISREG(mode) || S_ISBLK(mode) || (pmem && S_ISCHR(mode)))
		return 0;
	return store_refuse(err, len, S_ISDIR(mode) ? EISDIR : ENOTSUP,
			    "%s is %s: a %s store needs a regular file%s", options->path,
			    what ? what : "of an unknown type", options->kind,
			    pmem ? " or a dax device" : " or a block device");
}

/*
 * A file or device in use may be released soon: by a killed target whose last I/O the kernel has not ended, by a namespace
 * that was just removed, or by udev, which examines a device.  So it is tried for up to a second.
 */
static void backing_pause(void)
{
	static const struct timespec pause = { .tv_nsec = USED_WAIT_MS * 1000000 };

	nanosleep(&pause, NULL);
}

/* Open; a block device that is written to must not be in use otherwise. */
static int backing_open(const char *path, int flags)
{
	int fd = open(path, flags);

	for (int i = 1; i < USED_TRIES && fd < 0 && errno == EBUSY; i++) {
		backing_pause();
		fd = open(path, flags);
	}
	return fd;
}

/* Only one target may write a file. */
static int backing_lock(int fd, const struct store_options *options, char *err, size_t len)
{
	int how = (options->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;

	for (int i = 0; i < USED_TRIES; i++) {
		if (!flock(fd, how) || errno != EWOULDBLOCK)
			return 0;	/* or the filesystem does not support locks */
		backing_pause();
	}
	return store_refuse(err, len, EBUSY,
			    options->read_only
				    ? "%s is served for writing by another target or namespace, "
				      "which holds its lock (see fuser -v %s)"
				    : "%s is served by another target or namespace, which holds "
				      "its lock (see fuser -v %s): only one may write, or several "
				      "may read",
			    options->path, options->path);
}

int store_backing_open(const struct store_options *options, struct store_backing *backing,
		       char *err, size_t len)
{
	int flags = (options->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;
	bool block_device;
	struct statfs fs;
	int rc;

	/* Before opening: to open a pipe would block, and to open a terminal has side effects. */
	if (stat(options->path, &backing->stat))
		return backing_refuse_open(options, false, errno, err, len);
	rc = backing_refuse_type(options, backing->stat.st_mode, err, len);
	if (rc)
		return rc;
	block_device = S_ISBLK(backing->stat.st_mode);
	if (block_device && !options->read_only)
		flags |= O_EXCL;
	backing->fd = backing_open(options->path, flags);
	if (backing->fd < 0)
		return backing_refuse_open(options, block_device, errno, err, len);
	if (fstat(backing->fd, &backing->stat))
		rc = store_refuse(err, len, errno, "cannot stat %s: %s", options->path,
				  strerror(errno));
	if (!rc)
		rc = backing_refuse_type(options, backing->stat.st_mode, err, len);
	if (!rc)
		rc = backing_lock(backing->fd, options, err, len);
	if (!rc) {
		rc = store_backing_size(backing->fd, &backing->stat, &backing->size);
		if (rc)
			store_refuse(err, len, -rc, "cannot determine the size of %s: %s",
				     options->path, strerror(-rc));
	}
	backing->volatile_memory = !rc && S_ISREG(backing->stat.st_mode) &&
				   !fstatfs(backing->fd, &fs) &&
				   (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
	if (rc)
		close(backing->fd);
	return rc;
}
