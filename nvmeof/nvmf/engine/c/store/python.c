/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python stores: opening, closing, and the side of the answering thread.
 * Owns the slots that calls are in, and the eventfd.  A slot belongs to a reactor or to the answering thread, as its
 * state says (python_internal.h).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "python_internal.h"

enum {
	NUMBER_SHIFT = 6,	/* a call's number is a count, then its slot */
	CALLS_DEFAULT = STORE_PYTHON_CALLS,
	BYTES_DEFAULT = 8 << 20,
	LIMIT_DEFAULT_MS = 10000,
};
static_assert(1 << NUMBER_SHIFT == STORE_PYTHON_CALLS, "a bit of a word for each slot");

static struct store_python *python_of(const struct store *store)
{
	return store->own;
}

static uint64_t python_bit(const struct python_slot *slot)
{
	return UINT64_C(1) << (slot - slot->of->slot);
}

void python_release(struct python_slot *slot)
{
	struct store_python *p = slot->of;

	atomic_fetch_and(&p->expired, ~python_bit(slot));
	atomic_fetch_sub(&p->bytes, slot->bytes);
	slot->number += 1u << NUMBER_SHIFT;
	atomic_store(&slot->state, PYTHON_FREE);
	atomic_fetch_or(&p->free, python_bit(slot));
}

/* The ring lives until its answering is 0 and it has no io, and this call's io has not ended yet. */
void python_give(struct python_slot *slot)
{
	static const uint64_t one = 1;
	struct python_ring *ring = slot->ring;
	struct python_slot *before = atomic_load(&ring->answered);

	atomic_fetch_add(&ring->answering, 1);
	atomic_store(&slot->state, PYTHON_ANSWERED);
	do {
		slot->next = before;
	} while (!atomic_compare_exchange_weak(&ring->answered, &before, slot));
	/* The woken reactor takes all slots answered by then: one write is enough. */
	if (!before)
		(void)!write(ring->wake_fd, &one, sizeof(one));
	atomic_fetch_sub(&ring->answering, 1);
}

int store_python_fd(const struct store *store)
{
	return python_of(store)->event_fd;
}

static struct python_slot *python_next(struct store_python *p)
{
	struct python_slot *slot, *next;
	uint64_t count;

	if (!p->taken) {
		(void)!read(p->event_fd, &count, sizeof(count));
		for (slot = atomic_exchange(&p->posted, NULL); slot; slot = next) {
			next = slot->next;
			slot->next = p->taken;
			p->taken = slot;
		}
	}
	slot = p->taken;
	if (slot)
		p->taken = slot->next;
	return slot;
}

bool store_python_take(struct store *store, struct store_python_call *call)
{
	struct store_python *p = python_of(store);
	struct python_slot *slot;

	while ((slot = python_next(p))) {
		int state = PYTHON_POSTED;

		if (!atomic_compare_exchange_strong(&slot->state, &state, PYTHON_COPYING)) {
			python_release(slot);	/* it has expired */
			continue;
		}
		*call = (struct store_python_call){
			.number = slot->number,
			.op = slot->op,
			.flags = slot->flags,
			.offset = atomic_load_explicit(&slot->offset, memory_order_relaxed),
			.length = atomic_load_explicit(&slot->length, memory_order_relaxed),
			.data = slot->op == STORE_WRITE ? slot->io->buffer : NULL,
		};
		return true;
	}
	return false;
}

static struct python_slot *python_slot_of(const struct store *store, uint64_t number)
{
	struct python_slot *slot = &python_of(store)->slot[number % STORE_PYTHON_CALLS];

	return slot->number == number ? slot : NULL;
}

void store_python_taken(struct store *store, uint64_t number)
{
	struct python_slot *slot = python_slot_of(store, number);

	if (slot)
		atomic_store(&slot->state, PYTHON_RUNNING);
}

