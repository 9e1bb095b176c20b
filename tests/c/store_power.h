/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of persistent memory in place of store/persist.c: stored data reaches the media at the fence, and after a
 * failure before the fence, any part of it may have: none, all, some lines, or some words of lines.
 */
#ifndef STORE_POWER_H
#define STORE_POWER_H

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "store/redo.c"

enum { MAP = 32 << 10, ALL = MAP + STORE_REDO_BYTES, PENDING = 128, MODES = 9, NEVER = 1 << 30 };

static _Alignas(4096) uint8_t memory[ALL];	/* the processor's view */
static uint8_t media[ALL];			/* the content after a power failure */
static struct { size_t at, length; unsigned thread; uint8_t bytes[LINE]; } pending[PENDING];
static unsigned pendings, crash_after;
static unsigned thread;			/* a fence is about the stores of its thread */
static unsigned fences, fence_left_out = UINT32_MAX;	/* of a write: 0 to 3 */
static jmp_buf crashed;

static void power_step(void)
{
	if (!crash_after--)
		longjmp(crashed, 1);
}

static void power_store(uint8_t *to, const void *from, size_t length)
{
	power_step();
	memcpy(to, from, length);
	pending[pendings].at = (size_t)(to - memory);
	pending[pendings].length = length;
	pending[pendings].thread = thread;
	memcpy(pending[pendings++].bytes, from, length);
}

static void power_fence(void)
{
	unsigned left = 0;

	power_step();
	if (fences++ == fence_left_out)
		return;
	for (unsigned i = 0; i < pendings; i++)
		if (pending[i].thread == thread)
			memcpy(media + pending[i].at, pending[i].bytes, pending[i].length);
		else
			pending[left++] = pending[i];
	pendings = left;
}

bool store_persist_supported(void)
{
	return true;
}

void store_persist_copy(void *to_void, const void *from_void, size_t length)
{
	const uint8_t *from = from_void;
	uint8_t *to = to_void;

	while (length) {
		size_t now = LINE - ((uintptr_t)to & (LINE - 1));

		now = now < length ? now : length;
		power_store(to, from, now);
		to += now;
		from += now;
		length -= now;
	}
	power_fence();
}

void store_persist_word(uint64_t *to, uint64_t value)
{
	power_store((uint8_t *)to, &value, sizeof(value));
	power_fence();
}

static uint64_t random_state = 88172645463325252ull;

static uint64_t power_random(void)
{
	uint64_t x = random_state;

	x ^= x << 13, x ^= x >> 7, x ^= x << 17;
	return random_state = x;
}

/* Whether the word at byte j of pending line i is on the media when the power fails. */
static bool power_left(unsigned mode, unsigned i)
{
	switch (mode) {
	case 0:
		return false;
	case 1:
		return true;
	case 2:
		return i % 2;
	case 3:
		return i + 1 == pendings;
	case 4:
		return i + 1 < pendings;
	default:
		return power_random() & 1;
	}
}

static void power_fail(unsigned mode)
{
	for (unsigned i = 0; i < pendings; i++) {
		bool left = power_left(mode, i);

		for (size_t j = 0; j < pending[i].length; j += 8)
			if (mode < 7 ? left : power_random() & 1)
				memcpy(media + pending[i].at + j, pending[i].bytes + j, 8);
	}
	pendings = 0;
	memcpy(memory, media, ALL);
}

static inline struct store power_store_of(uint32_t block_size)
{
	return (struct store){
		.kind = STORE_PMEM, .size = MAP, .block_size = block_size, .map = memory, .map_length = MAP,
		.memory_is_stable = true, .path = (char *)"the store", .fd = 0,
	};
}

/* Returns the result of opening, or 1: the power failed during it. */
static inline int power_opened(struct store *store, unsigned after, bool wanted, char *err, size_t len)
{
	crash_after = after;
	if (setjmp(crashed))
		return 1;
	return store_redo_open(store, memory + MAP, wanted, err, len);
}

static inline bool power_write(struct store *store, uint64_t offset, const uint8_t *data, size_t length,
			       unsigned after)
{
	crash_after = after;
	if (setjmp(crashed))
		return false;
	store_memory_write(store, offset, data, length, false);
	return true;
}

static inline void power_close(struct store *store)
{
	free(store->redo);
	store->redo = NULL;
}

#endif
