/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal declarations of a controller, shared by controller.c (bring-up, Identify, queues), fabrics.c (its fabrics
 * commands) and identity.c (its host).
 */
#ifndef NVMF_HOST_CONTROLLER_H
#define NVMF_HOST_CONTROLLER_H

#include "internal.h"

/* Data of the Connect command (Base 2.0 figure 385). */
struct connect_data {
	uint8_t hostid[16];
	uint16_t cntlid;
	uint8_t rsvd[238];
	char subnqn[256];
	char hostnqn[256];
	uint8_t rsvd2[256];
} __attribute__((packed));
static_assert(sizeof(struct connect_data) == 1024, "Connect data is 1024 bytes");

struct host_controller {
	struct host_device *device;
	struct host_queue *admin;
	struct host_memory *buffer;	/* one command's data at a time */
	struct connect_data identity;	/* sent in every Connect of this controller */
	char traddr[256], trsvcid[32];
	uint32_t timeout_ms;
	uint16_t cntlid;
	uint16_t queues, granted;	/* created, allowed */
	uint32_t cc;
	uint64_t cap;
	uint32_t in_capsule, max_transfer;
	bool deallocate, write_zeroes, volatile_write_cache;
};

/* ---- fabrics.c: 0, or a negative errno with error filled ---- */

/* Send a command whose data is in the controller's buffer; what: its name in error messages. */
int host_controller_command(struct host_controller *c, struct host_queue *queue, const char *what,
			    const struct nvme_sqe *sqe, uint32_t length, bool to_device,
			    struct nvme_cqe *cqe, struct host_error *error);
int host_fabrics_connect(struct host_controller *c, struct host_queue *queue, uint16_t qid,
			 uint16_t size, struct host_error *error);
int host_property_get(struct host_controller *c, uint32_t offset, bool eight, uint64_t *value,
		      struct host_error *error);
int host_property_set(struct host_controller *c, uint32_t offset, uint32_t value,
		      struct host_error *error);

/* ---- identity.c ---- */

/* Host ID and NQNs for every Connect of this controller. */
int host_controller_identity(struct host_controller *c, const struct host_controller_options *o,
			     struct host_error *error);
/* The same without a controller: only the NQNs and the host ID of o are used. */
int host_identity(struct connect_data *identity, const struct host_controller_options *o,
		  struct host_error *error);

#endif
