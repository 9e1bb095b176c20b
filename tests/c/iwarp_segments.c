/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of TCP segments.  Linux's siw overruns memory if an untagged header comes in two segments with more than
 * 16 bytes in the first, and considers a CRC that comes in two segments wrong.
 */
#include "iwarp_raw.h"

#include "iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS = 4096, EACH = 40, ROOM = 1 << 20 };

static struct {
	int fd;				/* whose calls are recorded; -1: none */
	unsigned int count, open;	/* open: calls that the next one's bytes may follow in a segment */
	size_t begin[CALLS], end[CALLS];
} calls = { .fd = -1 };

/* Replaces the C library's function: records which bytes of the stream were sent together. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	const ssize_t n = syscall(SYS_sendmsg, fd, msg, flags);

	if (fd == calls.fd && n > 0 && calls.count < CALLS) {
		const unsigned int i = calls.count++;

		calls.begin[i] = i ? calls.end[i - 1] : 0;
		calls.end[i] = calls.begin[i] + (size_t)n;
		calls.open += !(flags & MSG_EOR);
	}
	return n;
}

/* Whether a segment ends between two bytes of the stream; at: index of the second. */
static bool segment_ends(size_t at, uint32_t mss)
{
	for (unsigned int i = 0; i < calls.count; i++)
		if (at > calls.begin[i] && at <= calls.end[i])
			return at == calls.end[i] || !((at - calls.begin[i]) % mss);
	return false;
}

/* The number of segment ends between two bytes, excluding both. */
static unsigned int ends_within(size_t from, size_t to, uint32_t mss)
{
	unsigned int n = 0;

	while (++from < to)
		n += segment_ends(from, mss);
	return n;
}

/* READs, Sends and WRITEs of all lengths, in one chain. */
static void post_mixture(unsigned int *seed)
{
	struct ibv_sge sge[3 * EACH];
	struct ibv_send_wr wr[3 * EACH], *bad;

	for (int i = 0; i < 3 * EACH; i++) {
		const uint32_t len = (uint32_t)rand_r(seed) % 400;

		sge[i] = (struct ibv_sge){ (uintptr_t)raw_side.mem, len, raw_side.mr->lkey };
		wr[i] = (struct ibv_send_wr){
			.wr_id = (uint64_t)i, .next = i < 3 * EACH - 1 ? &wr[i + 1] : NULL,
			.sg_list = &sge[i], .num_sge = 1,
			.opcode = i < EACH ? IBV_WR_RDMA_READ : i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
			.wr.rdma = { .remote_addr = 4096, .rkey = 77 },
		};
	}
	check(!ibv_post_send(raw_side.qp, wr, &bad), "segments: %d requests posted", 3 * EACH);
}

static void headers_whole(bool crc, int mss)
{
	uint8_t f[FPDU_TAGGED + FPDU_CRC] = { 0 }, rep[64], *got = malloc(ROOM);
	uint32_t have = 0, at = 0, len, cut = 0, sent = 0, real = 0;
	socklen_t real_len = sizeof(real);
	unsigned int seed = (unsigned int)mss, fpdus = 0;
	struct ibv_wc wc;

	raw_mss = mss;
	raw_depth = 2 * EACH;
	check(!raw_open(crc ? 0x5002 : 0x1002, 2 * EACH, 2 * EACH, rep), "segments: connects");
	raw_mss = raw_depth = 0;
	calls.fd = iw_qp(raw_side.qp)->stream.fd;
	calls.count = calls.open = 0;
	getsockopt(calls.fd, IPPROTO_TCP, TCP_MAXSEG, &real, &real_len);
	post_mixture(&seed);	/* the post waits for the peer's first frame, and is sent at once */
	fpdu_put_tagged(f, RDMAP_WRITE, true, 0, 0, 0);
	len = raw_finish(f, crc);
	check(send(raw_fd, f, len, 0) == (ssize_t)len, "segments: speaks");
	for (double end = now_s() + CHECK_PATIENCE_S; fpdus < 3 * EACH && now_s() < end;) {
		const ssize_t n = recv(raw_fd, got + have, ROOM - have, MSG_DONTWAIT);

		have += n > 0 ? (uint32_t)n : 0;
		for (; have - at >= FPDU_LEN && have - at >= (len = fpdu_size(iw_get16(got + at))); at += len, fpdus++) {
			const uint32_t hl = iw_hdr_len(iw_get16(got + at + OFF_CTRL));
			const uint32_t tail = fpdu_pad(iw_get16(got + at)) + FPDU_CRC;

			cut += ends_within(at + FPDU_TAGGED, at + hl, real);
			cut += crc ? ends_within(at + len - tail, at + len, real) : 0;
		}
		ibv_poll_cq(raw_side.cq, 1, &wc);
	}
	sent = calls.count;
	check(fpdus == 3 * EACH && at == have, "segments: %u FPDUs came", fpdus);
	check(!cut, "segments: %u headers or CRCs cut by the end of a segment of %u bytes%s", cut, real,
	      crc ? ", with CRC" : "");
	check(sent && !calls.open, "segments: each of %u calls ends a segment", sent);
	check(sent <= have / real + 2, "segments: no more calls than segments (%u, %u bytes)", sent, have);
	calls.fd = -1;
	raw_close();
	free(got);
}

void test_segments(void)
{
	static const int sizes[] = { 537, 538, 540, 1000, 1459, 1460 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		headers_whole(false, sizes[i]);
		headers_whole(true, sizes[i]);
	}
}
