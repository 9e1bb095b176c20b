/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * null: reads return zeroes, writes are discarded.  To measure everything except the store.
 * Owns nothing; requests complete at once on the reactor that submits them.
 */
#include <string.h>

#include "store_internal.h"

static void null_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	(void)ring;
	(void)store;
	if (io->op == STORE_READ && !(io->flags & STORE_IO_PIECE))	/* a copy's data goes nowhere */
		memset(io->buffer, 0, io->length);
	io->done(io, NVME_SUCCESS);
}

static int null_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	int rc = store_fit("the null store", 0, size ? size : store->size, store->block_size,
			   &size, err, len);

	if (!rc)
		__atomic_store_n(&store->size, size, __ATOMIC_RELEASE);
	return rc;
}

static const struct store_ops null_ops = {
	.submit = null_submit,
	.resize = null_resize,
};

struct store *store_null_open(const struct store_options *options, char *err, size_t len)
{
	struct store *store;
	uint64_t size;

	if (store_fit("the null store", 0, options->size, options->block_size, &size, err, len))
		return NULL;
	store = store_new(STORE_NULL, options, &null_ops, err, len);
	if (!store)
		return NULL;
	store->size = size;
	store->deallocate = true;
	store->guarantee = "no data is kept: writes are discarded and reads return zeroes";
	return store;
}
