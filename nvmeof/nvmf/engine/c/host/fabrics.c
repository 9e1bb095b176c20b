/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabrics commands of a controller: Connect, Property Get, Property Set; one at a time, with their data in the
 * controller's buffer.
 *
 * Runs on the thread that owns the controller and blocks for each answer.
 */
#include "controller.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int host_controller_command(struct host_controller *c, struct host_queue *queue, const char *what,
			    const struct nvme_sqe *sqe, uint32_t length, bool to_device,
			    struct nvme_cqe *cqe, struct host_error *error)
{
	const struct host_data data = {
		.addr = c->buffer->addr,
		.length = length,
		.memory = c->buffer,
		.to_device = to_device,
	};
	const bool fabrics = sqe->opc == NVME_OPC_FABRICS;
	const int ret = host_queue_command(queue, sqe, &data, c->timeout_ms, cqe);

	if (ret < 0)
		return host_error_set(error, ret, "%s: %s", what, host_queue_reason(queue));
	if (!ret)
		return 0;
	error->nvme_status = ret;
	return host_error_set(error, -EIO, "%s at %s:%s failed: %s (status 0x%x)", what, c->traddr,
			      c->trsvcid, host_nvme_status_name((uint16_t)ret, fabrics), (unsigned)ret);
}

/* The field that Connect rejected: the result has its offset, and whether it is in the data or the command. */
static const char *fabrics_connect_field(uint32_t dw0)
{
	const uint32_t offset = dw0 & 0xffff;

	if (dw0 & 1u << 16) {
		switch (offset) {
		case offsetof(struct connect_data, hostid): return "the host ID";
		case offsetof(struct connect_data, cntlid): return "the controller ID";
		case offsetof(struct connect_data, subnqn): return "the subsystem NQN: does that subsystem exist?";
		case offsetof(struct connect_data, hostnqn): return "the host NQN";
		default: return "a field of the Connect data";
		}
	}
	switch (offset) {
	case 42: return "the queue ID";
	case 44: return "the queue size";
	default: return "a field of the Connect command";
	}
}

enum {
	CONNECT_ATR = 1 << 17,	/* in-band authentication is required */
	CONNECT_ASCR = 1 << 18,	/* a secure channel is required, too */
};

int host_fabrics_connect(struct host_controller *c, struct host_queue *queue, uint16_t qid,
			 uint16_t size, struct host_error *error)
{
	const struct nvme_sqe sqe = {
		.opc = NVME_OPC_FABRICS,
		.nsid = NVME_FCTYPE_CONNECT,
		.cdw10 = (uint32_t)qid << 16,
		.cdw11 = size - 1u,
	};
	struct nvme_cqe cqe = { 0 };
	char what[48];

	c->identity.cntlid = qid ? c->cntlid : 0xffff;
	memcpy(c->buffer->addr, &c->identity, sizeof(c->identity));
	snprintf(what, sizeof(what), "Connect of queue %u", qid);

	const int ret = host_controller_command(c, queue, what, &sqe, sizeof(c->identity), true, &cqe, error);
	const size_t n = strlen(error->text);

	if (!ret && cqe.dw0 & (CONNECT_ATR | CONNECT_ASCR))
		return host_error_set(error, -EACCES,
				      "this subsystem requires host %.223s to authenticate, which the fio "
				      "engine and bench do not support (the other commands and the Python "
				      "client do)", c->identity.hostnqn);
	/* 0: Linux's nvmet answered so for years; the controller is the one that was asked for. */
	if (!ret && qid && (uint16_t)cqe.dw0 && (uint16_t)cqe.dw0 != c->cntlid)
		return host_error_set(error, -EPROTO, "%s at %s:%s was answered by controller %u, not %u", what,
				      c->traddr, c->trsvcid, cqe.dw0 & 0xffff, c->cntlid);
	if (!ret) {
		if (!qid)
			c->cntlid = (uint16_t)cqe.dw0;
		return 0;
	}
	if ((error->nvme_status & 0x7ff) == 0x182)
		snprintf(error->text + n, sizeof(error->text) - n, ": %s", fabrics_connect_field(cqe.dw0));
	else if ((error->nvme_status & 0x7ff) == 0x184)
		snprintf(error->text + n, sizeof(error->text) - n, ": %.223s is not allowed to use %.223s",
			 c->identity.hostnqn, c->identity.subnqn);
	return ret;
}

int host_property_get(struct host_controller *c, uint32_t offset, bool eight, uint64_t *value,
		      struct host_error *error)
{
	const struct nvme_sqe sqe = {
		.opc = NVME_OPC_FABRICS,
		.nsid = NVME_FCTYPE_PROPERTY_GET,
		.cdw10 = eight,
		.cdw11 = offset,
	};
	struct nvme_cqe cqe;
	const int ret = host_controller_command(c, c->admin, "Property Get", &sqe, 0, false, &cqe, error);

	if (!ret)
		*value = cqe.dw0 | (eight ? (uint64_t)cqe.dw1 << 32 : 0);
	return ret;
}

int host_property_set(struct host_controller *c, uint32_t offset, uint32_t value,
		      struct host_error *error)
{
	const struct nvme_sqe sqe = {
		.opc = NVME_OPC_FABRICS,
		.nsid = NVME_FCTYPE_PROPERTY_SET,
		.cdw11 = offset,
		.cdw12 = value,
	};
	struct nvme_cqe cqe;

	return host_controller_command(c, c->admin, "Property Set", &sqe, 0, false, &cqe, error);
}
