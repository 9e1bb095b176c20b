/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target to which capsules are sent: created once, with a namespace of each kind of store.  It has no threads: its
 * user calls reactor_poll().
 */
#ifndef FUZZ_TARGET_WORLD_H
#define FUZZ_TARGET_WORLD_H

#include "target_mock.h"

static inline bool pool_is_whole(const struct pool *pool)
{
	for (int i = 0; i < POOL_CLASSES; i++)
		if (pool->shelf[i].free_count != pool->shelf[i].count || pool->shelf[i].line.head)
			return false;
	return !pool->returned.head;
}

static struct world {
	struct target *target;
	struct target_nstable *table;
	struct target_gates *gates;
	struct store stores[4];
	struct target_namespace *ns[4];
} world;

static void make_store(unsigned i, enum store_kind kind, bool in_place, uint32_t alignment)
{
	struct store *s = &world.stores[i];
	uint8_t *bytes = aligned_alloc(4096, STORE_BYTES);
	char err[200];

	memset(bytes, 0, STORE_BYTES);
	*s = (struct store){ .kind = kind, .size = STORE_BYTES, .block_size = i & 1 ? 4096 : 512,
			     .alignment = alignment, .deallocate = !(i & 2), .map = in_place ? bytes : NULL,
			     .map_length = STORE_BYTES, .memory_is_stable = !(i & 2), .fd = -1,
			     .own = bytes };
	world.ns[i] = target_namespace_create(world.target, i + 1, s, err, sizeof(err));
	REQUIRE(world.ns[i] && !target_nstable_set(world.table, i + 1, world.ns[i]));
}

static void make_world(void)
{
	struct target_options options = { .reactors = 1, .buffer_size = 32768, .buffers = 6 };
	char err[200];

	world.target = target_make(&options, err, sizeof(err));
	REQUIRE(world.target);
	world.table = target_nstable_create(world.target, 5);
	world.gates = target_gates_create(world.target, 5);
	make_store(0, STORE_RAM, true, 1);
	make_store(1, STORE_FILE, false, 512);
	make_store(2, STORE_PMEM, true, 1);
	make_store(3, STORE_NULL, false, 1);
	mock.host = malloc(HOST_MEMORY);
	memset(mock.host, 0x5a, HOST_MEMORY);
}

static void unlimited(unsigned i)
{
	static const struct target_limits none;

	target_namespace_limits(world.ns[i], &none);
}

#endif
