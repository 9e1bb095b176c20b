/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair of the embedded RoCEv2 device whose peer is a plain UDP socket, and a second port in addition to its
 * own.
 */
#ifndef ROCE_RIG_H
#define ROCE_RIG_H

#include "check.h"
#include "roce/cm.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { RIG_MEM = 65536, RIG_MTU = 256, RIG_QPN = 77, RIG_PSN = RO_MASK24 - 1 };

struct rig {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ro_qp *qp;
	struct ro_port *port, *other;
	union ro_addr peer;
	int fd;				/* the peer's */
	_Alignas(8) uint8_t mem[RIG_MEM];
	uint8_t got[RO_PACKET_MAX];	/* the packet that the peer received last */
};

static inline void rig_answer(struct iw_caller *caller)
{
	(void)caller;
}

/* An unused address of the loopback network. */
static inline union ro_addr rig_address(void)
{
	return (union ro_addr){ .in = {
		.sin_family = AF_INET, .sin_port = htons(RO_UDP_PORT),
		.sin_addr.s_addr = htonl(0x7f200000u | (iw_random32() & 0xfffffu)),
	} };
}

static inline bool rig_open(struct rig *rig)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1,
					   .max_inline_data = 16 },
	};
	union ro_addr one = rig_address(), two = rig_address();
	struct ro_path path = {
		.dqpn = RIG_QPN, .mtu = RIG_MTU, .psn = RIG_PSN, .epsn = RIG_PSN, .ird = 4, .ord = 4, .retry_limit = 7,
		.rnr_limit = 7,
	};
	int whole = IP_PMTUDISC_DO, rc;

	memset(rig, 0, sizeof(*rig));
	rig->peer = rig_address();
	rig->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(rig->fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole));
	rig->pd = iw_alloc_pd(&ro_dev.ext.context);
	rig->cq = iw_create_cq(&ro_dev.ext.context, 64, NULL, NULL, 0);
	rig->mr = iw_reg_mr(rig->pd, rig->mem, RIG_MEM,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC);
	attr.send_cq = attr.recv_cq = rig->cq;
	pthread_mutex_lock(&iw_cm_lock);
	ro_cm_use(1);
	rig->port = path.port = ro_port_get(&one, &ro_cm_calls);
	rig->other = ro_port_get(&two, &ro_cm_calls);
	rig->qp = ro_qp_create(rig->pd, &attr);
	rig->qp->caller.answer = rig_answer;
	path.peer = rig->peer;
	rc = bind(rig->fd, &rig->peer.sa, sizeof(rig->peer.in)) || !rig->port || !rig->other ||
	     ro_qp_start(rig->qp, &path);
	pthread_mutex_unlock(&iw_cm_lock);
	return CHECK(!rc, "(the device was opened)");
}

static inline void rig_close(struct rig *rig)
{
	pthread_mutex_lock(&iw_cm_lock);
	iw_lock(&rig->qp->lock);
	ro_qp_fail(rig->qp, "the test is over");
	iw_unlock(&rig->qp->lock);
	ro_qp_reap(rig->qp);
	ro_qp_free(rig->qp);
	ro_port_put(rig->port);
	ro_port_put(rig->other);
	ro_cm_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	iw_dereg_mr(rig->mr);
	iw_destroy_cq(rig->cq);
	iw_dealloc_pd(rig->pd);
	close(rig->fd);
}

/*
 * The queue pair's state.  The helper sends a NAK and changes the state afterwards, under one lock: without it, the
 * peer could receive the NAK and find the old state.
 */
static inline int rig_state(struct rig *rig)
{
	int state;

	iw_lock(&rig->qp->lock);
	state = ro_qp_state(rig->qp);
	iw_unlock(&rig->qp->lock);
	return state;
}

typedef uint32_t rig_icrc(const struct ro_flow *flow, uint16_t ip_id, const uint8_t *packet, uint32_t len);

/* Send len bytes that follow a BTH, the pad among them, from the peer to a port, with this ICRC. */
static inline void rig_send_icrc(struct rig *rig, struct ro_port *to, const struct ro_bth *bth, const void *body,
				 uint32_t len, rig_icrc *icrc)
{
	uint8_t buf[RO_PACKET_MAX] = { 0 };
	struct ro_flow flow;
	uint32_t crc;

	ro_bth_put(buf, bth);
	memcpy(buf + RO_BTH, body, len);
	ro_flow_set(&flow, &rig->peer.sa, &to->addr.sa);
	crc = icrc(&flow, 0, buf, RO_BTH + len);
	memcpy(buf + RO_BTH + len, &crc, RO_ICRC);
	sendto(rig->fd, buf, RO_BTH + len + RO_ICRC, 0, &to->addr.sa, sizeof(to->addr.in));
}

static inline void rig_send(struct rig *rig, struct ro_port *to, const struct ro_bth *bth, const void *body, uint32_t len)
{
	rig_send_icrc(rig, to, bth, body, len, ro_icrc);
}

/* The next packet that the peer receives, polling the completion queue; its length, or 0 after the patience. */
static inline uint32_t rig_next(struct rig *rig)
{
	const uint64_t end = clock_ns() + CHECK_PATIENCE_S * 1000000000ull;
	struct pollfd pfd = { .fd = rig->fd, .events = POLLIN };

	while (clock_ns() < end) {
		iw_cq_progress(iw_cq(rig->cq), false);
		if (poll(&pfd, 1, 1) == 1)
			return (uint32_t)recv(rig->fd, rig->got, sizeof(rig->got), 0);
	}
	return 0;
}

/* Whether the next packet that the peer receives has this opcode and PSN. */
static inline bool rig_answered(struct rig *rig, uint8_t opcode, uint32_t psn)
{
	return rig_next(rig) >= RO_BTH + RO_ICRC && rig->got[0] == opcode && ro_get24(rig->got + 9) == psn;
}

#endif
