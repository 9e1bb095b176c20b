/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw TCP peer whose MPA is correct and whose later frames are not: the test checks the TERMINATE that it receives.
 */
#include "iwarp_raw.h"

#include "cm.h"
#include "util/crc32c.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum shape { WRITE, SEND, READ, RESP };

struct bad {
	const char *name;
	enum shape shape;
	int at;			/* a byte of the header to overwrite, or -1 */
	int value;		/* the new value; -1: inverted */
	uint16_t code;
	int copied;
};

static void bad_frame(const struct bad *t, bool crc)
{
	uint8_t f[512] = { 0 }, rep[64], got[256] = { 0 };
	uint32_t size, len;

	check(!raw_open(crc ? 0x5002 : 0x1002, 2, 2, rep), "%s: connects", t->name);
	check(iw_get16(rep + 16) == (crc ? 0x5002 : 0x1002), "%s: reply bits %04x", t->name,
	      iw_get16(rep + 16));
	switch (t->shape) {
	case WRITE:
		fpdu_put_tagged(f, RDMAP_WRITE, true, 8, raw_side.mr->rkey, (uintptr_t)raw_side.mem);
		break;
	case SEND:
		fpdu_put_untagged(f, RDMAP_SEND, true, 8, 0, DDP_QN_SEND, 1, 0);
		break;
	case READ:
		fpdu_put_read_req(f, 1, 5, 6, 7, raw_side.mr->rkey, (uintptr_t)raw_side.mem);
		break;
	default:
		fpdu_put_tagged(f, RDMAP_READ_RESP, true, 8, raw_side.mr->rkey, (uintptr_t)raw_side.mem);
	}
	if (t->at >= 0)
		f[t->at] = t->value < 0 ? (uint8_t)~f[t->at] : (uint8_t)t->value;
	size = raw_finish(f, crc);
	if (t->code == TERM_LLP_CRC)
		f[size - 1] ^= 1;
	check(send(raw_fd, f, size, 0) == (ssize_t)size, "%s: sent", t->name);
	len = raw_answer(got, sizeof(got));
	check(len == 28u + (uint32_t)t->copied && !memcmp(got + 2, "\x41\x47\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0\0", 18) &&
	      iw_get16(got) == 22 + t->copied, "%s: a TERMINATE, then the end (%u bytes)", t->name, len);
	check(iw_get16(got + 20) == t->code && got[22] ==
	      (t->copied == 48 ? 0xe0 : t->copied ? 0xc0 : 0) && !memcmp(got + 24, f, (size_t)t->copied),
	      "%s: code %04x flags %02x", t->name, iw_get16(got + 20), got[22]);
	if (crc && len < 256) {
		uint32_t sum = crc32c(0, got, len - 4);

		check(!memcmp(&sum, got + len - 4, 4), "%s: with its own CRC", t->name);
	}
	check(next_event(raw_side.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_DISCONNECTED, "%s: disconnected", t->name);
	raw_close();
}

static const struct bad bads[] = {
	{ "write stag", WRITE, 4, -1, TERM_DDP_T_STAG, 16 },
	{ "write bounds", WRITE, 9, 1, TERM_DDP_T_BOUNDS, 16 },
	{ "write wrap", WRITE, 0, 0, TERM_DDP_T_WRAP, 16 },
	{ "write version", WRITE, 2, 0xc2, TERM_DDP_T_VERSION, 16 },
	{ "rdmap version", WRITE, 3, 0x80, TERM_RDMAP_VERSION, 16 },
	{ "tagged opcode", WRITE, 3, 0x43, TERM_RDMAP_OPCODE, 16 },
	{ "unknown opcode", SEND, 3, 0x48, TERM_RDMAP_OPCODE, 20 },
	{ "untagged write", SEND, 3, 0x40, TERM_RDMAP_OPCODE, 20 },
	{ "untagged version", SEND, 2, 0x40, TERM_DDP_U_VERSION, 20 },
	{ "send queue", SEND, 11, 1, TERM_DDP_U_QN, 20 },
	{ "send msn 2", SEND, 15, 2, TERM_DDP_U_MSN, 20 },
	{ "send msn 0", SEND, 15, 0, TERM_DDP_U_MSN, 20 },
	{ "send offset", SEND, 19, 4, TERM_DDP_U_MO, 20 },
	{ "send invalidating", SEND, 3, 0x44, TERM_RDMAP_CANNOT_INVALIDATE, 0 },
	{ "read queue", READ, 11, 0, TERM_DDP_U_QN, 48 },
	{ "read msn", READ, 15, 9, TERM_DDP_U_MSN, 48 },
	{ "read offset", READ, 19, 9, TERM_DDP_U_MO, 48 },
	{ "read not last", READ, 2, 0x01, TERM_DDP_U_TOO_LONG, 48 },
	{ "read stag", READ, 36, -1, TERM_RDMAP_INVALID_STAG, 48 },
	{ "read bounds", READ, 32, 0x40, TERM_RDMAP_BOUNDS, 48 },
	{ "response without a read", RESP, -1, 0, TERM_DDP_T_STAG, 16 },
	{ "short frame", SEND, 1, 3, TERM_LLP_FPDU, 0 },
	{ "empty frame", SEND, 1, 0, TERM_LLP_FPDU, 0 },
};

static void bad_frames(void)
{
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		struct bad t = bads[i];

		if (t.code == TERM_DDP_T_WRAP)
			continue;	/* needs eight bytes: below */
		bad_frame(&t, false);
	}

	struct bad crc = { "wrong crc", WRITE, -1, 0, TERM_LLP_CRC, 0 };
	struct bad stag = { "write bounds, crc", WRITE, 9, 1, TERM_DDP_T_BOUNDS, 16 };

	bad_frame(&crc, true);
	bad_frame(&stag, true);
}

