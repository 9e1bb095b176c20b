/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments of a Read Response: received together, and received correctly however the peer divides them; see
 * iwarp_ahead.h.
 */
#include "iwarp_ahead.h"

#include "util/crc32c.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ahead ahead;

/* Replace the C library's functions: count. */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	const ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);

	ahead.receives += fd == ahead.fd && n > 0;
	return n;
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	const ssize_t n = syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);

	ahead.receives += fd == ahead.fd && n > 0;
	return n;
}

void ahead_open(bool crc, bool initiator, bool shared)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 32, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 32, 8, 2, 1, 0 } };
	int fd[2], most = 2 * FRAMES;
	bool ok;

	ahead.pd = iw_alloc_pd(&iw_dev.ext.context);
	ahead.cq = attr.send_cq = attr.recv_cq = iw_create_cq(&iw_dev.ext.context, 64, NULL, NULL, 0);
	ahead.srq = attr.srq = shared ? iw_create_srq(ahead.pd, &srq) : NULL;
	ahead.mem = calloc(1, MEM);
	ahead.want = malloc(LEN);
	ahead.staging = malloc(IW_STAGING);
	ahead.mr = iw_reg_mr(ahead.pd, ahead.mem, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ);
	ahead.qp = iw_qp_create(ahead.pd, &attr);
	ahead.crc = crc;
	ahead.send_msn = ahead.read_msn = 1;
	ok = !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd);
	ahead.fd = fd[0];
	ahead.peer = fd[1];
	for (int i = 0; i < 2; i++)
		setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
	check(ok && ahead.qp && !iw_qp_start(ahead.qp, ahead.fd, crc, initiator, 8, 8), "ahead: a queue pair%s",
	      crc ? " with CRC" : "");
}

void ahead_close(void)
{
	struct ibv_wc wc;

	iw_lock(&ahead.qp->lock);
	iw_qp_fail(ahead.qp, TERM_NONE, NULL, "over");
	iw_unlock(&ahead.qp->lock);
	while (iw_poll_cq(ahead.cq, 1, &wc) == 1)
		;
	iw_qp_detach(ahead.qp);
	close(ahead.fd);
	close(ahead.peer);
	ahead.fd = -1;
	iw_qp_free(ahead.qp);
	if (ahead.srq)
		iw_destroy_srq(ahead.srq);
	if (ahead.mr)
		iw_dereg_mr(ahead.mr);
	iw_destroy_cq(ahead.cq);
	iw_dealloc_pd(ahead.pd);
	free(ahead.mem);
	free(ahead.want);
	free(ahead.staging);
}

bool ahead_progress(void)
{
	for (int i = 0; i < 4; i++)
		if (iw_qp_progress(ahead.qp, ahead.staging, false) < 0)
			return false;
	return true;
}

bool ahead_completed(unsigned int reads, unsigned int taken)
{
	struct ibv_wc wc;

	memset(&ahead.done, 0, sizeof(ahead.done));
	while (iw_poll_cq(ahead.cq, 1, &wc) == 1) {
		ahead.done.failed += !!wc.status;
		ahead.done.reads += wc.wr_id == READ_ID;
		ahead.done.receives += wc.wr_id == RECV_ID;
	}
	return !ahead.done.failed && ahead.done.reads == reads && ahead.done.receives == taken;
}

