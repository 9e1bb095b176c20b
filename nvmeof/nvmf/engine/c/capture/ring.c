/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of records: any number of threads append without waiting, one removes.  A record is reserved by moving the
 * head, and complete when its size is set; the bytes ahead of the head are always 0.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
	RING = 32 << 20,
	UNIT = 128,			/* records begin at multiples of it, and their headers fit into it */
	RESERVE = RING / 8,		/* the last part of the ring is for headers without data */
};

static_assert(sizeof(struct capture_record) <= UNIT, "a header fits into the last unit of the ring");

atomic_bool capture_active;

static uint8_t *ring;
static _Alignas(64) _Atomic uint64_t head;
static _Alignas(64) _Atomic uint64_t tail;
static _Alignas(64) _Atomic uint64_t dropped;

int capture_ring_make(void)
{
	void *p;

	if (ring)
		return 0;
	p = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	ring = p;
	return 0;
}

uint64_t capture_ring_dropped(void)
{
	return atomic_load_explicit(&dropped, memory_order_relaxed);
}

static struct capture_record *ring_at(uint64_t position)
{
	return (struct capture_record *)(void *)(ring + position % RING);
}

/* Reserve a record; NULL if it would leave less than keep bytes. */
static struct capture_record *ring_reserve(uint32_t size, uint64_t keep)
{
	uint64_t at = atomic_load_explicit(&head, memory_order_relaxed), pad;

	do {
		pad = RING - at % RING;
		if (pad >= size)
			pad = 0;
		if (at + pad + size + keep > atomic_load_explicit(&tail, memory_order_acquire) + RING)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(&head, &at, at + pad + size, memory_order_relaxed,
							memory_order_relaxed));
	if (pad) {
		ring_at(at)->kind = CAPTURE_PAD;
		atomic_store_explicit(&ring_at(at)->size, (uint32_t)pad, memory_order_release);
	}
	return ring_at(at + pad);
}

struct capture_record *capture_ring_next(void)
{
	for (;;) {
		struct capture_record *r = ring_at(atomic_load_explicit(&tail, memory_order_relaxed));

		if (!atomic_load_explicit(&r->size, memory_order_acquire))
			return NULL;
		if (r->kind != CAPTURE_PAD)
			return r;
		capture_ring_done(r);
	}
}

void capture_ring_done(struct capture_record *r)
{
	const uint32_t size = atomic_load_explicit(&r->size, memory_order_relaxed);

	memset(r, 0, size);
	atomic_fetch_add_explicit(&tail, size, memory_order_release);
}

static uint32_t ring_size(size_t data)
{
	return (uint32_t)((sizeof(struct capture_record) + data + UNIT - 1) / UNIT * UNIT);
}

static void set_addr(union capture_addr *a, const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		memcpy(&a->in, sa, sizeof(a->in));
	else
		memcpy(&a->in6, sa, sizeof(a->in6));
}

struct capture_record *capture_record(enum capture_kind kind, bool sent, const struct sockaddr *local,
				      const struct sockaddr *peer, size_t length, uint32_t *size)
{
	struct timespec now;
	struct capture_record *r;
	uint32_t stored = (uint32_t)length;

	/* capture_on() does not order anything: the ring was made before this store, and possibly by another thread */
	if (!atomic_load_explicit(&capture_active, memory_order_acquire))
		return NULL;
	*size = ring_size(length);
	r = ring_reserve(*size, length ? RESERVE : 0);
	if (!r) {
		stored = 0;
		*size = ring_size(0);
		r = ring_reserve(*size, 0);
	}
	if (!r) {
		capture_record_dropped();
		return NULL;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	r->when = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	r->kind = (uint8_t)kind;
	r->sent = sent;
	r->stored = stored;
	r->length = (uint32_t)length;
	set_addr(&r->local, local);
	set_addr(&r->peer, peer);
	return r;
}

void capture_record_done(struct capture_record *r, uint32_t size)
{
	atomic_store_explicit(&r->size, size, memory_order_release);
}

void capture_record_dropped(void)
{
	atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
}

size_t capture_take(struct capture_cursor *c, uint8_t *to, size_t n)
{
	size_t taken = 0;

	while (taken < n && c->niov) {
		size_t here = c->iov->iov_len - c->skip;

		if (here > n - taken)
			here = n - taken;
		if (to && here)
			memcpy(to + taken, (const uint8_t *)c->iov->iov_base + c->skip, here);
		taken += here;
		c->skip += here;
		if (c->skip == c->iov->iov_len) {
			c->iov++;
			c->niov--;
			c->skip = 0;
		}
	}
	return taken;
}

/* Get the addresses of a socket; false if it is not connected, or not an IP socket. */
static bool ends(int fd, union capture_addr *local, union capture_addr *peer)
{
	socklen_t ours = sizeof(*local), theirs = sizeof(*peer);

	return !getsockname(fd, &local->sa, &ours) && !getpeername(fd, &peer->sa, &theirs) &&
	       (local->sa.sa_family == AF_INET || local->sa.sa_family == AF_INET6);
}

void capture_iov(int fd, bool sent, const struct iovec *iov, int niov, size_t n)
{
	const int e = errno;
	union capture_addr local, peer;
	struct capture_cursor at = { iov, niov, 0 };

	if (!ends(fd, &local, &peer)) {
		capture_record_dropped();
		n = 0;
	}
	while (n && at.niov) {
		const size_t piece = n < CAPTURE_PIECE ? n : CAPTURE_PIECE;
		uint32_t size;
		struct capture_record *r = capture_record(CAPTURE_TCP, sent, &local.sa, &peer.sa, piece, &size);

		capture_take(&at, r && r->stored ? (uint8_t *)(r + 1) : NULL, piece);
		if (r)
			capture_record_done(r, size);
		n -= piece;
	}
	errno = e;
}

void capture_bytes(int fd, bool sent, const void *data, size_t n)
{
	const struct iovec iov = { (void *)(uintptr_t)data, n };

	capture_iov(fd, sent, &iov, 1, n);
}

void capture_end(int fd, bool sent)
{
	const int e = errno;
	union capture_addr local, peer;
	uint32_t size;

	if (ends(fd, &local, &peer)) {
		struct capture_record *r = capture_record(CAPTURE_FIN, sent, &local.sa, &peer.sa, 0, &size);

		if (r)
			capture_record_done(r, size);
	}
	errno = e;
}

void capture_datagram(const struct sockaddr *local, const struct sockaddr *peer, bool sent, uint16_t id,
		      const void *data, size_t n)
{
	uint32_t size;
	struct capture_record *r = capture_record(CAPTURE_UDP, sent, local, peer, n, &size);

	if (!r)
		return;
	r->id = id;
	if (r->stored)
		memcpy(r + 1, data, n);
	capture_record_done(r, size);
}

void capture_segments(const struct sockaddr *local, const struct sockaddr *peer, const uint8_t *data, uint32_t len,
		      uint32_t seg)
{
	const int e = errno;
	uint16_t id = 0;

	for (uint32_t off = 0; off < len; off += seg)
		capture_datagram(local, peer, true, id++, data + off, len - off < seg ? len - off : seg);
	errno = e;
}
