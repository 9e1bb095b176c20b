/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes to several queues at once: each leg has the data, the owner is told once at the end and of each leg that
 * fails, and nothing is lost or told twice when operations or the queue's entries run out, or a connection ends.
 */
#include "check.h"
#include "host/spread.h"
#include "host_rig.h"
#include "mini_target.h"

#include <pthread.h>

enum {
	LEGS = 3, ALL = 7, SIZE = 32, SMALL = 4, LARGE = 2, SMALL_BYTES = 4096, LARGE_BYTES = 65536, BLOCK = 512,
	ROOM = SMALL * SMALL_BYTES + LARGE * LARGE_BYTES, OPS = SMALL + LARGE,
};

struct leg {
	struct mini *m;
	struct host_device *device;
	struct host_controller *c;
	struct host_queue *q;
	struct host_memory *memory;
};

struct world {
	struct leg legs[LEGS];
	struct host_spread *spread;
	uint8_t *buffer;
	struct host_spread_news last[OPS];
	unsigned told[OPS];		/* news of the operation */
	unsigned ended;
};

static void leg_queue(struct world *w, unsigned i, unsigned most)
{
	struct leg *leg = &w->legs[i];
	struct host_error e;

	leg->q = host_controller_queue(leg->c, SIZE, NULL, false, &e);
	if (!CHECK(leg->q, "%s", e.text))
		return;

	const struct host_spread_leg to = {
		.queue = leg->q, .memory = leg->memory, .nsid = 1, .shift = 9, .most = most,
	};

	CHECK(host_spread_attach(w->spread, i, &to) == 0);
	CHECK(host_spread_attach(w->spread, i, &to) == -EINVAL);	/* it is attached */
}

/* The namespace of leg 1 has blocks1 blocks; the others have more than enough. */
static void world_up(struct world *w, uint64_t blocks1, unsigned most)
{
	memset(w, 0, sizeof(*w));
	w->buffer = malloc(ROOM);

	const struct host_spread_options options = {
		.legs = LEGS, .addr = w->buffer, .small = SMALL, .large = LARGE,
		.small_bytes = SMALL_BYTES, .large_bytes = LARGE_BYTES,
	};

	w->spread = host_spread_create(&options);
	if (!w->buffer || !w->spread)
		mini_die("spread", "no memory");
	for (unsigned i = 0; i < LEGS; i++) {
		const struct store_options ram = {
			.kind = "ram", .size = (i == 1 ? blocks1 : 8192) * BLOCK, .block_size = BLOCK, .direct = -1,
		};
		struct leg *leg = &w->legs[i];
		struct host_error e = { .cm_event = -1 };
		struct host_controller_options o = {
			.traddr = "127.0.0.1", .subnqn = MINI_NQN, .timeout_ms = CHECK_PATIENCE_S * 1000,
		};

		leg->m = mini_start(&ram, 8192, -1);
		o.trsvcid = leg->m->port;
		o.device = leg->device = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, e.text, sizeof(e.text));
		leg->c = host_controller_connect(&o, &e);
		leg->memory = leg->c ? host_memory_register(leg->device, w->buffer, ROOM, e.text, sizeof(e.text)) : NULL;
		if (!leg->memory)
			mini_die("spread", e.text);
		leg_queue(w, i, most);
	}
}

static void leg_away(struct world *w, unsigned i)
{
	host_queue_destroy(w->legs[i].q);
	w->legs[i].q = NULL;
	host_spread_detach(w->spread, i);
}

static void world_down(struct world *w)
{
	for (unsigned i = 0; i < LEGS; i++) {
		struct leg *leg = &w->legs[i];

		leg_away(w, i);
		host_memory_free(leg->memory);
		host_controller_destroy(leg->c);
		host_device_put(leg->device);
		mini_stop(leg->m);
	}
	host_spread_destroy(w->spread);
	free(w->buffer);
}

static void hear(struct world *w)
{
	struct host_spread_news news;

	while (host_spread_take(w->spread, &news)) {
		w->last[news.op] = news;
		w->told[news.op]++;
		w->ended += !news.out;
	}
	CHECK(!host_spread_has_news(w->spread));
}

