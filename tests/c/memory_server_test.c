/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory server, and the memory client, with peers that keep to no protocol. */
#include "memory_line.h"

#define LARGE (2ull << 30)	/* bytes, of which none is allocated: they are only read */
enum { MANY = 128, OPEN_LENGTH = 536, BATCHES = 32 };

/* The completion's length is of the memory that was written, and not of a message. */
static void immediate(const char *host)
{
	struct memory_event event;
	struct ibv_send_wr *bad;
	struct line l;

	check_section("an RDMA WRITE with immediate data, behind OPENs in all receives");
	if (!line_open(&l, host, 1, SMALL))
		return;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t open[OPEN_LENGTH] = { MEMORY_OPEN };

		CHECK(!memory_client_send(l.client, open, sizeof(open)));
		await_event(&l, &event);
		CHECK(event.type == MEMORY_EVENT_MESSAGE && event.length == OPEN_LENGTH);
	}
	memset(l.client->memory, 0x5a, SMALL);

	struct ibv_sge sge = { (uintptr_t)l.client->memory, SMALL, l.client->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .wr_id = 2 << 16,
		.wr.rdma = { .remote_addr = l.address, .rkey = l.key },
	};

	CHECK(!ibv_post_send(l.client->end.id->qp, &wr, &bad));
	await_event(&l, &event);
	if (CHECK(event.type == MEMORY_EVENT_CLOSED, "(%d, %u bytes)", event.type, event.length))
		CHECK_HAS(event.reason, "immediate");
	line_close(&l, event.type == MEMORY_EVENT_CLOSED);
}

/* A fence does not wait for what a host has asked to be made persistent. */
static void long_persists(const char *host)
{
	const struct memory_ask ask = { .type = MEMORY_PERSIST, .length = LARGE };
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct memory_event event;
	struct line l;

	check_section("long PERSISTs, and a fence");
	if (!line_open(&l, host, MANY, LARGE))
		return;
	for (unsigned i = 0; i < MANY; i++)
		CHECK(!memory_client_send(l.client, &ask, sizeof(ask)));
	while (!memory_conn_counts(l.conn).persists && clock_ns() < end)
		usleep(1000);
	CHECK(memory_conn_counts(l.conn).persists);
	memory_conn_close(l.conn, "fenced");
	do
		await_event(&l, &event);
	while (event.type == MEMORY_EVENT_MESSAGE);
	CHECK(event.type == MEMORY_EVENT_CLOSED);
	CHECK_STR(event.reason, "fenced");
	CHECK(memory_conn_counts(l.conn).persists < BATCHES, "(%llu of %d)",
	      (unsigned long long)memory_conn_counts(l.conn).persists, MANY);
	line_close(&l, event.type == MEMORY_EVENT_CLOSED);
}

/* The statuses of PERSIST, of ranges at the ends of what there is. */
static void statuses(const char *host)
{
	static const struct {
		uint64_t offset, length;
		enum memory_status status;
	} cases[] = {
		{ 0, SMALL, MEMORY_OK },
		{ SMALL, 0, MEMORY_OK },
		{ SMALL - 1, 1, MEMORY_OK },
		{ SMALL, 1, MEMORY_BAD_RANGE },
		{ 1, UINT64_MAX, MEMORY_BAD_RANGE },
		{ UINT64_MAX, 1, MEMORY_BAD_RANGE },
		{ UINT64_MAX, UINT64_MAX, MEMORY_BAD_RANGE },
	};
	struct line l;

	check_section("ranges of PERSIST");
	if (!line_open(&l, host, 1, SMALL))
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct memory_ask ask = {
			.type = MEMORY_PERSIST, .offset = cases[i].offset, .length = cases[i].length,
		};
		const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
		struct memory_done done[1];
		int n;

		l.client->ends[0] = CLIENT_PERSISTED;	/* as if it had begun an operation */
		CHECK(!memory_client_send(l.client, &ask, sizeof(ask)));
		do
			n = memory_client_poll(l.client, done, 1);
		while (!n && clock_ns() < end);
		CHECK(n == 1 && done[0].status == cases[i].status, "(case %zu: %d, %d)", i, n, done[0].status);
	}
	line_close(&l, false);
}

int main(int argc, char **argv)
{
	char roce[32];

	check_begin(&argc, argv);
	snprintf(roce, sizeof(roce), "127.%d.%d.3", 64 + getpid() / 256 % 64, getpid() % 256);
	v = verbs_iwarp();
	statuses("127.0.0.1");
	long_persists("127.0.0.1");
	v = verbs_roce();
	statuses(roce);
	immediate(roce);
	return check_report();
}
