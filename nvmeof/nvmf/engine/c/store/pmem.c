/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmem: a namespace mapped into the address space.  There are four kinds, found by trial:
 *   devdax	a dax character device: persistent once fenced
 *   fsdax	a file that maps with MAP_SYNC: persistent once fenced
 *   memory	a file on tmpfs, mapped: data survives the end of the target; a sync does nothing
 *   plain	any other file: not mapped, because page faults and writeback would block a reactor;
 *		the ring uses the page cache, as for a file store
 * The first two may end with redo slots (redo.c, pmem_tail.c), which are not part of the namespace.
 * Owns the mappings and their descriptor.  Zeroing runs on reactors, the rest on a control thread.
 *
 * Blocks are never deallocated, and missing ones are allocated at opening: a write to a mapped hole of a full
 * filesystem is a fault, which cannot be reported as an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pmem.h"
#include "util/bad.h"

static void pmem_zero(struct store *store, uint64_t offset, size_t length)
{
	for (size_t done = 0; done < length;) {
		size_t now = length - done < STORE_ZEROES ? length - done : STORE_ZEROES;

		if (store_memory_write(store, offset + done, store_zeroes, now, false))
			return;
		done += now;
	}
}

static int pmem_allocate(const struct store *store, const struct stat *stat, uint64_t size, char *err,
		    size_t len)
{
	if (store->read_only || !S_ISREG(stat->st_mode) ||
	    !fallocate(store->fd, 0, 0, (off_t)size))
		return 0;
	if (errno == ENOSPC || errno == EDQUOT)
		return store_refuse(err, len, errno,
				    "the filesystem of %s has no room for all its %llu bytes, and "
				    "a mapped store needs it: free some space, or use a file "
				    "store", store->path, (unsigned long long)size);
	return 0;	/* the filesystem does not support it: faults are handled by the guard */
}

static int pmem_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	struct stat st;
	uint64_t there;
	int rc = fstat(store->fd, &st) ? -errno : store_backing_size(store->fd, &st, &there);

	if (rc)
		return store_refuse(err, len, -rc, "cannot determine the size of %s: %s", store->path,
				    strerror(-rc));
	there -= there < store->reserved ? there : store->reserved;
	if ((size ? size : there) > store->map_length)
		return store_refuse(err, len, ENOTSUP,
				    "%s cannot grow beyond the %zu bytes that were mapped when it "
				    "was opened: its memory is registered; remove the namespace "
				    "and add it again", store->path, store->map_length);
	rc = store_fit(store->path, size, there, store->block_size, &size, err, len);
	if (!rc)
		rc = pmem_allocate(store, &st, size, err, len);
	if (rc)
		return rc;
	/* The file has its size again: replace the pages that the guard has inserted. */
	if (store_failed(store)) {
		unsigned faults = store_faults(store);

		if (mmap(store->map, store->map_length, pmem_protection(store),
			 pmem_map_flags(store, &st) | MAP_FIXED, store->fd, 0) == MAP_FAILED)
			return store_refuse(err, len, errno, "cannot map %s again: %s",
					    store->path, strerror(errno));
		bad_forget((uintptr_t)store->map, store->map_length);
		store_touch_forget(store);
		rc = pmem_tail_again(store, &st, err, len);
		if (rc)
			return rc;
		/* Interrupted writes are repeated before new ones begin; a fault meanwhile is not repaired. */
		__atomic_store_n(&store->repaired, faults, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&store->size, size, __ATOMIC_RELEASE);
	return 0;
}

static const struct store_ops pmem_ops = {
	.submit = store_memory_submit,
	.piece = store_memory_piece,
	.zero = pmem_zero,
	.resize = pmem_resize,
	.close = pmem_tail_close,
};

static int pmem_map(struct store *store, const struct store_backing *backing, char *err,
		    size_t len)
{
	bool device = S_ISCHR(backing->stat.st_mode);
	uint64_t align = pmem_align(backing);
	uint64_t length = (store->size + align - 1) / align * align;
	void *map;

	if (device && length > backing->size)
		length = backing->size / align * align;
	if (length < store->size)
		store->size = length;
	if (!length)
		return store_refuse(err, len, EINVAL, "%s is smaller than its alignment of %llu",
				    store->path, (unsigned long long)align);
	map = mmap(NULL, length, pmem_protection(store), pmem_map_flags(store, &backing->stat),
		   store->fd, 0);
	if (map == MAP_FAILED)
		return store_refuse(err, len, errno, "cannot map %llu bytes of %s: %s",
				    (unsigned long long)length, store->path, strerror(errno));
	store->map = map;
	store->map_length = length;
	store_memory_mapped(store);
	if (store_guard_map(map, length, align, &store->faults))
		return store_refuse(err, len, EMFILE, "cannot guard the map of %s: too many "
				    "mapped stores", store->path);
	madvise(map, length, MADV_DONTDUMP);
	if (!device && store->memory_is_stable && store_touch_init(store))
		return store_refuse(err, len, ENOMEM, "out of memory for %s", store->path);
	return 0;
}

/* The kinds of pmem stores (see above). */
enum pmem_kind { PMEM_PLAIN, PMEM_TMPFS, PMEM_FSDAX, PMEM_DEVDAX };