/* As the owner of a queue does; -ENOTCONN if it is lost. */
static int poll_leg(struct world *w, unsigned i)
{
	struct host_completion done[SIZE];
	const int n = host_queue_poll(w->legs[i].q, done, SIZE);

	for (int k = 0; k < n; k++)
		host_answer_take(done[k].user, &done[k].cqe);
	host_spread_run(w->spread, i);
	hear(w);
	return n;
}

static bool settle(struct world *w, unsigned ended)
{
	const double until = seconds_now() + CHECK_PATIENCE_S;

	while (w->ended < ended && seconds_now() < until)
		for (unsigned i = 0; i < LEGS; i++)
			if (w->legs[i].q)
				poll_leg(w, i);
	return w->ended == ended;
}

static bool on_leg(const struct world *w, unsigned i, uint64_t offset, const uint8_t *data, size_t length)
{
	return !memcmp((const uint8_t *)w->legs[i].m->store->map + offset, data, length);
}

static int write_one(struct world *w, uint32_t legs, uint64_t offset, uint32_t bytes, uint8_t fill, bool more)
{
	static uint8_t data[LARGE_BYTES];

	memset(data, fill, bytes);
	return host_spread_write(w->spread, legs, &offset, 1, bytes, data, more);
}

static void test_single(void)
{
	uint8_t want[LARGE_BYTES];
	struct world w;

	check_section("one write to all legs, or some");
	world_up(&w, 8192, SIZE);
	CHECK(host_spread_attached(w.spread) == ALL);

	const int op = write_one(&w, ALL, 4096, SMALL_BYTES, 0x11, false);

	CHECK(op >= 0 && settle(&w, 1));
	CHECK(w.told[op] == 1 && w.last[op].has == ALL && !w.last[op].failed && !w.last[op].out);
	CHECK(host_spread_has(w.spread, (unsigned)op) == ALL);

	const int big = write_one(&w, 5, 65536, LARGE_BYTES, 0x22, true);

	CHECK(big >= SMALL);
	host_spread_flush(w.spread);
	CHECK(settle(&w, 2) && w.last[big].has == 5);
	memset(want, 0x11, sizeof(want));
	for (unsigned i = 0; i < LEGS; i++)
		CHECK(on_leg(&w, i, 4096, want, SMALL_BYTES), "leg %u", i);
	memset(want, 0x22, sizeof(want));
	CHECK(on_leg(&w, 0, 65536, want, LARGE_BYTES) && on_leg(&w, 2, 65536, want, LARGE_BYTES));
	CHECK(!on_leg(&w, 1, 65536, want, BLOCK));
	world_down(&w);
}

/* Many places, with few commands of the queue for them: the leg continues when it is polled. */
static void test_many(unsigned most)
{
	enum { PLACES = LARGE_BYTES / BLOCK };
	uint64_t offsets[PLACES];
	uint8_t data[LARGE_BYTES];
	struct world w;
	bool right = true;

	check_section("many places");
	world_up(&w, 8192, most);
	for (unsigned n = 0; n < PLACES; n++) {
		offsets[n] = (uint64_t)(n * 37 % PLACES) * 2 * BLOCK;
		memset(data + (size_t)n * BLOCK, (int)n + 1, BLOCK);
	}
	for (unsigned n = 0; n < LARGE; n++)
		CHECK(host_spread_write(w.spread, ALL, offsets, PLACES, BLOCK, data, false) >= 0);
	CHECK(settle(&w, LARGE));
	for (unsigned i = 0; i < LEGS; i++)
		for (unsigned n = 0; n < PLACES; n++)
			right &= on_leg(&w, i, offsets[n], data + (size_t)n * BLOCK, BLOCK);
	CHECK(right);
	for (unsigned n = SMALL; n < OPS; n++)
		CHECK(w.told[n] == 1 && w.last[n].has == ALL);
	world_down(&w);
}