static void depths(void)
{
	uint8_t f[512] = { 0 }, rep[64], got[2048];
	uint32_t size, len;

	/* three reads with an agreed depth of two, in one segment so that none is answered in between */
	check(!raw_open(0x1002, 2, 2, rep), "depth: connects");
	for (uint32_t i = 0; i < 3; i++) {
		fpdu_put_read_req(f + i * 52, i + 1, 5, 6, 7, raw_side.mr->rkey, (uintptr_t)raw_side.mem);
		raw_finish(f + i * 52, false);
	}
	check(send(raw_fd, f, 156, 0) == 156, "depth: three reads");
	len = raw_answer(got, sizeof(got));
	check(len >= 76 && len < sizeof(got) && iw_get16(got + len - 76 + 20) == TERM_DDP_U_NO_BUFFER,
	      "depth: one too many (%u bytes)", len);
	raw_close();

	/* the responder may send after the first frame; single bytes are as good as whole frames */
	check(!raw_open(0x0001, 0, 0, rep), "pieces: connects with revision 1");
	check(iw_get16(rep + 16) == 1, "pieces: the reply's revision");
	memcpy(raw_side.mem + 200, "abcdefgh", 8);
	post_send(&raw_side, 9, IBV_WR_SEND, IBV_SEND_SIGNALED, 200, 8, 0, 0);

	struct pollfd pfd = { .fd = raw_fd, .events = POLLIN };
	struct ibv_wc wc = { 0 };

	check(poll(&pfd, 1, 30) == 0, "pieces: silent until spoken to");
	memset(f, 0, sizeof(f));
	fpdu_put_untagged(f, RDMAP_SEND, true, 5, 0, DDP_QN_SEND, 1, 0);
	memcpy(f + 20, "hello", 5);
	size = raw_finish(f, false);
	for (uint32_t i = 0; i < size; i++) {
		check(send(raw_fd, f + i, 1, 0) == 1, "pieces: byte %u", i);
		ibv_poll_cq(raw_side.cq, 0, &wc);
	}
	check(next_wc(&raw_side, NULL, &wc) && !wc.status, "pieces: the held send went");
	int got_recv = next_wc(&raw_side, NULL, &wc);

	check(got_recv && !wc.status && !memcmp(raw_side.mem, "hello", 5), "pieces: received");
	check(recv(raw_fd, got, 32, MSG_WAITALL) == 32 && !memcmp(got + 20, "abcdefgh", 8), "pieces: heard");
	raw_close();

	/* peer to peer: the RTR is accepted and uses no receive */
	check(!raw_open(0x1002, 0x8002, 0xc002, rep), "rtr: connects");
	check(iw_get16(rep + 20) == 0x8002 && iw_get16(rep + 22) == 0x8002, "rtr: a write (%04x %04x)",
	      iw_get16(rep + 20), iw_get16(rep + 22));
	post_send(&raw_side, 9, IBV_WR_SEND, IBV_SEND_SIGNALED, 200, 8, 0, 0);
	memset(f, 0, sizeof(f));
	fpdu_put_tagged(f, RDMAP_WRITE, true, 0, 1, 0);
	size = raw_finish(f, false);
	check(send(raw_fd, f, size, 0) == (ssize_t)size && next_wc(&raw_side, NULL, &wc) && wc.wr_id == 9 && !wc.status,
	      "rtr: the write lets it speak");
	raw_close();
	check(!raw_open(0x1002, 0x8000, 0x4000, rep), "rtr: connects");
	check(iw_get16(rep + 22) >> 14 == 1, "rtr: a read");
	fpdu_put_read_req(f, 1, 1, 0, 0, 1, 0);
	size = raw_finish(f, false);
	post_send(&raw_side, 9, IBV_WR_SEND, IBV_SEND_SIGNALED, 200, 8, 0, 0);
	check(send(raw_fd, f, size, 0) == (ssize_t)size && next_wc(&raw_side, NULL, &wc) && wc.wr_id == 9 && !wc.status,
	      "rtr: the read lets it speak");
	check(recv(raw_fd, got, 52, MSG_WAITALL) == 52 && (!memcmp(got + 2, "\xc1\x42", 2) ||
	      !memcmp(got + 34, "\xc1\x42", 2)), "rtr: and is answered");
	raw_close();
}