bool store_python_answer(struct store *store, uint64_t number, uint16_t status, int error,
			 const void *data, uint64_t length)
{
	struct python_slot *slot = python_slot_of(store, number);
	int state = PYTHON_RUNNING;

	if (!slot)
		return false;
	if (!atomic_compare_exchange_strong(&slot->state, &state, PYTHON_COPYING)) {
		if (state == PYTHON_EXPIRED)
			python_release(slot);
		return false;
	}
	if (slot->op == STORE_READ && !status) {
		if (data && length == slot->io->length)
			memcpy(slot->io->buffer, data, length);
		else
			status = NVME_INTERNAL_ERROR;
	}
	if (status)
		__atomic_store_n(&store->last_error, error, __ATOMIC_RELAXED);
	slot->status = status;
	python_give(slot);
	return true;
}

void store_python_stop(struct store *store)
{
	atomic_store(&python_of(store)->stopped, true);
}

/* ---- control thread ---- */

static int python_resize(struct store *store, uint64_t size, char *err, size_t len)
{
	int rc = store_fit("the python store", 0, size ? size : store->size, store->block_size,
			   &size, err, len);

	if (!rc)
		__atomic_store_n(&store->size, size, __ATOMIC_RELEASE);
	return rc;
}

static void python_close(struct store *store)
{
	struct store_python *p = python_of(store);

	if (p && p->event_fd >= 0)
		close(p->event_fd);
	free(p);
}

static void python_submit(struct store_ring *ring, struct store *store, struct store_io *io)
{
	if (io->op == STORE_DEALLOCATE && !store->deallocate)
		io->done(io, NVME_SUCCESS);	/* it is a hint */
	else if (atomic_load_explicit(&python_of(store)->stopped, memory_order_relaxed))
		io->done(io, NVME_ABORTED_SQ_DELETED);
	else
		store_ring_python(ring, io);
}

const struct store_ops store_python_ops = {
	.submit = python_submit,
	.resize = python_resize,
	.close = python_close,
};

static struct store_python *python_new(const struct store_options *options)
{
	struct store_python *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->calls = options->calls ? options->calls : CALLS_DEFAULT;
	p->bytes_most = options->bytes ? options->bytes : BYTES_DEFAULT;
	p->limit_ns = UINT64_C(1000000) * (options->limit_ms ? options->limit_ms : LIMIT_DEFAULT_MS);
	atomic_store(&p->free, p->calls == STORE_PYTHON_CALLS ? UINT64_MAX
							      : (UINT64_C(1) << p->calls) - 1);
	for (unsigned i = 0; i < STORE_PYTHON_CALLS; i++) {
		p->slot[i].of = p;
		p->slot[i].number = i;
	}
	p->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return p;
}

struct store *store_python_open(const struct store_options *options, char *err, size_t len)
{
	uint32_t physical = options->physical_block_size;
	struct store_python *p;
	struct store *store;
	uint64_t size;

	if (options->calls > STORE_PYTHON_CALLS) {
		store_refuse(err, len, EINVAL, "a python store permits 1 to %d calls at a time, not %u",
			     STORE_PYTHON_CALLS, options->calls);
		return NULL;
	}
	if (physical & (physical - 1)) {
		store_refuse(err, len, EINVAL, "a physical block size of %u is not a power of two",
			     physical);
		return NULL;
	}
	if (store_fit("the python store", 0, options->size, options->block_size, &size, err, len))
		return NULL;
	store = store_new(STORE_PYTHON, options, &store_python_ops, err, len);
	if (!store)
		return NULL;
	store->own = p = python_new(options);
	if (!p || p->event_fd < 0) {
		store_refuse(err, len, p ? errno : ENOMEM, "cannot create a python store: %s",
			     p ? strerror(errno) : "out of memory");
		store_close(store);
		return NULL;
	}
	store->size = size;
	if (physical > store->block_size)
		store->physical_block_size = physical;
	store->volatile_write_cache = options->volatile_write_cache && !options->read_only;
	store->deallocate = options->deallocate && !options->read_only;
	store->guarantee = options->read_only ? "nothing is written: the store is read only"
			   : store->volatile_write_cache
				   ? "a write is stable once flushed or with FUA, as the store defines it"
				   : "a write is as stable as the store makes it before it completes";
	return store;
}
