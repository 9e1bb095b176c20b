/* SPDX-License-Identifier: BSD-3-Clause */
/* The segments of a message are sent together, IW_TOGETHER of them, and other messages do not wait longer. */
#include "iwarp_ahead.h"

#include <stdlib.h>
#include <sys/socket.h>

/*
 * Two READs of the peer, of which one is long, and Sends: the segments of a message are sent IW_TOGETHER at a time, and
 * no Send waits for more than that.
 */
static void alternates(bool crc)
{
	enum { SENDS = 6, LONG = 10 * IW_SEGMENT };
	struct ibv_sge sge = { (uintptr_t)ahead.mem, 64, 0 };
	struct ibv_send_wr wr = { .wr_id = SEND_ID, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	uint8_t f[2 * (FPDU_READ_REQ + FPDU_CRC)], *got = malloc(2 * FRAMES + LONG);
	uint32_t have = 0, at = 0, len, row = 0, most = 0, rows = 0, sends = 0, answers = 0;
	bool whole = true;

	ahead_open(crc, false, false);	/* the responder sends nothing before the first frame */
	memset(ahead.mem, 1, MEM);
	sge.addr = (uintptr_t)ahead.mem;
	sge.lkey = ahead.mr->lkey;
	for (int i = 0; i < SENDS; i++)
		check(!iw_post_send(&ahead.qp->qp, &wr, &bad), "ahead: a Send is posted");
	fpdu_put_read_req(f, 1, 5, 0, LEN, ahead.mr->rkey, (uintptr_t)ahead.mem);
	len = ahead_finish(f);
	fpdu_put_read_req(f + len, 2, 5, 0, MEM, ahead.mr->rkey, (uintptr_t)ahead.mem);
	len += ahead_finish(f + len);
	check(ahead_put(f, len), "ahead: two READs are requested");
	for (int i = 0; i < 1000 && answers < 3 + (MEM + IW_SEGMENT - 1) / IW_SEGMENT; i++) {
		ssize_t n;

		ahead_progress();
		while ((n = recv(ahead.peer, got + have, 2 * FRAMES + LONG - have, MSG_DONTWAIT)) > 0)
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
	ahead_close();
	free(got);
}

/* A long WRITE while a long READ of the peer is answered: IW_TOGETHER segments of each, in turns. */
static void turns(bool crc)
{
	struct ibv_sge sge = { 0, MEM, 0 };
	struct ibv_send_wr wr = { .wr_id = SEND_ID, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { .remote_addr = 4096, .rkey = 77 } }, *bad;
	uint8_t f[FPDU_READ_REQ + FPDU_CRC], *got = malloc(3 * MEM);
	uint32_t have = 0, len, row = 0, segments = 0;
	bool was_answer = false, regular = true, over = false;

	ahead_open(crc, false, false);
	sge.addr = (uintptr_t)ahead.mem;
	sge.lkey = ahead.mr->lkey;
	check(!iw_post_send(&ahead.qp->qp, &wr, &bad), "ahead: a WRITE is posted");
	fpdu_put_read_req(f, 1, 5, 0, MEM, ahead.mr->rkey, (uintptr_t)ahead.mem);
	check(ahead_put(f, ahead_finish(f)), "ahead: a READ is requested");
	for (int i = 0; i < 1000; i++) {
		ssize_t n;

		ahead_progress();
		while ((n = recv(ahead.peer, got + have, 3 * MEM - have, MSG_DONTWAIT)) > 0)
			have += (uint32_t)n;
	}
	for (uint32_t at = 0; at + FPDU_UNTAGGED <= have; at += len) {
		const uint16_t ctrl = iw_get16(got + at + OFF_CTRL);
		const bool is_answer = (ctrl & RDMAP_OPCODE_MASK) == RDMAP_READ_RESP;

		len = fpdu_size(iw_get16(got + at));
		if (segments && is_answer != was_answer) {	/* once one of them is over, the other has all turns */
			regular &= over || row == IW_TOGETHER;
			row = 0;
		}
		over |= ctrl & DDP_LAST;
		was_answer = is_answer;
		row++;
		segments++;
	}
	check(over && regular && segments >= 2 * (IW_TOGETHER + 1),
	      "ahead: %u segments of two messages, %u in a row%s", segments, IW_TOGETHER, crc ? ", with CRC" : "");
	ahead_close();
	free(got);
}

void ahead_sender(bool crc)
{
	alternates(crc);
	turns(crc);
}
