/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C, and connections with it: large payloads in pieces, placed early or not, and with errors. */
#include "iwarp_raw.h"

#include "util/crc32c.h"
#include "iwarp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* All implementations for this processor, compared with the last one, which is the table. */
static void crc_ways(void)
{
	static uint8_t big[20000], to[20100];
	unsigned count;
	const struct crc32c_way *way = crc32c_ways(&count), *table = &way[count - 1];

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * i >> 3);
	check(!strcmp(table->name, "table") && table->sum(~0u, big, 0) == ~0u, "crc: there is a table");
	for (; count--; way++) {
		int sums = 1, copies = 1;

		for (size_t len = 0; len < sizeof(big) - 64; len += len < 1200 ? 1 : 61) {
			for (size_t off = 0; off < 3; off++) {
				uint32_t sum = table->sum(7, big + off, len);

				sums &= way->sum(7, big + off, len) == sum;
				memset(to, 0xee, off + len + 80);
				copies &= way->copy(7, to + off, big + off, len) == sum &&
					  !memcmp(to + off, big + off, len) && to[off + len] == 0xee &&
					  (!off || to[off - 1] == 0xee);
			}
		}
		check(sums && copies, "crc: %s agrees with the table in every length and alignment (%d %d)", way->name,
		      sums, copies);
	}
}

static void *crc_scribble(void *arg)
{
	uint8_t *from = arg;

	for (unsigned i = 0; atomic_load((_Atomic uint8_t *)&from[0]) != 0xff; i++)
		((volatile uint8_t *)from)[1 + i % 59999] = (uint8_t)i;
	return NULL;
}

/* The application may write to memory that is being sent: the sum is of the bytes that are sent. */
static void crc_changing(void)
{
	static uint8_t from[60000], to[60000];
	pthread_t thread;
	unsigned count, bad = 0;
	const struct crc32c_way *way = crc32c_ways(&count);

	pthread_create(&thread, NULL, crc_scribble, from);
	for (; count--; way++)
		for (unsigned i = 0; i < 300; i++)
			bad += way->copy(0, to, from, sizeof(from)) != way->sum(0, to, sizeof(to));
	atomic_store((_Atomic uint8_t *)&from[0], 0xff);
	pthread_join(thread, NULL);
	check(!bad, "crc: of what was copied, whatever is written meanwhile (%u wrong)", bad);
}

static void sums(void)
{
	uint8_t zero[32] = { 0 }, ones[32], up[32], big[20000];
	unsigned count;

	memset(ones, 0xff, sizeof(ones));
	for (int i = 0; i < 32; i++)
		up[i] = (uint8_t)i;
	/* RFC 3720 B.4 */
	check(crc32c(0, "123456789", 9) == 0xe3069283, "crc: 123456789 (%s)", crc32c_ways(&count)->name);
	check(crc32c(0, zero, 32) == 0x8a9136aa && crc32c(0, ones, 32) == 0x62a8ab43 &&
	      crc32c(0, up, 32) == 0x46dd794e, "crc: RFC 3720's vectors");
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * i >> 3);
	check(crc32c(crc32c(0, big, 5000), big + 5000, 7000) == crc32c(0, big, 12000),
	      "crc: continues");
	crc_ways();
	crc_changing();
}

/* ---- connections ---- */

enum { AT = 65536, LEN = 1000001, PIECE = 20001 };

static uint32_t bind_window(struct side *s, struct ibv_mw **mw, struct ibv_mr **mr)
{
	struct ibv_send_wr wr = { .wr_id = 50, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;

	*mr = v->reg_mr(s->pd, s->mem, SIDE_MEM, IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE);
	*mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
	wr.bind_mw.mw = *mw;
	wr.bind_mw.rkey = ibv_inc_rkey((*mw)->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ *mr, (uintptr_t)s->mem + AT, 2 * LEN,
							  IBV_ACCESS_REMOTE_WRITE };
	check(!ibv_post_send(s->qp, &wr, &bad), "crc: bind posted");
	return wr.bind_mw.rkey;
}

static void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed) >> 11);
}

