/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes: MPA frames, FPDU headers, TERMINATE, compared with values from other sources. */
#include "iwarp_pair.h"

#include "iwarp.h"

#include <stdlib.h>

/* The request of a siw initiator for the kernel's NVMe host, without its private data. */
static const uint8_t siw_request[] = {
	0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52, 0x65, 0x71, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65,
	0x10, 0x02, 0x00, 0x04, 0x00, 0x01, 0x00, 0x01,
};
/* and its first Send, of 16 bytes, CRC off */
static const uint8_t siw_send[] = {
	0x00, 0x22, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x9e, 0x5e, 0x40, 0xd4, 0x70, 0x27, 0xf1, 0xcb, 0x00,
	0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00,
};

static void mpa(void)
{
	uint8_t buf[MPA_FRAME_MAX];
	struct iw_mpa m = { .revision = 2, .enhanced = true, .ird_word = 1, .ord_word = 1 };
	const char *why = NULL;
	uint32_t need = 0;
	int ok = 1;

	check(iw_mpa_put(buf, &m) == sizeof(siw_request) && !memcmp(buf, siw_request, sizeof(siw_request)),
	      "mpa: a request is siw's to the byte");
	for (uint32_t have = 0; have < sizeof(siw_request); have++)
		ok &= iw_mpa_get(siw_request, have, false, &m, &need, &why) == 0 && need > have;
	check(ok && iw_mpa_get(siw_request, sizeof(siw_request), false, &m, &need, &why) ==
	      (int)sizeof(siw_request) && m.revision == 2 && m.enhanced && !m.crc && m.ird_word == 1 &&
	      m.ord_word == 1 && m.pd_len == 0, "mpa: and read so, in whatever pieces");

	static const struct { uint8_t at, value; const char *what; } bad[] = {
		{ 3, 'x', "key" }, { 16, 0x90, "markers" }, { 16, 0x30, "reject in a request" },
		{ 17, 3, "revision 3" }, { 17, 1, "enhanced revision 1" }, { 18, 2, "pd_len 516" },
		{ 19, 3, "no room for the depths" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memcpy(buf, siw_request, sizeof(siw_request));
		buf[bad[i].at] = bad[i].value;
		check(iw_mpa_get(buf, sizeof(siw_request), false, &m, &need, &why) == -1,
		      "mpa: refused: %s (%s)", bad[i].what, why);
	}
	check(iw_mpa_get(siw_request, sizeof(siw_request), true, &m, &need, &why) == -1,
	      "mpa: a request is no reply");
}

static void fpdu(void)
{
	uint8_t h[FPDU_HDR_MAX] = { 0 }, t[TERM_FPDU_MAX];
	static const uint8_t term_read[] = { 0x00, 0x46, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1,
					     0, 0, 0, 0, 0x01, 0x02, 0xe0, 0x00 };

	fpdu_put_untagged(h, RDMAP_SEND, true, 16, 0, DDP_QN_SEND, 1, 0);
	check(!memcmp(h, siw_send, FPDU_UNTAGGED) && fpdu_size(0x22) == sizeof(siw_send),
	      "fpdu: a Send is siw's to the byte");
	fpdu_put_tagged(h, RDMAP_WRITE, true, 512, 0x01020304, 0x1122334455667788);
	check(!memcmp(h, "\x02\x0e\xc1\x40\x01\x02\x03\x04\x11\x22\x33\x44\x55\x66\x77\x88", 16),
	      "fpdu: a Write");
	fpdu_put_read_req(h, 3, 0x0a0b0c0d, 0x1000, 0x2000, 0x01020304, 0x5000);
	check(!memcmp(h, "\x00\x2e\x41\x41\0\0\0\0\0\0\0\x01\0\0\0\x03\0\0\0\0\x0a\x0b\x0c\x0d"
		      "\0\0\0\0\0\0\x10\0\0\0\x20\0\x01\x02\x03\x04\0\0\0\0\0\0\x50\0", 48),
	      "fpdu: a Read Request");
	check(iw_term_build(t, TERM_RDMAP_ACCESS, h, false) == 24 + 48 + 4 &&
	      !memcmp(t, term_read, sizeof(term_read)) && !memcmp(t + 24, h, 48),
	      "fpdu: a TERMINATE with a Read Request's headers");
	static struct iw_stream stream = { .fd = -1 };

	check(iw_segment(&stream, 4096, FPDU_TAGGED) >= 4096 && iw_segment(&stream, 61441, FPDU_TAGGED) == 32768 &&
	      iw_segment(&stream, 131072, FPDU_TAGGED) == 45056 &&
	      iw_segment(&stream, 0x80000000u, FPDU_TAGGED) <= IW_SEGMENT, "fpdu: segments are balanced pages");
	stream.tx.mulpdu = 1442;
	check(iw_segment(&stream, 61441, FPDU_TAGGED) == 1428 && iw_segment(&stream, 4, FPDU_UNTAGGED) == 1424,
	      "fpdu: no longer than the MSS allows");
}

void test_wire(void)
{
	mpa();
	fpdu();
}
