/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe structures, opcodes and status codes that the engine itself looks at.
 * Source: NVM Express Base Specification 2.0, NVM Command Set Specification 1.0, NVMe over Fabrics
 * 1.1 / RDMA Transport Specification 1.0.  Little-endian machines only.
 */
#ifndef NVMF_NVME_H
#define NVMF_NVME_H

#include <assert.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "NVMe structures are little-endian");

/* SGL descriptor (Base 4.1.2): type in the high nibble of the last byte, subtype in the low. */
struct nvme_sgl {
	uint64_t addr;
	union {
		struct {
			uint8_t length[3];
			uint8_t key[4];
			uint8_t type;
		} __attribute__((packed)) keyed;
		struct {
			uint32_t length;
			uint8_t rsvd[3];
			uint8_t type;
		} __attribute__((packed)) plain;
	};
} __attribute__((packed));
static_assert(sizeof(struct nvme_sgl) == 16, "SGL descriptor is 16 bytes");

enum {
	NVME_SGL_IN_CAPSULE = 0x01,		/* data block, offset in the capsule */
	NVME_SGL_KEYED = 0x40,			/* keyed data block */
	NVME_SGL_KEYED_INVALIDATE = 0x4f,	/* keyed data block, invalidate the key when done */
	NVME_SGL_LAST_SEGMENT_OFFSET = 0x31,	/* last segment, offset in the capsule */
	NVME_PSDT_MASK = 0xc0,
	NVME_PSDT_SGL = 0x40,
	NVME_FUSE_MASK = 0x03,
	NVME_FUSE_FIRST = 0x01,
	NVME_FUSE_SECOND = 0x02,
};

struct nvme_sqe {
	uint8_t opc;
	uint8_t flags;
	uint16_t cid;
	uint32_t nsid;
	uint32_t cdw2;
	uint32_t cdw3;
	uint64_t mptr;
	struct nvme_sgl sgl;
	uint32_t cdw10;
	uint32_t cdw11;
	uint32_t cdw12;
	uint32_t cdw13;
	uint32_t cdw14;
	uint32_t cdw15;
} __attribute__((packed));
static_assert(sizeof(struct nvme_sqe) == 64, "SQE is 64 bytes");

struct nvme_cqe {
	uint32_t dw0;
	uint32_t dw1;
	uint16_t sqhd;
	uint16_t sqid;
	uint16_t cid;
	uint16_t status;	/* the 15-bit status << 1; bit 0 is the phase bit, 0 on fabrics */
} __attribute__((packed));
static_assert(sizeof(struct nvme_cqe) == 16, "CQE is 16 bytes");

struct nvme_dsm_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t slba;
} __attribute__((packed));
static_assert(sizeof(struct nvme_dsm_range) == 16, "a range is 16 bytes");

struct nvme_copy_range {		/* a Source Range Entry, format 0h */
	uint64_t reserved0;
	uint64_t slba;
	uint16_t nlb;		/* 0's based */
	uint16_t reserved18[3];
	uint8_t protection[8];	/* EILBRT, ELBAT and ELBATM: not used */
} __attribute__((packed));
static_assert(sizeof(struct nvme_copy_range) == 32, "a source range entry is 32 bytes");

enum nvme_io_opcode {
	NVME_OPC_FLUSH = 0x00,
	NVME_OPC_WRITE = 0x01,
	NVME_OPC_READ = 0x02,
	NVME_OPC_COMPARE = 0x05,
	NVME_OPC_WRITE_ZEROES = 0x08,
	NVME_OPC_DSM = 0x09,
	NVME_OPC_VERIFY = 0x0c,
	NVME_OPC_COPY = 0x19,
	NVME_OPC_FABRICS = 0x7f,
};
enum nvme_admin_opcode {
	NVME_OPC_IDENTIFY = 0x06,
	NVME_OPC_KEEP_ALIVE = 0x18,
};
enum nvme_fctype {
	NVME_FCTYPE_PROPERTY_SET = 0x00,
	NVME_FCTYPE_CONNECT = 0x01,
	NVME_FCTYPE_PROPERTY_GET = 0x04,
	NVME_FCTYPE_AUTH_SEND = 0x05,
	NVME_FCTYPE_AUTH_RECEIVE = 0x06,
	NVME_FCTYPE_DISCONNECT = 0x08,
};

