/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows of type 2B: bound, used, invalidated, and attacked. */
#include "iwarp_pair.h"

#include "mr.h"

#include <errno.h>
#include <string.h>

enum { AT = 65536, LEN = 8192 };

static struct ibv_mr *bindable(struct side *s, int more)
{
	return v->reg_mr(s->pd, s->mem, SIDE_MEM, IBV_ACCESS_MW_BIND | more);
}

static int bind_to(struct ibv_qp *qp, struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr, uint64_t addr,
		   uint64_t len, unsigned int access, struct ibv_send_wr *next)
{
	struct ibv_send_wr wr = { .wr_id = 50, .opcode = IBV_WR_BIND_MW, .next = next,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, addr, len, access };
	return ibv_post_send(qp, &wr, &bad);
}

/* A window over [AT, AT + LEN) of b's memory, and the key to it. */
static uint32_t open_window(struct pair *p, struct ibv_mw **mw, struct ibv_mr **mr, unsigned int access)
{
	struct ibv_wc wc = { 0 };
	uint32_t rkey;

	*mr = bindable(&p->b, IBV_ACCESS_LOCAL_WRITE);
	*mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey((*mw)->rkey);
	check(!bind_to(p->b.qp, *mw, rkey, *mr, (uintptr_t)p->b.mem + AT, LEN, access, NULL), "bind posted");
	/* the responder's queue waits until the initiator has sent something */
	post_send(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 0, 0, 0, 0);
	check(next_wc(&p->b, &p->a, &wc) && wc.wr_id == 50 && !wc.status && wc.opcode == IBV_WC_BIND_MW,
	      "bind completed (%d, opcode %d)", wc.status, wc.opcode);
	return rkey;
}

static void close_window(struct ibv_mw *mw, struct ibv_mr *mr)
{
	check(!ibv_dealloc_mw(mw) && !v->dereg_mr(mr), "the window and its region are released");
}

