/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures of persistent memory, at every line that is written.
 *
 * This program has a model in place of store/persist.c.  A write of a block is stopped at every line, the power
 * fails, the store is opened again, which may be stopped in the same way, and the block must be the old one or the new
 * one.
 *
 * The proof can fail: without any one of the four fences of a write, or if the write completes before its last
 * step, seeded random histories of writes and failures find a block that is torn or lost.
 */
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "store_power.h"

/* false: the power failed during it. */
static bool power_open(struct store *store, unsigned after, bool wanted)
{
	char err[256] = "";
	int rc = power_opened(store, after, wanted, err, sizeof(err));

	if (rc < 0)
		check_that(false, CHECK_HERE, "opens: %s", err);
	return rc <= 0;
}

/* ---- one write, stopped at every line ---- */

struct trial {
	uint32_t block;
	uint64_t offset;
	bool redo;
	unsigned mode;
	const uint8_t *old, *new;
	unsigned torn, lost, strayed, saw_old, saw_new, trials;
};

static uint8_t start[ALL];	/* the media before the write: every block is different, slots are empty */

static void power_look(struct trial *t, bool completed)
{
	const uint8_t *block = memory + t->offset;
	bool is_old = !memcmp(block, t->old, t->block), is_new = !memcmp(block, t->new, t->block);

	t->trials++;
	t->torn += !is_old && !is_new;
	t->lost += completed && !is_new;
	t->saw_old += is_old;
	t->saw_new += is_new;
	t->strayed += memcmp(memory, start, t->offset) ||
		      memcmp(memory + t->offset + t->block, start + t->offset + t->block,
			     MAP - t->offset - t->block);
}

/* The power has failed, and the image is in memory: open it, and fail at every step of that as well. */
static void power_reopen(struct trial *t, bool completed)
{
	static uint8_t image[ALL];

	memcpy(image, memory, ALL);
	for (unsigned after = 0;; after++) {
		struct store store = power_store_of(t->block);
		bool whole;

		memcpy(memory, image, ALL);
		memcpy(media, image, ALL);
		whole = power_open(&store, after, t->redo);
		if (!whole) {
			power_fail((t->mode + after) % MODES);
			power_open(&store, NEVER, t->redo);
		}
		power_look(t, completed);
		power_close(&store);
		if (whole)
			return;
	}
}

static void power_trials(struct trial *t)
{
	for (unsigned after = 0;; after++) {
		struct store store = power_store_of(t->block);
		bool completed;

		memcpy(memory, start, ALL);
		memcpy(media, start, ALL);
		power_open(&store, NEVER, t->redo);
		completed = power_write(&store, t->offset, t->new, t->block, after);
		power_fail(t->mode);
		power_close(&store);
		power_reopen(t, completed);
		if (completed)
			return;
	}
}

static void power_begin(uint32_t block, bool redo)
{
	struct store store = power_store_of(block);

	memset(memory, 0, ALL);
	for (unsigned i = 0; i < MAP; i++)
		memory[i] = (uint8_t)(i * 31 + i / block);
	memcpy(media, memory, ALL);
	if (redo)
		power_open(&store, NEVER, true);
	power_close(&store);
	memcpy(start, media, ALL);
}

static void test_one_write(uint32_t block, uint64_t offset, bool redo)
{
	uint8_t new[4096];
	struct trial t = { .block = block, .offset = offset, .redo = redo, .new = new,
			   .old = start + offset };

	power_begin(block, redo);
	for (unsigned i = 0; i < sizeof(new); i++)
		new[i] = (uint8_t)~start[offset + i % block];
	for (t.mode = 0; t.mode < MODES; t.mode++)
		power_trials(&t);
	if (redo)
		check_that(!t.torn && !t.lost && !t.strayed && t.saw_old && t.saw_new, CHECK_HERE,
			   "%u at %llu: %u failures, %u torn, %u lost, %u strayed, %u old, %u new", block,
			   (unsigned long long)offset, t.trials, t.torn, t.lost, t.strayed, t.saw_old,
			   t.saw_new);
	else
		check_that(t.torn && !t.lost, CHECK_HERE, "without slots blocks are torn: %u of %u",
			   t.torn, t.trials);
}

/* ---- writes of one block by several slots ---- */