/* More than a socket takes at once, to a region and to a window, from memory that is copied and memory that is not. */
static void large(void)
{
	struct iwarp_options old, o;
	struct ibv_wc wc = { 0 };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;
	uint32_t key;

	iwarp_get_options(&old);
	o = old;
	o.crc = true;
	iwarp_set_options(&o);
	check(!pair_open(&p, NULL) && iw_qp(p.a.qp)->stream.crc && iw_qp(p.b.qp)->stream.crc, "crc: connects with it");
	iwarp_set_options(&old);
	key = bind_window(&p.b, &mw, &mr);
	post_send(&p.a, 1, IBV_WR_RDMA_WRITE, 0, 0, 0, 0, 0);
	check(next_wc(&p.b, &p.a, &wc) && wc.wr_id == 50 && !wc.status, "crc: window bound");
	for (unsigned i = 0; i < 8; i++) {
		unsigned flags = IBV_SEND_SIGNALED | (i & 1 ? v->send_stable : 0);
		uint32_t rkey = i & 2 ? key : p.b.mr->rkey, len = i & 4 ? PIECE : LEN;

		fill(p.a.mem, len, i);
		memset(p.b.mem + AT - 1, 0, len + 2);
		post_send(&p.a, 2, IBV_WR_RDMA_WRITE, flags, 0, len, (uintptr_t)p.b.mem + AT, rkey);
		post_send(&p.a, 3, IBV_WR_RDMA_READ, flags, LEN + 7, len, (uintptr_t)p.b.mem + AT,
			  p.b.mr->rkey);
		expect_wc(&p.a, &p.b, 2, IBV_WC_SUCCESS, "crc: written");
		expect_wc(&p.a, &p.b, 3, IBV_WC_SUCCESS, "crc: read");
		check(!memcmp(p.b.mem + AT, p.a.mem, len) && !p.b.mem[AT - 1] && !p.b.mem[AT + len] &&
		      !memcmp(p.a.mem + LEN + 7, p.a.mem, len), "crc: large, way %u, the bytes and no others", i);
	}
	check(!ibv_dealloc_mw(mw) && !v->dereg_mr(mr), "crc: the window is released");
	pair_close(&p);
}

static atomic_bool scribbling;

static void *scribble_memory(void *arg)
{
	struct pair *p = arg;

	for (unsigned i = 0; atomic_load(&scribbling); i++)
		((volatile uint8_t *)(i & 1 ? p->a.mem : p->b.mem))[AT + i * 7919u % LEN] = (uint8_t)i;
	return NULL;
}

/* An application writes to memory that is being sent: old or new data arrives, and the connection stays. */
static void scribbled(void)
{
	struct iwarp_options old, o;
	pthread_t thread;
	struct pair p;

	iwarp_get_options(&old);
	o = old;
	o.crc = true;
	iwarp_set_options(&o);
	check(!pair_open(&p, NULL), "crc: connects");
	iwarp_set_options(&old);
	atomic_store(&scribbling, true);
	pthread_create(&thread, NULL, scribble_memory, &p);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t to = (uintptr_t)p.b.mem;

		post_send(&p.a, 2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, AT, LEN, to + AT + LEN, p.b.mr->rkey);
		post_send(&p.a, 3, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, AT + LEN, LEN, to + AT, p.b.mr->rkey);
		expect_wc(&p.a, &p.b, 2, IBV_WC_SUCCESS, "crc: scribbled on while written");
		expect_wc(&p.a, &p.b, 3, IBV_WC_SUCCESS, "crc: scribbled on while read");
	}
	atomic_store(&scribbling, false);
	pthread_join(thread, NULL);
	pair_close(&p);
}

enum target { REGION, WINDOW, ANSWER };
static const char *const target_names[] = { "to a region", "to a window", "as an answer" };

struct raw_crc {
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint8_t fpdu[PIECE + 64];
	uint32_t size;
};

/* A connection made by hand, and an FPDU for it with a large payload. */
static void raw_begin(struct raw_crc *r, enum target target)
{
	uint8_t rep[64], first[64], request[64];
	struct ibv_wc wc = { 0 };
	uint32_t key;

	check(!raw_open(0x5002, 2, 2, rep), "crc: connects by hand");
	key = bind_window(&raw_side, &r->mw, &r->mr);
	fpdu_put_tagged(first, RDMAP_WRITE, true, 0, 0, 0);
	send(raw_fd, first, raw_finish(first, true), 0);
	check(next_wc(&raw_side, NULL, &wc) && wc.wr_id == 50 && !wc.status, "crc: the window is bound");
	if (target == ANSWER) {
		post_send(&raw_side, 7, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, AT, PIECE, 0x1000, 0x99);
		check(recv(raw_fd, request, 52, MSG_WAITALL) == 52, "crc: it asks");
		fpdu_put_tagged(r->fpdu, RDMAP_READ_RESP, true, PIECE, iw_get32(request + OFF_RR_SINK_STAG),
				iw_get64(request + OFF_RR_SINK_TO));
	} else {
		fpdu_put_tagged(r->fpdu, RDMAP_WRITE, true, PIECE, target == WINDOW ? key : raw_side.mr->rkey,
				(uintptr_t)raw_side.mem + AT);
	}
	fill(r->fpdu + FPDU_TAGGED, PIECE, 5);
	memset(r->fpdu + FPDU_TAGGED + PIECE, 0, 8);
	r->size = raw_finish(r->fpdu, true);
	memset(raw_side.mem + AT - 1, 0, PIECE + 2);
}