/* Status: SCT << 8 | SC, with DNR 0x4000 and More 0x2000 above (the CQE field is this << 1). */
enum nvme_status {
	NVME_SUCCESS = 0x000,
	NVME_INVALID_OPCODE = 0x001,
	NVME_INVALID_FIELD = 0x002,
	NVME_COMMAND_ID_CONFLICT = 0x003,
	NVME_DATA_TRANSFER_ERROR = 0x004,
	NVME_INTERNAL_ERROR = 0x006,
	NVME_ABORTED_BY_REQUEST = 0x007,
	NVME_ABORTED_SQ_DELETED = 0x008,
	NVME_ABORTED_FAILED_FUSED = 0x009,
	NVME_ABORTED_MISSING_FUSED = 0x00a,
	NVME_INVALID_NAMESPACE = 0x00b,
	NVME_COMMAND_SEQUENCE_ERROR = 0x00c,
	NVME_INVALID_SGL_SEGMENT = 0x00d,
	NVME_INVALID_SGL_COUNT = 0x00e,
	NVME_SGL_DATA_LENGTH_INVALID = 0x00f,
	NVME_SGL_TYPE_INVALID = 0x011,
	NVME_SGL_OFFSET_INVALID = 0x016,
	NVME_NAMESPACE_WRITE_PROTECTED = 0x020,
	NVME_TRANSIENT_TRANSPORT_ERROR = 0x022,
	NVME_LBA_OUT_OF_RANGE = 0x080,
	NVME_CAPACITY_EXCEEDED = 0x081,
	NVME_NAMESPACE_NOT_READY = 0x082,
	NVME_INVALID_PROTECTION_INFO = 0x181,
	NVME_READ_ONLY_RANGE = 0x182,
	NVME_COMMAND_SIZE_LIMIT_EXCEEDED = 0x183,
	NVME_OVERLAPPING_IO_RANGE = 0x187,
	NVME_WRITE_FAULT = 0x280,
	NVME_UNRECOVERED_READ_ERROR = 0x281,
	NVME_COMPARE_FAILURE = 0x285,
	NVME_ACCESS_DENIED = 0x286,
	NVME_MORE = 0x2000,
	NVME_DNR = 0x4000,
};

/* RDMA-CM private data (RDMA Transport 3.1): a REQ's, a REP's and a REJ's. */
struct nvme_rdma_cm_req {
	uint16_t recfmt;
	uint16_t qid;
	uint16_t hrqsize;
	uint16_t hsqsize;	/* 0's based */
	uint16_t cntlid;
	uint8_t rsvd[22];
} __attribute__((packed));
static_assert(sizeof(struct nvme_rdma_cm_req) == 32, "CM REQ private data is 32 bytes");
struct nvme_rdma_cm_rep {
	uint16_t recfmt;
	uint16_t crqsize;
	uint8_t rsvd[28];
} __attribute__((packed));
static_assert(sizeof(struct nvme_rdma_cm_rep) == 32, "CM REP private data is 32 bytes");
struct nvme_rdma_cm_rej {
	uint16_t recfmt;
	uint16_t sts;
} __attribute__((packed));

static inline uint32_t nvme_sgl_keyed_length(const struct nvme_sgl *s)
{
	return (uint32_t)s->keyed.length[0] | (uint32_t)s->keyed.length[1] << 8 |
	       (uint32_t)s->keyed.length[2] << 16;
}

static inline uint32_t nvme_sgl_key(const struct nvme_sgl *s)
{
	return (uint32_t)s->keyed.key[0] | (uint32_t)s->keyed.key[1] << 8 |
	       (uint32_t)s->keyed.key[2] << 16 | (uint32_t)s->keyed.key[3] << 24;
}

static inline void nvme_sgl_set_keyed(struct nvme_sgl *s, uint64_t addr, uint32_t len, uint32_t key,
				      uint8_t type)
{
	s->addr = addr;
	s->keyed.length[0] = (uint8_t)len;
	s->keyed.length[1] = (uint8_t)(len >> 8);
	s->keyed.length[2] = (uint8_t)(len >> 16);
	s->keyed.key[0] = (uint8_t)key;
	s->keyed.key[1] = (uint8_t)(key >> 8);
	s->keyed.key[2] = (uint8_t)(key >> 16);
	s->keyed.key[3] = (uint8_t)(key >> 24);
	s->keyed.type = type;
}

#endif