static void test_many_slots(void)
{
	enum { BLOCK = 512, WRITES = 4 };
	unsigned bad = 0, trials = 0;

	power_begin(BLOCK, true);
	for (unsigned after = 0;; after++) {
		struct store store = power_store_of(BLOCK);
		uint8_t data[WRITES + 1][BLOCK];
		unsigned done = 0;

		memcpy(memory, start, ALL);
		memcpy(media, start, ALL);
		power_open(&store, NEVER, true);
		memcpy(data[0], memory, BLOCK);
		for (unsigned left = after; done < WRITES; done++) {
			memset(data[done + 1], (int)(done + 1), BLOCK);
			atomic_store(&store.redo->slot[(done * 7 + 5) % SLOTS].busy, true);
			if (!power_write(&store, 0, data[done + 1], BLOCK, left))
				break;
			left = crash_after;
		}
		power_fail(after % MODES);
		power_close(&store);
		power_open(&store, NEVER, true);
		bad += memcmp(memory, data[done], BLOCK) &&
		       (done == WRITES || memcmp(memory, data[done + 1], BLOCK));
		trials++;
		power_close(&store);
		if (done == WRITES)
			break;
	}
	check_that(!bad, CHECK_HERE, "four writes of a block by other slots: %u of %u failures are bad", bad,
		   trials);
}

/* ---- random histories ---- */

enum { HISTORY_BLOCK = 512, HISTORY_WRITES = 6, HISTORY_BLOCKS = 2 };

/* Writes by random slots, a failure at a random step, and opening: whether all promises hold. */
static bool history_holds(unsigned seed, bool early)
{
	struct store store = power_store_of(HISTORY_BLOCK);
	uint8_t last[HISTORY_BLOCKS][HISTORY_BLOCK], next[HISTORY_BLOCK];
	unsigned at = 0, after, done = 0, out = fence_left_out;
	bool whole = true;

	memcpy(memory, start, ALL);
	memcpy(media, start, ALL);
	random_state = (seed + 1) * 0x9e3779b97f4a7c15ull;	/* so that a seed replays */
	fence_left_out = UINT32_MAX;
	power_open(&store, NEVER, true);
	fence_left_out = out;
	for (unsigned i = 0; i < HISTORY_BLOCKS; i++)
		memcpy(last[i], memory + (size_t)i * HISTORY_BLOCK, HISTORY_BLOCK);
	after = (unsigned)(power_random() % (HISTORY_WRITES * 24));
	for (; done < HISTORY_WRITES && whole; done++) {
		for (unsigned i = 0; i < SLOTS; i++)
			atomic_store(&store.redo->slot[i].busy, power_random() & 1);
		atomic_store(&store.redo->slot[power_random() % SLOTS].busy, false);
		at = (unsigned)(power_random() % HISTORY_BLOCKS);
		memset(next, (int)(seed * 7 + done + 1), HISTORY_BLOCK);
		fences = 0;
		whole = power_write(&store, (uint64_t)at * HISTORY_BLOCK, next, HISTORY_BLOCK, after);
		after = crash_after;
		if (whole || (early && fences == 1))	/* the word of the slot is not persistent yet */
			memcpy(last[at], next, HISTORY_BLOCK);
	}
	fence_left_out = UINT32_MAX;
	power_fail(seed % 2 ? 5 : seed / 2 % MODES);
	power_close(&store);
	power_open(&store, NEVER, true);
	power_close(&store);
	fence_left_out = out;
	for (unsigned i = 0; i < HISTORY_BLOCKS; i++) {
		const uint8_t *block = memory + (size_t)i * HISTORY_BLOCK;

		if (memcmp(block, last[i], HISTORY_BLOCK) &&
		    (whole || i != at || memcmp(block, next, HISTORY_BLOCK)))
			return false;
	}
	return true;
}

static unsigned histories_broken(unsigned seeds, bool early)
{
	unsigned broken = 0;

	for (unsigned seed = 0; seed < seeds; seed++)
		broken += !history_holds(seed, early);
	return broken;
}

static void test_histories(void)
{
	enum { SEEDS = 20000, FEWER = 5000 };
	unsigned broken;

	power_begin(HISTORY_BLOCK, true);
	broken = histories_broken(SEEDS, false);
	check_that(!broken, CHECK_HERE, "%u histories: %u have lost or torn a block", SEEDS, broken);
	for (unsigned fence = 0; fence < 4; fence++) {
		fence_left_out = fence;
		broken = histories_broken(FEWER, false);
		check_that(broken, CHECK_HERE, "without fence %u, %u of %u histories show it", fence, broken,
			   FEWER);
	}
	fence_left_out = UINT32_MAX;
	broken = histories_broken(FEWER, true);
	check_that(broken, CHECK_HERE, "completed one step early: %u of %u histories show it", broken, FEWER);
}

