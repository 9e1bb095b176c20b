/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that pin memory, for which the embedded one stands in: it is opened and shown namespaces in the
 * background, and pages that it has seen are not given back.
 */
#ifndef TESTS_TARGET_CASES_DEVICE_H
#define TESTS_TARGET_CASES_DEVICE_H

#include "target/calls.h"
#include "target_cases_fua.h"

enum { PINNED_BYTES = 4 << 20, PINNED_PAGES = PINNED_BYTES / 4096 };

/* The page frames of a namespace as they were while it was being registered. */
static struct {
	const uint8_t *map;
	uint64_t frame[PINNED_PAGES];
	bool seen, slow;
} pinned;
static struct ibv_context second;

/* 0: there is no page; all of them 0: this user may not know. */
static bool read_frames(const uint8_t *map, uint64_t *frame)
{
	FILE *file = fopen("/proc/self/pagemap", "re");
	bool read = file && !fseeko(file, (off_t)((uintptr_t)map / 4096 * 8), SEEK_SET) &&
		    fread(frame, 8, PINNED_PAGES, file) == PINNED_PAGES;
	uint64_t any = 0;

	for (unsigned i = 0; read && i < PINNED_PAGES; i++)
		any |= frame[i] &= (1ull << 55) - 1;
	if (file)
		fclose(file);
	return read && any;
}

/* As a driver that pins: every page is there, and where it is now it has to stay. */
static struct ibv_mr *pinning_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	if (addr == pinned.map) {
		for (size_t i = 0; i < PINNED_BYTES; i += 4096)
			__atomic_fetch_or((uint8_t *)addr + i, 0, __ATOMIC_RELAXED);
		pinned.seen = read_frames(pinned.map, pinned.frame);
		nanosleep(&pause, NULL);
	} else if (pinned.slow) {
		nanosleep(&pause, NULL);
	}
	return verbs_iwarp()->reg_mr(pd, addr, length, access);
}

static struct ibv_context *embedded_context(void)
{
	struct ibv_context **list = verbs_iwarp()->get_devices(NULL), *context = list[0];

	verbs_iwarp()->free_devices(list);
	return context;
}

static int device_open(const struct verbs *verbs, struct ibv_context *context)
{
	char err[256] = "";

	return target_device_open(lab.target, verbs, context, err, sizeof(err));
}

/* Pages are given back all the time while the device is made ready; afterwards none is. */
static void case_pinned(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = PINNED_BYTES, .block_size = 512 };
	struct range range = { .blocks = PINNED_BYTES / 512 };
	uint64_t frame[PINNED_PAGES];
	struct target_namespace *ns;
	struct verbs pins;
	struct store *store;
	unsigned moved = 0;
	struct queue *q;

	lab_pins = false;
	lab_start(&options);
	ns = lab_namespace(1, &ram, &store);
	madvise(store->map, PINNED_BYTES, MADV_NOHUGEPAGE);
	pinned.map = store->map;
	q = queue_open(1, 32, 4096);
	fill(q->memory, PINNED_BYTES, 3);
	/* A second device: another context of the same one. */
	second = *embedded_context();
	pins = *lab.v;
	pins.pins_memory = true;
	pins.reg_mr = pinning_reg_mr;
	CHECK(device_open(&pins, &second) == -EAGAIN, "a device that pins is opened in the background");
	for (uint64_t until = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	     !atomic_load(&ns->window[1]) && clock_ns() < until;) {
		run_io(q, 1, NVME_OPC_WRITE, 0, 512, 0);
		run_dsm(q, 1, &range, 1, 16, 4);
	}
	CHECK(atomic_load(&ns->window[1]), "the namespace is registered with it");
	for (unsigned i = 0; i < 5; i++)
		run_dsm(q, 1, &range, 1, 16, 4);
	CHECK(zeroes(q, 1, 0, 8), "deallocated blocks are zeroes all the same");
	if (pinned.seen && CHECK(read_frames(store->map, frame), "page frames can be read"))
		for (unsigned i = 0; i < PINNED_PAGES; i++)
			moved += frame[i] != pinned.frame[i];
	CHECK(!moved, "%u pages are elsewhere than the device has seen them", moved);
	pinned.map = NULL;
	lab_stop();
	store_close(store);
}

/* A queue is accepted, served and ended on a device that is opened in the background. */
static void case_background(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct target_namespace *ns, *other;
	struct store *stores[2];
	struct queue *q;

	lab_pins = true;
	lab_start(&options);
	ns = lab_namespace(1, &ram, &stores[0]);
	q = queue_new(1, 32, 4096);
	queue_dial(q);
	CHECK(!q->established && strstr(q->reason, "made ready"),
	      "a connection that comes too early is put off: %s", q->reason);
	queue_close(q);
	CHECK(LAB_UNTIL(!device_open(lab.v, embedded_context())) && lab.devices == 1,
	      "the device is ready");
	CHECK(LAB_UNTIL(atomic_load(&ns->window[0])), "and has the namespace's memory");
	other = lab_namespace(2, &ram, &stores[1]);
	CHECK(LAB_UNTIL(atomic_load(&other->window[0])), "as that of one which comes later");
	q = queue_open(1, 32, 4096);
	CHECK(round_trip(q, 1, 3, 64) && round_trip(q, 2, 3, 64), "reads and writes");
	target_nstable_set(lab.table, 2, NULL);
	CHECK(LAB_UNTIL(lab.retired_count == 1), "retired");
	CHECK(!target_namespace_destroy(other) && LAB_UNTIL(lab.freed == other),
	      "its memory is deregistered before its store can be closed");
	store_close(stores[1]);
	target_device_gone(lab.target, lab.v, "iwarp0");
	CHECK(round_trip(q, 1, 3, 64), "a device that is gone serves those that it has");
	queue_close(q);
	CHECK(LAB_UNTIL(!atomic_load(&ns->window[0])), "and is let go of after them");
	lab_stop();
	store_close(stores[0]);
	lab_pins = false;
}

/* The target ends while memory is being registered. */
static void case_background_end(void)
{
	struct target_options options = { .reactors = 1, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = PINNED_BYTES, .block_size = 512 };
	struct store *store;

	lab_pins = true;
	pinned.slow = true;
	lab_start(&options);
	lab_verbs.reg_mr = pinning_reg_mr;
	lab_namespace(1, &ram, &store);
	CHECK(device_open(lab.v, embedded_context()) == -EAGAIN, "a device is being opened");
	lab_stop();
	store_close(store);
	pinned.slow = false;
	lab_pins = false;
}

static void test_device(void)
{
	case_background();
	case_pinned();
	case_background_end();
}

#endif
