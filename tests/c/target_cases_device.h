/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that pin memory, for which the embedded one is used: it is opened and namespaces are registered in the
 * background, and registered pages are not released.
 */
#ifndef TESTS_TARGET_CASES_DEVICE_H
#define TESTS_TARGET_CASES_DEVICE_H

#include "store/store_internal.h"
#include "target/calls.h"
#include "target_cases_fua.h"

#include <semaphore.h>
#include <sys/mman.h>

enum { PINNED_BYTES = 4 << 20, PINNED_PAGES = PINNED_BYTES / 4096 };

/*
 * A registration that is held when a driver has pinned every page, and a command that is held while it releases
 * pages: the test decides when each continues.
 */
static struct {
	const uint8_t *map;
	sem_t entered, leave;		/* the registration of map */
	sem_t giving, gave;		/* the command */
	const struct store_ops *ops;
	_Atomic bool gives, gave_meanwhile;
	bool slow;
} pinned;
static struct ibv_context second;

/* The number of a namespace's pages that are not resident. */
static unsigned absent(const uint8_t *map)
{
	static unsigned char page[PINNED_PAGES];
	unsigned count = 0;

	if (mincore((void *)(uintptr_t)map, PINNED_BYTES, page))
		return PINNED_PAGES;
	for (unsigned i = 0; i < PINNED_PAGES; i++)
		count += !(page[i] & 1);
	return count;
}

static bool patient_wait(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CHECK_PATIENCE_S;
	return !sem_timedwait(sem, &until);
}

/* Like a driver that pins: every page becomes resident, and must remain so. */
static struct ibv_mr *pinning_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	if (addr == pinned.map) {
		pinned.gave_meanwhile = pinned.gives;
		for (size_t i = 0; i < PINNED_BYTES; i += 4096)
			__atomic_fetch_or((uint8_t *)addr + i, 0, __ATOMIC_RELAXED);
		sem_post(&pinned.entered);
		patient_wait(&pinned.leave);
	} else if (pinned.slow) {
		nanosleep(&pause, NULL);
	}
	return verbs_iwarp()->reg_mr(pd, addr, length, access);
}

/* The first command that releases pages has begun to, and ends when the test permits it. */
static void held_zero(struct store *store, uint64_t offset, uint64_t length)
{
	const struct timespec grace = { .tv_nsec = 50000000 };

	pinned.gives = true;
	if (pinned.ops) {
		const struct store_ops *ops = pinned.ops;

		pinned.ops = NULL;
		sem_post(&pinned.giving);
		patient_wait(&pinned.gave);
		nanosleep(&grace, NULL);	/* time for a registration that does not wait to begin */
		ops->zero(store, offset, length);
		store->ops = ops;
	}
	pinned.gives = false;
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

/*
 * A device that pins is opened while a command releases pages: the namespace is registered after that. While it is
 * registered, and from then on, no pages are released.
 */
static void case_pinned(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50 };
	struct store_options ram = { .kind = "ram", .size = PINNED_BYTES, .block_size = 512 };
	struct range range = { .blocks = PINNED_BYTES / 512 };
	struct target_namespace *ns;
	struct store_ops held;
	struct nvme_sqe sqe;
	struct verbs pins;
	struct store *store;
	struct queue *q;

	lab_pins = false;
	lab_start(&options);
	ns = lab_namespace(1, &ram, &store);
	madvise(store->map, PINNED_BYTES, MADV_NOHUGEPAGE);
	sem_init(&pinned.entered, 0, 0);
	sem_init(&pinned.leave, 0, 0);
	sem_init(&pinned.giving, 0, 0);
	sem_init(&pinned.gave, 0, 0);
	pinned.map = store->map;
	q = queue_open(1, 32, 4096);
	fill(q->memory, PINNED_BYTES, 3);
	CHECK(!run_io(q, 1, NVME_OPC_WRITE, 0, PINNED_BYTES / 512, 0) && !absent(store->map) &&
	      !run_dsm(q, 1, &range, 1, 16, 4) && absent(store->map),
	      "Deallocate gives pages back where no device pins them");

	held = *store->ops;
	held.zero = held_zero;
	pinned.ops = store->ops;
	store->ops = &held;
	memcpy(q->memory, &range, sizeof(range));
	sqe = sqe_new(q, NVME_OPC_DSM, 0, 16);
	sqe.nsid = 1;
	sqe.cdw11 = 4;
	queue_send(q, &sqe, NULL, 0);
	CHECK(patient_wait(&pinned.giving), "a command is giving pages back");
	/* A second device: another context of the same one. */
	second = *embedded_context();
	pins = *lab.v;
	pins.pins_memory = true;
	pins.reg_mr = pinning_reg_mr;
	CHECK(device_open(&pins, &second) == -EAGAIN, "a device that pins is opened in the background");
	sem_post(&pinned.gave);
	CHECK(!queue_wait(q, sqe.cid), "the command ends");
	CHECK(patient_wait(&pinned.entered) && !pinned.gave_meanwhile,
	      "the device is shown the namespace when no command gives pages back any longer");
	CHECK(!absent(store->map), "pinned: every page is there");
	CHECK(!run_dsm(q, 1, &range, 1, 16, 4) && !absent(store->map),
	      "pinned: none is released while it is being registered (%u)", absent(store->map));
	sem_post(&pinned.leave);
	CHECK(LAB_UNTIL(atomic_load(&ns->window[1])), "the namespace is registered with it");
	CHECK(!run_dsm(q, 1, &range, 1, 16, 4) && !absent(store->map) && zeroes(q, 1, 0, 8),
	      "pinned: nor afterwards, and deallocated blocks are zeroes all the same");
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
	CHECK(!q->established && strstr(q->reason, "being prepared"),
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
	CHECK(round_trip(q, 1, 3, 64), "a removed device serves its connected hosts");
	queue_close(q);
	CHECK(LAB_UNTIL(!atomic_load(&ns->window[0])), "and is released after them");
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
