/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the communication manager, read and written.  Constant, any thread. */
#include "cm_wire.h"

enum {
	HEADER = 24,			/* header of the datagram; all offsets below are relative to its end */
	MAD_CLASS = 7, MAD_CLASS_VERSION = 2, MAD_SEND = 3,
	REQ_SERVICE = 8, REQ_GUID = 16, REQ_QPN = 32, REQ_RESOURCES = 35, REQ_DEPTH = 39, REQ_TIMEOUTS = 43,
	REQ_PSN = 44, REQ_RETRY = 47, REQ_PKEY = 48, REQ_MTU = 50, REQ_CM_RETRIES = 51, REQ_LIDS = 52,
	REQ_LOCAL_GID = 56, REQ_REMOTE_GID = 72, REQ_HOP_LIMIT = 93, REQ_ACK_TIMEOUT = 95, REQ_PRIVATE = 140,
	REP_QPN = 12, REP_PSN = 20, REP_RESOURCES = 24, REP_DEPTH = 25, REP_RNR = 27, REP_GUID = 28,
	REP_PRIVATE = 36,
	REJ_ABOUT = 8, REJ_INFO_LEN = 9, REJ_REASON = 10, REJ_INFO = 12, REJ_PRIVATE = 84,
	GUID_LEN = 8,
	MRA_ABOUT = 8, MRA_TIMEOUT = 9,
	DREQ_QPN = 8,
	CM_TIMEOUT = 20,		/* 4.3 s, until a response arrives */
	ACK_TIMEOUT = 14,		/* 67 ms */
	CMA_PORT = 2, CMA_SRC = 4, CMA_DST = 20,
};

/* The first half of the GUID, which marks this device: no network card has it, since theirs have 0xff as the fourth byte. */
static const uint32_t guid_mark = 0x024e564d;

static void guid_put(uint8_t *p, const struct ro_cm_fields *f)
{
	ro_put64(p, (uint64_t)guid_mark << 32 | f->local_comm);
}

static void gid_put(uint8_t *p, const union ro_addr *a)
{
	if (a->sa.sa_family == AF_INET6) {
		memcpy(p, &a->in6.sin6_addr, 16);
	} else {
		memset(p, 0, 10);
		p[10] = p[11] = 0xff;
		memcpy(p + 12, &a->in.sin_addr, 4);
	}
}

static void cma_put(uint8_t *p, const struct ro_cm_fields *f)
{
	const bool six = f->src.sa.sa_family == AF_INET6;

	p[1] = six ? 0x60 : 0x40;
	memcpy(p + CMA_PORT, six ? &f->src.in6.sin6_port : &f->src.in.sin_port, 2);
	if (six) {
		memcpy(p + CMA_SRC, &f->src.in6.sin6_addr, 16);
		memcpy(p + CMA_DST, &f->dst.in6.sin6_addr, 16);
	} else {
		memcpy(p + CMA_SRC + 12, &f->src.in.sin_addr, 4);
		memcpy(p + CMA_DST + 12, &f->dst.in.sin_addr, 4);
	}
}

static void cma_addr(union ro_addr *a, const uint8_t *p, bool six)
{
	memset(a, 0, sizeof(*a));
	a->sa.sa_family = six ? AF_INET6 : AF_INET;
	if (six)
		memcpy(&a->in6.sin6_addr, p, 16);
	else
		memcpy(&a->in.sin_addr, p + 12, 4);
}

static void cma_get(const uint8_t *p, struct ro_cm_fields *f)
{
	const bool six = p[1] >> 4 == 6;	/* the other bits are reserved */

	f->has_cma = !p[0] && (six || p[1] >> 4 == 4);
	cma_addr(&f->src, p + CMA_SRC, six);
	cma_addr(&f->dst, p + CMA_DST, six);
	memcpy(six ? &f->src.in6.sin6_port : &f->src.in.sin_port, p + CMA_PORT, 2);
}

static uint8_t mtu_code(uint32_t bytes)
{
	uint8_t mtu = 1;

	while (mtu < 5 && (uint32_t)RO_MTU_MIN << (mtu - 1) < bytes)
		mtu++;
	return mtu;
}

static void req_put(uint8_t *p, const struct ro_cm_fields *f)
{
	ro_put64(p + REQ_SERVICE, f->service_id);
	guid_put(p + REQ_GUID, f);
	ro_put24(p + REQ_QPN, f->qpn);
	p[REQ_RESOURCES] = f->responder_resources;
	p[REQ_DEPTH] = f->initiator_depth;
	p[REQ_TIMEOUTS] = CM_TIMEOUT << 3;
	ro_put24(p + REQ_PSN, f->psn);
	p[REQ_RETRY] = (uint8_t)(CM_TIMEOUT << 3 | (f->retry_count & 7));
	ro_put16(p + REQ_PKEY, RO_PKEY);
	p[REQ_MTU] = (uint8_t)(mtu_code(f->mtu) << 4 | (f->rnr_retry_count & 7));
	p[REQ_CM_RETRIES] = 15 << 4;
	ro_put32(p + REQ_LIDS, 0xffffffff);
	gid_put(p + REQ_LOCAL_GID, &f->src);
	gid_put(p + REQ_REMOTE_GID, &f->dst);
	p[REQ_HOP_LIMIT] = 64;
	p[REQ_ACK_TIMEOUT] = ACK_TIMEOUT << 3;
	cma_put(p + REQ_PRIVATE, f);
	if (f->data_len)
		memcpy(p + REQ_PRIVATE + RO_CMA_HEADER, f->data, f->data_len);
}

