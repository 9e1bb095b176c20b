/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of persistent memory, which may have redo slots (redo.c): mapped separately, because the namespace may end
 * before it.  Owns store->own of a pmem store.  Control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "pmem.h"

struct pmem_tail {		/* store->own */
	uint8_t *map;		/* includes preceding bytes if the mapping must be aligned */
	size_t length;
	uint8_t *pages;		/* STORE_REDO_BYTES */
	uint64_t start;		/* their offset in the file */
};

static int tail_map(struct store *store, const struct store_backing *backing, bool wanted, char *err,
		    size_t len)
{
	uint64_t align = pmem_align(backing), end = backing->size / align * align, start;
	struct pmem_tail *tail;

	if (end < STORE_REDO_BYTES + store->block_size)
		return !wanted ? 0
			       : store_refuse(err, len, EINVAL, "%s is too small: %llu bytes, of which "
					      "power_fail_atomic uses %u", store->path,
					      (unsigned long long)backing->size,
					      (unsigned)STORE_REDO_BYTES);
	tail = calloc(1, sizeof(*tail));
	if (!tail)
		return store_refuse(err, len, ENOMEM, "out of memory for %s", store->path);
	store->own = tail;
	tail->start = end - STORE_REDO_BYTES;
	start = tail->start / align * align;
	tail->length = end - start;
	if (wanted && S_ISREG(backing->stat.st_mode) &&
	    fallocate(store->fd, 0, (off_t)tail->start, STORE_REDO_BYTES) && errno == ENOSPC)
		return store_refuse(err, len, ENOSPC, "the filesystem of %s has no room for its last "
				    "%u bytes", store->path, (unsigned)STORE_REDO_BYTES);
	tail->map = mmap(NULL, tail->length, pmem_protection(store),
			 pmem_map_flags(store, &backing->stat), store->fd, (off_t)start);
	if (tail->map == MAP_FAILED || store_guard_map(tail->map, tail->length, align, &store->faults)) {
		int error = tail->map == MAP_FAILED ? errno : EMFILE;

		if (tail->map != MAP_FAILED)
			munmap(tail->map, tail->length);
		tail->map = NULL;
		return store_refuse(err, len, error, "cannot map the end of %s: %s", store->path,
				    strerror(error));
	}
	tail->pages = tail->map + (tail->start - start);
	if (wanted)	/* so that the first write to a page does not wait for the filesystem */
		madvise(tail->map, tail->length, MADV_POPULATE_WRITE);
	return 0;
}

int pmem_tail_open(struct store *store, const struct store_backing *backing, bool wanted, char *err,
		   size_t len)
{
	struct pmem_tail *tail;
	bool there;
	int rc = tail_map(store, backing, wanted, err, len);

	tail = store->own;
	if (rc || !tail)
		return rc;
	there = store_redo_there(tail->pages);
	if (wanted || (there && store->read_only))
		store->reserved = backing->size - tail->start;
	if (there && store->read_only && store_redo_pending(tail->pages))
		return store_refuse(err, len, EUCLEAN, "a power failure interrupted a write to %s: open "
				    "it for writing first, which repairs it", store->path);
	return 0;
}

/* faults: before it was read. */
static int tail_is_read(const struct store *store, unsigned faults, char *err, size_t len)
{
	if (store_faults(store) == faults)
		return 0;
	return store_refuse(err, len, EIO, "cannot read the end of %s: was it truncated?",
			    store->path);
}

int pmem_tail_recover(struct store *store, bool wanted, char *err, size_t len)
{
	struct pmem_tail *tail = store->own;
	unsigned faults = store_faults(store);
	int rc = 0;

	if (tail && !store->read_only)
		rc = store_redo_open(store, tail->pages, wanted, err, len);
	return rc ? rc : tail_is_read(store, faults, err, len);
}

int pmem_tail_again(struct store *store, const struct stat *stat, char *err, size_t len)
{
	struct pmem_tail *tail = store->own;

	if (!tail)
		return 0;
	if (mmap(tail->map, tail->length, pmem_protection(store), pmem_map_flags(store, stat) | MAP_FIXED,
		 store->fd, (off_t)(tail->start - (uint64_t)(tail->pages - tail->map))) == MAP_FAILED)
		return store_refuse(err, len, errno, "cannot map the end of %s again: %s", store->path,
				    strerror(errno));
	return pmem_tail_recover(store, true, err, len);
}

void pmem_tail_close(struct store *store)
{
	struct pmem_tail *tail = store->own;

	if (tail && tail->map) {
		store_unguard_map(tail->map);
		munmap(tail->map, tail->length);
	}
	free(tail);
	store->own = NULL;
}