static atomic_ulong drunk;

static void *drink(void *unused)
{
	static char sink[1 << 20];
	ssize_t n;

	while ((n = recv(raw_fd, sink, sizeof(sink), MSG_TRUNC)) > 0)
		atomic_fetch_add(&drunk, (unsigned long)n);
	return unused;
}

/* Return the bytes of 512 MiB that the peer had when the post returned. */
static unsigned long taken_by_then(void)
{
	pthread_t thread;
	unsigned long taken;
	struct ibv_wc wc;

	atomic_store(&drunk, 0);
	check(!raw_open_spoken(), "fast reader: connects");
	pthread_create(&thread, NULL, drink, NULL);
	raw_post_writes(DEPTH);
	taken = atomic_load(&drunk);
	for (double end = now_s() + CHECK_PATIENCE_S;
	     now_s() < end && atomic_load(&drunk) < (size_t)DEPTH * SIDE_MEM;)
		ibv_poll_cq(raw_side.cq, 1, &wc);
	check(atomic_load(&drunk) >= (size_t)DEPTH * SIDE_MEM, "fast reader: all of it came");
	shutdown(raw_fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	raw_close();
	return taken;
}

/*
 * A fast peer does not monopolise the thread that sends to it.  If that thread lost the processor just after its
 * post, the helper continued: then the test is repeated.
 */
static void fast_reader(void)
{
	unsigned long taken = ULONG_MAX;

	for (int i = 0; i < 20 && taken >= 8 << 20; i++)
		taken = taken_by_then();
	check(taken < 8 << 20, "fast reader: it had %lu KiB when the post of %d MiB returned", taken >> 10,
	      DEPTH * (SIDE_MEM >> 20));
}

void test_frames(void)
{
	fast_reader();
	bad_frames();
	depths();
}
