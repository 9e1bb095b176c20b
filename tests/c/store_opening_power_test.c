/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures while redo slots are made, used after a failure, and given up.
 *
 * The thread that opens a store is not the one that writes: a fence is about the stores of its own thread.  The proof
 * can fail: without any one fence of opening, random histories find a store that cannot be opened, or has lost data.
 */
#include "check.h"
#include "store_power.h"

enum { BLOCK = 512, OPENER = 1, WRITER = 0, STEPS = 40 };

static uint8_t blank[ALL], formatted[ALL];

static void begin_with(const uint8_t *image)
{
	memcpy(memory, image, ALL);
	memcpy(media, image, ALL);
	pendings = 0;
}

static bool opens(struct store *store, bool wanted)
{
	char err[256];

	thread = OPENER;
	return !power_opened(store, NEVER, wanted, err, sizeof(err));
}

/* Open with a fence left out, and perhaps a failure: 1, 0, or the error. */
static int opens_without(struct store *store, unsigned fence, bool wanted)
{
	const unsigned after = power_random() % 2 ? NEVER : (unsigned)(power_random() % STEPS);
	char err[256];
	int rc;

	thread = OPENER;
	fences = 0;
	fence_left_out = fence;
	rc = power_opened(store, after, wanted, err, sizeof(err));
	fence_left_out = UINT32_MAX;
	return rc;
}

static void fail(void)
{
	power_fail((unsigned)(power_random() % MODES));
}

/* A write of the first block, perhaps with a failure; whether the block is then as it must be. */
static bool writes(struct store *store, unsigned value, unsigned after)
{
	uint8_t old[BLOCK], data[BLOCK];
	bool whole;

	memcpy(old, memory, BLOCK);
	memset(data, (int)value, BLOCK);
	thread = WRITER;
	for (unsigned i = 0; i < SLOTS; i++)
		atomic_store(&store->redo->slot[i].busy, power_random() & 1);
	atomic_store(&store->redo->slot[power_random() % SLOTS].busy, false);
	whole = power_write(store, 0, data, BLOCK, after);
	fail();
	power_close(store);
	return opens(store, true) && (!memcmp(memory, data, BLOCK) || (!whole && !memcmp(memory, old, BLOCK)));
}

static bool made_for_the_first_time(unsigned fence)
{
	struct store store = power_store_of(BLOCK);
	bool holds;
	int rc;

	begin_with(blank);
	rc = opens_without(&store, fence, true);
	if (rc) {
		fail();
		power_close(&store);
		holds = opens(&store, true);
	} else {
		holds = writes(&store, 0x11, power_random() % 2 ? NEVER : (unsigned)(power_random() % STEPS));
	}
	power_close(&store);
	return holds;
}

static bool used_after_a_failure(unsigned fence)
{
	struct store store = power_store_of(BLOCK);
	uint8_t image[ALL], truth[BLOCK];
	bool holds;
	int rc;

	begin_with(formatted);
	holds = opens(&store, true);
	thread = WRITER;
	memset(truth, 0x22, BLOCK);
	power_write(&store, 0, truth, BLOCK, (unsigned)(power_random() % STEPS));
	fail();
	power_close(&store);
	memcpy(image, memory, ALL);
	holds &= opens(&store, true);
	power_close(&store);
	memcpy(truth, memory, BLOCK);
	begin_with(image);
	rc = opens_without(&store, fence, true);
	if (rc) {
		fail();
		power_close(&store);
		holds &= opens(&store, true) && !memcmp(memory, truth, BLOCK);
	} else {
		holds &= writes(&store, 0x33, NEVER);
	}
	power_close(&store);
	return holds;
}

/* Hosts then write to their place. */
static bool given_up(unsigned fence)
{
	struct store store = power_store_of(BLOCK);
	uint8_t data[BLOCK];
	bool holds;
	int rc;

	begin_with(formatted);
	rc = opens_without(&store, fence, false);
	if (rc <= 0) {
		memset(data, 0x44, BLOCK);
		thread = WRITER;
		crash_after = NEVER;
		store_persist_copy(memory + MAP + BLOCK, data, BLOCK);
	}
	fail();
	power_close(&store);
	holds = opens(&store, false) && (rc || !memcmp(memory + MAP + BLOCK, data, BLOCK));
	power_close(&store);
	return holds && rc >= 0;
}

static void test_fences(const char *name, bool (*holds)(unsigned fence), unsigned count)
{
	enum { SEEDS = 5000 };

	check_section(name);
	for (unsigned fence = 0; fence <= count; fence++) {
		unsigned broken = 0;

		for (unsigned seed = 0; seed < SEEDS; seed++) {
			random_state = (seed + 1) * 0x9e3779b97f4a7c15ull;
			broken += !holds(fence < count ? fence : UINT32_MAX);
		}
		if (fence < count)
			CHECK(broken, "(without fence %u: %u of %d histories show it)", fence, broken, SEEDS);
		else
			CHECK(!broken, "(%u of %d histories)", broken, SEEDS);
	}
}

int main(int argc, char **argv)
{
	struct store store = power_store_of(BLOCK);

	check_begin(&argc, argv);
	memset(blank, 0x77, MAP);
	begin_with(blank);
	CHECK(opens(&store, true));
	power_close(&store);
	memcpy(formatted, memory, ALL);
	test_fences("made for the first time", made_for_the_first_time, 2);
	test_fences("used after a failure", used_after_a_failure, 2);
	test_fences("given up", given_up, 1);
	return check_report();
}
