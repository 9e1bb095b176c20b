/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments of a Read Response: sent without other messages between them, received together, and received correctly
 * however the peer divides them.  The queue pair's socket is one end of a socketpair, so that all bytes are there when
 * it receives.
 */
#include "iwarp_pair.h"

#include "iwarp.h"
#include "util/crc32c.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	LEN = 131072,		/* of a READ: three segments */
	GUARD = 65536,		/* on both sides of its destination */
	WRITTEN = LEN + 2 * GUARD,	/* and where a WRITE and a Send go */
	SENT = WRITTEN + GUARD,
	MEM = SENT + GUARD,
	FRAMES = LEN + 4096,	/* those of a READ */
	READ_ID = 1, RECV_ID, SEND_ID,
};

static struct {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct iw_qp *qp;
	int peer, fd;
	uint8_t *mem, *staging, *want;
	bool crc;
	uint32_t send_msn, read_msn;	/* of the peer's next Send and READ */
} rig;

static unsigned int receives;		/* calls that have received something */

/* Replace the C library's functions: count. */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	const ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);

	receives += fd == rig.fd && n > 0;
	return n;
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	const ssize_t n = syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);

	receives += fd == rig.fd && n > 0;
	return n;
}

static void rig_open(bool crc, bool initiator, bool shared)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 32, 8, 2, 1, 0 } };
	int fd[2], most = 2 * FRAMES;
	bool ok;

	rig.pd = iw_alloc_pd(&iw_dev.ext.context);
	rig.cq = attr.send_cq = attr.recv_cq = iw_create_cq(&iw_dev.ext.context, 64, NULL, NULL, 0);
	rig.srq = attr.srq = shared ? iw_create_srq(rig.pd, &srq) : NULL;
	rig.mem = calloc(1, MEM);
	rig.want = malloc(LEN);
	rig.staging = malloc(IW_STAGING);
	rig.mr = iw_reg_mr(rig.pd, rig.mem, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ);
	rig.qp = iw_qp_create(rig.pd, &attr);
	rig.crc = crc;
	rig.send_msn = rig.read_msn = 1;
	ok = !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd);
	rig.fd = fd[0];
	rig.peer = fd[1];
	for (int i = 0; i < 2; i++)
		setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
	check(ok && rig.qp && !iw_qp_start(rig.qp, rig.fd, crc, initiator, 8, 8), "ahead: a queue pair%s",
	      crc ? " with CRC" : "");
}

static void rig_close(void)
{
	struct ibv_wc wc;

	iw_lock(&rig.qp->lock);
	iw_qp_fail(rig.qp, TERM_NONE, NULL, "over");
	iw_unlock(&rig.qp->lock);
	while (iw_poll_cq(rig.cq, 1, &wc) == 1)
		;
	iw_qp_detach(rig.qp);
	close(rig.fd);
	close(rig.peer);
	rig.fd = -1;
	iw_qp_free(rig.qp);
	if (rig.srq)
		iw_destroy_srq(rig.srq);
	iw_dereg_mr(rig.mr);
	iw_destroy_cq(rig.cq);
	iw_dealloc_pd(rig.pd);
	free(rig.mem);
	free(rig.want);
	free(rig.staging);
}

/* Let the queue pair receive and send; whether its connection still exists. */
static bool progress(void)
{
	for (int i = 0; i < 4; i++)
		if (iw_qp_progress(rig.qp, rig.staging, false) < 0)
			return false;
	return true;
}

static struct {
	unsigned int reads, receives, failed;
} done;

/* Take the completions; returns whether a number of READs and receives, and nothing else, has completed. */
static bool completed(unsigned int reads, unsigned int taken)
{
	struct ibv_wc wc;

	memset(&done, 0, sizeof(done));
	while (iw_poll_cq(rig.cq, 1, &wc) == 1) {
		done.failed += !!wc.status;
		done.reads += wc.wr_id == READ_ID;
		done.receives += wc.wr_id == RECV_ID;
	}
	return !done.failed && done.reads == reads && done.receives == taken;
}

