/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller for C programs: admin queue, bring-up, Identify, I/O queues on demand.
 *
 * Belongs to the thread that created it; every function blocks, at most for the timeout of each command that it
 * sends.  The I/O queues belong to the callers that requested them.
 */
#include "controller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ADMIN_ENTRIES = 32,
	WANTED_QUEUES = 128,
	BUFFER = 4096,

	PROPERTY_CAP = 0x00,
	PROPERTY_CC = 0x14,
	PROPERTY_CSTS = 0x1c,
	CC_EN = 1,
	CC_CSS_ALL = 6 << 4,		/* all command sets that the controller supports */
	CC_SHN_NORMAL = 1 << 14,
	CC_ENTRY_SIZES = 6 << 16 | 4 << 20,
	CSTS_RDY = 1,
	CSTS_CFS = 2,

	OPC_SET_FEATURES = 0x09,
	FEATURE_QUEUES = 0x07,
};

static int controller_set_cc(struct host_controller *c, uint32_t value, struct host_error *error)
{
	c->cc = value;
	return host_property_set(c, PROPERTY_CC, value, error);
}

static int controller_enable(struct host_controller *c, struct host_error *error)
{
	int ret = host_property_get(c, PROPERTY_CAP, true, &c->cap, error);

	if (ret)
		return ret;

	const uint64_t limit = ((c->cap >> 24 & 0xff) + 1) * 500000000ull;	/* CAP.TO */
	const uint64_t deadline = clock_ns() + limit;
	const uint32_t css = c->cap >> 43 & 1 ? CC_CSS_ALL : 0;

	ret = controller_set_cc(c, CC_ENTRY_SIZES | css | CC_EN, error);
	while (!ret) {
		uint64_t csts;

		ret = host_property_get(c, PROPERTY_CSTS, false, &csts, error);
		if (ret || (csts & CSTS_RDY))
			return ret;
		if (csts & CSTS_CFS)
			return host_error_set(error, -EIO,
					      "the controller at %s:%s reports a fatal status (CSTS.CFS)",
					      c->traddr, c->trsvcid);
		if (clock_ns() > deadline)
			return host_error_set(error, -ETIMEDOUT,
					      "the controller at %s:%s was not ready within %llu ms (CAP.TO)",
					      c->traddr, c->trsvcid, (unsigned long long)limit / 1000000);
		usleep(1000);
	}
	return ret;
}

static uint16_t controller_u16(const uint8_t *p, size_t offset)
{
	return (uint16_t)(p[offset] | p[offset + 1] << 8);
}

static uint32_t controller_u32(const uint8_t *p, size_t offset)
{
	return controller_u16(p, offset) | (uint32_t)controller_u16(p, offset + 2) << 16;
}

static int controller_identify(struct host_controller *c, uint8_t cns, uint32_t nsid, struct host_error *error)
{
	const struct nvme_sqe sqe = { .opc = NVME_OPC_IDENTIFY, .nsid = nsid, .cdw10 = cns };
	struct nvme_cqe cqe;

	memset(c->buffer->addr, 0, BUFFER);
	return host_controller_command(c, c->admin, cns ? "Identify Controller" : "Identify Namespace", &sqe, BUFFER,
		       false, &cqe, error);
}

/* Identify Controller (Base 2.0 figure 275). */
static int controller_read(struct host_controller *c, struct host_error *error)
{
	const uint8_t *p = c->buffer->addr;
	const int ret = controller_identify(c, 1, 0, error);

	if (ret)
		return ret;

	const uint8_t mdts = p[77];
	const unsigned mpsmin = 12 + (c->cap >> 48 & 0xf);
	const uint16_t oncs = controller_u16(p, 520);
	const uint32_t ioccsz = controller_u32(p, 1792);

	if (ioccsz * 16 < sizeof(struct nvme_sqe))
		return host_error_set(error, -EPROTO, "the controller's IOCCSZ of %u is smaller than a command",
				      ioccsz);
	c->max_transfer = mdts && mdts + mpsmin < 24 ? 1u << (mdts + mpsmin) : 0;
	c->deallocate = oncs & 1 << 2;
	c->write_zeroes = oncs & 1 << 3;
	c->volatile_write_cache = p[525] & 1;
	if (controller_u32(p, 536) & 1u << 20 && !controller_u16(p, 1800))	/* SGLS: offset descriptors; ICDOFF */
		c->in_capsule = ioccsz * 16 - (uint32_t)sizeof(struct nvme_sqe);
	return 0;
}

static int controller_ask_for_queues(struct host_controller *c, struct host_error *error)
{
	const struct nvme_sqe sqe = {
		.opc = OPC_SET_FEATURES,
		.cdw10 = FEATURE_QUEUES,
		.cdw11 = (WANTED_QUEUES - 1) | (WANTED_QUEUES - 1) << 16,
	};
	struct nvme_cqe cqe;
	const int ret = host_controller_command(c, c->admin, "Set Features Number of Queues", &sqe, 0, false, &cqe,
				error);

	if (!ret)
		c->granted = (uint16_t)((cqe.dw0 & 0xffff) < 0xffff ? (cqe.dw0 & 0xffff) + 1 : 0xffff);
	return ret;
}

static struct host_queue *controller_connect_queue(struct host_controller *c, uint16_t qid, uint16_t size,
					struct host_poll_group *group, bool notify,
					struct host_error *error)
{
	const struct host_queue_options options = {
		.traddr = c->traddr,
		.trsvcid = c->trsvcid,
		.qid = qid,
		.size = size,
		.cntlid = c->cntlid,
		.in_capsule = qid ? c->in_capsule : 0,
		.timeout_ms = c->timeout_ms,
		.group = group,
		.notify = notify,
	};

