/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of work on devices that do not show their packets.  Any thread; the order of a connection's records is that
 * of the calls, all of which come from the thread that owns its queue pair, or before it has one.
 */
#include "internal.h"

static bool of_ip(const struct capture_ends *e)
{
	const sa_family_t family = e->local->sa_family;

	return (family == AF_INET || family == AF_INET6) && family == e->peer->sa_family;
}

/* A record of length bytes; NULL, and counted as dropped, if there is no room or the addresses are not of IP. */
static struct capture_record *work_begin(const struct capture_ends *e, enum capture_kind kind, bool sent,
					 size_t length, uint32_t *size)
{
	struct capture_record *r;

	if (!of_ip(e)) {
		capture_record_dropped();
		return NULL;
	}
	r = capture_record(kind, sent, e->local, e->peer, length, size);
	if (r) {
		r->inferred = e->inferred;
		r->last = true;
	}
	return r;
}

/* A message of n bytes at most, in pieces: of a Send, or at consecutive addresses of a place. */
static void work_message(const struct capture_ends *e, enum capture_kind kind, bool sent, struct capture_place place,
			 struct capture_cursor at, size_t n)
{
	size_t done = 0;

	do {
		const size_t piece = n - done < CAPTURE_PIECE ? n - done : CAPTURE_PIECE;
		uint32_t size;
		struct capture_record *r = work_begin(e, kind, sent, piece, &size);

		capture_take(&at, r && r->stored ? (uint8_t *)(r + 1) : NULL, piece);
		if (r) {
			r->place = place;
			r->amount = (uint32_t)done;
			r->last = done + piece == n;
			capture_record_done(r, size);
		}
		place.address += piece;
		done += piece;
	} while (done < n);
}

static size_t length_of(const struct iovec *iov, int niov)
{
	size_t n = 0;

	for (int i = 0; i < niov; i++)
		n += iov[i].iov_len;
	return n;
}

void capture_message(const struct capture_ends *ends, enum capture_message message, bool sent, const void *data,
		     size_t n)
{
	static const enum capture_kind kinds[] = {
		[CAPTURE_REQUEST] = CAPTURE_MPA_REQUEST,
		[CAPTURE_REPLY] = CAPTURE_MPA_REPLY,
		[CAPTURE_REJECT] = CAPTURE_MPA_REJECT,
	};
	const struct iovec iov = { (void *)(uintptr_t)data, data ? n : 0 };
	const struct capture_place nowhere = { 0, 0 };

	work_message(ends, kinds[message], sent, nowhere, (struct capture_cursor){ &iov, 1, 0 }, iov.iov_len);
}

void capture_closed(const struct capture_ends *ends, bool sent)
{
	uint32_t size;
	struct capture_record *r = work_begin(ends, CAPTURE_CLOSED, sent, 0, &size);

	if (r)
		capture_record_done(r, size);
}

void capture_send(const struct capture_ends *ends, bool sent, const struct iovec *iov, int niov,
		  const uint32_t *invalidated)
{
	const struct capture_place place = { 0, invalidated ? *invalidated : 0 };

	work_message(ends, invalidated ? CAPTURE_SEND_INVALIDATE : CAPTURE_SEND, sent, place,
		     (struct capture_cursor){ iov, niov, 0 }, length_of(iov, niov));
}

void capture_write(const struct capture_ends *ends, bool sent, struct capture_place to, const struct iovec *iov,
		   int niov)
{
	work_message(ends, CAPTURE_WRITE, sent, to, (struct capture_cursor){ iov, niov, 0 }, length_of(iov, niov));
}

void capture_read(const struct capture_ends *ends, bool sent, struct capture_place from, struct capture_place sink,
		  uint32_t length)
{
	uint32_t size;
	struct capture_record *r = work_begin(ends, CAPTURE_READ, sent, 0, &size);

	if (!r)
		return;
	r->place = from;
	r->sink = sink;
	r->amount = length;
	capture_record_done(r, size);
}

void capture_read_data(const struct capture_ends *ends, bool sent, struct capture_place sink, const void *data,
		       uint32_t length)
{
	const struct iovec iov = { (void *)(uintptr_t)data, length };

	work_message(ends, CAPTURE_READ_DATA, sent, sink, (struct capture_cursor){ &iov, 1, 0 }, length);
}
