/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file: a regular file or a block device, through the reactor's ring.
 * Owns the descriptors.  Opening and resizing run on a control thread, submit on reactors.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "store_internal.h"

enum { PHYSICAL_MOST = 64 << 10 };	/* larger values are hints for streaming */

static void file_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	switch (io->op) {
	case STORE_READ:
	case STORE_WRITE:
		store_ring_call(ring, io, STORE_STEP_MOVE);
		return;
	case STORE_FLUSH:
		store_ring_call(ring, io, STORE_STEP_SYNC);
		return;
	case STORE_WRITE_ZEROES:
		store_ring_call(ring, io, STORE_STEP_RANGE);
		return;
	case STORE_DEALLOCATE:
		if (store->deallocate)
			store_ring_call(ring, io, STORE_STEP_RANGE);
		else
			io->done(io, NVME_SUCCESS);	/* it is a hint */
		return;
	}
	io->done(io, NVME_INTERNAL_ERROR);
}

static int file_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	struct stat st;
	uint64_t there;
	int rc = fstat(store->fd, &st) ? -errno : store_backing_size(store->fd, &st, &there);

	if (rc)
		return store_refuse(err, len, -rc, "cannot determine the size of %s: %s", store->path,
				    strerror(-rc));
	rc = store_fit(store->path, size, there, store->block_size, &size, err, len);
	if (!rc)
		__atomic_store_n(&store->size, size, __ATOMIC_RELEASE);
	return rc;
}

const struct store_ops store_file_ops = {
	.submit = file_submit,
	.resize = file_resize,
};

static uint32_t file_physical_block_size(const struct store_backing *backing, uint32_t block_size)
{
	unsigned physical = 0;

	if (!S_ISBLK(backing->stat.st_mode) || ioctl(backing->fd, BLKPBSZGET, &physical))
		physical = (unsigned)backing->stat.st_blksize;
	if (!physical || (physical & (physical - 1)) || physical > PHYSICAL_MOST)
		physical = 4096;
	return physical > block_size ? physical : block_size;
}

/* Whether deallocated blocks read as zeroes. */
static bool file_can_deallocate(const struct store_backing *backing)
{
	if (S_ISBLK(backing->stat.st_mode))
		return store_sysfs_number(&backing->stat, "queue/write_zeroes_max_bytes", 0) > 0;
	/* Past the end, where there is no data. */
	return !fallocate(backing->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)((backing->size + 4095) & ~UINT64_C(4095)), 4096);
}

static const char *file_guarantee(const struct store *store, const struct store_backing *backing)
{
	if (store->read_only)
		return "nothing is written: the store is read only";
	if (backing->volatile_memory)
		return "a write survives the end of the target but not of the machine: the file is in memory "
		       "(tmpfs)";
	if (store->direct)
		return "a write reaches the device before it completes, and is stable once "
		       "flushed or with FUA (fdatasync, RWF_DSYNC)";
	return "a write survives the end of the target at once, and of the machine once flushed or with "
	       "FUA (page cache; fdatasync, RWF_DSYNC)";
}

/* Choose between direct I/O and the page cache; for direct I/O, reopen store->fd. */
static int file_choose_direct(struct store *store, const struct store_options *options,
			 const struct store_backing *backing, char *err, size_t len)
{
	uint32_t alignment = 1, offset_alignment = 0;
	int rc, flags = options->read_only ? O_RDONLY : O_RDWR;

	if (!options->direct)
		return 0;
	rc = store_direct_probe(backing, options->block_size, &alignment, &offset_alignment);
	if (!rc) {
		/* The first descriptor keeps the lock, and is used for unaligned buffers. */
		rc = store_reopen(backing->fd, options->path, flags | O_DIRECT);
		if (rc >= 0) {
			store->page_cache_fd = backing->fd;
			store->fd = rc;
			store->direct = true;
			store->alignment = alignment;
			return 0;
		}
	}
	if (options->direct < 0)
		return 0;
	if (rc == -EINVAL && offset_alignment)
		return store_refuse(err, len, EINVAL,
				    "%s requires direct I/O in units of %u bytes, but the block size "
				    "is %u: set it to 4096, or direct to false", options->path,
				    offset_alignment, options->block_size);
	return store_refuse(err, len, -rc,
			    "direct I/O does not work on %s%s: %s; set direct to false, or leave "
			    "it out to use direct I/O only if it works", options->path,
			    backing->volatile_memory ? " (tmpfs)" : "", strerror(-rc));
}

void store_file_open_sync(struct store *store)
{
	int fd = store->read_only ? -1 : store_reopen(store->fd, store->path, O_RDWR);

	store->sync_fd = fd < 0 ? -1 : fd;
}

struct store *store_file_open(const struct store_options *options, char *err, size_t len)
{
	struct store_backing backing;
	struct store *store;

	if (store_backing_open(options, &backing, err, len))
		return NULL;
	store = store_new(STORE_FILE, options, &store_file_ops, err, len);
	if (!store) {
		close(backing.fd);
		return NULL;
	}
	store->fd = backing.fd;
	if (store_fit(options->path, options->size, backing.size, options->block_size,
		      &store->size, err, len) ||
	    file_choose_direct(store, options, &backing, err, len)) {
		store_close(store);
		return NULL;
	}
	store_file_open_sync(store);
	store->physical_block_size = file_physical_block_size(&backing, options->block_size);
	store->volatile_write_cache = !options->read_only;
	store->deallocate = !options->read_only && file_can_deallocate(&backing);
	store->guarantee = file_guarantee(store, &backing);
	return store;
}