static void req_get(const uint8_t *p, struct ro_cm_fields *f)
{
	const uint8_t mtu = p[REQ_MTU] >> 4;

	f->service_id = ro_get64(p + REQ_SERVICE);
	f->same_device = ro_get32(p + REQ_GUID) == guid_mark;
	f->qpn = ro_get24(p + REQ_QPN);
	f->responder_resources = p[REQ_RESOURCES];
	f->initiator_depth = p[REQ_DEPTH];
	f->transport = p[REQ_TIMEOUTS] >> 1 & 3;
	f->psn = ro_get24(p + REQ_PSN);
	f->retry_count = p[REQ_RETRY] & 7;
	f->rnr_retry_count = p[REQ_MTU] & 7;
	f->mtu = mtu >= 1 && mtu <= 5 ? (uint32_t)RO_MTU_MIN << (mtu - 1) : 0;
	cma_get(p + REQ_PRIVATE, f);
	f->data = p + REQ_PRIVATE + RO_CMA_HEADER;
	f->data_len = RO_REQ_USER;
}

static void rep_put(uint8_t *p, const struct ro_cm_fields *f)
{
	ro_put24(p + REP_QPN, f->qpn);
	ro_put24(p + REP_PSN, f->psn);
	p[REP_RESOURCES] = f->responder_resources;
	p[REP_DEPTH] = f->initiator_depth;
	p[REP_RNR] = (uint8_t)(f->rnr_retry_count << 5);
	guid_put(p + REP_GUID, f);
	if (f->data_len)
		memcpy(p + REP_PRIVATE, f->data, f->data_len);
}

static void rep_get(const uint8_t *p, struct ro_cm_fields *f)
{
	f->same_device = ro_get32(p + REP_GUID) == guid_mark;
	f->qpn = ro_get24(p + REP_QPN);
	f->psn = ro_get24(p + REP_PSN);
	f->responder_resources = p[REP_RESOURCES];
	f->initiator_depth = p[REP_DEPTH];
	f->rnr_retry_count = p[REP_RNR] >> 5;
	f->data = p + REP_PRIVATE;
	f->data_len = RO_REP_DATA;
}

void ro_cm_put(uint8_t mad[RO_MAD], const struct ro_cm_fields *f)
{
	uint8_t *p = mad + HEADER;

	memset(mad, 0, RO_MAD);
	mad[0] = 1;
	mad[1] = MAD_CLASS;
	mad[2] = MAD_CLASS_VERSION;
	mad[3] = MAD_SEND;
	ro_put64(mad + 8, f->local_comm);	/* the transaction */
	ro_put16(mad + 16, f->kind);
	ro_put32(p, f->local_comm);
	if (f->kind != RO_CM_REQ)
		ro_put32(p + 4, f->remote_comm);
	switch (f->kind) {
	case RO_CM_REQ:
		req_put(p, f);
		break;
	case RO_CM_REP:
		rep_put(p, f);
		break;
	case RO_CM_REJ:
		p[REJ_ABOUT] = (uint8_t)(f->about << 6);
		ro_put16(p + REJ_REASON, f->reason);
		if (f->data_len)
			memcpy(p + REJ_PRIVATE, f->data, f->data_len);
		break;
	case RO_CM_MRA:
		p[MRA_ABOUT] = (uint8_t)(f->about << 6);
		p[MRA_TIMEOUT] = CM_TIMEOUT << 3;
		break;
	case RO_CM_DREQ:
		ro_put24(p + DREQ_QPN, f->qpn);
		break;
	default:
		break;
	}
}

void ro_cm_gave_up(uint8_t mad[RO_MAD], const uint8_t req[RO_MAD])
{
	const struct ro_cm_fields f = {
		.kind = RO_CM_REJ, .local_comm = ro_get32(req + HEADER), .reason = RO_REJ_TIMEOUT, .about = 2,
	};

	ro_cm_put(mad, &f);
	mad[HEADER + REJ_INFO_LEN] = GUID_LEN << 1;
	memcpy(mad + HEADER + REJ_INFO, req + HEADER + REQ_GUID, GUID_LEN);
}

void ro_cm_ask_again(uint8_t mad[RO_MAD], uint32_t local_comm, uint32_t mtu)
{
	uint8_t *p = mad + HEADER;

	ro_put64(mad + 8, local_comm);
	ro_put32(p, local_comm);
	p[REQ_MTU] = (uint8_t)(mtu_code(mtu) << 4 | (p[REQ_MTU] & 0x0f));
}

bool ro_cm_get(const uint8_t mad[RO_MAD], struct ro_cm_fields *f)
{
	const uint8_t *p = mad + HEADER;

	memset(f, 0, sizeof(*f));
	f->kind = ro_get16(mad + 16);
	if (mad[0] != 1 || mad[1] != MAD_CLASS || mad[2] != MAD_CLASS_VERSION || mad[3] != MAD_SEND ||
	    f->kind < RO_CM_REQ || f->kind > RO_CM_DREP)
		return false;
	f->local_comm = ro_get32(p);
	f->remote_comm = f->kind == RO_CM_REQ ? 0 : ro_get32(p + 4);
	if (f->kind == RO_CM_REQ) {
		req_get(p, f);
	} else if (f->kind == RO_CM_REP) {
		rep_get(p, f);
	} else if (f->kind == RO_CM_REJ) {
		f->about = p[REJ_ABOUT] >> 6;
		f->reason = ro_get16(p + REJ_REASON);
		f->data = p + REJ_PRIVATE;
		f->data_len = RO_REJ_DATA;
	} else if (f->kind == RO_CM_DREQ) {
		f->qpn = ro_get24(p + DREQ_QPN);
	}
	return true;
}
