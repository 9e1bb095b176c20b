/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault filter.  Owns the store below it.  It takes a lock on the I/O path, so it is for tests only.
 */
#include "fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store_internal.h"

struct fault {
	struct store *inner;
	pthread_mutex_t lock;	/* protects the fields below */
	struct store_fault_options options;
	bool armed;
	uint64_t matched;
	uint64_t hits;
};

static bool fault_matches(const struct store_fault_options *options, const struct store_io *io)
{
	uint64_t end = options->length ? options->offset + options->length : UINT64_MAX;

	if (options->ops && !(options->ops & 1u << io->op))
		return false;
	return io->op == STORE_FLUSH ||
	       (io->offset < end && io->offset + io->length > options->offset);
}

static bool fault_hit(struct fault *fault, const struct store_io *io, struct store_fault_options *how)
{
	bool is = false;

	pthread_mutex_lock(&fault->lock);
	*how = fault->options;
	if (fault->armed && fault_matches(how, io) && fault->matched++ >= how->after &&
	    (!how->count || fault->hits < how->count)) {
		fault->hits++;
		is = true;
	}
	pthread_mutex_unlock(&fault->lock);
	return is;
}

static void fault_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	struct fault *fault = store->own;
	struct store_fault_options how;

	io->store = fault->inner;
	if (fault_hit(fault, io, &how)) {
		if (how.delay_us) {
			io->status = how.status;
			io->deadline = clock_ns() + how.delay_us * UINT64_C(1000);
			store_ring_delay(ring, io);
			return;
		}
		if (how.status) {
			io->done(io, how.status);
			return;
		}
	}
	fault->inner->ops->submit(ring, fault->inner, io);
}

static int fault_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	struct fault *fault = store->own;
	int rc = store_resize(fault->inner, size, err, len);

	if (!rc)
		__atomic_store_n(&store->size, fault->inner->size, __ATOMIC_RELEASE);
	return rc;
}

static void fault_close(struct store *store)
{
	struct fault *fault = store->own;

	store_close(fault->inner);
	pthread_mutex_destroy(&fault->lock);
	free(fault);
}

static const struct store_ops fault_ops = {
	.submit = fault_submit,
	.resize = fault_resize,
	.close = fault_close,
};

struct store *store_fault(struct store *inner, const struct store_fault_options *options)
{
	struct store *store = malloc(sizeof(*store));
	struct fault *fault = calloc(1, sizeof(*fault));
	char *path = inner->path ? strdup(inner->path) : NULL;

	if (!store || !fault || (inner->path && !path)) {
		free(store);
		free(fault);
		free(path);
		store_close(inner);
		return NULL;
	}
	*store = *inner;
	store->path = path;
	store->line = store_line_take();
	store->map = NULL;
	store->touched = NULL;
	store->redo = NULL;
	store->said = NULL;
	store->map_length = 0;
	store->fd = store->page_cache_fd = store->sync_fd = -1;
	store->ops = &fault_ops;
	store->own = fault;
	fault->inner = inner;
	pthread_mutex_init(&fault->lock, NULL);
	store_fault_set(store, options);
	return store;
}

int store_fault_set(struct store *store, const struct store_fault_options *options)
{
	struct fault *fault = store->own;

	if (store->ops != &fault_ops)
		return -EINVAL;
	pthread_mutex_lock(&fault->lock);
	fault->armed = options != NULL;
	fault->options = options ? *options : (struct store_fault_options){ 0 };
	fault->matched = fault->hits = 0;
	pthread_mutex_unlock(&fault->lock);
	return 0;
}

uint64_t store_fault_hits(struct store *store)
{
	struct fault *fault = store->own;
	uint64_t hits;

	if (store->ops != &fault_ops)
		return 0;
	pthread_mutex_lock(&fault->lock);
	hits = fault->hits;
	pthread_mutex_unlock(&fault->lock);
	return hits;
}
