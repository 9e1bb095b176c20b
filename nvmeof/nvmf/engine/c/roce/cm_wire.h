/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the communication manager: every byte offset of the 256-byte datagrams (InfiniBand Architecture
 * Specification, volume 1, chapters 12 and 13, and annex A11 for the RDMA IP CM service).  Constant, any thread.
 */
#ifndef NVMF_ROCE_CM_WIRE_H
#define NVMF_ROCE_CM_WIRE_H

#include "port.h"

enum ro_cm_kind {
	RO_CM_REQ = 0x10, RO_CM_MRA, RO_CM_REJ, RO_CM_REP, RO_CM_RTU, RO_CM_DREQ, RO_CM_DREP,
};

enum {	/* of a REJ: reasons */
	RO_REJ_NO_QP = 1,
	RO_REJ_TIMEOUT = 4,
	RO_REJ_INVALID_COMM_ID = 6,
	RO_REJ_INVALID_SERVICE = 8,
	RO_REJ_INVALID_TRANSPORT = 9,
	RO_REJ_STALE = 10,
	RO_REJ_INVALID_MTU = 26,
	RO_REJ_CONSUMER = 28,
};

enum {
	RO_REQ_DATA = 92, RO_CMA_HEADER = 36, RO_REQ_USER = RO_REQ_DATA - RO_CMA_HEADER,
	RO_REP_DATA = 196, RO_REJ_DATA = 148,
};

/* The fields of a message; its kind determines which are used. */
struct ro_cm_fields {
	uint16_t kind;			/* enum ro_cm_kind */
	uint32_t local_comm, remote_comm;	/* of its sender */
	uint32_t qpn;			/* DREQ: that of the receiver */
	uint32_t psn;			/* the first PSN of the receiver's packets */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count, transport;
	uint32_t mtu;			/* 0: the value is undefined */
	uint64_t service_id;
	union ro_addr src, dst;		/* REQ: of the CMA header, with the source's port */
	bool has_cma;			/* these addresses are valid */
	bool same_device;		/* REQ, REP, read only: its GUID is one of this device */
	uint16_t reason;		/* REJ */
	uint8_t about;			/* REJ, MRA: 0 a REQ, 1 a REP, 2 a different message */
	const uint8_t *data;		/* private data of the consumer */
	uint32_t data_len;
};

/* Read a message; false if it is not of the communication manager, or of a kind that is not used. */
bool ro_cm_get(const uint8_t mad[RO_MAD], struct ro_cm_fields *f);
void ro_cm_put(uint8_t mad[RO_MAD], const struct ro_cm_fields *f);
/* Write a message that the answer to this REQ is no longer awaited: the GUID in both identifies the REQ. */
void ro_cm_gave_up(uint8_t mad[RO_MAD], const uint8_t req[RO_MAD]);
/* Change the MTU and the communication id in a REQ. */
void ro_cm_ask_again(uint8_t mad[RO_MAD], uint32_t local_comm, uint32_t mtu);

enum { RO_SERVICE_TCP = 0x0106 };
static inline uint64_t ro_service_id(uint16_t port)
{
	return (uint64_t)RO_SERVICE_TCP << 16 | port;
}

#endif
