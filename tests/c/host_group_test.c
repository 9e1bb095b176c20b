/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Poll groups: many queues with one completion queue.  Each command is returned once, by its queue; queues are added,
 * removed and lost while others have commands outstanding.
 */
#include "check.h"
#include "host/internal.h"
#include "host_rig.h"
#include "mini_target.h"

enum { SIZE = 32, QUEUES = 100, BATCH = 16 };

static const struct store_options ram = {
	.kind = "ram", .size = 64 << 20, .block_size = 512, .direct = -1,
};

struct world {
	struct mini *m;
	struct host_device *device;
	struct host_controller *c;
	struct host_poll_group *group;
	struct host_memory *memory;
	struct host_queue *queues[QUEUES];
	int out[QUEUES];		/* commands without an answer */
	int back[QUEUES];
	int wrong;
};

static void world_up(struct world *w, bool notify)
{
	struct host_error e;
	struct host_controller_options o = {
		.traddr = "127.0.0.1", .subnqn = MINI_NQN, .timeout_ms = CHECK_PATIENCE_S * 1000,
	};

	memset(w, 0, sizeof(*w));
	w->m = mini_start(&ram, 8192, -1);
	w->device = host_device_get(NULL, HOST_KEYS_OF_COMMANDS, e.text, sizeof(e.text));
	o.trsvcid = w->m->port;
	o.device = w->device;
	w->c = host_controller_connect(&o, &e);
	w->group = host_poll_group_create(w->device, notify, e.text, sizeof(e.text));
	w->memory = host_memory_alloc(w->device, QUEUES * 4096, e.text, sizeof(e.text));
	if (!w->c || !w->group || !w->memory)
		mini_die("group", e.text);
}

static void world_down(struct world *w)
{
	for (unsigned i = 0; i < QUEUES; i++)
		host_queue_destroy(w->queues[i]);
	host_poll_group_destroy(w->group);
	host_memory_free(w->memory);
	host_controller_destroy(w->c);
	host_device_put(w->device);
	mini_stop(w->m);
}

static void join(struct world *w, unsigned i)
{
	struct host_error e;

	w->queues[i] = host_controller_queue(w->c, SIZE, w->group, false, &e);
	CHECK(w->queues[i], "queue %u: %s", i, w->queues[i] ? "" : e.text);
	w->out[i] = w->back[i] = 0;
}

/* Read queue i's block, which identifies it. */
static void ask(struct world *w, unsigned i, bool more)
{
	const struct nvme_sqe sqe = { .opc = NVME_OPC_READ, .nsid = 1, .cdw10 = i };
	const struct host_data data = {
		.addr = (uint8_t *)w->memory->addr + (size_t)i * 512, .length = 512,
		.memory = w->memory,
	};

	CHECK(host_queue_submit(w->queues[i], &sqe, &data, (void *)(uintptr_t)(i + 1), more) >= 0);
	w->out[i]++;
}

static int poll_group(struct world *w)
{
	struct host_completion done[BATCH];
	const int n = host_poll_group_poll(w->group, done, BATCH);

	for (int k = 0; k < n; k++) {
		const uintptr_t i = (uintptr_t)done[k].user - 1;

		if (i >= QUEUES || done[k].queue != w->queues[i] || done[k].cqe.status || --w->out[i] < 0)
			w->wrong++;
		else
			w->back[i]++;
	}
	return n;
}

/* Wait until all commands of these queues are complete. */
static bool settle(struct world *w, unsigned from, unsigned to)
{
	const double until = seconds_now() + CHECK_PATIENCE_S;

	for (;;) {
		int left = 0;

		for (unsigned i = from; i < to; i++)
			left += w->out[i];
		if (!left || seconds_now() > until)
			return !left;
		poll_group(w);
	}
}

static bool contents(const struct world *w, unsigned i)
{
	const uint8_t *p = (const uint8_t *)w->memory->addr + (size_t)i * 512;

	for (unsigned k = 0; k < 512; k++)
		if (p[k] != (uint8_t)(i + 1))
			return false;
	return true;
}

/* More queues than fit the original completion queue, which is enlarged, each with a full queue of commands. */
static void test_many(void)
{
	struct world w;
	bool right = true;

	world_up(&w, false);
	for (unsigned i = 0; i < QUEUES; i++)
		memset(w.m->store->map + (size_t)i * 512, (int)i + 1, 512);
	for (unsigned i = 0; i < QUEUES; i++)
		join(&w, i);
	CHECK(w.group->ncqs == 1, "%u completion queues, each of which every poll visits", w.group->ncqs);
	for (unsigned n = 0; n < SIZE - 1; n++)
		for (unsigned i = 0; i < QUEUES; i++)
			ask(&w, i, n % 3);	/* some doorbells wait for the poll */
	CHECK(settle(&w, 0, QUEUES));
	for (unsigned i = 0; i < QUEUES; i++)
		right &= w.back[i] == SIZE - 1 && contents(&w, i) && !host_queue_outstanding(w.queues[i]);
	CHECK(right && !w.wrong);
	CHECK(!host_poll_group_lost(w.group));
	world_down(&w);
}