/* ---- opening ---- */

static void test_opening(void)
{
	struct store store = power_store_of(512);
	uint8_t *pages = memory + MAP;
	char err[256];

	power_begin(512, false);
	crash_after = NEVER;
	memory[ALL - 1] = 1;
	CHECK(store_redo_open(&store, pages, true, err, sizeof(err)) == -EEXIST, "not empty: \"%s\"", err);
	CHECK(!store_redo_open(&store, pages, false, err, sizeof(err)) && memory[ALL - 1] == 1 &&
	      !store.redo, "left alone where none are wanted");
	for (unsigned after = 0;; after++) {	/* a failure while they are made for the first time */
		bool whole;

		power_begin(512, false);
		whole = power_open(&store, after, true);
		power_close(&store);
		power_fail(after % MODES);
		CHECK(power_open(&store, NEVER, true) && store.redo);
		power_close(&store);
		if (whole)
			break;
	}
	((struct redo_header *)(void *)pages)->layout = 9;
	CHECK(store_redo_open(&store, pages, true, err, sizeof(err)) == -EPROTO, "another version: \"%s\"",
	      err);
	((struct redo_header *)(void *)pages)->layout = LAYOUT;
	*redo_word(pages, 3) = redo_pack(MAP, 512);
	CHECK(store_redo_pending(pages) == 1);
	CHECK(store_redo_open(&store, pages, true, err, sizeof(err)) == -EUCLEAN, "not in the map: \"%s\"",
	      err);
	*redo_word(pages, 3) = redo_pack(512, 512);
	memset(redo_data(pages, 3), 0x66, 512);
	CHECK(power_open(&store, NEVER, true) && store.redo);
	*redo_word(pages, 3) = redo_pack(512, 512);
	CHECK(power_open(&store, NEVER, true) && memory[512] == 0x66 && !store_redo_pending(pages),
	      "opened again while it is open, as after its file came back");
	power_close(&store);
	*redo_word(pages, 3) = redo_pack(1024, 512);
	memset(redo_data(pages, 3), 0x77, 512);
	CHECK(!store_redo_open(&store, pages, false, err, sizeof(err)) && memory[1024] == 0x77 &&
	      !store_redo_there(pages) && !store_redo_pending(pages),
	      "what was interrupted is done before slots are given up");
}

static _Atomic bool busy_opened;

static void *busy_open(void *arg)
{
	char err[256];

	CHECK(!store_redo_open(arg, memory + MAP, true, err, sizeof(err)), "busy: opens");
	busy_opened = true;
	return NULL;
}

/* A store is repaired while a thread writes: a slot is not read while its owner fills it with another write. */
static void test_busy(void)
{
	uint8_t *pages = memory + MAP;
	struct store store = power_store_of(512);
	pthread_t opening;

	power_begin(512, false);
	CHECK(power_open(&store, NEVER, true) && store.redo);
	store.redo->slot[3].busy = true;
	*redo_word(pages, 3) = redo_pack(1024, 512);
	memset(redo_data(pages, 3), 0x66, 512);
	memset(memory + 1024, 0x66, 512);
	pthread_create(&opening, NULL, busy_open, &store);
	usleep(50000);	/* the other thread must not have used the slot by then */
	CHECK(!busy_opened && store_redo_pending(pages) == 1, "busy: the slot is in use");
	*redo_word(pages, 3) = 0;
	memset(redo_data(pages, 3), 0x77, 512);
	store.redo->slot[3].busy = false;
	pthread_join(opening, NULL);
	CHECK(busy_opened && memory[1024] == 0x66 && memory[1535] == 0x66 && !store.redo->slot[3].busy,
	      "busy: the other write is not repeated in the place of the first");
	power_close(&store);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	check_section("one write");
	test_one_write(4096, 8192, true);
	test_one_write(512, 512, true);
	test_one_write(512, MAP - 512, true);
	test_one_write(4096, 8192, false);
	test_one_write(512, 512, false);
	check_section("many slots");
	test_many_slots();
	check_section("histories");
	test_histories();
	check_section("opening");
	test_opening();
	check_section("opening while a slot is in use");
	test_busy();
	return check_report();
}