static void raw_end(struct raw_crc *r)
{
	check(!ibv_dealloc_mw(r->mw) && !v->dereg_mr(r->mr), "crc: window and region are released");
	raw_close();
}

/* Poll until the device has received all that was sent. */
static void poll_taken(void)
{
	double end = now_s() + CHECK_PATIENCE_S;
	struct ibv_wc wc;
	int left = 1;

	while (left && now_s() < end) {
		ibv_poll_cq(raw_side.cq, 1, &wc);
		ioctl(iw_qp(raw_side.qp)->stream.fd, FIONREAD, &left);
	}
	check(!left, "crc: it takes what came (%d left)", left);
}

/* The FPDU in pieces, divided at each place where the receiver makes a decision. */
static void pieces(enum target target)
{
	struct raw_crc r;
	struct ibv_wc wc = { 0 };
	uint8_t read[64];
	bool right = true;

	raw_begin(&r, target);

	const uint32_t cuts[] = { 1, 2, 3, FPDU_TAGGED - 1, FPDU_TAGGED, FPDU_TAGGED + 1, 3000, PIECE - 5000,
				  PIECE + FPDU_TAGGED - 1, r.size - 7, r.size - 5, r.size - 4, r.size - 1 };
	const size_t count = target == ANSWER ? 1 : sizeof(cuts) / sizeof(cuts[0]);

	for (size_t i = 0; i < count; i++) {
		uint32_t cut = cuts[target == ANSWER ? 7 : i];

		memset(raw_side.mem + AT, 0, PIECE);
		send(raw_fd, r.fpdu, cut, 0);
		poll_taken();
		send(raw_fd, r.fpdu + cut, r.size - cut, 0);
		if (target == ANSWER) {
			right &= next_wc(&raw_side, NULL, &wc) && wc.wr_id == 7 && !wc.status;
		} else {	/* a message after it shows that it has arrived */
			fpdu_put_untagged(read, RDMAP_SEND, true, 0, 0, DDP_QN_SEND, (uint32_t)i + 1, 0);
			if (i)
				post_recv(&raw_side, 1, 0, 100);
			send(raw_fd, read, raw_finish(read, true), 0);
			right &= next_wc(&raw_side, NULL, &wc) && wc.opcode == IBV_WC_RECV && !wc.status;
		}
		right &= !memcmp(raw_side.mem + AT, r.fpdu + FPDU_TAGGED, PIECE) && !raw_side.mem[AT - 1] &&
			 !raw_side.mem[AT + PIECE];
		check(right, "crc: %s, cut at %u", target_names[target], cut);
	}
	raw_end(&r);
}

/*
 * A wrong sum: a TERMINATE with that reason; a region is not written to, and the requester does not see a completion.
 */
static void wrong(enum target target)
{
	struct raw_crc r;
	struct ibv_wc wc = { 0 };
	uint8_t got[256];
	uint32_t len;
	bool touched = false;

	raw_begin(&r, target);
	r.fpdu[FPDU_TAGGED + 777] ^= 1;
	send(raw_fd, r.fpdu, r.size / 2, 0);
	poll_taken();
	send(raw_fd, r.fpdu + r.size / 2, r.size - r.size / 2, 0);
	if (target == ANSWER)
		check(next_wc(&raw_side, NULL, &wc) && wc.wr_id == 7 && wc.status, "crc: the READ fails");
	len = raw_answer(got, sizeof(got));
	check(len == 28 && iw_get16(got + 20) == TERM_LLP_CRC, "crc: wrong %s, a TERMINATE reports it (%u bytes, %04x)",
	      target_names[target], len, iw_get16(got + 20));
	for (uint32_t i = 0; i < PIECE + 2; i++)
		touched |= raw_side.mem[AT - 1 + i];
	check(!raw_side.mem[AT - 1] && !raw_side.mem[AT + PIECE] && (target != REGION || !touched),
	      "crc: wrong %s, and nothing else is touched", target_names[target]);
	raw_end(&r);
}

/* Errors in a header are not reported if the sum is wrong: the sum is reported to the peer. */
static void wrong_header(void)
{
	struct raw_crc r;
	uint8_t got[256];
	uint32_t len;

	raw_begin(&r, WINDOW);
	r.fpdu[OFF_STAG] ^= 0x55;
	send(raw_fd, r.fpdu, r.size, 0);
	len = raw_answer(got, sizeof(got));
	check(len == 28 && iw_get16(got + 20) == TERM_LLP_CRC, "crc: a wrong header is a wrong sum (%04x)",
	      iw_get16(got + 20));
	raw_end(&r);
}

void test_crc(void)
{
	sums();
	large();
	scribbled();
	for (enum target t = REGION; t <= ANSWER; t++) {
		pieces(t);
		wrong(t);
	}
	wrong_header();
}