static void test_room(void)
{
	const struct host_spread_options bad = {
		.legs = LEGS, .small = 1, .large = 1, .small_bytes = 700, .large_bytes = 8192,
	};
	struct world w;

	check_section("what is refused");
	CHECK(!host_spread_create(&bad));
	world_up(&w, 8192, SIZE);
	CHECK(write_one(&w, 0, 0, BLOCK, 1, false) == -EINVAL);
	CHECK(write_one(&w, 8, 0, BLOCK, 1, false) == -EINVAL);
	CHECK(write_one(&w, ALL, 0, 0, 1, false) == -EINVAL);
	CHECK(write_one(&w, ALL, 0, 700, 1, false) == -EINVAL);
	CHECK(write_one(&w, ALL, 100, BLOCK, 1, false) == -EINVAL);
	CHECK(host_spread_write(w.spread, ALL, (const uint64_t[2]){ 0 }, 2, LARGE_BYTES, w.buffer, false) == -EINVAL);
	for (unsigned n = 0; n < SMALL; n++)
		CHECK(write_one(&w, ALL, n * SMALL_BYTES, SMALL_BYTES, 1, true) >= 0);
	CHECK(write_one(&w, ALL, 0, BLOCK, 1, true) == -EAGAIN);
	CHECK(write_one(&w, ALL, 0, SMALL_BYTES + BLOCK, 1, true) >= SMALL);	/* a large one */
	CHECK(settle(&w, SMALL + 1));
	for (unsigned n = 0; n < 100; n++)
		CHECK(write_one(&w, ALL, 0, BLOCK, 2, false) >= 0 && settle(&w, SMALL + 2 + n));

	host_spread_pause(w.spread, 2, true);

	const int op = write_one(&w, ALL, 0, BLOCK, 3, false);
	const double until = seconds_now() + CHECK_PATIENCE_S;

	while (op >= 0 && host_spread_has(w.spread, (unsigned)op) != 3 && seconds_now() < until)
		for (unsigned i = 0; i < LEGS; i++)
			poll_leg(&w, i);
	CHECK(w.ended == SMALL + 101 && !host_queue_outstanding(w.legs[2].q));
	host_spread_pause(w.spread, 2, false);
	CHECK(settle(&w, SMALL + 102));
	world_down(&w);
}

/* The namespace of leg 1 ends early. */
static void test_status(void)
{
	enum { PLACES = 64 };
	uint64_t offsets[PLACES];
	uint8_t data[PLACES * BLOCK];
	struct world w;

	check_section("a leg that fails");
	world_up(&w, 16, 4);

	int op = write_one(&w, ALL, 16 * BLOCK, BLOCK, 0x33, false);

	CHECK(op >= 0 && settle(&w, 1));
	CHECK(w.last[op].has == 5 && w.last[op].failed == 2 && w.told[op] <= 2);
	for (unsigned n = 0; n < PLACES; n++)
		offsets[n] = (uint64_t)n * BLOCK;
	memset(data, 0x44, sizeof(data));
	op = host_spread_write(w.spread, ALL, offsets, PLACES, BLOCK, data, false);
	CHECK(op >= 0 && settle(&w, 2));
	CHECK(w.last[op].has == 5 && w.last[op].failed == 2);
	CHECK(on_leg(&w, 0, 0, data, sizeof(data)) && on_leg(&w, 1, 0, data, 16 * BLOCK));
	op = write_one(&w, ALL, 0, BLOCK, 0x55, false);
	CHECK(op >= 0 && settle(&w, 3) && w.last[op].has == ALL);
	world_down(&w);
}