/* Post a READ, in pieces of the destination if two; the peer takes its request. */
static void read_post(bool two)
{
	struct ibv_sge sge[2] = { { (uintptr_t)rig.mem + GUARD, two ? LEN / 2 : LEN, rig.mr->lkey },
				  { (uintptr_t)rig.mem + GUARD + LEN / 2, LEN / 2, rig.mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = READ_ID, .sg_list = sge, .num_sge = 1 + two, .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { .remote_addr = 4096, .rkey = 77 } },
			   *bad;
	static unsigned int seed;
	uint8_t request[FPDU_READ_REQ + FPDU_CRC];

	for (int i = 0; i < LEN; i++)
		rig.want[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
	seed += 7;
	memset(rig.mem, 0, MEM);
	check(!iw_post_send(&rig.qp->qp, &wr, &bad) &&
	      read(rig.peer, request, sizeof(request)) == (ssize_t)sizeof(request), "ahead: a READ is sent");
}

static uint32_t finish(uint8_t *f)
{
	const uint32_t size = fpdu_size(iw_get16(f));
	const uint32_t sum = rig.crc ? crc32c(0, f, size - FPDU_CRC) : 0;

	memcpy(f + size - FPDU_CRC, &sum, FPDU_CRC);
	return size;
}

/* One segment of the answer to the oldest READ. */
static uint32_t answer(uint8_t *f, uint32_t off, uint32_t len)
{
	const struct iw_stream *s = &rig.qp->stream;

	memset(f, 0, FPDU_TAGGED);
	fpdu_put_tagged(f, RDMAP_READ_RESP, off + len == LEN, len, s->sink_stag, ((uint64_t)s->read_next << 32) + off);
	memcpy(f + FPDU_TAGGED, rig.want + off, len);
	memset(f + FPDU_TAGGED + len, 0, 3);
	return finish(f);
}

/* Messages that may be between two segments. */
enum between { NOTHING, A_SEND, A_WRITE, A_READ };

static uint32_t message(uint8_t *f, enum between what)
{
	static const uint8_t text[] = "between two segments";
	uint32_t header = FPDU_UNTAGGED;

	if (what == NOTHING)
		return 0;
	if (what == A_READ) {
		fpdu_put_read_req(f, rig.read_msn++, 1, 2, sizeof(text), rig.mr->rkey,
				  (uintptr_t)rig.mem + SENT);
		return finish(f);
	}
	if (what == A_SEND) {
		fpdu_put_untagged(f, RDMAP_SEND, true, sizeof(text), 0, DDP_QN_SEND, rig.send_msn++, 0);
	} else {
		header = FPDU_TAGGED;
		fpdu_put_tagged(f, RDMAP_WRITE, true, sizeof(text), rig.mr->rkey, (uintptr_t)rig.mem + WRITTEN);
	}
	memcpy(f + header, text, sizeof(text));
	memset(f + header + sizeof(text), 0, 3);
	return finish(f);
}

/* The answer in segments of these lengths (the last of them repeated), with messages between them. */
static uint32_t build(uint8_t *f, const uint32_t *segment, enum between what)
{
	uint32_t size = 0;

	for (uint32_t off = 0, len; off < LEN; off += len) {
		len = *segment < LEN - off ? *segment : LEN - off;
		segment += !!segment[1];
		if (off)
			size += message(f + size, what);
		size += answer(f + size, off, len);
	}
	return size;
}

static void post_receive(void)
{
	struct ibv_sge sge = { (uintptr_t)rig.mem + SENT, 64, rig.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (rig.srq)
		iw_post_srq_recv(rig.srq, &wr, &bad);
	else
		iw_post_recv(&rig.qp->qp, &wr, &bad);
}

/* The destination is correct, and nothing beside it has changed. */
static bool is_read(void)
{
	bool ok = !memcmp(rig.mem + GUARD, rig.want, LEN);

	for (int i = 0; i < GUARD; i++)
		ok &= !rig.mem[i] && !rig.mem[GUARD + LEN + i];
	return ok;
}

static const uint32_t ours[] = { 45056, 0 };

static bool put(const uint8_t *f, uint32_t len)
{
	return send(rig.peer, f, len, 0) == (ssize_t)len;
}

/* A connection on which large payloads are usual. */
static void warm_up(uint8_t *f)
{
	read_post(false);
	check(put(f, build(f, ours, NOTHING)) && progress() && completed(1, 0) && is_read(), "ahead: the first is read");
}

/* As we send them, after those of another: two receives, the first of which is of the first header. */
static void together(bool crc, bool two)
{
	uint8_t *f = malloc(FRAMES);

	rig_open(crc, true, false);
	warm_up(f);
	read_post(two);
	receives = 0;
	check(put(f, build(f, ours, NOTHING)) && progress() && completed(1, 0) && is_read(), "ahead: read");
	check(two ? receives > 2 : receives == 2, "ahead: three segments in %u receives%s%s", receives,
	      crc ? " with CRC" : "", two ? ", a destination of two elements" : "");
	rig_close();
	free(f);
}

/* Every division arrives correctly, whatever is between the segments. */
static void divided(bool crc, bool shared)
{
	static const uint32_t lengths[][4] = {
		{ 45056 }, { 45056, 20001 }, { 45056, 45056, 9000 }, { 45057, 45057, 8191 }, { 20003 }, { 61440 },
		{ 65519 }, { 65519, 4097, 65519 }, { 8193, 65519 }, { 45056, 100, 45056 }, { 9000, 16384, 33000 },
	};
	static const char text[] = "between two segments";
	uint8_t *f = malloc(2 * FRAMES);

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (enum between what = NOTHING; what <= A_READ; what++) {
			bool ok = true, regular = !i && what == NOTHING;

			rig_open(crc, true, shared);
			warm_up(f);
			for (int k = 0; k < 2; k++) {	/* the second time perhaps after a wrong prediction */
				const uint32_t first = rig.send_msn;

				read_post(false);
				for (int n = 0; n < 8 && what == A_SEND; n++)
					post_receive();
				ok &= put(f, build(f, lengths[i], what)) && progress();
				for (unsigned int n = rig.send_msn - first; n > 8 && ok; n = n > 16 ? n - 8 : 8) {
					ok &= completed(0, 8);
					for (int j = 0; j < 8; j++)
						post_receive();
					ok &= progress();
				}
				completed(0, 0);
				ok &= !done.failed && done.reads == 1 && is_read();
				ok &= what != A_WRITE || !strcmp((char *)rig.mem + WRITTEN, text);
				ok &= what != A_SEND || !strcmp((char *)rig.mem + SENT, text);
				while (recv(rig.peer, f, FRAMES, MSG_DONTWAIT) > 0)
					;
			}
			ok &= !regular || !rig.qp->stream.rx.uneven;
			ok &= !(i == 1 || what) || rig.qp->stream.rx.uneven;
			check(ok, "ahead: segments of %u, %u, %u ..., %d between them%s%s", lengths[i][0],
			      lengths[i][1], lengths[i][2], what, crc ? ", with CRC" : "", shared ? ", shared" : "");
			rig_close();
		}
	free(f);
}

/* The bytes come in two parts, cut near the ends of the segments. */
static void cut(bool crc)
{
	enum { SIZE = FPDU_TAGGED + 45056 + 2 + FPDU_CRC, AROUND = 24 };
	uint8_t *f = malloc(FRAMES);
	bool ok = true;

	rig_open(crc, true, false);
	warm_up(f);
	for (uint32_t end = SIZE; end <= 2 * SIZE; end += SIZE)
		for (uint32_t at = end - AROUND; at < end + AROUND; at++) {
			uint32_t len;

			read_post(false);
			len = build(f, ours, NOTHING);
			ok &= put(f, at) && progress() && completed(0, 0);
			ok &= put(f + at, len - at) && progress() && completed(1, 0) && is_read();
		}
	check(ok, "ahead: cut anywhere between two segments%s", crc ? ", with CRC" : "");
	rig_close();
	free(f);
}

/* A Send between two segments has to wait for a receive. */
static void waits(bool crc)
{
	uint8_t *f = malloc(FRAMES);
	bool ok = true;

	rig_open(crc, true, true);
	warm_up(f);
	for (int k = 0; k < 2; k++) {
		read_post(false);
		ok &= put(f, build(f, ours, A_SEND)) && progress() && completed(0, 0);
		post_receive();
		ok &= progress() && completed(0, 1);
		post_receive();
		ok &= progress() && completed(1, 1) && is_read();
	}
	check(ok, "ahead: a Send between them waits for a receive%s", crc ? ", with CRC" : "");
	rig_close();
	free(f);
}

/* The second of three segments is wrong; the connection ends, and the READ fails. */
static void lies(bool crc)
{
	static const struct {
		uint32_t off;
		const char *what;
	} lie[] = { { OFF_TO + 7, "offset" }, { OFF_STAG, "STag" }, { OFF_CTRL, "version" }, { 0, "length" },
		    { FPDU_TAGGED + 5000, "CRC" } };
	uint8_t *f = malloc(FRAMES);

	for (size_t i = 0; i < sizeof(lie) / sizeof(lie[0]) - !crc; i++) {
		uint32_t len, second;
		bool ok;

		rig_open(crc, true, false);
		warm_up(f);
		read_post(false);
		len = build(f, ours, NOTHING);
		second = fpdu_size(iw_get16(f));
		f[second + lie[i].off] ^= lie[i].off ? 0x03 : 0x60;
		ok = put(f, len) && !progress();
		completed(0, 0);
		check(ok && done.failed == 1 && done.reads == 1, "ahead: a wrong %s ends the connection%s",
		      lie[i].what, crc ? ", with CRC" : "");
		for (int k = 0; k < GUARD; k++)
			ok &= !rig.mem[k] && !rig.mem[GUARD + LEN + k];
		check(ok, "ahead: and nothing beside the destination was written");
		rig_close();
	}
	free(f);
}

/* ---- the sender ---- */

/*
 * Two READs of the peer, of which one is long, and Sends: the segments of a message are sent IW_TOGETHER at a time, and
 * no Send waits for more than that.
 */
static void alternates(bool crc)
{
	enum { SENDS = 6, LONG = 10 * IW_SEGMENT };
	struct ibv_sge sge = { (uintptr_t)rig.mem, 64, 0 };
	struct ibv_send_wr wr = { .wr_id = SEND_ID, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	uint8_t f[2 * (FPDU_READ_REQ + FPDU_CRC)], *got = malloc(2 * FRAMES + LONG);
	uint32_t have = 0, at = 0, len, row = 0, most = 0, rows = 0, sends = 0, answers = 0;
	bool whole = true;

	rig_open(crc, false, false);	/* the responder sends nothing before the first frame */
	memset(rig.mem, 1, MEM);
	sge.addr = (uintptr_t)rig.mem;
	sge.lkey = rig.mr->lkey;
	for (int i = 0; i < SENDS; i++)
		check(!iw_post_send(&rig.qp->qp, &wr, &bad), "ahead: a Send is posted");
	fpdu_put_read_req(f, 1, 5, 0, LEN, rig.mr->rkey, (uintptr_t)rig.mem);
	len = finish(f);
	fpdu_put_read_req(f + len, 2, 5, 0, MEM, rig.mr->rkey, (uintptr_t)rig.mem);
	len += finish(f + len);
	check(put(f, len), "ahead: two READs are requested");
	for (int i = 0; i < 1000 && answers < 3 + (MEM + IW_SEGMENT - 1) / IW_SEGMENT; i++) {
		ssize_t n;

		progress();
		while ((n = recv(rig.peer, got + have, 2 * FRAMES + LONG - have, MSG_DONTWAIT)) > 0)
			have += (uint32_t)n;
		for (; have - at >= FPDU_LEN && have - at >= (len = fpdu_size(iw_get16(got + at))); at += len) {
			const uint16_t ctrl = iw_get16(got + at + OFF_CTRL);
			const bool is_answer = (ctrl & RDMAP_OPCODE_MASK) == RDMAP_READ_RESP;

			if (!is_answer)
				whole &= !row || row == IW_TOGETHER, row = 0, sends++;
			else
				answers++, row++, most = row > most && sends < SENDS ? row : most;
			if (is_answer && (ctrl & DDP_LAST))
				row = 0, rows++;
		}
	}
	check(sends == SENDS && rows == 2, "ahead: %u Sends and %u answers", sends, rows);
	check(whole && most <= IW_TOGETHER, "ahead: at most %u segments before a Send, and a short message in one piece%s",
	      most, crc ? ", with CRC" : "");
	rig_close();
	free(got);
}

void test_ahead(void)
{
	for (int crc = 0; crc < 2; crc++) {
		together(crc, false);
		together(crc, true);
		divided(crc, false);
		divided(crc, true);
		cut(crc);
		waits(crc);
		lies(crc);
		alternates(crc);
	}
}
