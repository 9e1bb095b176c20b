/* SPDX-License-Identifier: BSD-3-Clause */
/* Gates: the commands that they end, and waiting for those that had passed them. */
#ifndef TESTS_TARGET_CASES_GATE_H
#define TESTS_TARGET_CASES_GATE_H

#include <sys/ioctl.h>

#include "target_raw_host.h"

#include "target_cases_io.h"

enum {
	GATE_R = NVME_NAMESPACE_NOT_READY,
	GATE_W = NVME_NAMESPACE_WRITE_PROTECTED | NVME_DNR,
	GATE_F = NVME_ACCESS_DENIED,
	GATE_HIDDEN = NVME_INVALID_NAMESPACE | NVME_DNR,
};

static int run_flush(struct queue *q, uint32_t nsid)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_FLUSH, 0, 0);

	sqe.nsid = nsid;
	return queue_run(q, &sqe, NULL, 0);
}

static int run_verify(struct queue *q, uint32_t nsid)
{
	struct nvme_sqe sqe = sqe_new(q, NVME_OPC_VERIFY, 0, 0);

	sqe.nsid = nsid;
	return queue_run(q, &sqe, NULL, 0);
}

/* Every command of a group ends with that group's status, except hints of Dataset Management. */
static bool gated(struct queue *q, uint32_t nsid, int read, int write, int flush)
{
	struct range range = { .blocks = 1 };

	return run_io(q, nsid, NVME_OPC_READ, 0, 8, 0) == read &&
	       run_verify(q, nsid) == read &&
	       run_io(q, nsid, NVME_OPC_WRITE, 0, 8, 0) == write &&
	       run_write_zeroes(q, nsid, 64, 8, 0) == write &&
	       run_dsm(q, nsid, &range, 1, 16, 4) == write &&
	       run_dsm(q, nsid, &range, 1, 16, 0) == (write == GATE_W ? 0 : write) &&
	       run_flush(q, nsid) == flush;
}

static void case_namespace_gate(struct queue *q, struct queue *other, struct target_namespace *ns)
{
	struct target_gate gate = { GATE_R, GATE_W, GATE_F }, none = { 0 };

	CHECK(gated(q, 1, 0, 0, 0), "no gate: commands run");
	target_namespace_gate(ns, &gate);
	CHECK(gated(q, 1, GATE_R, GATE_W, GATE_F) && gated(other, 1, GATE_R, GATE_W, GATE_F),
	      "a namespace's gate: a status for each group, from every queue");
	CHECK(gated(q, 2, 0, 0, 0), "and another namespace has none");
	CHECK(run_flush(q, 0xffffffff) == GATE_F, "Flush of all namespaces meets it too");
	gate = (struct target_gate){ .write = GATE_W };
	target_namespace_gate(ns, &gate);
	CHECK(gated(q, 1, 0, GATE_W, 0), "write protection lets reads and Flush through");
	target_namespace_gate(ns, &none);
	CHECK(gated(q, 1, 0, 0, 0), "opened again");
}

static void case_gates(struct queue *q, struct queue *other, struct target_namespace *ns)
{
	struct target_gates *gates = target_gates_create(lab.target, 16);
	struct target_gate conflict = { .write = 0x083, .flush = 0x083 }, none = { 0 };
	struct target_gate hidden = { GATE_HIDDEN, GATE_HIDDEN, GATE_HIDDEN };
	struct target_gate all = { GATE_R, GATE_R, GATE_R };

	target_gates_set(gates, 1, &conflict);
	target_qpair_gates(q->qp, gates);
	CHECK(gated(q, 1, 0, 0x083, 0x083) && gated(other, 1, 0, 0, 0),
	      "gates of one controller leave the others alone");
	target_namespace_gate(ns, &all);
	CHECK(gated(q, 1, GATE_R, 0x083, 0x083) && gated(other, 1, GATE_R, GATE_R, GATE_R),
	      "they come before the namespace's own");
	target_namespace_gate(ns, &none);
	target_gates_set(gates, 1, &hidden);
	CHECK(gated(q, 1, GATE_HIDDEN, GATE_HIDDEN, GATE_HIDDEN) && !run_flush(q, 0xffffffff),
	      "a hidden namespace is no namespace, and Flush of all skips it");
	target_gates_set(gates, 1, &none);
	CHECK(gated(q, 1, 0, 0, 0), "and back");
	CHECK(target_gates_set(gates, 0, &none) == -EINVAL &&
		      target_gates_set(gates, 17, &none) == -EINVAL,
	      "no gate where no namespace can be");
}

