/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever capsules a host sends, each of 64 bytes or more has exactly one response while the connection
 * exists, and is counted once; a command that was taken back has had no effect; only registered memory is accessed, and
 * at the end every buffer, request, namespace count and byte has been returned.
 *
 * The input is a list of steps over a mock device and mock stores (target_mock.h): capsules, completions of the device
 * and the stores, answers of the control thread, the end of the connection.
 */
#include "target_run.h"

static struct target_qpair *current;

/* For a chunk of a request, or a step of it; or for a fused pair, which cannot be taken back. */
static void note_change(const struct store_io *io)
{
	const struct target_request *req = chunk_io_of(io);
	const uint8_t *at = (const uint8_t *)io, *first = (const uint8_t *)current->requests;

	if (!req && at >= first && at < first + sizeof(*req) * current->request_count)
		req = container_of(io, struct target_request, io);
	if (req && io->op != STORE_READ && io->op != STORE_FLUSH)
		changed[req->cqe.cid] = true;
}

/* A valid command in which the input changes fields. */
static void capsule(struct run *r)
{
	uint8_t bytes[sizeof(struct nvme_sqe) + IN_CAPSULE] = { 0 };
	struct nvme_sqe sqe = { .flags = NVME_PSDT_SGL };
	uint8_t shape = take8(r), type = take8(r);
	uint32_t length = sizeof(sqe), data = 0;

	sqe.opc = take8(r);
	if (!(shape & 1))
		sqe.opc = sqe.opc >> 4 == 5 ? NVME_OPC_COPY
					    : (const uint8_t[]){ 0, 1, 2, 5, 8, 9, 12, 127 }[sqe.opc & 7];
	sqe.cid = take8(r) & 15;
	sqe.nsid = take8(r) % 7;
	if (sqe.nsid == 6)
		sqe.nsid = 0xffffffff;
	sqe.cdw10 = take8(r);
	sqe.cdw12 = take8(r) & 0x3f;
	sqe.cdw11 = sqe.opc == NVME_OPC_DSM ? 4 : 0;
	data = (sqe.cdw12 + 1) * (sqe.nsid == 2 || sqe.nsid == 4 ? 4096 : 512);
	if (sqe.opc == NVME_OPC_COPY)	/* its memory is zeroes: copies of block 0, if the input changes nothing */
		data = (sqe.cdw12 + 1) * (uint32_t)sizeof(struct nvme_copy_range);
	else if (sqe.opc == NVME_OPC_DSM || shape & 2)
		data = take8(r) * 16u;
	if (!(sqe.opc & 3))
		data = 0;
	nvme_sgl_set_keyed(&sqe.sgl, (uintptr_t)mock.host + take8(r) * 256u, data, HOST_KEY,
			   type & 1 ? NVME_SGL_KEYED : NVME_SGL_KEYED_INVALIDATE);
	if (type & 2) {
		sqe.sgl = (struct nvme_sgl){ .addr = shape & 4 ? take8(r) : 0,
			.plain = { .length = data, .type = NVME_SGL_IN_CAPSULE } };
		length += data < IN_CAPSULE ? data : IN_CAPSULE;
	} else if (type & 4) {
		struct nvme_sgl list[18];
		uint32_t n = take8(r) % 18, each = n ? data / n : 0;

		for (uint32_t i = 0; i < n; i++)
			nvme_sgl_set_keyed(&list[i], (uintptr_t)mock.host + i * 5000,
					   i == n - 1 ? data - each * i : each, HOST_KEY,
					   NVME_SGL_KEYED);
		memcpy(bytes + sizeof(sqe), list, sizeof(list[0]) * n);
		sqe.sgl = (struct nvme_sgl){ .plain = { .length = n * 16,
							.type = NVME_SGL_LAST_SEGMENT_OFFSET } };
		length += n * 16;
	} else if (type & 8 && r->end - r->p >= 64) {
		memcpy(&sqe, r->p, sizeof(sqe));
		r->p += sizeof(sqe);
	}
	if (sqe.opc == NVME_OPC_FABRICS && shape & 8)
		sqe.nsid = NVME_FCTYPE_CONNECT;
	if (shape & 128)
		sqe.flags |= take8(r) & NVME_FUSE_MASK;
	if (shape & 16)
		sqe.sgl.keyed.key[take8(r) & 3] ^= take8(r);
	if (shape & 32)
		((uint8_t *)&sqe)[take8(r) & 63] ^= take8(r);
	if (shape & 64 && shape & 1)
		length = take8(r);
	memcpy(bytes, &sqe, sizeof(sqe));
	shared[sqe.cid] |= sent[sqe.cid]++ != mock.answered[sqe.cid];
	changed[sqe.cid] = false;
	/* the data in the capsule may be ranges, or a list in which the input changes fields */
	for (uint32_t i = take8(r) & 15; i; i--) {
		uint32_t at = take32(r) % IN_CAPSULE;	/* first, whatever the compiler */

		bytes[sizeof(sqe) + at] ^= take8(r);
	}
	if (mock_capsule(bytes, length) && length >= sizeof(sqe))
		r->capsules++;
}

