/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever a peer sends on an established connection, in whatever pieces, memory to which it has no access
 * is unchanged, every posted work request completes exactly once, everything sent is received as long as there are
 * receives for it, and nothing crashes.
 *
 * The input is a list of steps: valid frames in which the input changes bytes, raw bytes, and actions of the
 * application: it posts work, binds and invalidates a window.  Receives come from a queue of the queue pair's own or
 * from a shared one.  The queue pair's socket is one end of a socketpair.
 */
#include "input.h"
#include "util/crc32c.h"
#include "iwarp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEM = 256 * 1024, GUARD = 4096, DEPTH = 8, STUCK_MAX = 1000 };

static uint8_t *mem;		/* GUARD | shared MEM | GUARD | private MEM | GUARD */
static uint8_t *staging;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *shared, *private_mr;
static struct ibv_mw *window;
static struct ibv_srq *srq;

struct run {
	struct iw_qp *qp;
	int peer;
	uint32_t send_msn, read_msn, mo;
	unsigned int posted, shared, completed;
	uint32_t key;			/* of the window, as last bound */
	uint32_t unpolled;		/* bytes of a Read Response sent since the last poll */
	bool ended;
};

static void poll_all(struct run *r)
{
	struct ibv_wc wc;
	uint8_t sink[65536];

	r->unpolled = 0;
	for (int i = 0; i < 4 && !r->ended; i++)
		r->ended = iw_qp_progress(r->qp, staging, false) < 0;
	while (iw_poll_cq(cq, 1, &wc) == 1)
		r->completed++;
	while (recv(r->peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

/* The socket is full: only a shared receive may be missing. */
static void unstick(struct run *r)
{
	struct ibv_sge sge = { (uintptr_t)(mem + GUARD), MEM, shared->lkey };
	struct ibv_recv_wr rw = { .sg_list = &sge, .num_sge = 1 }, *bad;

	poll_all(r);
	if (r->qp->stream.srq && !r->ended)
		r->shared += !iw_post_srq_recv(srq, &rw, &bad);
}

static void put(struct run *r, const uint8_t *p, size_t len, uint32_t cut)
{
	int stuck = 0;

	while (len && !r->ended) {
		size_t n = cut && cut < len ? cut : len;
		ssize_t m = send(r->peer, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (m > 0) {
			p += m;
			len -= (size_t)m;
			stuck = 0;
			if (cut)
				poll_all(r);
		} else if (errno != EAGAIN) {
			return;
		} else if (++stuck > STUCK_MAX) {
			abort();
		} else {
			unstick(r);
		}
	}
}

/* A frame that would be accepted, before spoil changes fields of it. */
static void frame(struct run *r, struct input *in)
{
	static uint8_t f[FPDU_MAX];
	uint32_t op = take(in, 1), spoil = take(in, 1), len = take(in, 2), off = take(in, 2), cut = take(in, 1);
	bool last = !(op & 0x80);
	uint64_t base = (uintptr_t)(mem + GUARD);
	uint32_t hdr;

	if (spoil & 0x40)	/* mostly small ones, so that the run is quick */
		len &= 0xff;
	if (len > 0xffff - FPDU_READ_REQ)
		len = 0xffff - FPDU_READ_REQ;
	memset(f, 0xee, sizeof(f));
	op &= 7;
	switch (op) {
	case RDMAP_WRITE:
		fpdu_put_tagged(f, op, last, len, spoil & 2 ? r->key : shared->rkey, base + off);
		hdr = FPDU_TAGGED;
		break;
	case RDMAP_READ_RESP: {
		struct iw_swr *wr = iw_sq(&r->qp->stream, r->qp->stream.read_next);
		uint32_t at = wr->placed + r->unpolled, left = at < wr->len ? wr->len - at : 0;

		if (r->qp->stream.reads_out && !(spoil & 2))
			len = last && left <= 0xffff - FPDU_READ_REQ ? left : len % (left + 1);
		fpdu_put_tagged(f, op, last, len, r->qp->stream.sink_stag,
				((uint64_t)r->qp->stream.read_next << 32) + at);
		hdr = FPDU_TAGGED;
		break;
	}
	case RDMAP_READ_REQ:
		fpdu_put_read_req(f, r->qp->stream.rx.read_msn, 1, 2, len, spoil & 2 ? r->key : shared->rkey,
				  base + off);
		hdr = FPDU_READ_REQ;
		len = 0;
		break;
	case RDMAP_TERMINATE:
		fpdu_put_untagged(f, op, last, len, 0, DDP_QN_TERMINATE, 1, 0);
		hdr = FPDU_UNTAGGED;
		break;
	default:
		fpdu_put_untagged(f, op, last, len, spoil & 2 ? r->key : spoil & 1 ? shared->rkey : 0,
				  DDP_QN_SEND, r->qp->stream.rx.send_msn, r->qp->stream.rx.mo);
		hdr = FPDU_UNTAGGED;
	}
	if (spoil & 4)
		f[take(in, 1) % hdr] ^= (uint8_t)take(in, 1);
	if (spoil & 8)
		iw_put32(f + OFF_STAG, private_mr->rkey);

	uint32_t size = fpdu_size(iw_get16(f));
	uint32_t crc = r->qp->stream.crc ? crc32c(0, f, size - FPDU_CRC) : 0;

	if (!(spoil & 16))
		memcpy(f + size - FPDU_CRC, &crc, FPDU_CRC);
	put(r, f, size, spoil & 32 ? cut : 0);
	if (!(spoil & 0x80) || (spoil & 32 && cut))	/* after a cut, part of it has been received already */
		poll_all(r);
	else if (op == RDMAP_READ_RESP)
		r->unpolled += len;
}

static void application(struct run *r, struct input *in)
{
	uint32_t what = take(in, 1), len = take(in, 2), n = 1 + (what >> 4 & 1);
	struct ibv_sge sge[2] = { { (uintptr_t)(mem + GUARD) + take(in, 2), len, shared->lkey },
				  { (uintptr_t)(mem + GUARD) + take(in, 2), len, shared->lkey } };
	struct ibv_recv_wr rw = { .sg_list = sge, .num_sge = (int)n }, *badr;
	struct ibv_send_wr sw = { .sg_list = sge, .num_sge = (int)n, .send_flags = IBV_SEND_SIGNALED },
			   *bads;

	switch (what & 3) {
	case 0:
		if (r->qp->stream.srq)
			r->shared += !iw_post_srq_recv(srq, &rw, &badr);
		else
			r->posted += !iw_post_recv(&r->qp->qp, &rw, &badr);
		return;
	case 1:
		sw.opcode = IBV_WR_RDMA_READ;
		break;
	case 2:
		sw.opcode = what & 0x20 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		break;
	default:
		if (!(what & 0x80)) {
			poll_all(r);
			return;
		}
		sw.opcode = what & 0x20 ? IBV_WR_LOCAL_INV : IBV_WR_BIND_MW;
		if (what & 0x20) {
			sw.invalidate_rkey = r->key;
			sw.num_sge = 0;
		} else {
			r->key = ibv_inc_rkey(r->key);
			sw.bind_mw.mw = window;
			sw.bind_mw.rkey = r->key;
			sw.bind_mw.bind_info = (struct ibv_mw_bind_info){
				what & 0x10 ? private_mr : shared, sge[0].addr, len,
				what >> 2 & 3 ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE :
				IBV_ACCESS_REMOTE_READ };
		}
	}
	if (what & 0x40)
		sw.send_flags |= IBV_SEND_FENCE;
	r->posted += !iw_post_send(&r->qp->qp, &sw, &bads);
}

static void setup(void)
{

	mem = malloc(2 * MEM + 3 * GUARD);
	memset(mem, 0x77, 2 * MEM + 3 * GUARD);
	staging = malloc(IW_STAGING);
	pd = iw_alloc_pd(&iw_dev.ext.context);
	cq = iw_create_cq(&iw_dev.ext.context, 64, NULL, NULL, 0);
	private_mr = iw_reg_mr(pd, mem + 2 * GUARD + MEM, MEM, IBV_ACCESS_LOCAL_WRITE);
	window = iw_alloc_mw(pd, IBV_MW_TYPE_2);
}

static void check_untouched(const uint8_t *p, size_t len)
{
	if (p[0] != 0x77 || memcmp(p, p + 1, len - 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { DEPTH, DEPTH, 2, 2, 64 } };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = DEPTH, .max_sge = 2 } };
	struct input in = { data, data + size };
	struct run r = { 0 };
	int fd[2];

	if (!mem) {
		setup();
		attr.send_cq = attr.recv_cq = cq;
	}

	uint32_t flags = take(&in, 1);

	/* made again for each run, since a run may invalidate it */
	shared = iw_reg_mr(pd, mem + GUARD, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_WRITE | (flags & 4 ? IBV_ACCESS_MW_BIND : 0));
	if (flags & 8)
		attr.srq = srq = iw_create_srq(pd, &srq_attr);
	r.key = window->rkey;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
		abort();
	r.qp = iw_qp_create(pd, &attr);
	r.peer = fd[1];
	if (!r.qp || iw_qp_start(r.qp, fd[0], flags & 1, flags & 2, 2, 2))
		abort();
	while (in.p < in.end && !r.ended) {
		uint32_t step = take(&in, 1);

		if (step < 0x90) {
			frame(&r, &in);
		} else if (step < 0xe0) {
			application(&r, &in);
		} else {
			size_t n = step & 31;

			if (n > (size_t)(in.end - in.p))
				n = (size_t)(in.end - in.p);
			put(&r, in.p, n, 0);
			in.p += n;
			poll_all(&r);
		}
	}
	poll_all(&r);
	iw_lock(&r.qp->lock);
	iw_qp_fail(r.qp, TERM_NONE, NULL, "over");
	iw_unlock(&r.qp->lock);
	poll_all(&r);
	if (r.completed > r.posted + r.shared || (!attr.srq && r.completed != r.posted) ||
	    (attr.srq && r.completed + iw_srq_available((struct iw_srq *)srq) != r.posted + r.shared))
		abort();
	check_untouched(mem, GUARD);
	check_untouched(mem + GUARD + MEM, MEM + 2 * GUARD);
	iw_qp_detach(r.qp);
	close(fd[0]);
	close(fd[1]);
	iw_qp_free(r.qp);
	if (attr.srq)
		iw_destroy_srq(srq);
	iw_dereg_mr(shared);
	return 0;
}