static bool fenced(struct target_fence *fence)
{
	if (!LAB_UNTIL(lab.fenced == fence))
		return false;
	lab.fenced = NULL;
	target_fence_destroy(fence);
	return true;
}

static void case_fence_idle(struct queue *q, struct queue *other)
{
	struct target_qpair *both[] = { q->qp, other->qp };

	CHECK(fenced(target_fence_create(lab.target, NULL, 0, 0, 0, NULL)), "a fence of nothing");
	CHECK(fenced(target_fence_create(lab.target, both, 2, 1, 0, NULL)), "a fence of idle queues");
}

/* Every command that passed the gate has ended when the fence has, and is answered soon. */
static void case_fence_busy(struct queue *q, struct target_namespace *ns)
{
	struct target_gate gate = { .write = GATE_W }, none = { 0 };
	unsigned ran = 0, refused = 0;
	struct nvme_sqe sqe[64];
	struct target_namespace_stats stats[2];
	struct target_fence *fence = NULL;

	for (unsigned i = 0; i < 64; i++) {
		sqe[i] = sqe_io(q, NVME_OPC_WRITE, 0, 64, 0);
		sqe[i].nsid = 2;
		queue_send(q, &sqe[i], NULL, 0);
		if (i != 32)
			continue;
		target_namespace_gate(ns, &gate);
		fence = target_fence_create(lab.target, &q->qp, 1, 2, 0, NULL);
	}
	CHECK(fenced(fence), "a fence of a busy queue");
	target_namespace_stats(ns, &stats[0]);
	for (unsigned i = 0; i < 64; i++) {
		int status = queue_wait(q, sqe[i].cid);

		ran += !status;
		refused += status == GATE_W;
	}
	target_namespace_stats(ns, &stats[1]);
	CHECK(ran + refused == 64 && refused, "of 64 writes %u passed the gate, %u met it", ran,
	      refused);
	CHECK(stats[0].writes == stats[1].writes, "no write was in progress at the fence's end");
	target_namespace_gate(ns, &none);
}

static void case_fence_held(struct queue *q)
{
	struct target_fence *one, *two, *behind;
	struct target_qpair *both[2];
	struct raw_host h;
	struct nvme_sqe sqe;
	int unread;

	if (!raw_open(&h, 2, 8) || !raw_connect(&h)) {
		CHECK(false, "a host for a fence");
		return;
	}
	sqe = raw_sqe(&h, NVME_OPC_WRITE, 4096);
	raw_capsule(&h, &sqe);
	/* The response to Connect (40 bytes), and then requests that this host does not answer. */
	LAB_UNTIL(!ioctl(h.fd, FIONREAD, &unread) && unread > 60);
	both[0] = q->qp;
	both[1] = h.q->qp;
	one = target_fence_create(lab.target, both, 2, 0, 0, NULL);
	two = target_fence_create(lab.target, both, 2, 1, 0, NULL);
	behind = target_fence_create(lab.target, &q->qp, 1, 0, 0, NULL);
	CHECK(fenced(behind), "a fence of an idle queue beside one whose host holds its data back");
	CHECK(!lab.fenced, "whose fences wait");
	lab.fence_count = 0;
	close(h.fd);
	CHECK(LAB_UNTIL(lab.fence_count == 2), "and end with its connection");
	target_fence_destroy(one);
	target_fence_destroy(two);
	lab.fenced = NULL;
	LAB_UNTIL(h.q->closed);
	queue_close(h.q);
}

