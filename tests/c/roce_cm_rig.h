/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the rig's peer to the connection manager, and connections that it has accepted. */
#ifndef ROCE_CM_RIG_H
#define ROCE_CM_RIG_H

#include "roce_rig.h"

#include "events.h"

enum { SERVICE = 4420, PEER_QPN = 0x1234, PEER_COMM = 99 };
enum { MAD_HEADER = 24, REQ_GUID = 16, REP_GUID = 28 };	/* bytes before the Local CA GUID (chapter 12) */

struct rig_cm {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
};

static bool foreign;			/* the peer has the GUID of a different device */

static inline void send_message_to(struct rig *rig, struct ro_port *to, const struct ro_cm_fields *f)
{
	const struct ro_bth bth = { .opcode = RO_OP_UD_SEND_ONLY, .qpn = RO_QP1 };
	uint8_t body[RO_DETH + RO_MAD];

	ro_put32(body, 0x80010000u);
	ro_put32(body + 4, RO_QP1);
	ro_cm_put(body + RO_DETH, f);
	if (foreign && f->kind == RO_CM_REQ)
		memset(body + RO_DETH + MAD_HEADER + REQ_GUID, 0, 8);
	if (foreign && f->kind == RO_CM_REP)
		memset(body + RO_DETH + MAD_HEADER + REP_GUID, 0, 8);
	rig_send(rig, to, &bth, body, sizeof(body));
}

static inline void send_message(struct rig *rig, const struct ro_cm_fields *f)
{
	send_message_to(rig, rig->port, f);
}

/* The next packet that the peer receives, if it is a message. */
static inline struct ro_cm_fields next_message(struct rig *rig)
{
	struct ro_cm_fields f = { 0 };

	if (rig_next(rig) && rig->got[0] == RO_OP_UD_SEND_ONLY)
		ro_cm_get(rig->got + RO_BTH + RO_DETH, &f);
	return f;
}

static inline void send_request(struct rig *rig, uint32_t qpn, uint32_t comm)
{
	struct ro_cm_fields f = {
		.kind = RO_CM_REQ, .local_comm = comm, .qpn = qpn, .psn = RIG_PSN, .mtu = RIG_MTU,
		.responder_resources = 4, .initiator_depth = 2, .retry_count = 6, .rnr_retry_count = 3,
		.service_id = ro_service_id(SERVICE), .src = rig->peer, .dst = rig->port->addr,
	};

	send_message(rig, &f);
}

/* Return the id of the next event, which must be of this type. */
static inline struct rdma_cm_id *event(struct rig_cm *cm, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id = NULL;

	if (CHECK(!iw_get_cm_event(cm->channel, &e))) {
		if (CHECK(e->event == type, "(%d)", (int)e->event))
			id = e->id;
		iw_ack_cm_event(e);
	}
	return id;
}

/* Accept the next request. */
static inline struct ro_id *accepts(struct rig *rig, struct rig_cm *cm)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = rig->cq, .recv_cq = rig->cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct rdma_conn_param param = { .responder_resources = 2, .initiator_depth = 16, .rnr_retry_count = 5 };
	struct rdma_cm_id *id = event(cm, RDMA_CM_EVENT_CONNECT_REQUEST);

	if (!id || !CHECK(!ro_create_qp(id, rig->pd, &attr) && !ro_accept(id, &param)))
		return NULL;
	return (struct ro_id *)id;
}

static inline struct ro_id *accepted_as(struct rig *rig, struct rig_cm *cm, uint32_t qpn, uint32_t comm)
{
	send_request(rig, qpn, comm);
	return accepts(rig, cm);
}

static inline struct ro_id *accepted(struct rig *rig, struct rig_cm *cm, uint32_t qpn)
{
	return accepted_as(rig, cm, qpn, PEER_COMM);
}

/* A listener at the rig's port. */
static inline bool rig_listens(struct rig *rig, struct rig_cm *cm)
{
	struct sockaddr_in here = rig->port->addr.in;

	here.sin_port = htons(SERVICE);
	cm->channel = iw_create_event_channel();
	return CHECK(cm->channel && !ro_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) &&
		     !ro_bind_addr(cm->listener, (struct sockaddr *)&here) && !ro_listen(cm->listener, 4));
}

static inline void rig_listens_no_more(struct rig_cm *cm)
{
	ro_destroy_id(cm->listener);
	iw_destroy_event_channel(cm->channel);
}

#endif
