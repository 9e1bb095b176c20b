/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ram: a namespace in anonymous memory, which becomes resident when it is written and is freed when it is
 * deallocated.  Owns the mapping; zeroing runs on reactors, the rest on a control thread.
 *
 * It reports no volatile write cache: a flush would have no effect, and hosts would send flushes in vain.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store_internal.h"

static void ram_zero(struct store *store, uint64_t offset, size_t length)
{
	static const uint64_t page = 4096;
	uint64_t end = offset + length;
	uint64_t first = (offset + page - 1) & ~(page - 1), last = end & ~(page - 1);

	if (__atomic_load_n(&store->pinned, __ATOMIC_ACQUIRE) || first >= last ||
	    madvise(store->map + first, last - first, MADV_DONTNEED)) {
		memset(store->map + offset, 0, length);
		return;
	}
	memset(store->map + offset, 0, first - offset);
	memset(store->map + last, 0, end - last);
}

static int ram_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	uint64_t old = store->size;
	int rc;

	if (size > store->map_length)
		return store_refuse(err, len, ENOTSUP,
				    "a ram store cannot grow beyond its original %zu bytes, "
				    "because its memory is registered; remove the namespace and add "
				    "it again", store->map_length);
	rc = store_fit("the ram store", size, store->map_length, store->block_size, &size, err, len);
	if (rc)
		return rc;
	if (size > old)		/* a write that began before the store was made smaller may have come after it */
		ram_zero(store, old, size - old);
	__atomic_store_n(&store->size, size, __ATOMIC_RELEASE);
	if (size < old)
		ram_zero(store, size, old - size);
	return 0;
}

static const struct store_ops ram_ops = {
	.submit = store_memory_submit,
	.piece = store_memory_piece,
	.zero = ram_zero,
	.resize = ram_resize,
};

struct store *store_ram_open(const struct store_options *options, char *err, size_t len)
{
	struct store *store;
	uint64_t size;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map;

	if (store_fit("the ram store", 0, options->size, options->block_size, &size, err, len))
		return NULL;
	store = store_new(STORE_RAM, options, &ram_ops, err, len);
	if (!store)
		return NULL;
	if (size > SIZE_MAX / 2) {
		map = MAP_FAILED;
		errno = ENOMEM;
	} else {
		map = mmap(NULL, (size + page - 1) & ~(page - 1), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (map == MAP_FAILED) {
		store_refuse(err, len, errno, "cannot map %llu bytes for a ram store: %s",
			     (unsigned long long)size, strerror(errno));
		store_close(store);
		return NULL;
	}
	store->map = map;
	store->map_length = (size + page - 1) & ~(page - 1);
	store_memory_mapped(store);
	store->size = size;
	store->deallocate = true;
	store->memory_is_stable = true;
	store->physical_block_size = 4096;
	store->guarantee = "memory of the target: written data is lost when the target ends";
	/* All three are optional: huge pages, no memory of the store in core files, no copy in forks. */
	madvise(map, store->map_length, MADV_HUGEPAGE);
	madvise(map, store->map_length, MADV_DONTDUMP);
	madvise(map, store->map_length, MADV_DONTFORK);
	return store;
}
