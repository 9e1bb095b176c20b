/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever packets a peer sends on an established connection, in whatever order, memory to which it has no
 * access is unchanged, every posted work request completes exactly once, and nothing crashes.
 *
 * The input is a list of steps: packets that are valid except for fields that the input changes, and actions of the
 * application: it posts work, binds and invalidates a window, and waits without an answer.
 */
#include "input.h"
#include "roce/cm.h"

#include <arpa/inet.h>
#include <stdlib.h>

enum { MEM = 64 * 1024, GUARD = 4096, DEPTH = 8, MTU = 256, PSN = RO_MASK24 - 20, STEPS_MAX = 400, ROOM = 4 * MTU };

static _Alignas(8) uint8_t mem[GUARD + MEM + GUARD + MEM + GUARD];	/* | shared | private | */
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *shared, *private_mr;
static struct ibv_mw *window;
static struct ro_port *port;

struct run {
	struct ro_qp *qp;
	union ro_addr peer;
	uint32_t key;			/* of the window, as last bound */
	unsigned int posted, completed;
	uint32_t others;		/* bytes that other queue pairs of the port have requested */
};

static union ro_addr address(void)
{
	return (union ro_addr){ .in = {
		.sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT),
		.sin_addr.s_addr = htonl(0x7f300000u | (iw_random32() & 0xfffffu)),
	} };
}

static void poll_all(struct run *r)
{
	struct ibv_wc wc;

	while (iw_poll_cq(cq, 1, &wc) == 1)
		r->completed++;
}

/* Pass a packet to the queue pair as the port does. */
static void deliver(struct run *r, const uint8_t *buf, uint32_t len, bool congested)
{
	struct iw_epoch *section = iw_section_lock(&port->lock);
	struct ro_packet p;

	if (ro_packet_get(buf, len, &p)) {
		p.congested = congested;
		ro_qp_packet(port, &p, &r->peer);
	}
	if (congested && len & 4)
		ro_qp_congested(port, r->qp->qp.qp_num, &r->peer);
	ro_qp_port_flush(port);
	iw_section_unlock(section, &port->lock);
}

/* A packet that would be accepted, before spoil changes fields of it. */
static void packet(struct run *r, struct input *in)
{
	static uint8_t buf[RO_PACKET_MAX];
	const uint8_t op = (uint8_t)(take(in, 1) % (RO_OP_RC_END + 1));
	const uint32_t spoil = take(in, 1), off = take(in, 2), length = take(in, 2);
	const uint32_t key = spoil & 1 ? private_mr->rkey : spoil & 2 ? r->key : shared->rkey;
	const uint64_t va = (uintptr_t)mem + GUARD + off;
	uint32_t len = spoil & 4 ? length % (MTU + 8) : MTU, at;
	struct ro_bth bth = { .opcode = op, .qpn = r->qp->qp.qp_num, .ack_req = spoil & 8 };
	const struct ro_op *o;

	if (op >= RO_OP_RC_END || !ro_ops[op].hdr)
		return;
	o = &ro_ops[op];
	bth.psn = o->kind >= RO_READ_RESPONSE ? r->qp->req.una : r->qp->rsp.epsn;
	if (spoil & 16)
		bth.psn = ro_psn_add(bth.psn, take(in, 1) - 128);
	if ((o->kind == RO_SEND || o->kind == RO_WRITE) && !(o->flags & RO_F_LAST) && !(spoil & 4))
		len = MTU;
	if (o->kind == RO_READ || o->kind == RO_ATOMIC || o->kind == RO_FLUSH || o->kind == RO_ACK ||
	    o->kind == RO_ATOMIC_RESPONSE)
		len = 0;
	if (o->kind == RO_ATOMIC_WRITE && !(spoil & 4))
		len = RO_ATOMIC_SIZE;
	bth.pad = (uint8_t)(-len & 3);
	memset(buf, 0xee, sizeof(buf));
	ro_bth_put(buf, &bth);
	at = RO_BTH;
	if (o->kind == RO_FLUSH) {
		ro_put32(buf + at, length >> 3 & 0x3f);	/* its type and level */
		at += RO_FETH;
	}
	if (o->flags & RO_F_RETH || o->kind == RO_ATOMIC || o->kind == RO_FLUSH) {
		const bool whole = (o->flags & RO_F_LAST && o->kind == RO_WRITE) || o->kind == RO_ATOMIC_WRITE;

		ro_put64(buf + at, va);
		ro_put32(buf + at + 8, key);
		ro_put32(buf + at + 12, whole && !(spoil & 64) ? len : length);
		at += RO_RETH;
	}
	if (o->flags & RO_F_INV)
		ro_put32(buf + at, key);
	if (o->flags & RO_F_AETH)
		ro_put32(buf + at, take(in, 1) << 24);
	if (spoil & 32)
		buf[take(in, 1) % o->hdr] ^= (uint8_t)take(in, 1);
	deliver(r, buf, o->hdr + len + bth.pad + RO_ICRC, spoil & 128);
}

