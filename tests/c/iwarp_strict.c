/* SPDX-License-Identifier: BSD-3-Clause */
/* With a strict peer: no FPDU longer than a TCP segment, and only TERMINATE after an error. */
#include "iwarp_raw.h"

#include "iwarp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Count the received FPDUs, and check each against the MSS; returns the bytes of whole ones. */
static uint32_t strict_count(const uint8_t *p, uint32_t have, uint32_t mss, unsigned int *fpdus)
{
	uint32_t at = 0;

	while (have - at >= FPDU_LEN && have - at >= fpdu_size(iw_get16(p + at))) {
		uint32_t size = fpdu_size(iw_get16(p + at));

		if (size > mss)
			return UINT32_MAX;
		at += size;
		++*fpdus;
	}
	return at;
}

static void segments(bool crc)
{
	enum { BYTES = 300000, ROOM = BYTES + 65536 };
	uint8_t f[64] = { 0 }, rep[64], *got = malloc(ROOM);
	uint32_t len, mss = 0;
	socklen_t mss_len = sizeof(mss);
	unsigned int fpdus = 0;
	struct ibv_wc wc;

	raw_mss = 1460;
	check(!raw_open(crc ? 0x5002 : 0x1002, 2, 2, rep), "segments: connects");
	raw_mss = 0;
	getsockopt(raw_fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &mss_len);
	/* a READ by the peer, and a WRITE and a Send by the device */
	fpdu_put_read_req(f, 1, 5, 6, BYTES / 3, raw_side.mr->rkey, (uintptr_t)raw_side.mem);
	len = raw_finish(f, crc);
	check(send(raw_fd, f, len, 0) == (ssize_t)len, "segments: a READ is sent");
	post_send(&raw_side, 2, IBV_WR_RDMA_WRITE, 0, 0, BYTES / 3, 4096, 77);
	post_send(&raw_side, 3, IBV_WR_SEND, 0, 0, BYTES / 3, 0, 0);

	uint32_t have = 0, want = BYTES;
	double end = now_s() + CHECK_PATIENCE_S;

	while (have < want && now_s() < end) {
		ssize_t n = recv(raw_fd, got + have, ROOM - have, MSG_DONTWAIT);

		have += n > 0 ? (uint32_t)n : 0;
		ibv_poll_cq(raw_side.cq, 1, &wc);
		fpdus = 0;
		if (n > 0 && strict_count(got, have, mss, &fpdus) == have)
			want = BYTES + fpdus * (FPDU_TAGGED + FPDU_CRC);
	}
	fpdus = 0;
	check(strict_count(got, have, mss, &fpdus) == have, "segments: %u bytes in whole FPDUs within the MSS %u",
	      have, mss);
	check(fpdus > BYTES / mss && fpdus < BYTES / (mss - 64) + 6, "segments: as few as that allows (%u)", fpdus);
	raw_close();
	free(got);
}

/* A READ followed at once by a frame that ends the connection: no answer to the READ after that. */
static void only_terminate(bool crc)
{
	uint8_t f[256] = { 0 }, rep[64], got[512];
	uint32_t one, two, len;

	check(!raw_open(crc ? 0x5002 : 0x1002, 2, 2, rep), "terminate: connects");
	fpdu_put_read_req(f, 1, 5, 6, 64, raw_side.mr->rkey, (uintptr_t)raw_side.mem);
	one = raw_finish(f, crc);
	fpdu_put_tagged(f + one, RDMAP_WRITE, true, 8, 0x12345678, 0);
	two = raw_finish(f + one, crc);
	check(send(raw_fd, f, one + two, 0) == (ssize_t)(one + two), "terminate: a READ and nonsense");
	len = raw_answer(got, sizeof(got));
	check(len <= sizeof(got) && len == fpdu_size(iw_get16(got)) &&
	      (iw_get16(got + OFF_CTRL) & RDMAP_OPCODE_MASK) == RDMAP_TERMINATE,
	      "terminate: and nothing before it (%u bytes)", len);
	raw_close();
}

/* The same while the socket is full in the middle of an FPDU: that one is completed. */
static void cut_then_terminate(bool crc)
{
	enum { ROOM = 64 << 20, PIECES = 40 };
	uint8_t f[64] = { 0 }, rep[64], *got = malloc(ROOM);
	uint32_t len, at = 0, last = 0;

	check(!raw_open(crc ? 0x5002 : 0x1002, 2, 2, rep), "cut: connects");
	fpdu_put_tagged(f, RDMAP_WRITE, true, 0, 0, 0);	/* the first frame, after which the responder may send */
	len = raw_finish(f, crc);
	check(send(raw_fd, f, len, 0) == (ssize_t)len, "cut: speaks");
	for (double end = now_s() + CHECK_PATIENCE_S; iw_qp(raw_side.qp)->stream.tx.hold && now_s() < end;) {
		struct ibv_wc wc;

		ibv_poll_cq(raw_side.cq, 1, &wc);
	}
	for (int i = 0; i < PIECES; i++)
		post_send(&raw_side, 9, IBV_WR_RDMA_WRITE, 0, 0, 1000000, 4096, 77);
	check(iw_qp(raw_side.qp)->stream.tx.blocked, "cut: the socket is full");
	fpdu_put_tagged(f, RDMAP_WRITE, true, 8, 0x12345678, 0);
	len = raw_finish(f, crc);
	check(send(raw_fd, f, len, 0) == (ssize_t)len, "cut: nonsense");
	for (double end = now_s() + CHECK_PATIENCE_S;
	     !*iwarp_qp_end_reason(raw_side.qp) && now_s() < end;) {
		struct ibv_wc wc;

		ibv_poll_cq(raw_side.cq, 1, &wc);
	}
	len = raw_answer(got, ROOM);
	while (len <= ROOM && at < len) {
		last = at;
		at += fpdu_size(iw_get16(got + at));
	}
	check(at == len && (iw_get16(got + last + OFF_CTRL) & RDMAP_OPCODE_MASK) == RDMAP_TERMINATE,
	      "cut: %u bytes of whole FPDUs, the last a TERMINATE", len);
	raw_close();
	free(got);
}

void test_strict(void)
{
	for (int crc = 0; crc < 2; crc++) {
		segments(crc);
		only_terminate(crc);
		cut_then_terminate(crc);
	}
}
