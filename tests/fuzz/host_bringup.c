/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: whatever a target answers while a controller is brought up (events of the connection and their private
 * data, properties, Identify, features, statuses), the host connects or reports why not, writes only to its own memory,
 * accepts no geometry that it cannot use, and releases all objects.
 *
 * The input changes the answers of a correct target, one after the other; when the input is used up, the other answers
 * are correct.  The device is host_mock.h.
 */
#include "host_mock.h"

enum { PAGE = 4096 };

static const uint8_t *at, *end;
static unsigned asked;			/* number of queries of the status */

static uint8_t take8(void)
{
	return at < end ? *at++ : 0;
}

static void spoil(uint8_t *bytes, unsigned size)
{
	for (unsigned n = take8() & 15; n; n--) {
		const unsigned place = (take8() | (unsigned)take8() << 8) % size;

		bytes[place] = take8();
	}
}

/* The target's memory access, to the address in the command, for which the host must have given a key. */
static void put(const struct nvme_sqe *sqe, const uint8_t *page)
{
	const uint32_t length = nvme_sgl_keyed_length(&sqe->sgl);
	uint32_t key;

	memcpy(&key, sqe->sgl.keyed.key, sizeof(key));
	mock_key(key, sqe->sgl.addr, length);
	REQUIRE(length <= PAGE);
	memcpy((void *)(uintptr_t)sqe->sgl.addr, page, length);
}

static void identify(const struct nvme_sqe *sqe)
{
	static uint8_t page[PAGE];

	memset(page, 0, sizeof(page));
	if (sqe->cdw10 == 1) {
		page[77] = 5;			/* MDTS */
		page[520] = 0x0c;		/* ONCS */
		page[525] = 1;			/* VWC */
		page[538] = 0x10;		/* SGLS */
		page[1792] = 4;			/* IOCCSZ: a command and 4 KiB, in units of 16 */
		page[1793] = 1;
	} else {
		page[1] = 1;			/* NSZE */
		page[130] = 9;			/* LBADS */
	}
	spoil(page, sizeof(page));
	put(sqe, page);
}

static void property(const struct nvme_sqe *sqe, struct nvme_cqe *cqe)
{
	const bool status = sqe->cdw11 == 0x1c;

	cqe->dw0 = status ? 1 : 0x3c01007f;	/* RDY; or MQES, CQR, TO */
	cqe->dw1 = status ? 0 : 0x20;
	spoil((uint8_t *)cqe, 8);
	if (status && ++asked > 2)		/* so that the host does not wait for CAP.TO */
		cqe->dw0 |= 1;
}

static void answer(struct mock_qp *qp, const struct nvme_sqe *sqe)
{
	struct nvme_cqe cqe = { .cid = sqe->cid };
	const uint8_t how = take8();

	if (sqe->opc == NVME_OPC_IDENTIFY)
		identify(sqe);
	else if (sqe->opc == NVME_OPC_FABRICS && sqe->nsid == NVME_FCTYPE_PROPERTY_GET)
		property(sqe, &cqe);
	else if (sqe->opc == NVME_OPC_FABRICS && sqe->nsid == NVME_FCTYPE_CONNECT)
		cqe.dw0 = 1;
	else if (sqe->opc == 0x09)
		cqe.dw0 = 7 | 7 << 16;
	if (how & 1)
		spoil((uint8_t *)&cqe, 8);
	if ((how & 6) == 6)
		cqe.status = (uint16_t)(take8() << 1 | take8() << 9);
	if (how & 64)
		mock_complete(qp, RING, IBV_WC_SUCCESS);
	if ((how & 0x98) == 0x98) {		/* the target disconnects instead of answering */
		mock_event(qp->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		mock_fail(qp);
		return;
	}
	if ((how & 0xa8) == 0xa8)
		cqe.cid ^= take8();
	mock_message(qp, &cqe, (how & 0xb0) == 0xb0 ? take8() & 31 : sizeof(cqe));
	mock_complete(qp, RING, IBV_WC_SUCCESS);
}

/* Return the event that follows a step of the connection. */
static void step(struct rdma_cm_id *id, enum rdma_cm_event_type wanted)
{
	uint8_t data[255] = { 0 };
	const struct nvme_rdma_cm_rep rep = { .crqsize = 128 };
	const uint8_t how = take8();
	uint8_t length = wanted == RDMA_CM_EVENT_ESTABLISHED ? sizeof(rep) : 0;
	int status = 0;

	memcpy(data, &rep, sizeof(rep));
	if (how & 1) {
		spoil(data, sizeof(data));
		length = take8();
	}
	if ((how & 6) == 6) {
		wanted = (enum rdma_cm_event_type)(take8() & 15);
		status = (int8_t)take8();
	}
	mock_event(id, wanted, status, data, length);
	if (how == 0xff)
		mock_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}

/* A queue of the controller, in a group or alone, and a command on it. */
static void use(struct host_controller *controller, const struct host_namespace_info *info)
{
	const struct nvme_sqe sqe = { .opc = NVME_OPC_FLUSH, .nsid = info->nsid };
	const uint16_t size = (uint16_t)(take8() * 16);
	const uint8_t how = take8();
	struct host_poll_group *group = NULL;
	struct host_error error;
	struct host_queue *q;
	struct nvme_cqe cqe;
	int ret;

	REQUIRE(info->block_size >= 512 && info->block_size <= 65536 && info->blocks &&
		!(info->block_size & (info->block_size - 1)));
	REQUIRE(!info->max_transfer || info->max_transfer >= 4096);
	if (how & 2)
		group = host_poll_group_create(host_controller_device(controller), how & 1, error.text,
					       sizeof(error.text));
	q = host_controller_queue(controller, size, group, how & 1, &error);
	if (q) {
		ret = host_queue_command(q, &sqe, NULL, 60000, &cqe);
		REQUIRE(ret >= 0 || *host_queue_reason(q));
	} else {
		REQUIRE(error.text[0]);
	}
	host_queue_destroy(q);
	host_poll_group_destroy(group);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	const struct host_controller_options options = {
		.traddr = "192.0.2.1", .trsvcid = "4420", .subnqn = "nqn.2026-11.io.example:disk",
		.hostnqn = "nqn.2026-11.io.example:host", .timeout_ms = 60000, .verbs = &mock_verbs,
	};
	struct host_namespace_info info;
	struct host_controller *controller;
	struct host_error error = { 0 };

	at = input;
	end = input + size;
	asked = 0;
	mock.give = UINT32_MAX;
	mock.capsule = answer;
	mock.step = step;
	controller = host_controller_connect(&options, &error);
	if (!controller) {
		REQUIRE(error.text[0]);
		mock_nothing_left();
		return 0;
	}
	if (!host_controller_namespace(controller, 1, &info, &error))
		use(controller, &info);
	else
		REQUIRE(error.text[0]);
	host_controller_destroy(controller);
	mock_nothing_left();
	return 0;
}