/* Requests of the control thread about outstanding commands. */
static void control(struct run *r, uint8_t how)
{
	struct target_gate gate;
	uint8_t nsid = take8(r) & 7, cid;

	if ((how & 24) == 24) {		/* up to 15 ranges of 3 blocks, 1 or more apart */
		struct target_range ranges[15];
		uint32_t count = take8(r) & 15;

		for (uint32_t i = 0; i < count; i++)
			ranges[i] = (struct target_range){ 4 * i + (take8(r) & 1), 3 };
		REQUIRE(!target_namespace_invalid(world.ns[nsid & 3], ranges, count));
		return;
	}
	if (how & 16) {
		struct target_limits limits = { .iops = take8(r) & 1, .write_bandwidth = take8(r) };

		target_namespace_limits(world.ns[nsid & 3], &limits);
		return;
	}
	switch (how & 3) {
	case 0:
		cid = take8(r) & 15;
		target_abort_create(r->qp, cid, (void *)(uintptr_t)cid);
		break;
	case 1:
		r->fences++;
		target_fence_create(world.target, &r->qp, 1, nsid, how & 4 ? 0x01b : 0, NULL);
		break;
	case 2:
		gate = (struct target_gate){ take8(r) & 1, take8(r) & 1, take8(r) & 1 };
		if (how & 4)
			target_namespace_gate(world.ns[nsid & 3], &gate);
		else
			target_gates_set(world.gates, nsid % 5, &gate);
		break;
	default:
		target_qpair_gates(r->qp, world.gates);
		break;
	}
}

static void step(struct run *r)
{
	uint8_t op = take8(r);

	switch (op & 7) {
	case 0:
	case 1:
	case 2:
		capsule(r);
		if (op & 8)
			break;
		/* fall through */
	case 3:
		poll(r, op >> 4);
		break;
	case 4:
		answer(r, take8(r));
		break;
	case 5:
		mock.io_fails = op & 8;
		break;
	case 6:
		if (op & 8)
			target_qpair_enable(r->qp, op & 16);
		else if (op & 16)
			target_qpair_connected(r->qp, op & 32 ? DEPTH : 0,
					       op & 64 ? world.table : NULL);
		break;
	default:
		if (op == 0xf7)
			target_qpair_disconnect(r->qp), r->ended = true;
		else if (op == 0xff)
			mock_modify_qp(NULL, NULL, 0);
		else
			control(r, op >> 3);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target_qpair_options options = {
		.qid = 1, .recv_depth = DEPTH, .send_depth = DEPTH, .in_capsule = IN_CAPSULE,
		.max_transfer = 128 << 10, .initiator_depth = 3,
	};
	struct run r = { .p = data, .end = data + size };
	const struct target_gate none = { 0 };
	struct rdma_cm_id *id = mock_id();
	char err[200];
	uint8_t how;

	if (!world.target)
		make_world();
	for (unsigned i = 0; i < 5; i++)
		target_gates_set(world.gates, i + 1, &none);
	for (unsigned i = 0; i < 4; i++)
		target_namespace_gate(world.ns[i], &none), unlimited(i),
			target_namespace_invalid(world.ns[i], NULL, 0);
	mock.responses = 0;
	memset(mock.answered, 0, sizeof(mock.answered));
	memset(sent, 0, sizeof(sent));
	memset(shared, 0, sizeof(shared));
	mock.io_fails = false;
	mock.done = note_change;
	how = take8(&r);
	REQUIRE(!target_device_open(world.target, &mock_verbs, &mock.context, err, sizeof(err)));
	world.target->devices->attr.max_srq = how >> 2 & 1;
	r.qp = target_qpair_accept(world.target, &mock_verbs, id, &options, err, sizeof(err));
	REQUIRE(r.qp && !r.qp->srq == !(how & 4));
	current = r.qp;
	if (how & 3) {	/* mostly begin where commands run */
		target_qpair_connected(r.qp, DEPTH, world.table);
		target_qpair_enable(r.qp, true);
	}
	while (r.p < r.end)
		step(&r);
	settle(&r);
	finish(&r);
	return 0;
}
