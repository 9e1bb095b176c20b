/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that consist only of a TCP socket: they send hand-made bytes, and need not answer as a host should.  In the
 * thread of the test.
 */
#ifndef TESTS_TARGET_RAW_HOST_H
#define TESTS_TARGET_RAW_HOST_H

#include <poll.h>
#include <sys/socket.h>

#include "target_host.h"
#include "wire.h"

enum { RAW_KEY = 0x1234 };	/* the STag in their commands; the memory does not exist */

struct raw_host {
	int fd;
	uint32_t msn;			/* of the last capsule */
	struct queue *q;		/* the target's end; lab_turn() handles only that end */
};

static inline bool raw_send(struct raw_host *h, const void *bytes, size_t length)
{
	return send(h->fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* TCP and the MPA request of a siw host. */
static inline bool raw_request(struct raw_host *h, struct queue *q)
{
	struct nvme_rdma_cm_req req = { .qid = q->qid, .hrqsize = q->depth,
					.hsqsize = (uint16_t)(q->depth - 1) };
	uint8_t frame[MPA_HDR_LEN + MPA_V2_LEN + sizeof(req)] = MPA_KEY_REQ;

	*h = (struct raw_host){ .fd = socket(AF_INET, SOCK_STREAM, 0), .q = q };
	lab.connecting = q;
	iw_put16(frame + MPA_KEY_LEN, MPA_BIT_ENHANCED | 2);
	iw_put16(frame + MPA_KEY_LEN + 2, MPA_V2_LEN + sizeof(req));
	iw_put16(frame + MPA_HDR_LEN, 128);
	memcpy(frame + MPA_HDR_LEN + MPA_V2_LEN, &req, sizeof(req));
	return !connect(h->fd, (struct sockaddr *)&lab.address, sizeof(lab.address)) &&
	       raw_send(h, frame, sizeof(frame));
}

/* Connected on both ends, the reply read.  reads: limit of outstanding RDMA READs, 0: default. */
static inline bool raw_open_reads(struct raw_host *h, uint16_t qid, uint16_t depth, uint8_t reads)
{
	struct queue *q = queue_new(qid, depth, 4096);
	uint8_t reply[MPA_HDR_LEN + MPA_V2_LEN + sizeof(struct nvme_rdma_cm_rep)];

	q->reads = reads;
	return raw_request(h, q) && LAB_UNTIL(q->qp || *q->reason) && q->qp &&
	       recv(h->fd, reply, sizeof(reply), MSG_WAITALL) == sizeof(reply);
}

static inline bool raw_open(struct raw_host *h, uint16_t qid, uint16_t depth)
{
	return raw_open_reads(h, qid, depth, 0);
}

static inline bool raw_capsule(struct raw_host *h, const struct nvme_sqe *sqe)
{
	uint8_t f[FPDU_UNTAGGED + sizeof(*sqe) + 8] = { 0 };
	uint32_t size = fpdu_size(FPDU_UNTAGGED - FPDU_LEN + sizeof(*sqe));

	fpdu_put_untagged(f, RDMAP_SEND, true, sizeof(*sqe), 0, DDP_QN_SEND, ++h->msn, 0);
	memcpy(f + FPDU_UNTAGGED, sqe, sizeof(*sqe));
	return raw_send(h, f, size);
}

static inline struct nvme_sqe raw_sqe(struct raw_host *h, uint8_t opcode, uint32_t length)
{
	struct nvme_sqe sqe = { .opc = opcode, .flags = NVME_PSDT_SGL, .cid = (uint16_t)h->msn,
				.nsid = 1, .cdw12 = length / 512 - 1 };

	nvme_sgl_set_keyed(&sqe.sgl, 0, length, RAW_KEY, NVME_SGL_KEYED);
	return sqe;
}

/* Connect without data, which the control side of the lab takes. */
static inline bool raw_connect(struct raw_host *h)
{
	struct nvme_sqe sqe = raw_sqe(h, NVME_OPC_FABRICS, 0);
	struct target_qpair_stats stats = { 0 };

	sqe.nsid = NVME_FCTYPE_CONNECT;
	return raw_capsule(h, &sqe) &&
	       LAB_UNTIL((target_qpair_stats(h->q->qp, &stats), stats.commands == 1));
}

/* Close without a message, or with RST. */
static inline void raw_close(struct raw_host *h, bool reset)
{
	struct linger now = { .l_onoff = reset };

	setsockopt(h->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(h->fd);
	if (h->q->qp)
		LAB_UNTIL(h->q->closed);
	queue_close(h->q);
}

#endif
