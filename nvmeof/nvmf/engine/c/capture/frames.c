/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of work on devices that do not show their packets: those that the embedded iWARP device would have sent, with
 * MPA revision 1 and without CRC.  They have no Terminate, and no frames of retransmissions or of keep-alives.
 *
 * Runs on the writer's thread.
 */
#include "internal.h"

#include "iwarp/wire.h"

enum {
	MPA_REVISION = 1,
	FRAME_PAYLOAD = 16384,		/* bytes of a message in a frame */
};

static uint8_t frame[FPDU_HDR_MAX + FRAME_PAYLOAD + 8];

const char *capture_comment(const struct capture_record *r)
{
	if (!capture_is_work(r))
		return NULL;
	if (r->inferred)
		return "synthesised: inferred from the response, since the device does not show its packets";
	if (r->kind < CAPTURE_SEND)
		return "synthesised from an event of the connection manager, since the device does not show its packets";
	return "synthesised from a work request, since the device does not show its packets";
}

/* ---- MPA's start ---- */

static void put_start(const struct capture_record *r, struct capture_flow *f, capture_put *put)
{
	const bool request = r->kind == CAPTURE_MPA_REQUEST;
	const uint32_t bits = MPA_REVISION | (r->kind == CAPTURE_MPA_REJECT ? MPA_BIT_REJECT : 0);
	const uint32_t n = r->length < MPA_PD_MAX ? r->length : MPA_PD_MAX;
	const uint32_t stored = r->stored < n ? r->stored : n;

	/* the event of the end that has replied tells of the reply again */
	if (!request && f->answered)
		return;
	f->answered = !request;
	memcpy(frame, request ? MPA_KEY_REQ : MPA_KEY_REP, MPA_KEY_LEN);
	iw_put16(frame + MPA_KEY_LEN, bits);
	iw_put16(frame + MPA_KEY_LEN + 2, n);
	memcpy(frame + MPA_HDR_LEN, r + 1, stored);
	capture_segment(r, f, frame, MPA_HDR_LEN + stored, MPA_HDR_LEN + n, put);
}

/* ---- FPDUs ---- */

/* Its header is in frame; the data is the record's, from offset on. */
static void put_fpdu(const struct capture_record *r, struct capture_flow *f, uint32_t header, uint32_t offset,
		     uint32_t n, capture_put *put)
{
	const uint32_t size = fpdu_size(header - FPDU_LEN + n);
	const bool whole = r->stored == r->length;

	if (whole) {
		memcpy(frame + header, (const uint8_t *)(r + 1) + offset, n);
		memset(frame + header + n, 0, size - header - n);
	}
	capture_segment(r, f, frame, whole ? size : header, size, put);
}

static void put_read(const struct capture_record *r, struct capture_flow *f, capture_put *put)
{
	fpdu_put_read_req(frame, ++f->reads[r->sent], r->sink.key, r->sink.address, r->amount, r->place.key,
			  r->place.address);
	put_fpdu(r, f, FPDU_READ_REQ, 0, 0, put);
}

static void put_send(const struct capture_record *r, struct capture_flow *f, uint32_t at, uint32_t n, bool last,
		     capture_put *put)
{
	fpdu_put_untagged(frame, r->kind == CAPTURE_SEND ? RDMAP_SEND : RDMAP_SEND_INV, last, n, r->place.key,
			  DDP_QN_SEND, f->sends[r->sent] + 1, r->amount + at);
	f->sends[r->sent] += last;
	put_fpdu(r, f, FPDU_UNTAGGED, at, n, put);
}

static void put_tagged(const struct capture_record *r, struct capture_flow *f, uint32_t at, uint32_t n, bool last,
		       capture_put *put)
{
	fpdu_put_tagged(frame, r->kind == CAPTURE_WRITE ? RDMAP_WRITE : RDMAP_READ_RESP, last, n, r->place.key,
			r->place.address + at);
	put_fpdu(r, f, FPDU_TAGGED, at, n, put);
}

static void put_pieces(const struct capture_record *r, struct capture_flow *f, capture_put *put)
{
	uint32_t at = 0;

	do {
		const uint32_t n = r->length - at < FRAME_PAYLOAD ? r->length - at : FRAME_PAYLOAD;
		const bool last = r->last && at + n == r->length;

		if (r->kind == CAPTURE_SEND || r->kind == CAPTURE_SEND_INVALIDATE)
			put_send(r, f, at, n, last, put);
		else
			put_tagged(r, f, at, n, last, put);
		at += n;
	} while (at < r->length);
}

void capture_frames(const struct capture_record *r, struct capture_flow *f, capture_put *put)
{
	if (f->closed[r->sent])
		return;
	switch ((enum capture_kind)r->kind) {
	case CAPTURE_MPA_REQUEST:
	case CAPTURE_MPA_REPLY:
	case CAPTURE_MPA_REJECT:
		put_start(r, f, put);
		break;
	case CAPTURE_CLOSED:
		f->closed[r->sent] = true;
		capture_segment(r, f, NULL, 0, 0, put);
		break;
	case CAPTURE_READ:
		put_read(r, f, put);
		break;
	default:
		put_pieces(r, f, put);
		break;
	}
}