static int pmem_kind(struct store *store, const struct store_backing *backing, enum pmem_kind *kind,
		     char *err, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = MAP_FAILED;

	store->memory_is_stable = store_persist_supported();
	if (S_ISCHR(backing->stat.st_mode)) {
		*kind = PMEM_DEVDAX;
		return store->memory_is_stable ? 0
					       : store_refuse(err, len, ENOTSUP, "%s: dax devices are "
							      "supported on x86-64 only", store->path);
	}
	if (store->memory_is_stable)
		map = mmap(NULL, page, pmem_protection(store), pmem_map_flags(store, &backing->stat),
			   store->fd, 0);
	if (map != MAP_FAILED) {
		munmap(map, page);
		*kind = PMEM_FSDAX;
		return 0;
	}
	store->memory_is_stable = false;
	*kind = backing->volatile_memory ? PMEM_TMPFS : PMEM_PLAIN;
	store->sync_is_nothing = *kind == PMEM_TMPFS;
	return 0;
}

static const char *pmem_guarantee(const struct store *store, enum pmem_kind kind,
				  enum store_persistence persistence)
{
	if (store->read_only)
		return "nothing is written: the store is read only";
	switch (kind) {
	case PMEM_TMPFS:
		return "a write survives the end of the target but not of the machine: the file is in memory "
		       "(tmpfs)";
	case PMEM_PLAIN:
		return "a write survives the end of the target at once, and of the machine once flushed or with "
		       "FUA (page cache, not persistent memory; fdatasync)";
	default:
		return store_dax_guarantee(kind == PMEM_DEVDAX, persistence);
	}
}

/* Set the guarantee, or refuse the store if the configuration requires more. */
static int pmem_promise(struct store *store, const struct store_options *options, enum pmem_kind kind,
			enum store_persistence persistence, char *err, size_t len)
{
	bool survives = persistence < STORE_UNKNOWN;

	store->guarantee = pmem_guarantee(store, kind, persistence);
	store->volatile_write_cache = !options->read_only && !survives;
	if (!options->persistent || survives || options->read_only)
		return 0;
	return store_refuse(err, len, ENOTSUP, "%s is not persistent memory, but persistent = true "
			    "requires it: %s", store->path, store->guarantee);
}

static int pmem_say_atomic(struct store *store, char *err, size_t len)
{
	const char *what = store->redo ? "a power failure leaves a block old or new"
				       : "a power failure may tear a block that is being written "
					 "(power_fail_atomic = false)";

	if (asprintf(&store->said, "%s; %s", store->guarantee, what) < 0) {
		store->said = NULL;
		return store_refuse(err, len, ENOMEM, "out of memory for %s", store->path);
	}
	store->guarantee = store->said;
	return 0;
}

static int pmem_fit(struct store *store, const struct store_options *options,
		    const struct store_backing *backing, char *err, size_t len)
{
	uint64_t there = backing->size - store->reserved;

	if (store->reserved && options->size > there)
		return store_refuse(err, len, EFBIG, "%s holds %llu bytes, the last %llu of which are "
				    "used by power_fail_atomic: set size to at most %llu, make it "
				    "larger, or set power_fail_atomic to false", store->path,
				    (unsigned long long)backing->size,
				    (unsigned long long)store->reserved, (unsigned long long)there);
	return store_fit(store->path, options->size, there, options->block_size, &store->size, err,
			 len);
}

static int pmem_open_dax(struct store *store, const struct store_options *options,
			 const struct store_backing *backing, enum pmem_kind kind, char *err, size_t len)
{
	enum store_persistence persistence = store_persistence(&backing->stat);
	bool wanted = options->power_fail_atomic && !options->read_only &&
		      persistence != STORE_VOLATILE;
	int rc = pmem_promise(store, options, kind, persistence, err, len);

	if (!rc)
		rc = pmem_tail_open(store, backing, wanted, err, len);
	if (!rc)
		rc = pmem_fit(store, options, backing, err, len);
	if (!rc)
		rc = pmem_allocate(store, &backing->stat, store->size, err, len);
	if (!rc)
		rc = pmem_map(store, backing, err, len);
	if (!rc)
		rc = pmem_tail_recover(store, wanted, err, len);
	if (!rc && !store->redo)
		pmem_tail_close(store);
	if (rc || store->read_only || persistence == STORE_VOLATILE)
		return rc;
	return pmem_say_atomic(store, err, len);
}

static int pmem_open_file(struct store *store, const struct store_options *options,
			  const struct store_backing *backing, enum pmem_kind kind, char *err,
			  size_t len)
{
	int rc = pmem_promise(store, options, kind, STORE_UNKNOWN, err, len);

	if (!rc)
		rc = pmem_fit(store, options, backing, err, len);
	if (!rc)
		rc = pmem_allocate(store, &backing->stat, store->size, err, len);
	if (!rc && kind == PMEM_TMPFS)
		return pmem_map(store, backing, err, len);
	store->ops = &store_file_ops;
	if (!rc)
		store_file_open_sync(store);
	return rc;
}

struct store *store_pmem_open(const struct store_options *options, char *err, size_t len)
{
	struct store_backing backing;
	enum pmem_kind kind;
	struct store *store;
	int rc;

	if (store_backing_open(options, &backing, err, len))
		return NULL;
	store = store_new(STORE_PMEM, options, &pmem_ops, err, len);
	if (!store) {
		close(backing.fd);
		return NULL;
	}
	store->fd = backing.fd;
	rc = pmem_kind(store, &backing, &kind, err, len);
	if (!rc && (kind == PMEM_DEVDAX || kind == PMEM_FSDAX))
		rc = pmem_open_dax(store, options, &backing, kind, err, len);
	else if (!rc)
		rc = pmem_open_file(store, options, &backing, kind, err, len);
	if (rc) {
		store_close(store);
		return NULL;
	}
	store->physical_block_size = 4096;
	return store;
}
