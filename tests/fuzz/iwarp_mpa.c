/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: an MPA frame is decoded in the same way in whatever pieces it comes, the decoder requests more bytes only
 * while there may be more, and an accepted frame is encoded to the same bytes.
 */
#include "iwarp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t frame[MPA_FRAME_MAX + 64] = { 0 }, again[MPA_FRAME_MAX];
	struct iw_mpa m, whole;
	uint32_t need = 0, len;
	const char *why = NULL;
	bool reply;
	int r, w;

	if (size < 1)
		return 0;
	reply = data[0] & 1;
	memcpy(frame, reply ? MPA_KEY_REP : MPA_KEY_REQ, MPA_KEY_LEN);
	if (data[0] & 2) {	/* otherwise the key comes from the input, too */
		len = size - 1 < sizeof(frame) - MPA_KEY_LEN ? (uint32_t)size - 1 : sizeof(frame) - MPA_KEY_LEN;
		memcpy(frame + MPA_KEY_LEN, data + 1, len);
		len += MPA_KEY_LEN;
	} else {
		len = size - 1 < sizeof(frame) ? (uint32_t)size - 1 : sizeof(frame);
		memcpy(frame, data + 1, len);
	}
	w = iw_mpa_get(frame, len, reply, &whole, &need, &why);
	for (uint32_t have = 0; have <= len; have++) {
		r = iw_mpa_get(frame, have, reply, &m, &need, &why);
		if (r < 0) {
			if (w >= 0 || !why)
				abort();
			return 0;
		}
		if (r == 0) {
			if (need <= have || need > MPA_FRAME_MAX)
				abort();
			continue;
		}
		if (r != w || m.pd_len != whole.pd_len)
			abort();
		break;
	}
	if (w > 0) {
		if (iw_mpa_put(again, &whole) != (uint32_t)w)
			abort();
		/* reserved bits are not kept */
		frame[16] &= 0xf0;
		if (memcmp(again, frame, (size_t)w))
			abort();
	}
	return 0;
}
