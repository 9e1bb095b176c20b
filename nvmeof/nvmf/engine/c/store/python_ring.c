/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python stores, on the side of a reactor: which io may be posted, which waits, and which has waited too long.
 *
 * A ring may use a slot of a store if it uses none of them, or fewer than twice the number of free ones: then
 * every reactor gets some, and one alone gets two thirds.  The ios of a store wait in order, except that an io which
 * overlaps an expired write does not delay the ios after it.
 *
 * Owns one ring's lines and its share of the slots.  Reactor's thread.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "../util/clock.h"
#include "../util/fifo.h"
#include "python_internal.h"

enum {
	LOOK_NS = 100000000,		/* between two checks of deadlines */
	LOOK_WAITING_NS = 5000000,	/* while ios wait for slots that others use */
};

static struct store_python *python_of(const struct store_io *io)
{
	return io->store->own;
}

/* ---- slots ---- */

static bool is_expired_overlap(struct store_python *p, const struct store_io *io)
{
	uint64_t expired = atomic_load(&p->expired);

	if (io->op == STORE_FLUSH)
		return false;
	for (; expired; expired &= expired - 1) {
		const struct python_slot *slot = &p->slot[__builtin_ctzll(expired)];
		uint64_t offset = atomic_load_explicit(&slot->offset, memory_order_relaxed);
		uint64_t length = atomic_load_explicit(&slot->length, memory_order_relaxed);

		if (offset < io->offset + io->length && io->offset < offset + length)
			return true;
	}
	return false;
}

static bool charge(struct store_python *p, uint64_t bytes)
{
	uint64_t used = atomic_load(&p->bytes);

	do {
		if (used && used + bytes > p->bytes_most)
			return false;
	} while (!atomic_compare_exchange_weak(&p->bytes, &used, used + bytes));
	return true;
}

/* NULL: the io has to wait. */
static struct python_slot *claim(struct store_python *p, const struct python_line *line, uint64_t bytes)
{
	uint64_t free = atomic_load(&p->free);

	if (!free || (line->active && line->active >= 2u * (unsigned)__builtin_popcountll(free)))
		return NULL;
	if (!charge(p, bytes))
		return NULL;
	while (free) {
		if (atomic_compare_exchange_weak(&p->free, &free, free & (free - 1)))
			return &p->slot[__builtin_ctzll(free)];
	}
	atomic_fetch_sub(&p->bytes, bytes);
	return NULL;
}

static void post(struct python_ring *ring, struct python_slot *slot)
{
	static const uint64_t one = 1;
	struct store_python *p = slot->of;
	struct python_slot *before = atomic_load(&p->posted);

	list_push(&ring->calls, &slot->link);
	do {
		slot->next = before;
	} while (!atomic_compare_exchange_weak(&p->posted, &before, slot));
	/* The answering thread reads the descriptor before it takes what is posted: one write is enough. */
	if (!before)
		(void)!write(p->event_fd, &one, sizeof(one));
}

static bool begin(struct python_ring *ring, struct python_line *line, struct store_io *io)
{
	uint64_t bytes = io->op == STORE_READ || io->op == STORE_WRITE ? io->length : 0;
	struct python_slot *slot = claim(python_of(io), line, bytes);

	if (!slot)
		return false;
	line->active++;
	slot->bytes = bytes;
	slot->io = io;
	slot->ring = ring;
	slot->op = io->op;
	slot->flags = io->flags;
	atomic_store_explicit(&slot->offset, io->offset, memory_order_relaxed);
	atomic_store_explicit(&slot->length, io->length, memory_order_relaxed);
	atomic_store(&slot->state, PYTHON_POSTED);
	post(ring, slot);
	return true;
}

/* ---- lines ---- */

/* Check deadlines within ns; returns whether that is earlier than planned. */
static bool look_within(struct python_ring *ring, uint64_t ns)
{
	uint64_t at;

	if (ring->look && ns == LOOK_NS)
		return false;
	at = clock_ns() + ns;
	if (ring->look && ring->look <= at)
		return false;
	ring->look = at;
	return true;
}

bool python_ring_begin(struct python_ring *ring, struct store_io *io)
{
	struct python_line *line = &ring->line[io->store->line];
	struct store_python *p = python_of(io);

	ring->held++;
	io->deadline = clock_ns() + p->limit_ns;
	if (!line->waiting.head && !is_expired_overlap(p, io) && begin(ring, line, io))
		return look_within(ring, LOOK_NS);
	if (!list_has(&line->link))
		list_push(&ring->lines, &line->link);
	store_list_push(&line->waiting, io);
	return look_within(ring, LOOK_WAITING_NS);
}

static void serve_line(struct python_ring *ring, struct python_line *line)
{
	struct store_list waiting = line->waiting;
	struct store_io *io;
	bool full = false;

	store_list_init(&line->waiting);
	if (!waiting.head)
		return;
	while ((io = store_list_pop(&waiting))) {
		bool overlaps = !full && is_expired_overlap(python_of(io), io);

		if (!full && !overlaps && begin(ring, line, io))
			continue;
		full |= !overlaps;
		store_list_push(&line->waiting, io);
	}
	if (!line->waiting.head)
		list_remove(&line->link);
}

static void serve(struct python_ring *ring)
{
	struct list_link *link, *next;

	for (link = ring->lines.head; link; link = next) {
		next = link->next;
		serve_line(ring, container_of(link, struct python_line, link));
	}
}

