/* SPDX-License-Identifier: BSD-3-Clause */
/* The segments of a Read Response are received together: wrong predictions, wrong peers, and early ends. */
#include "iwarp_ahead.h"

#include <stdlib.h>
#include <sys/socket.h>

/* After a wrong prediction nothing is predicted, and later it is tried again. */
static void recovers(bool crc)
{
	uint8_t *f = malloc(FRAMES);
	unsigned int reads = 0;
	bool ok;

	ahead_open(crc, true, false);
	ahead_warm_up(f);
	ahead_post();
	ahead_post();
	ahead_read(false);
	ok = ahead_put(f, ahead_build(f, ahead_ours, A_SEND)) && ahead_progress() && ahead_completed(1, 2) &&
	     ahead_is_read();
	do {
		ahead_read(false);
		ahead.receives = 0;
		ok &= ahead_put(f, ahead_build(f, ahead_ours, NOTHING)) && ahead_progress() &&
		      ahead_completed(1, 0) && ahead_is_read();
		reads++;
	} while (ok && ahead.receives > 2 && reads < 1000);
	check(ok && reads == 64, "ahead: predicted again with READ %u after a wrong one%s", reads,
	      crc ? ", with CRC" : "");
	ahead_close();
	free(f);
}

/* A WRITE with exactly the length that was predicted for the segment. */
static void impostor(bool crc)
{
	enum { FIRST = 45056 };
	uint8_t *f = malloc(2 * FRAMES);
	uint32_t size, from;
	bool ok;

	ahead_open(crc, true, false);
	ahead_warm_up(f);
	ahead_read(false);
	size = from = ahead_answer(f, 0, FIRST);
	fpdu_put_tagged(f + size, RDMAP_WRITE, true, FIRST, ahead.mr->rkey, (uintptr_t)ahead.mem + WRITTEN);
	memset(f + size + FPDU_TAGGED, 0x77, FIRST);
	memset(f + size + FPDU_TAGGED + FIRST, 0, 3);
	size += ahead_finish(f + size);
	for (uint32_t off = FIRST, len; off < LEN; off += len) {
		len = LEN - off < FIRST ? LEN - off : FIRST;
		size += ahead_answer(f + size, off, len);
	}
	ok = ahead_put(f, size) && ahead_progress() && ahead_completed(1, 0) && ahead_is_read();
	check(ok && !memcmp(ahead.mem + WRITTEN, f + from + FPDU_TAGGED, FIRST),
	      "ahead: a WRITE of the predicted length goes where it belongs%s", crc ? ", with CRC" : "");
	ahead_close();
	free(f);
}

/* The region is deregistered, or the peer ends the connection, in the middle of the answer. */
static void ends(bool crc, bool deregistered)
{
	uint8_t *f = malloc(FRAMES), *before = malloc(MEM);

	for (uint32_t at = 20000; at < LEN; at += 30000) {
		uint32_t len;
		bool ok;

		ahead_open(crc, true, false);
		ahead_warm_up(f);
		ahead_read(false);
		len = ahead_build(f, ahead_ours, NOTHING);
		ok = ahead_put(f, at) && ahead_progress() && ahead_completed(0, 0);
		if (deregistered) {
			iw_dereg_mr(ahead.mr);
			ahead.mr = NULL;
			ok &= ahead_put(f + at, len - at);
		} else {
			shutdown(ahead.peer, SHUT_WR);
		}
		memcpy(before, ahead.mem, MEM);
		ok &= !ahead_progress();
		ahead_completed(0, 0);
		check(ok && ahead.done.failed == 1 && ahead.done.reads == 1 && !memcmp(before, ahead.mem, MEM),
		      "ahead: %s after %u bytes, and nothing more is written%s",
		      deregistered ? "deregistered" : "closed", at, crc ? ", with CRC" : "");
		ahead_close();
	}
	free(before);
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

		ahead_open(crc, true, false);
		ahead_warm_up(f);
		ahead_read(false);
		len = ahead_build(f, ahead_ours, NOTHING);
		second = fpdu_size(iw_get16(f));
		f[second + lie[i].off] ^= lie[i].off ? 0x03 : 0x60;
		ok = ahead_put(f, len) && !ahead_progress();
		ahead_completed(0, 0);
		check(ok && ahead.done.failed == 1 && ahead.done.reads == 1, "ahead: a wrong %s ends the connection%s",
		      lie[i].what, crc ? ", with CRC" : "");
		for (int k = 0; k < GUARD; k++)
			ok &= !ahead.mem[k] && !ahead.mem[GUARD + LEN + k];
		check(ok, "ahead: and nothing beside the destination was written");
		ahead_close();
	}
	free(f);
}

void ahead_wrong(bool crc)
{
	recovers(crc);
	impostor(crc);
	ends(crc, false);
	ends(crc, true);
	lies(crc);
}