static void use(void)
{
	struct ibv_device_attr attr;
	struct ibv_wc wc = { 0 };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;
	uint32_t key, old;

	check(!pair_open(&p, NULL), "use: connects");
	check(!v->query_device(p.a.id->verbs, &attr) && attr.max_mw > 0 &&
	      (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B), "use: the device says that it can");
	check(!ibv_alloc_mw(p.b.pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP, "use: no windows of type 1");
	key = open_window(&p, &mw, &mr, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	check(key >> 8 == mw->rkey >> 8, "use: a bind changes the key alone");
	memset(p.a.mem, 0x42, LEN);
	post_send(&p.a, 2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, LEN, (uintptr_t)p.b.mem + AT, key);
	post_send(&p.a, 3, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, LEN, LEN, (uintptr_t)p.b.mem + AT, key);
	expect_wc(&p.a, &p.b, 2, IBV_WC_SUCCESS, "use: write through the window");
	expect_wc(&p.a, &p.b, 3, IBV_WC_SUCCESS, "use: read through the window");
	check(!memcmp(p.a.mem, p.a.mem + LEN, LEN) && p.b.mem[AT] == 0x42 && p.b.mem[AT + LEN - 1] == 0x42 &&
	      !p.b.mem[AT - 1] && !p.b.mem[AT + LEN], "use: the bytes, and no others");

	/* the peer invalidates the key with its answer; the next bind is posted with the next request */
	old = key;
	post_recv(&p.b, 4, 0, 64);
	post_send(&p.a, 5, IBV_WR_SEND_WITH_INV, 0, 0, 16, 0, key);
	check(next_wc(&p.b, &p.a, &wc) && wc.wr_id == 4 && !wc.status && (wc.wc_flags & IBV_WC_WITH_INV) &&
	      wc.invalidated_rkey == key, "use: Send with Invalidate names the key");
	for (int i = 0; i < 300; i++) {
		struct ibv_sge sge = { (uintptr_t)p.b.mem, 16, p.b.mr->lkey };
		struct ibv_send_wr send = { .wr_id = 51, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
		bool ok;

		key = ibv_inc_rkey(key);
		post_recv(&p.a, 6, 0, 64);
		post_recv(&p.b, 7, 0, 64);
		ok = !bind_to(p.b.qp, mw, key, mr, (uintptr_t)p.b.mem + AT + (unsigned int)i, 16,
			      IBV_ACCESS_REMOTE_WRITE, &send);
		ok &= next_wc(&p.b, &p.a, &wc) && wc.wr_id == 50 && !wc.status;
		ok &= next_wc(&p.a, &p.b, &wc) && wc.wr_id == 6 && !wc.status;
		post_send(&p.a, 8, IBV_WR_RDMA_WRITE, 0, (uint32_t)i, 16, (uintptr_t)p.b.mem + AT + (unsigned int)i,
			  key);
		post_send(&p.a, 9, IBV_WR_SEND_WITH_INV, 0, 0, 16, 0, key);
		ok &= next_wc(&p.b, &p.a, &wc) && wc.wr_id == 7 && wc.invalidated_rkey == key;
		if (!ok) {
			check(0, "use: command %d: %s", i, iwarp_qp_end_reason(p.b.qp));
			break;
		}
	}
	check(key != old && key >> 8 == old >> 8, "use: every key of the window was used");
	close_window(mw, mr);
	pair_close(&p);
}

/* Binds and invalidations in the middle of a full send queue are executed in order. */
static void in_order(void)
{
	enum { ROUNDS = 20, BIG = 200000 };
	struct ibv_wc wc = { 0 };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;
	uint32_t key;
	int ok = 1;

	check(!pair_open(&p, NULL), "order: connects");
	mr = bindable(&p.a, 0);
	mw = ibv_alloc_mw(p.a.pd, IBV_MW_TYPE_2);
	key = mw->rkey;
	for (int i = 0; i < ROUNDS && ok; i++) {
		key = ibv_inc_rkey(key);
		ok &= !post_send(&p.a, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, BIG, (uintptr_t)p.b.mem,
				 p.b.mr->rkey);
		ok &= !bind_to(p.a.qp, mw, key, mr, (uintptr_t)p.a.mem, 64, IBV_ACCESS_REMOTE_READ, NULL);
		ok &= !post_send(&p.a, 2, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, BIG, (uintptr_t)p.b.mem,
				 p.b.mr->rkey);
		ok &= !post_send(&p.a, 3, IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED | (i & 1 ? IBV_SEND_FENCE : 0), 0, 0, 0,
				 key);
	}
	check(ok, "order: posted");
	for (int i = 0; i < ROUNDS * 4 && ok; i++) {
		static const uint64_t ids[] = { 1, 50, 2, 3 };

		ok &= next_wc(&p.a, &p.b, &wc) && wc.wr_id == ids[i % 4] && !wc.status;
	}
	check(ok, "order: completed in order (last %llu, status %d): %s", (unsigned long long)wc.wr_id, wc.status,
	      iwarp_qp_end_reason(p.a.qp));
	close_window(mw, mr);
	pair_close(&p);
}

/* An invalid bind fails, and puts the queue pair into the error state. */
static void bad_bind(const char *label, int mr_access, uint64_t off, uint64_t len, unsigned int access,
		     bool twice, bool other_pd)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;

	check(!pair_open(&p, NULL), "%s: connects", label);
	pd = other_pd ? v->alloc_pd(p.a.id->verbs) : p.a.pd;
	mr = v->reg_mr(p.a.pd, p.a.mem, 4096, mr_access);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (twice) {
		bind_to(p.a.qp, mw, ibv_inc_rkey(mw->rkey), mr, (uintptr_t)p.a.mem, 64, access, NULL);
		expect_wc(&p.a, &p.b, 50, IBV_WC_SUCCESS, label);
	}
	check(!bind_to(p.a.qp, mw, ibv_inc_rkey(mw->rkey), mr, (uintptr_t)p.a.mem + off, len, access, NULL),
	      "%s: posted", label);
	expect_wc(&p.a, &p.b, 50, IBV_WC_MW_BIND_ERR, label);
	close_window(mw, mr);
	if (other_pd)
		check(!v->dealloc_pd(pd), "%s: the domain is released", label);
	pair_close(&p);
}

static void bad_binds(void)
{
	const int all = IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE, read_only = IBV_ACCESS_MW_BIND;

	bad_bind("bind beyond", all, 1, 4096, IBV_ACCESS_REMOTE_READ, false, false);
	bad_bind("bind of nothing", all, 0, 0, IBV_ACCESS_REMOTE_READ, false, false);
	bad_bind("bind to a region that forbids it", IBV_ACCESS_LOCAL_WRITE, 0, 64, IBV_ACCESS_REMOTE_READ, false,
		 false);
	bad_bind("bind for writing what is read-only", read_only, 0, 64, IBV_ACCESS_REMOTE_WRITE, false, false);
	bad_bind("bind with atomics", all, 0, 64, IBV_ACCESS_REMOTE_ATOMIC, false, false);
	bad_bind("bind what is bound", all, 0, 64, IBV_ACCESS_REMOTE_READ, true, false);
	bad_bind("bind a window of another domain", all, 0, 64, IBV_ACCESS_REMOTE_READ, false, true);
}

static void bad_posts(void)
{
	struct ibv_mw *mw, *other;
	struct ibv_mr *mr;
	struct pair p;
	uint32_t lkey;

	check(!pair_open(&p, NULL), "bad post: connects");
	mr = bindable(&p.a, 0);
	mw = ibv_alloc_mw(p.a.pd, IBV_MW_TYPE_2);
	other = ibv_alloc_mw(p.a.pd, IBV_MW_TYPE_2);
	check(bind_to(p.a.qp, mw, ibv_inc_rkey(other->rkey), mr, (uintptr_t)p.a.mem, 64, 0, NULL) == EINVAL,
	      "bad post: another window's key");
	check(bind_to(p.a.qp, mw, mw->rkey, NULL, (uintptr_t)p.a.mem, 64, 0, NULL) == EINVAL,
	      "bad post: without a region");
	/* a window's key cannot be used as lkey */
	bind_to(p.a.qp, mw, ibv_inc_rkey(mw->rkey), mr, (uintptr_t)p.a.mem, 64, IBV_ACCESS_REMOTE_READ, NULL);
	expect_wc(&p.a, &p.b, 50, IBV_WC_SUCCESS, "bad post: bound");
	lkey = p.a.mr->lkey;
	p.a.mr->lkey = ibv_inc_rkey(mw->rkey);
	post_send(&p.a, 4, IBV_WR_SEND, 0, 0, 4, 0, 0);
	p.a.mr->lkey = lkey;
	expect_wc(&p.a, &p.b, 4, IBV_WC_LOC_PROT_ERR, "bad post: a window's key as an lkey");
	check(!ibv_dealloc_mw(other), "bad post: released");
	close_window(mw, mr);
	pair_close(&p);
}

enum attack { BEYOND, BEFORE, DIRECTION, GUESSED_KEY, GUESSED_INDEX, INVALIDATED, REGION_GONE, WINDOW_GONE };

/* The peer of the queue pair makes an access that is not permitted. */
static void attack(const char *label, enum attack how, enum ibv_wr_opcode op, const char *term)
{
	bool write = op == IBV_WR_RDMA_WRITE;
	unsigned int right = write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
	struct ibv_wc wc = { 0 };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;
	uint64_t addr;
	uint32_t key;

	check(!pair_open(&p, NULL), "%s: connects", label);
	if (how == DIRECTION)
		right = write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	key = open_window(&p, &mw, &mr, right);
	addr = (uintptr_t)p.b.mem + AT;
	memset(p.b.mem, 0x11, SIDE_MEM);
	memset(p.a.mem, 0x22, SIDE_MEM);
	if (how == BEYOND)
		addr += LEN - 7;
	else if (how == BEFORE)
		addr -= 1;
	else if (how == GUESSED_KEY)
		key = ibv_inc_rkey(key);
	else if (how == GUESSED_INDEX)
		key ^= 0x5a5a00;
	else if (how == INVALIDATED)
		post_send(&p.b, 60, IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED, 0, 0, 0, key);
	else if (how == REGION_GONE)
		check(!v->dereg_mr(mr), "%s: the region goes while its window is bound", label);
	else if (how == WINDOW_GONE)
		check(!ibv_dealloc_mw(mw), "%s: the window goes while it is bound", label);
	if (how == INVALIDATED)
		expect_wc(&p.b, &p.a, 60, IBV_WC_SUCCESS, label);
	post_recv(&p.a, 2, SIDE_MEM - 64, 16);
	post_send(&p.a, 1, op, IBV_SEND_SIGNALED, 0, 8, addr, key);
	expect_wc(&p.a, &p.b, 1, write ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, label);
	check(next_wc(&p.a, &p.b, &wc) && wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR, "%s: the end", label);
	check(strstr(iwarp_qp_end_reason(p.b.qp), term) != NULL, "%s: %s", label, iwarp_qp_end_reason(p.b.qp));
	check(p.b.mem[0] == 0x11 && !memcmp(p.b.mem, p.b.mem + 1, SIDE_MEM - 1), "%s: nothing was written", label);
	check(p.a.mem[0] == 0x22 && !memcmp(p.a.mem, p.a.mem + 1, SIDE_MEM - 1), "%s: nothing was read", label);
	if (how != WINDOW_GONE)
		check(!ibv_dealloc_mw(mw), "%s: released", label);
	if (how != REGION_GONE)
		check(!v->dereg_mr(mr), "%s: released", label);
	pair_close(&p);
}

static void attacks(void)
{
	attack("write beyond the window", BEYOND, IBV_WR_RDMA_WRITE, "DDP tagged, bounds");
	attack("write before the window", BEFORE, IBV_WR_RDMA_WRITE, "DDP tagged, bounds");
	attack("write to a window for reading", DIRECTION, IBV_WR_RDMA_WRITE, "DDP tagged, invalid STag");
	attack("write with another key", GUESSED_KEY, IBV_WR_RDMA_WRITE, "DDP tagged, invalid STag");
	attack("write with another index", GUESSED_INDEX, IBV_WR_RDMA_WRITE, "DDP tagged, invalid STag");
	attack("write after invalidation", INVALIDATED, IBV_WR_RDMA_WRITE, "DDP tagged, invalid STag");
	attack("write after the region went", REGION_GONE, IBV_WR_RDMA_WRITE, "DDP tagged, invalid STag");
	attack("write after the window went", WINDOW_GONE, IBV_WR_RDMA_WRITE, "DDP tagged, invalid STag");
	attack("read beyond the window", BEYOND, IBV_WR_RDMA_READ, "RDMAP remote protection, bounds");
	attack("read of a window for writing", DIRECTION, IBV_WR_RDMA_READ, "RDMAP remote protection, access");
	attack("read with another key", GUESSED_KEY, IBV_WR_RDMA_READ, "RDMAP remote protection, invalid STag");
	attack("read after invalidation", INVALIDATED, IBV_WR_RDMA_READ, "RDMAP remote protection, invalid STag");
	attack("read after the region went", REGION_GONE, IBV_WR_RDMA_READ, "RDMAP remote protection, invalid STag");
}

/* The peer of a second queue pair in the same domain uses the first one's key. */
static void other_queue_pair(const char *label, enum ibv_wr_opcode op, const char *term)
{
	struct pair p, q;
	struct ibv_pd *own;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } };
	struct ibv_wc wc = { 0 };
	uint32_t key;

	check(!pair_open(&p, NULL), "%s: connects", label);
	memset(&q, 0, sizeof(q));
	q.a.events = v->create_event_channel();
	q.b.events = v->create_event_channel();

	struct pair_options o = { 0 };
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	int port = 0;

	q.listener = listen_on(q.b.events, "127.0.0.1", &port);
	check(!resolve(&q.a, "127.0.0.1", port) && !side_objects(&q.a, &o) && !side_qp(&q.a, &o) &&
	      !v->connect(q.a.id, &param) &&
	      next_event(q.b.events, &q.b.id, NULL, NULL, NULL) == RDMA_CM_EVENT_CONNECT_REQUEST &&
	      !side_objects(&q.b, &o), "%s: a second connection", label);
	own = q.b.pd;
	attr.send_cq = attr.recv_cq = q.b.cq;
	check(!v->create_qp(q.b.id, p.b.pd, &attr), "%s: in the same domain", label);
	q.b.qp = q.b.id->qp;
	check(!v->accept(q.b.id, &param) &&
	      next_event(q.b.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED &&
	      next_event(q.a.events, NULL, NULL, NULL, NULL) == RDMA_CM_EVENT_ESTABLISHED, "%s: connects", label);

	key = open_window(&p, &mw, &mr, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	memset(p.b.mem, 0x11, SIDE_MEM);
	post_recv(&q.a, 2, 0, 16);
	if (op == IBV_WR_SEND_WITH_INV) {
		struct ibv_sge sge = { (uintptr_t)p.b.mem + 64, 64, p.b.mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad;

		check(!ibv_post_recv(q.b.qp, &wr, &bad), "%s: a receive", label);
	}
	post_send(&q.a, 1, op, 0, 0, 8, (uintptr_t)p.b.mem + AT, key);
	while (next_wc(&q.a, &q.b, &wc) && wc.wr_id != 2)
		;
	check(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR, "%s: the end", label);
	check(strstr(iwarp_qp_end_reason(q.b.qp), term) != NULL, "%s: %s", label, iwarp_qp_end_reason(q.b.qp));
	check(p.b.mem[AT] == 0x11 && p.b.mem[AT + 7] == 0x11, "%s: nothing was written", label);
	/* and the first connection is unaffected */
	post_send(&p.a, 4, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 8, (uintptr_t)p.b.mem + AT, key);
	expect_wc(&p.a, &p.b, 4, IBV_WC_SUCCESS, "the window's own queue pair still uses it");
	close_window(mw, mr);
	v->destroy_qp(q.b.id);
	q.b.qp = NULL;
	q.b.pd = own;
	pair_close(&q);
	pair_close(&p);
}

/* A destroyed queue pair releases its windows, which can be bound to the next one. */
static void comes_back(void)
{
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;
	const struct iw_mw *inside;
	uint32_t key;

	check(!pair_open(&p, NULL), "again: connects");
	key = open_window(&p, &mw, &mr, IBV_ACCESS_REMOTE_READ);
	inside = (const struct iw_mw *)mw;
	check(inside->s.bound != &iw_unbound && inside->s.stag == key, "again: bound");
	v->destroy_qp(p.b.id);
	p.b.qp = NULL;
	check(inside->s.bound == &iw_unbound && !inside->s.stag, "again: not any longer");
	close_window(mw, mr);
	pair_close(&p);
}

/* Thousands of windows: their keys cannot be predicted, and none is found under a different key. */
static void names(void)
{
	enum { N = 5000 };
	static struct ibv_mw *mw[N];
	struct ibv_device **list = v->get_device_list(NULL);
	struct ibv_pd *pd = v->alloc_pd(v->open_device(list[0]));
	unsigned int near = 0, same = 0;

	for (int i = 0; i < N; i++)
		mw[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	for (int i = 1; i < N; i++) {
		near += (mw[i]->rkey >> 8) - (mw[i - 1]->rkey >> 8) < 16;
		for (int k = 0; k < i; k++)
			same += mw[i]->rkey >> 8 == mw[k]->rkey >> 8;
	}
	check(!same && near < 10, "names: %u the same, %u in a row", same, near);
	check(v->dealloc_pd(pd) == EBUSY, "names: the domain is in use");
	for (int i = 0; i < N; i++)
		same += ibv_dealloc_mw(mw[i]) != 0;
	check(!same && !v->dealloc_pd(pd), "names: released");
	v->free_device_list(list);
}

void test_windows(void)
{
	use();
	in_order();
	bad_binds();
	bad_posts();
	attacks();
	other_queue_pair("a write from another queue pair", IBV_WR_RDMA_WRITE, "another domain");
	other_queue_pair("a read from another queue pair", IBV_WR_RDMA_READ, "another domain");
	other_queue_pair("an invalidation from another queue pair", IBV_WR_SEND_WITH_INV, "cannot be invalidated");
	comes_back();
	names();
}