/* Move the wanted ios that wait to another list. */
static void extract(struct python_ring *ring, bool (*wanted)(const struct store_io *, const void *),
		    const void *arg, struct store_list *to)
{
	struct list_link *link, *next;

	for (link = ring->lines.head; link; link = next) {
		struct python_line *line = container_of(link, struct python_line, link);
		struct store_list all = line->waiting;
		struct store_io *io;

		next = link->next;
		store_list_init(&line->waiting);
		if (!all.head)
			continue;
		while ((io = store_list_pop(&all))) {
			if (!wanted(io, arg)) {
				store_list_push(&line->waiting, io);
				continue;
			}
			ring->held--;
			store_list_push(to, io);
		}
		if (!line->waiting.head)
			list_remove(&line->link);
	}
}

unsigned python_ring_waiting(const struct python_ring *ring,
			     bool (*wanted)(const struct store_io *io, const void *arg),
			     const void *arg)
{
	unsigned count = 0;

	for (struct list_link *link = ring->lines.head; link; link = link->next) {
		const struct python_line *line = container_of(link, struct python_line, link);

		for (const struct store_io *io = line->waiting.head; io; io = io->next)
			count += wanted(io, arg);
	}
	return count;
}

void python_ring_cancel(struct python_ring *ring,
			bool (*wanted)(const struct store_io *io, const void *arg), const void *arg,
			struct store_list *cancelled)
{
	extract(ring, wanted, arg, cancelled);
}

/* ---- ends ---- */

static uint16_t end_status(const struct store_io *io)
{
	if (atomic_load(&python_of(io)->stopped))
		return NVME_ABORTED_SQ_DELETED;
	__atomic_store_n(&io->store->last_error, ETIMEDOUT, __ATOMIC_RELAXED);
	return NVME_INTERNAL_ERROR;
}

static bool is_over(const struct store_io *io, const void *now)
{
	return io->deadline <= *(const uint64_t *)now || atomic_load(&python_of(io)->stopped);
}

static void end_call(struct python_ring *ring, struct python_slot *slot, struct store_io *io,
		     uint16_t status, struct store_list *finished)
{
	list_remove(&slot->link);
	ring->line[io->store->line].active--;
	ring->held--;
	io->status = status;
	store_list_push(finished, io);
}

/* Leave the slot to the answering thread, without its io; false if that is not possible now. */
static bool expire(struct python_slot *slot)
{
	uint64_t bit = UINT64_C(1) << (slot - slot->of->slot);
	int state = PYTHON_POSTED;

	/* Before the command ends, so that no overlapping one is posted after it. */
	if (slot->op != STORE_READ && slot->op != STORE_FLUSH)
		atomic_fetch_or(&slot->of->expired, bit);
	if (atomic_compare_exchange_strong(&slot->state, &state, PYTHON_EXPIRED))
		return true;
	state = PYTHON_RUNNING;
	if (atomic_compare_exchange_strong(&slot->state, &state, PYTHON_EXPIRED))
		return true;
	atomic_fetch_and(&slot->of->expired, ~bit);
	return false;	/* the call is being taken or answered now: expire it at the next check */
}

static void end_late(struct python_ring *ring, struct store_list *finished)
{
	uint64_t now = clock_ns();
	struct list_link *link, *next;
	struct store_list late;
	struct store_io *io;

	for (link = ring->calls.head; link; link = next) {
		struct python_slot *slot = container_of(link, struct python_slot, link);

		next = link->next;
		io = slot->io;
		if (is_over(io, &now)) {
			uint16_t status = end_status(io);

			/* After this the answering thread may use the slot: unlink it before. */
			list_remove(&slot->link);
			if (expire(slot)) {
				ring->line[io->store->line].active--;
				ring->held--;
				io->status = status;
				store_list_push(finished, io);
			} else {
				list_push(&ring->calls, &slot->link);
			}
		}
	}
	store_list_init(&late);
	extract(ring, is_over, &now, &late);
	while ((io = store_list_pop(&late))) {
		io->status = end_status(io);
		store_list_push(finished, io);
	}
}

static void end_answered(struct python_ring *ring, struct store_list *finished)
{
	struct python_slot *slot, *next, *oldest = NULL;

	for (slot = atomic_exchange(&ring->answered, NULL); slot; slot = next) {
		next = slot->next;
		slot->next = oldest;
		oldest = slot;
	}
	for (slot = oldest; slot; slot = next) {
		next = slot->next;
		end_call(ring, slot, slot->io, slot->status, finished);
		python_release(slot);
	}
}

bool python_ring_poll(struct python_ring *ring, struct store_list *finished)
{
	bool changed = false;

	if (atomic_load_explicit(&ring->answered, memory_order_acquire))
		end_answered(ring, finished);
	if (ring->look && clock_ns() >= ring->look) {
		end_late(ring, finished);
		ring->look = 0;
		changed = true;
	}
	if (ring->lines.head)
		serve(ring);
	if (ring->held && !ring->look)
		changed |= look_within(ring, ring->lines.head ? LOOK_WAITING_NS : LOOK_NS);
	return changed;
}

struct python_ring *python_ring_create(int wake_fd)
{
	struct python_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return NULL;
	ring->wake_fd = wake_fd;
	for (unsigned i = 0; i < STORE_LINES; i++)
		store_list_init(&ring->line[i].waiting);
	return ring;
}

void python_ring_destroy(struct python_ring *ring)
{
	while (ring && atomic_load(&ring->answering))
		sched_yield();
	free(ring);
}