static void post(struct run *r, struct input *in, uint32_t what, struct ibv_sge *sge)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW,
	};
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 1, .opcode = opcodes[what & 7],
		.send_flags = IBV_SEND_SIGNALED | (what & 8 ? IBV_SEND_FENCE : 0u),
	}, *bad;

	if ((what & 0x82) == 0x80)
		wr.opcode = (enum ibv_wr_opcode)VERBS_WR_ATOMIC_WRITE;
	wr.wr.rdma.remote_addr = 8;
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		sge->length = 8;
	if ((int)wr.opcode == VERBS_WR_ATOMIC_WRITE)
		sge->length = 8;
	if ((what & 0x82) == 0x82) {
		wr.num_sge = 0;
		verbs_set_flush(&wr, 8, r->key, 64, 1 + (what & 1), what >> 2 & 1);
	}
	if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = r->key;
	if (wr.opcode == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = window;
		wr.bind_mw.rkey = (window->rkey & ~0xffu) | take(in, 1);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = shared, .addr = (uintptr_t)mem + GUARD, .length = 1024,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		};
	}
	if (ro_post_send(&r->qp->qp, &wr, &bad))
		return;
	r->posted++;
	if (wr.opcode == IBV_WR_BIND_MW)
		r->key = wr.bind_mw.rkey;
}

static void application(struct run *r, struct input *in)
{
	const uint32_t what = take(in, 1), off = take(in, 2), len = take(in, 2) & 0xfff;
	struct ibv_sge sge = { (uintptr_t)mem + GUARD + off, len, shared->lkey };
	struct ibv_recv_wr rw = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct iw_epoch *section;

	if ((what & 0x60) == 0x60) {	/* another queue pair requests data, or it has arrived */
		atomic_fetch_sub(&port->asked, r->others);
		r->others = r->others ? 0 : ROOM - MTU;
		atomic_fetch_add(&port->asked, r->others);
	} else if (what & 0x40) {	/* no answer came for a long time */
		section = iw_section_lock(&r->qp->lock);
		if (ro_qp_state(r->qp) == IBV_QPS_RTS) {
			struct ro_burst b;

			r->qp->req.retries += what & 1;
			ro_rewind(r->qp, RO_SILENCE);
			r->qp->req.rnr = false;
			ro_burst_begin(&b, r->qp);
			ro_send(r->qp, &b);
			if (ro_qp_state(r->qp) == IBV_QPS_RTS)
				ro_burst_send(&b);
		}
		iw_section_unlock(section, &r->qp->lock);
	} else if (what & 0x20) {
		r->posted += !ro_post_recv(&r->qp->qp, &rw, &bad);
	} else {
		post(r, in, what, &sge);
	}
}

static void answer(struct iw_caller *caller)
{
	(void)caller;
}

static void open_all(void)
{
	union ro_addr here = address();

	pd = iw_alloc_pd(&ro_dev.ext.context);
	cq = iw_create_cq(&ro_dev.ext.context, 1024, NULL, NULL, 0);
	shared = iw_reg_mr(pd, mem + GUARD, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
			   VERBS_ACCESS_FLUSH_GLOBAL | VERBS_ACCESS_FLUSH_PERSISTENT);
	private_mr = iw_reg_mr(pd, mem + GUARD + MEM + GUARD, MEM, IBV_ACCESS_LOCAL_WRITE);
	window = iw_alloc_mw(pd, IBV_MW_TYPE_2);
	pthread_mutex_lock(&iw_cm_lock);
	ro_cm_use(1);
	port = ro_port_get(&here, &ro_cm_calls);
	pthread_mutex_unlock(&iw_cm_lock);
	if (!pd || !cq || !shared || !private_mr || !window || !port)
		abort();
	port->room = ROOM;	/* so that READs wait */
}

static void check_memory(void)
{
	for (size_t i = 0; i < sizeof(mem); i++)
		if (mem[i] != 0x55 && (i < GUARD || i >= GUARD + MEM))
			abort();
}

static void begin(struct run *r)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ro_path path = {
		.port = port, .dqpn = 77, .mtu = MTU, .psn = PSN, .epsn = PSN, .ird = 4, .ord = 4, .retry_limit = 7,
		.rnr_limit = 7,
	};

	r->peer = path.peer = address();
	memset(mem, 0x55, sizeof(mem));
	pthread_mutex_lock(&iw_cm_lock);
	r->qp = ro_qp_create(pd, &attr);
	r->qp->caller.answer = answer;
	if (ro_qp_start(r->qp, &path))
		abort();
	pthread_mutex_unlock(&iw_cm_lock);
}

static void end(struct run *r)
{
	pthread_mutex_lock(&iw_cm_lock);
	iw_lock(&r->qp->lock);
	ro_qp_fail(r->qp, "the input is over");
	iw_unlock(&r->qp->lock);
	ro_qp_reap(r->qp);
	poll_all(r);
	if (atomic_load(&port->asked) != r->others || atomic_load(&port->lined) || port->line.head)
		abort();
	atomic_store(&port->asked, 0);
	ro_qp_free(r->qp);
	pthread_mutex_unlock(&iw_cm_lock);
	if (r->posted != r->completed)
		abort();
	check_memory();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct run r = { 0 };

	if (!port)
		open_all();
	begin(&r);
	for (int i = 0; i < STEPS_MAX && in.p < in.end; i++) {
		if (take(&in, 1) & 1)
			packet(&r, &in);
		else
			application(&r, &in);
		poll_all(&r);
		if (r.qp->req.reads_head - r.qp->req.reads_tail > RO_MAX_RD ||
		    r.qp->rsp.reads_head - r.qp->rsp.reads_tail > RO_MAX_RD ||
		    ro_psn_diff(r.qp->req.high_psn, r.qp->req.una) < 0)
			abort();
	}
	end(&r);
	return 0;
}