/* Three writes whose RDMA READs the host does not answer: one is posted, two wait in line. */
static bool three_writes(struct raw_host *h, uint16_t qid, struct nvme_sqe sqe[3])
{
	struct target_qpair_stats stats;

	if (!raw_open_reads(h, qid, 8, 1) || !raw_connect(h) || !queue_idle(h->q))
		return false;
	for (unsigned i = 0; i < 3; i++) {
		sqe[i] = raw_sqe(h, NVME_OPC_WRITE, 4096);
		raw_capsule(h, &sqe[i]);
	}
	return LAB_UNTIL((target_qpair_stats(h->q->qp, &stats), stats.outstanding == 3));
}

static bool run_abort(struct target_qpair *qp, uint16_t cid)
{
	struct target_abort *abort = target_abort_create(qp, cid, NULL);
	bool aborted;

	lab.abort = NULL;
	LAB_UNTIL(lab.abort == abort);
	aborted = lab.aborted;
	target_abort_destroy(lab.target, abort);
	return aborted;
}

static void case_abort(struct queue *q)
{
	struct target_qpair_stats stats;
	struct target_fence *fence;
	struct nvme_sqe sqe[3];
	struct raw_host h;

	if (!three_writes(&h, 3, sqe)) {
		CHECK(false, "a host for aborts");
		return;
	}
	CHECK(!run_abort(h.q->qp, sqe[0].cid), "what was asked of the host is not taken back");
	CHECK(run_abort(h.q->qp, sqe[2].cid), "what is in line for it is");
	/* Its response's completion comes after the RDMA READ's: verbs complete in order. */
	CHECK(LAB_UNTIL((target_qpair_stats(h.q->qp, &stats), stats.errors == 1)),
	      "it ends with a status");
	CHECK(!run_abort(h.q->qp, sqe[2].cid), "it is not there a second time");
	CHECK(!run_abort(h.q->qp, 999), "nor is what never was");
	CHECK(!run_abort(q->qp, sqe[1].cid), "or is another queue's");
	fence = target_fence_create(lab.target, &h.q->qp, 1, 0, 0x01b, NULL);
	CHECK(LAB_UNTIL((target_qpair_stats(h.q->qp, &stats), stats.errors == 2)) &&
		      lab.fenced != fence,
	      "a fence that aborts takes back what it can and waits for the rest");
	close(h.fd);
	CHECK(fenced(fence), "till it has gone");
	LAB_UNTIL(h.q->closed);
	queue_close(h.q);
}

static void test_gates(void)
{
	struct target_options options = { .reactors = 2, .spin_us = 50, .buffer_size = 16384,
					  .buffers = 8 };
	struct store_options ram = { .kind = "ram", .size = 32 << 20, .block_size = 512 };
	struct store_options file = { .kind = "file", .path = lab_file, .block_size = 512 };
	struct target_namespace *ns[2];
	struct queue *q, *other;
	struct store *stores[2];

	lab_start(&options);
	ns[0] = lab_namespace(1, &ram, &stores[0]);
	ns[1] = lab_namespace(2, &file, &stores[1]);
	q = queue_open(1, 128, 4096);
	other = queue_open(1, 32, 4096);
	case_namespace_gate(q, other, ns[0]);
	case_fence_idle(q, other);
	case_fence_busy(q, ns[1]);
	case_fence_held(q);
	case_abort(q);
	case_gates(q, other, ns[0]);
	target_fence_create(lab.target, &q->qp, 1, 0, 0, NULL);	/* freed with the target */
	lab_stop();
	for (unsigned i = 0; i < 2; i++)
		store_close(stores[i]);
}

#endif
