/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up frames: encoding, and strict decoding.  Pure functions, no state, any thread. */
#include "mpa.h"

uint32_t iw_mpa_put(uint8_t *buf, const struct iw_mpa *m)
{
	uint32_t extra = m->enhanced ? MPA_V2_LEN : 0;
	uint32_t bits = m->revision;

	memcpy(buf, m->reply ? MPA_KEY_REP : MPA_KEY_REQ, MPA_KEY_LEN);
	bits |= m->markers ? MPA_BIT_MARKERS : 0u;
	bits |= m->crc ? MPA_BIT_CRC : 0u;
	bits |= m->reject ? MPA_BIT_REJECT : 0u;
	bits |= m->enhanced ? MPA_BIT_ENHANCED : 0u;
	iw_put16(buf + MPA_KEY_LEN, bits);
	iw_put16(buf + MPA_KEY_LEN + 2, extra + m->pd_len);
	if (extra) {
		iw_put16(buf + MPA_HDR_LEN, m->ird_word);
		iw_put16(buf + MPA_HDR_LEN + 2, m->ord_word);
	}
	if (m->pd_len)
		memcpy(buf + MPA_HDR_LEN + extra, m->pd, m->pd_len);
	return MPA_HDR_LEN + extra + m->pd_len;
}

int iw_mpa_get(const uint8_t *buf, uint32_t have, bool reply, struct iw_mpa *m, uint32_t *need,
	       const char **why)
{
	const char *key = reply ? MPA_KEY_REP : MPA_KEY_REQ;

	/* the key is checked as it arrives: a peer with a different protocol is refused at once */
	if (memcmp(buf, key, have < MPA_KEY_LEN ? have : MPA_KEY_LEN)) {
		*why = reply ? "the answer is not an MPA reply" : "not an MPA request";
		return -1;
	}
	*need = MPA_HDR_LEN;
	if (have < MPA_HDR_LEN)
		return 0;

	uint32_t bits = iw_get16(buf + MPA_KEY_LEN);
	uint32_t pd_len = iw_get16(buf + MPA_KEY_LEN + 2);

	memset(m, 0, sizeof(*m));
	m->reply = reply;
	m->markers = bits & MPA_BIT_MARKERS;
	m->crc = bits & MPA_BIT_CRC;
	m->reject = bits & MPA_BIT_REJECT;
	m->enhanced = bits & MPA_BIT_ENHANCED;
	m->revision = bits & MPA_REVISION_MASK;
	if (m->revision > 2) {
		*why = "unknown MPA revision";
		return -1;
	}
	if (m->markers) {
		*why = "MPA markers are not supported";
		return -1;
	}
	if (m->enhanced && m->revision < 2) {
		*why = "enhanced MPA set-up in revision 0 or 1";
		return -1;
	}
	if (!reply && m->reject) {
		*why = "MPA request with the reject bit";
		return -1;
	}
	if (pd_len > MPA_PD_MAX) {
		*why = "MPA private data longer than 512 bytes";
		return -1;
	}
	if (m->enhanced && pd_len < MPA_V2_LEN) {
		*why = "enhanced MPA frame without its depths";
		return -1;
	}
	*need = MPA_HDR_LEN + pd_len;
	if (have < *need)
		return 0;
	m->pd = buf + MPA_HDR_LEN;
	m->pd_len = (uint16_t)pd_len;
	if (m->enhanced) {
		m->ird_word = iw_get16(m->pd);
		m->ord_word = iw_get16(m->pd + 2);
		m->pd += MPA_V2_LEN;
		m->pd_len = (uint16_t)(m->pd_len - MPA_V2_LEN);
	}
	return (int)*need;
}