static void test_lost(void)
{
	enum { PLACES = LARGE_BYTES / BLOCK };
	uint64_t offsets[PLACES];
	uint8_t data[LARGE_BYTES];
	struct world w;
	double until;

	check_section("a connection ends");
	world_up(&w, 8192, 4);
	for (unsigned n = 0; n < PLACES; n++)
		offsets[n] = (uint64_t)n * BLOCK;
	memset(data, 0x66, sizeof(data));
	for (unsigned n = 0; n < LARGE; n++)
		CHECK(host_spread_write(w.spread, ALL, offsets, PLACES, BLOCK, data, false) >= 0);
	atomic_store(&w.legs[1].m->drop, true);
	until = seconds_now() + CHECK_PATIENCE_S;
	while (poll_leg(&w, 1) >= 0 && seconds_now() < until)
		;
	leg_away(&w, 1);
	hear(&w);
	CHECK(host_spread_attached(w.spread) == 5);
	CHECK(settle(&w, LARGE));
	for (unsigned n = SMALL; n < OPS; n++)
		CHECK((w.last[n].has | 2) == ALL && (w.last[n].has ^ w.last[n].failed) == ALL);
	CHECK(write_one(&w, ALL, 0, BLOCK, 1, false) == -EINVAL);
	CHECK(write_one(&w, 5, 0, BLOCK, 1, false) >= 0 && settle(&w, LARGE + 1));
	/* the queue is lost, and still attached */
	atomic_store(&w.legs[2].m->drop, true);
	until = seconds_now() + CHECK_PATIENCE_S;
	while (poll_leg(&w, 2) >= 0 && seconds_now() < until)
		;

	const int op = write_one(&w, 5, 0, BLOCK, 1, false);

	CHECK(op >= 0);
	hear(&w);
	CHECK(settle(&w, LARGE + 2) && w.last[op].has == 1 && w.last[op].failed == 4);
	world_down(&w);
}

static void *destroy(void *queue)
{
	host_queue_destroy(queue);
	return NULL;
}

/* A queue is destroyed by a different thread, while the spread continues: it is not used, and its data is kept. */
static void test_stopped(void)
{
	enum { PLACES = LARGE_BYTES / BLOCK };
	uint64_t offsets[PLACES];
	uint8_t data[LARGE_BYTES];
	struct host_spread_leg again = { .nsid = 1, .shift = 9, .most = 4 };
	struct world w;
	pthread_t thread;
	int op[LARGE];

	check_section("a queue that is destroyed by a different thread");
	world_up(&w, 8192, 4);
	for (unsigned n = 0; n < PLACES; n++)
		offsets[n] = (uint64_t)n * BLOCK;
	memset(data, 0x77, sizeof(data));
	for (unsigned n = 0; n < LARGE; n++)
		op[n] = host_spread_write(w.spread, ALL, offsets, PLACES, BLOCK, data, false);
	CHECK(host_spread_stopped(w.spread) == 0);
	host_spread_stop(w.spread, 1);
	host_spread_stop(w.spread, 1);
	CHECK(host_spread_attached(w.spread) == 5 && host_spread_stopped(w.spread) == 2);
	CHECK(pthread_create(&thread, NULL, destroy, w.legs[1].q) == 0);
	w.legs[1].q = NULL;
	CHECK(write_one(&w, ALL, 0, BLOCK, 1, false) == -EINVAL);
	for (unsigned n = 0; n < 1000; n++) {
		host_spread_run(w.spread, 1);
		host_spread_flush(w.spread);
		CHECK(write_one(&w, 5, 0, BLOCK, 1, false) >= 0 && settle(&w, n + 1));
	}
	pthread_join(thread, NULL);
	for (unsigned n = 0; n < LARGE; n++)
		CHECK(op[n] >= 0 && !w.told[op[n]]);	/* leg 1 is outstanding */
	again.queue = w.legs[0].q;
	again.memory = w.legs[1].memory;
	CHECK(host_spread_attach(w.spread, 1, &again) == -EINVAL);
	host_spread_detach(w.spread, 1);
	CHECK(settle(&w, 1000 + LARGE) && !host_spread_stopped(w.spread));
	for (unsigned n = 0; n < LARGE; n++)
		CHECK(w.last[op[n]].has == 5 && w.last[op[n]].failed == 2);
	leg_queue(&w, 1, 4);
	CHECK(write_one(&w, ALL, 0, BLOCK, 1, false) >= 0 && settle(&w, 1001 + LARGE));
	world_down(&w);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	test_single();
	test_many(1);
	test_many(SIZE);
	test_room();
	test_status();
	test_lost();
	test_stopped();
	return check_report();
}
