/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public interface of stores: opening by kind, closing, and the checks of each request.
 * Owns struct store.  Opening, resizing and closing run on a control thread, store_submit on
 * reactors.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store_internal.h"

int store_refuse(char *err, size_t len, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (len)
		vsnprintf(err, len, format, args);
	va_end(args);
	return -error;
}

static uint64_t store_numbers;

struct store *store_new(enum store_kind kind, const struct store_options *options,
			const struct store_ops *ops, char *err, size_t len)
{
	struct store *store = calloc(1, sizeof(*store));

	if (store && options->path) {
		store->path = strdup(options->path);
		if (!store->path) {
			free(store);
			store = NULL;
		}
	}
	if (!store) {
		store_refuse(err, len, ENOMEM, "out of memory for a store");
		return NULL;
	}
	store->kind = kind;
	store->block_size = options->block_size;
	store->physical_block_size = options->block_size;
	store->alignment = 1;
	store->read_only = options->read_only;
	store->fd = -1;
	store->page_cache_fd = store->sync_fd = -1;
	store->ops = ops;
	store->line = store_line_take();
	store->place = store->line;
	store->number = __atomic_add_fetch(&store_numbers, 1, __ATOMIC_RELAXED);
	return store;
}

int store_fit(const char *name, uint64_t asked, uint64_t there, uint32_t block_size,
	      uint64_t *size, char *err, size_t len)
{
	uint64_t take = asked ? asked : there;

	if (asked > there)
		return store_refuse(err, len, EFBIG,
				    "%s holds %llu bytes, fewer than the requested size of %llu: "
				    "make it larger (truncate -s %llu), or request less", name,
				    (unsigned long long)there, (unsigned long long)asked,
				    (unsigned long long)asked);
	take -= take % block_size;
	if (!take)
		return store_refuse(err, len, EINVAL,
				    "%s is too small: %llu bytes, but one block has %u", name,
				    (unsigned long long)(asked ? asked : there), block_size);
	*size = take;
	return 0;
}

static const struct {
	const char *name;
	struct store *(*open)(const struct store_options *options, char *err, size_t len);
	bool has_path;
} kinds[] = {
	{ "ram", store_ram_open, false },
	{ "file", store_file_open, true },
	{ "pmem", store_pmem_open, true },
	{ "null", store_null_open, false },
	{ "python", store_python_open, false },
};

struct store *store_open(const struct store_options *options, char *err, size_t len)
{
	const char *kind = options->kind ? options->kind : "";

	if (len)
		err[0] = '\0';
	if (options->block_size != 512 && options->block_size != 4096) {
		store_refuse(err, len, EINVAL, "a block size of %u is not supported: use 512 or 4096",
			     options->block_size);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, kind))
			continue;
		if (kinds[i].has_path && (!options->path || !options->path[0])) {
			store_refuse(err, len, EINVAL, "a %s store needs a path", kind);
			return NULL;
		}
		return kinds[i].open(options, err, len);
	}
	store_refuse(err, len, EINVAL, "unknown store \"%s\": use ram, file, pmem, null or python",
		     kind);
	return NULL;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	if (store->ops->close)
		store->ops->close(store);
	if (store->map) {
		store_unguard_map(store->map);
		munmap(store->map, store->map_length);
	}
	free(store->touched);
	free(store->redo);
	free(store->said);
	if (store->page_cache_fd >= 0)
		close(store->page_cache_fd);
	if (store->sync_fd >= 0)
		close(store->sync_fd);
	if (store->fd >= 0)
		close(store->fd);
	store_line_give(store->line);
	free(store->path);
	free(store);
}

int store_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	return store->ops->resize(store, size, err, len);
}

static uint16_t store_admit(const struct store *store, const struct store_io *io)
{
	uint64_t size = __atomic_load_n(&store->size, __ATOMIC_RELAXED);

	if (io->op == STORE_FLUSH)
		return NVME_SUCCESS;
	if (io->offset > size || io->length > size - io->offset)
		return NVME_LBA_OUT_OF_RANGE;
	if (store->read_only && io->op != STORE_READ)
		return NVME_NAMESPACE_WRITE_PROTECTED;
	return NVME_SUCCESS;
}

void store_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	uint16_t status = store_admit(store, io);
	bool nothing = io->op == STORE_FLUSH ? store->read_only : io->length == 0;

	if (status || nothing) {
		io->done(io, status);
		return;
	}
	io->store = store;
	io->next = NULL;
	io->moved = 0;
	io->attempt = 0;
	io->status = NVME_SUCCESS;
	store->ops->submit(ring, store, io);
}