/* A queue connects, and sends commands of its own, while a different queue's are outstanding. */
static void test_come_and_go(void)
{
	struct world w;

	world_up(&w, false);
	join(&w, 0);
	for (unsigned n = 0; n < 10; n++)
		ask(&w, 0, false);
	join(&w, 1);	/* its Connect polls the common completion queue */
	CHECK(host_queue_outstanding(w.queues[0]) == 10);
	ask(&w, 1, true);
	CHECK(settle(&w, 0, 2));
	CHECK(w.back[0] == 10 && w.back[1] == 1 && !w.wrong);

	for (unsigned n = 0; n < 10; n++) {
		ask(&w, 0, n & 1);
		ask(&w, 1, n & 1);
	}
	host_queue_destroy(w.queues[0]);	/* its outstanding commands are dropped */
	w.queues[0] = NULL;
	w.out[0] = 0;
	CHECK(settle(&w, 1, 2));
	CHECK(w.back[1] == 11);
	join(&w, 0);	/* in the place of the first queue, whose completions are not attributed to it */
	ask(&w, 0, false);
	CHECK(settle(&w, 0, 1));
	CHECK(w.back[0] == 1 && !w.wrong);
	world_down(&w);
}

/* A queue is destroyed after its completion arrived while a command of a different queue was awaited. */
static void test_go_unread(void)
{
	const struct nvme_sqe flush = { .opc = NVME_OPC_FLUSH, .nsid = 1 };
	struct nvme_cqe cqe;
	struct world w;

	world_up(&w, false);
	join(&w, 0);
	join(&w, 1);
	for (unsigned i = 0; i < 2; i++) {
		struct host_completion done;
		void *users[SIZE];

		ask(&w, 0, false);
		ask(&w, 0, false);
		/* the two complete before this one, which follows them in one of the sockets */
		for (unsigned n = 0; n < 100; n++)
			CHECK(host_queue_command(w.queues[1], &flush, NULL, CHECK_PATIENCE_S * 1000, &cqe) == 0);
		CHECK(host_queue_poll(w.queues[1], &done, 1) == 0);
		if (i)
			CHECK(host_queue_abandon(w.queues[0], users, SIZE) == 2);
		else
			CHECK(settle(&w, 0, 1));
	}
	CHECK(!host_queue_outstanding(w.queues[0]));
	w.out[0] = 0;
	CHECK(poll_group(&w) == 0 && !w.wrong);
	world_down(&w);
}

static struct host_queue *wait_lost(struct world *w)
{
	const double until = seconds_now() + CHECK_PATIENCE_S;
	struct host_queue *q;

	while (!(q = host_poll_group_lost(w->group)) && seconds_now() < until)
		poll_group(w);
	return q;
}

/* One of three queues is lost: the commands of the others are not affected. */
static void test_lost(bool notify)
{
	void *users[SIZE];
	struct world w;

	world_up(&w, notify);
	for (unsigned i = 0; i < 3; i++)
		join(&w, i);
	ask(&w, 1, false);
	CHECK(settle(&w, 1, 2));
	atomic_store(&w.m->drop_at, 3);	/* after the admin queue and queue 0 */
	CHECK(wait_lost(&w) == w.queues[1]);
	CHECK(!host_poll_group_lost(w.group));
	CHECK_HAS(host_queue_reason(w.queues[1]), "connection");
	CHECK(host_queue_abandon(w.queues[1], users, SIZE) == w.out[1]);
	for (unsigned n = 0; n < 20; n++) {
		ask(&w, 0, true);
		ask(&w, 2, true);
	}
	CHECK(settle(&w, 0, 1) && settle(&w, 2, 3));
	host_queue_destroy(w.queues[1]);
	join(&w, 1);
	for (unsigned i = 0; i < 3; i++)
		ask(&w, i, false);
	CHECK(settle(&w, 0, 3));
	CHECK(!host_poll_group_lost(w.group) && !w.wrong);
	world_down(&w);
}

static void test_sleep(void)
{
	struct pollfd p = { .events = POLLIN };
	struct world w;
	bool in_time = true;

	world_up(&w, true);
	join(&w, 0);
	join(&w, 1);
	p.fd = host_poll_group_fd(w.group);
	CHECK(p.fd >= 0 && host_queue_fd(w.queues[1]) == p.fd);
	for (unsigned n = 0; n < 50; n++) {
		ask(&w, n & 1, true);
		while (w.out[n & 1] && in_time) {
			CHECK(host_poll_group_arm(w.group) == 0);
			if (poll_group(&w))
				break;
			in_time = poll(&p, 1, CHECK_PATIENCE_S * 1000) == 1;
			host_poll_group_drain(w.group);
		}
		CHECK(settle(&w, 0, 2));
	}
	CHECK(in_time && !w.wrong);
	world_down(&w);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	test_many();
	test_come_and_go();
	test_go_unread();
	test_lost(false);
	test_lost(true);
	test_sleep();
	return check_report();
}