void ahead_read(bool two)
{
	struct ibv_sge sge[2] = { { (uintptr_t)ahead.mem + GUARD, two ? LEN / 2 : LEN, ahead.mr->lkey },
				  { (uintptr_t)ahead.mem + GUARD + LEN / 2, LEN / 2, ahead.mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = READ_ID, .sg_list = sge, .num_sge = 1 + two, .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { .remote_addr = 4096, .rkey = 77 } },
			   *bad;
	static unsigned int seed;
	uint8_t request[FPDU_READ_REQ + FPDU_CRC];

	for (int i = 0; i < LEN; i++)
		ahead.want[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
	seed += 7;
	memset(ahead.mem, 0, MEM);
	check(!iw_post_send(&ahead.qp->qp, &wr, &bad) &&
	      read(ahead.peer, request, sizeof(request)) == (ssize_t)sizeof(request), "ahead: a READ is sent");
}

uint32_t ahead_finish(uint8_t *f)
{
	const uint32_t size = fpdu_size(iw_get16(f));
	const uint32_t sum = ahead.crc ? crc32c(0, f, size - FPDU_CRC) : 0;

	memcpy(f + size - FPDU_CRC, &sum, FPDU_CRC);
	return size;
}

uint32_t ahead_answer(uint8_t *f, uint32_t off, uint32_t len)
{
	const struct iw_stream *s = &ahead.qp->stream;

	memset(f, 0, FPDU_TAGGED);
	fpdu_put_tagged(f, RDMAP_READ_RESP, off + len == LEN, len, s->sink_stag, ((uint64_t)s->read_next << 32) + off);
	memcpy(f + FPDU_TAGGED, ahead.want + off, len);
	memset(f + FPDU_TAGGED + len, 0, 3);
	return ahead_finish(f);
}

uint32_t ahead_message(uint8_t *f, enum between what)
{
	static const uint8_t text[] = "between two segments";
	uint32_t header = FPDU_UNTAGGED;

	if (what == NOTHING)
		return 0;
	if (what == A_READ) {
		fpdu_put_read_req(f, ahead.read_msn++, 1, 2, sizeof(text), ahead.mr->rkey,
				  (uintptr_t)ahead.mem + SENT);
		return ahead_finish(f);
	}
	if (what == A_SEND) {
		fpdu_put_untagged(f, RDMAP_SEND, true, sizeof(text), 0, DDP_QN_SEND, ahead.send_msn++, 0);
	} else {
		header = FPDU_TAGGED;
		fpdu_put_tagged(f, RDMAP_WRITE, true, sizeof(text), ahead.mr->rkey, (uintptr_t)ahead.mem + WRITTEN);
	}
	memcpy(f + header, text, sizeof(text));
	memset(f + header + sizeof(text), 0, 3);
	return ahead_finish(f);
}

uint32_t ahead_build(uint8_t *f, const uint32_t *segment, enum between what)
{
	uint32_t size = 0;

	for (uint32_t off = 0, len; off < LEN; off += len) {
		len = *segment < LEN - off ? *segment : LEN - off;
		segment += !!segment[1];
		if (off)
			size += ahead_message(f + size, what);
		size += ahead_answer(f + size, off, len);
	}
	return size;
}

void ahead_post(void)
{
	struct ibv_sge sge = { (uintptr_t)ahead.mem + SENT, 64, ahead.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ahead.srq)
		iw_post_srq_recv(ahead.srq, &wr, &bad);
	else
		iw_post_recv(&ahead.qp->qp, &wr, &bad);
}

bool ahead_is_read(void)
{
	bool ok = !memcmp(ahead.mem + GUARD, ahead.want, LEN);

	for (int i = 0; i < GUARD; i++)
		ok &= !ahead.mem[i] && !ahead.mem[GUARD + LEN + i];
	return ok;
}

const uint32_t ahead_ours[] = { 45056, 0 };

bool ahead_put(const uint8_t *f, uint32_t len)
{
	return send(ahead.peer, f, len, 0) == (ssize_t)len;
}

void ahead_warm_up(uint8_t *f)
{
	ahead_read(false);
	check(ahead_put(f, ahead_build(f, ahead_ours, NOTHING)) && ahead_progress() && ahead_completed(1, 0) && ahead_is_read(), "ahead: the first is read");
}

/* As we send them, after those of another: two receives, the first of which is of the first header. */
static void together(bool crc, bool two)
{
	uint8_t *f = malloc(FRAMES);

	ahead_open(crc, true, false);
	ahead_warm_up(f);
	ahead_read(two);
	ahead.receives = 0;
	check(ahead_put(f, ahead_build(f, ahead_ours, NOTHING)) && ahead_progress() && ahead_completed(1, 0) && ahead_is_read(), "ahead: read");
	check(two ? ahead.receives > 2 : ahead.receives == 2, "ahead: three segments in %u receives%s%s", ahead.receives,
	      crc ? " with CRC" : "", two ? ", a destination of two elements" : "");
	ahead_close();
	free(f);
}

/* The answer in segments of 20,000 bytes, with a Send after IW_TOGETHER of them. */
static uint32_t group(uint8_t *f)
{
	enum { SHORT = 20000 };
	uint32_t size = 0;

	for (uint32_t off = 0; off < LEN; off += SHORT) {
		size += ahead_answer(f + size, off, LEN - off < SHORT ? LEN - off : SHORT);
		if (off == (IW_TOGETHER - 1) * SHORT)
			size += ahead_message(f + size, A_SEND);
	}
	return size;
}

/* A peer that sends what our sender sends, in two parts: no prediction goes beyond IW_TOGETHER segments. */
static void grouped(bool crc)
{
	uint8_t *f = malloc(FRAMES);
	bool ok = true;

	ahead_open(crc, true, false);
	ahead_warm_up(f);
	for (uint32_t at = 1000; at < LEN; at += 7000) {
		uint32_t len;

		ahead_post();
		ahead_read(false);
		len = group(f);
		ok &= ahead_put(f, at) && ahead_progress() && ahead_put(f + at, len - at) && ahead_progress() && ahead_completed(1, 1) && ahead_is_read();
	}
	check(ok && !ahead.qp->stream.rx.uneven, "ahead: a Send after %u segments, wherever the bytes are cut%s",
	      IW_TOGETHER, crc ? ", with CRC" : "");
	ahead_close();
	free(f);
}

/* Every division arrives correctly, whatever is between the segments. */
static void divided(bool crc, bool shared)
{
	static const uint32_t lengths[][4] = {
		{ 45056 }, { 45056, 20001 }, { 45056, 45056, 9000 }, { 45057, 45057, 8191 }, { 20003 }, { 61440 },
		{ 65519 }, { 45057 }, { 65519, 4097, 65519 }, { 8193, 65519 }, { 45056, 100, 45056 }, { 9000, 16384, 33000 },
	};
	static const char text[] = "between two segments";
	const unsigned int room = shared ? 16 : 8;	/* without receives of a shared queue, nothing is predicted */
	uint8_t *f = malloc(2 * FRAMES);

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (enum between what = NOTHING; what <= A_READ; what++) {
			bool ok = true, regular = !lengths[i][1] && what == NOTHING;

			ahead_open(crc, true, shared);
			ahead_warm_up(f);
			for (int k = 0; k < 2; k++) {	/* the second time perhaps after a wrong prediction */
				const uint32_t first = ahead.send_msn;

				ahead_read(false);
				for (unsigned int n = 0; n < room && (what == A_SEND || (shared && !k)); n++)
					ahead_post();
				ok &= ahead_put(f, ahead_build(f, lengths[i], what)) && ahead_progress();
				for (unsigned int n = ahead.send_msn - first; n > room && ok; n = n > 2 * room ? n - room : room) {
					ok &= ahead_completed(0, room);
					for (unsigned int j = 0; j < room; j++)
						ahead_post();
					ok &= ahead_progress();
				}
				ahead_completed(0, 0);
				ok &= !ahead.done.failed && ahead.done.reads == 1 && ahead_is_read();
				ok &= what != A_WRITE || !strcmp((char *)ahead.mem + WRITTEN, text);
				ok &= what != A_SEND || !strcmp((char *)ahead.mem + SENT, text);
				while (recv(ahead.peer, f, FRAMES, MSG_DONTWAIT) > 0)
					;
			}
			ok &= !regular || !ahead.qp->stream.rx.uneven;
			ok &= !(i == 1 || what) || ahead.qp->stream.rx.uneven;
			check(ok, "ahead: segments of %u, %u, %u ..., %d between them%s%s", lengths[i][0],
			      lengths[i][1], lengths[i][2], what, crc ? ", with CRC" : "", shared ? ", shared" : "");
			ahead_close();
		}
	free(f);
}

/* The bytes come in two parts, cut near the ends of the segments. */
static void cut(bool crc)
{
	enum { SIZE = FPDU_TAGGED + 45056 + 2 + FPDU_CRC, AROUND = 24 };
	uint8_t *f = malloc(FRAMES);
	bool ok = true;

	ahead_open(crc, true, false);
	ahead_warm_up(f);
	for (uint32_t end = SIZE; end <= 2 * SIZE; end += SIZE)
		for (uint32_t at = end - AROUND; at < end + AROUND; at++) {
			uint32_t len;

			ahead_read(false);
			len = ahead_build(f, ahead_ours, NOTHING);
			ok &= ahead_put(f, at) && ahead_progress() && ahead_completed(0, 0);
			ok &= ahead_put(f + at, len - at) && ahead_progress() && ahead_completed(1, 0) && ahead_is_read();
		}
	check(ok, "ahead: cut anywhere between two segments%s", crc ? ", with CRC" : "");
	ahead_close();
	free(f);
}

/* A Send between two segments has to wait for a receive. */
static void waits(bool crc)
{
	uint8_t *f = malloc(FRAMES);
	uint32_t most = 0;
	bool ok = true;

	ahead_open(crc, true, true);
	ahead_warm_up(f);
	for (int k = 0; k < 2; k++) {
		ahead_read(false);
		ok &= ahead_put(f, ahead_build(f, ahead_ours, A_SEND)) && ahead_progress() && ahead_completed(0, 0);
		most = ahead.qp->stream.rx.stash_len > most ? ahead.qp->stream.rx.stash_len : most;
		ahead_post();
		ok &= ahead_progress() && ahead_completed(0, 1);
		ahead_post();
		ok &= ahead_progress() && ahead_completed(1, 1) && ahead_is_read();
	}
	check(ok, "ahead: a Send between them waits for a receive%s", crc ? ", with CRC" : "");
	check(most && most <= 4096, "ahead: of which at most 4096 bytes are kept: %u", most);
	ahead_close();
	free(f);
}

void test_ahead(void)
{
	for (int crc = 0; crc < 2; crc++) {
		together(crc, false);
		together(crc, true);
		grouped(crc);
		divided(crc, false);
		divided(crc, true);
		cut(crc);
		waits(crc);
		ahead_wrong(crc);
		ahead_sender(crc);
	}
}