	return host_queue_connect(c->device, &options, error);
}

static int controller_bring_up(struct host_controller *c, const struct host_controller_options *o,
		    struct host_error *error)
{
	int ret = host_controller_identity(c, o, error);

	if (ret)
		return ret;
	if (o->device) {
		c->device = o->device;
		atomic_fetch_add(&c->device->refs, 1);
	} else {
		c->device = host_device_get(o->verbs, o->keys, error->text, sizeof(error->text));
	}
	if (!c->device)
		return -ENOMEM;
	c->admin = controller_connect_queue(c, 0, ADMIN_ENTRIES, NULL, true, error);
	if (!c->admin)
		return -errno;
	c->buffer = host_memory_alloc(c->device, BUFFER, error->text, sizeof(error->text));
	if (!c->buffer)
		return -ENOMEM;
	ret = host_fabrics_connect(c, c->admin, 0, ADMIN_ENTRIES, error);
	if (!ret)
		ret = controller_enable(c, error);
	if (!ret)
		ret = controller_read(c, error);
	if (!ret)
		ret = controller_ask_for_queues(c, error);
	return ret;
}

struct host_controller *host_controller_connect(const struct host_controller_options *options,
						struct host_error *error)
{
	struct host_controller *c = calloc(1, sizeof(*c));

	host_error_clear(error);
	if (!c) {
		host_error_set(error, -ENOMEM, "no memory for a controller");
		errno = ENOMEM;
		return NULL;
	}
	c->timeout_ms = options->timeout_ms ? options->timeout_ms : 10000;
	snprintf(c->traddr, sizeof(c->traddr), "%s", options->traddr);
	snprintf(c->trsvcid, sizeof(c->trsvcid), "%s", options->trsvcid);

	const int ret = controller_bring_up(c, options, error);

	if (!ret)
		return c;
	host_controller_destroy(c);
	errno = -ret;
	return NULL;
}

int host_controller_namespace(struct host_controller *controller, uint32_t nsid,
			      struct host_namespace_info *info, struct host_error *error)
{
	struct host_controller *c = controller;
	const uint8_t *p = c->buffer->addr;

	host_error_clear(error);

	const int ret = controller_identify(c, 0, nsid, error);

	if (ret)
		return ret;

	/* Identify Namespace (NVM Command Set 1.0 figure 97) */
	const unsigned format = (p[26] & 0xf) | (p[26] >> 1 & 0x30);
	const uint32_t lbaf = controller_u32(p, 128 + 4 * format);
	const unsigned shift = lbaf >> 16 & 0xff;
	uint64_t blocks;

	memcpy(&blocks, p, sizeof(blocks));
	if (!blocks)
		return host_error_set(error, -ENODEV, "%s has no namespace %u", c->identity.subnqn, nsid);
	if (shift < 9 || shift > 16 || (lbaf & 0xffff))
		return host_error_set(error, -ENOTSUP,
				      "namespace %u of %s has blocks of 2^%u bytes with %u bytes of metadata: "
				      "this host supports 512 bytes to 64 KiB without metadata",
				      nsid, c->identity.subnqn, shift, lbaf & 0xffff);
	*info = (struct host_namespace_info){
		.nsid = nsid,
		.blocks = blocks,
		.block_size = 1u << shift,
		.max_transfer = c->max_transfer,
		.deallocate = c->deallocate,
		.write_zeroes = c->write_zeroes,
		.volatile_write_cache = c->volatile_write_cache,
	};
	memcpy(info->ids, p + 104, sizeof(info->ids));
	return 0;
}

struct host_queue *host_controller_queue(struct host_controller *controller, uint16_t size,
					 struct host_poll_group *group, bool notify,
					 struct host_error *error)
{
	struct host_controller *c = controller;
	const uint32_t most = (uint32_t)(c->cap & 0xffff) + 1;	/* CAP.MQES */

	host_error_clear(error);
	if (c->queues >= c->granted) {
		host_error_set(error, -EMFILE, "the controller grants %u I/O queues, and all are in use",
			       c->granted);
		errno = EMFILE;
		return NULL;
	}
	if (size < HOST_MIN_QUEUE)
		size = HOST_MIN_QUEUE;
	if (size > most)
		size = (uint16_t)most;

	const uint16_t qid = (uint16_t)(c->queues + 1);
	struct host_queue *q = controller_connect_queue(c, qid, size, group, notify, error);

	if (!q)
		return NULL;

	const int ret = host_fabrics_connect(c, q, qid, size, error);

	if (ret) {
		host_queue_destroy(q);
		errno = -ret;
		return NULL;
	}
	c->queues++;
	return q;
}

unsigned host_controller_queues(const struct host_controller *controller)
{
	return controller->granted;
}

struct host_device *host_controller_device(struct host_controller *controller)
{
	return controller->device;
}

void host_controller_destroy(struct host_controller *controller)
{
	struct host_controller *c = controller;
	struct host_error ignored;

	if (!c)
		return;
	if (c->cc & CC_EN)
		controller_set_cc(c, c->cc | CC_SHN_NORMAL, &ignored);
	host_queue_destroy(c->admin);
	host_memory_free(c->buffer);
	if (c->device)
		host_device_put(c->device);
	free(c);
}
