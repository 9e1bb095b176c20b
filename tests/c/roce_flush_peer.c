/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roce_flush_peer ADDRESS PORT [PERSISTENT]: RDMA WRITE, FLUSH, ATOMIC WRITE and READ of the embedded RoCEv2 device
 * towards a different implementation, which is lab/flush_responder.py on Linux's rxe.  Its private data has the address
 * of its memory (64 bits), a key with the rights of FLUSH, one without, and the length (32 bits each), in this
 * machine's order of bytes.  An ATOMIC WRITE of MARK to the last 8 bytes tells it that all is done.
 */
#include "iwarp_pair.h"

#include <stdlib.h>

enum { DATA = 3 * 4096 + 100, TAIL = 16384, BACK = 65536, DEPTHS = 4 };
#define MARK 0x6b72616d206c6c61ull

struct memory {
	uint64_t va;
	uint32_t rkey, bare_rkey, length;
} __attribute__((packed));

static bool completed(struct side *s, uint64_t id, enum ibv_wc_status status, int opcode)
{
	struct ibv_wc wc = { 0 };
	int found = next_wc(s, NULL, &wc);

	return CHECK(found == 1 && wc.wr_id == id, "(completion %llu)", (unsigned long long)wc.wr_id) &&
	       CHECK(wc.status == status, "(%s)", verbs_wc_name(wc.status)) &&
	       (status != IBV_WC_SUCCESS || CHECK((int)wc.opcode == opcode));
}

static int flush(struct side *s, uint64_t id, uint64_t va, uint32_t rkey, uint32_t len, unsigned int type,
		 unsigned int level)
{
	struct ibv_send_wr wr = { .wr_id = id, .send_flags = IBV_SEND_SIGNALED }, *bad;

	verbs_set_flush(&wr, va, rkey, len, type, level);
	return ibv_post_send(s->qp, &wr, &bad);
}

static int atomic_write(struct side *s, uint64_t id, uint64_t value, uint64_t va, uint32_t rkey)
{
	memcpy(s->mem + TAIL, &value, sizeof(value));
	return post_send(s, id, (enum ibv_wr_opcode)VERBS_WR_ATOMIC_WRITE, IBV_SEND_SIGNALED, TAIL, sizeof(value), va,
			 rkey);
}

static void exchange(struct side *s, const struct memory *m, unsigned int type)
{
	const uint64_t value = 0x0123456789abcdefull;

	check_section("WRITE, FLUSH of its range, READ");
	for (int i = 0; i < DATA; i++)
		s->mem[i] = (uint8_t)(i * 7 + i / 256);
	CHECK(!post_send(s, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, DATA, m->va, m->rkey));
	CHECK(!flush(s, 2, m->va, m->rkey, DATA, type, VERBS_FLUSH_RANGE));
	CHECK(!post_send(s, 3, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, BACK, DATA, m->va, m->rkey));
	completed(s, 1, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	completed(s, 2, IBV_WC_SUCCESS, VERBS_WC_FLUSH);
	completed(s, 3, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
	CHECK(!memcmp(s->mem, s->mem + BACK, DATA));

	check_section("ATOMIC WRITE behind a FLUSH of the region, READ");
	CHECK(!flush(s, 4, 0, m->rkey, 0, type, VERBS_FLUSH_MR));
	CHECK(!atomic_write(s, 5, value, m->va + TAIL, m->rkey));
	CHECK(!post_send(s, 6, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, BACK, 8, m->va + TAIL, m->rkey));
	completed(s, 4, IBV_WC_SUCCESS, VERBS_WC_FLUSH);
	completed(s, 5, IBV_WC_SUCCESS, VERBS_WC_ATOMIC_WRITE);
	completed(s, 6, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
	CHECK(!memcmp(s->mem + BACK, &value, sizeof(value)));

	check_section("the mark");
	CHECK(!atomic_write(s, 7, MARK, m->va + m->length - 8, m->rkey));
	completed(s, 7, IBV_WC_SUCCESS, VERBS_WC_ATOMIC_WRITE);

	check_section("FLUSH without the right");
	CHECK(!flush(s, 8, m->va, m->bare_rkey, 64, type, VERBS_FLUSH_RANGE));
	completed(s, 8, IBV_WC_REM_ACCESS_ERR, 0);
}

static void run(const char *host, int port, unsigned int type)
{
	const struct pair_options options = { .depth = 16 };
	struct rdma_conn_param param = { .responder_resources = DEPTHS, .initiator_depth = DEPTHS, .retry_count = 7,
					 .rnr_retry_count = 7 };
	uint8_t data[256] = { 0 };
	struct side s = { .events = v->create_event_channel() };
	struct memory memory;

	check_section("connecting");
	if (CHECK(!resolve(&s, host, port)) && CHECK(!side_objects(&s, &options)) &&
	    CHECK(!side_qp(&s, &options)) && CHECK(!v->connect(s.id, &param)) &&
	    CHECK(next_event(s.events, NULL, NULL, NULL, data) == RDMA_CM_EVENT_ESTABLISHED)) {
		memcpy(&memory, data, sizeof(memory));
		exchange(&s, &memory, type);
	}
	side_close(&s);
	v->destroy_event_channel(s.events);
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	if (argc < 3) {
		fprintf(stderr, "usage: %s ADDRESS PORT [PERSISTENT]\n", argv[0]);
		return 2;
	}
	v = verbs_roce();
	run(argv[1], atoi(argv[2]), VERBS_FLUSH_GLOBAL | (argc > 3 ? VERBS_FLUSH_PERSISTENT : 0));
	return check_report();
}
