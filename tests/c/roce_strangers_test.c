/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets and messages for the embedded RoCEv2 device that come to the wrong port of a process. */
#include "roce_rig.h"

#include "events.h"

/* Two ports have two locks: a queue pair must not be added to the list of a port that is not its own. */
static void packet_at_another_port(struct rig *rig)
{
	struct ro_responder *r = &rig->qp->rsp;
	struct ro_packet p = { .bth = { .qpn = rig->qp->qp.qp_num, .psn = RIG_PSN }, .op = &ro_ops[RO_OP_ACK] };
	struct iw_epoch *section;

	check_section("a packet for a queue pair of another port");
	iw_lock(&rig->qp->lock);
	r->reads[0] = (struct ro_read){
		.va = (uintptr_t)rig->mem, .rkey = rig->mr->rkey, .len = RIG_MEM, .psn = RIG_PSN,
	};
	r->reads_head = 1;
	iw_unlock(&rig->qp->lock);
	section = iw_section_lock(&rig->other->lock);
	ro_qp_packet(rig->other, &p, &rig->peer);
	ro_qp_port_flush(rig->other);
	CHECK(!rig->other->more.head);
	CHECK(!rig->other->current);
	iw_section_unlock(section, &rig->other->lock);
	iw_lock(&rig->qp->lock);
	CHECK(!r->reads[0].sent, "(%u packets)", r->reads[0].sent);
	r->reads_head = 0;
	iw_unlock(&rig->qp->lock);
}

/* Send a message of the communication manager from the peer to a port. */
static void send_message(struct rig *rig, struct ro_port *to, const struct ro_cm_fields *f)
{
	const struct ro_bth bth = { .opcode = RO_OP_UD_SEND_ONLY, .qpn = RO_QP1 };
	uint8_t body[RO_DETH + RO_MAD];

	ro_put32(body, 0x80010000u);
	ro_put32(body + 4, RO_QP1);
	ro_cm_put(body + RO_DETH, f);
	rig_send(rig, to, &bth, body, sizeof(body));
}

static bool told_over(struct rig *rig)
{
	return rig_next(rig) && ro_get16(rig->got + RO_BTH + RO_DETH + 16) == RO_CM_DREP;
}

/* The last reference to a port may be that of a DREQ: an answer that a different port received must not free it. */
static void message_at_another_port(struct rig *rig)
{
	struct ro_cm_fields f = {
		.kind = RO_CM_DREP, .local_comm = 2, .qpn = rig->qp->qp.qp_num,
	};
	struct rdma_event_channel *channel = iw_create_event_channel();
	struct ro_id *id;
	unsigned int users;

	check_section("a message about a connection of another port");
	pthread_mutex_lock(&iw_cm_lock);
	id = ro_id_new(channel, NULL, RDMA_PS_TCP);
	id->port = rig->port;
	id->peer = rig->peer;
	ro_id_number(id);
	f.remote_comm = id->local_comm;
	id->remote_comm = 2;
	id->id.qp = &rig->qp->qp;
	id->state = RO_ID_CONNECTED;
	ro_goodbye(id, RIG_QPN);
	users = rig->port->users;
	ro_goodbye_answered(rig->other, &f, &rig->peer);
	CHECK(rig->port->users == users);
	ro_goodbye_answered(rig->port, &f, &rig->peer);
	CHECK(rig->port->users == users - 1);
	pthread_mutex_unlock(&iw_cm_lock);
	rig_next(rig);	/* the DREQ */

	f.kind = RO_CM_DREQ;
	send_message(rig, rig->other, &f);
	CHECK(told_over(rig));
	CHECK(rig_state(rig) == IBV_QPS_RTS);
	send_message(rig, rig->port, &f);
	CHECK(told_over(rig));
	CHECK(rig_state(rig) == IBV_QPS_ERR);
	pthread_mutex_lock(&iw_cm_lock);
	id->port = NULL;
	id->id.qp = NULL;
	ro_event_purge(id);
	ro_id_free(id);
	pthread_mutex_unlock(&iw_cm_lock);
	iw_destroy_event_channel(channel);
}

/* The helper continues with timers and other ports, and releases the lock, however many messages come. */
static void flood(struct rig *rig)
{
	const struct ro_cm_fields rej = { .kind = RO_CM_REJ, .local_comm = 5, .remote_comm = 6 };
	unsigned int left;

	check_section("a flood of messages");
	pthread_mutex_lock(&iw_cm_lock);
	for (int i = 0; i < 100; i++)
		send_message(rig, rig->other, &rej);
	while (rig->other->cm_head < 100)
		ro_port_visit(rig->other, false);
	ro_cm_receive(rig->other);
	left = rig->other->cm_head - rig->other->cm_tail;
	CHECK(left && left < 100, "(%u are left)", left);
	pthread_mutex_unlock(&iw_cm_lock);
	while (left) {
		pthread_mutex_lock(&iw_cm_lock);
		left = rig->other->cm_head - rig->other->cm_tail;
		pthread_mutex_unlock(&iw_cm_lock);
	}
}

int main(int argc, char **argv)
{
	static struct rig rig;

	check_begin(&argc, argv);
	if (rig_open(&rig)) {
		packet_at_another_port(&rig);
		flood(&rig);
		message_at_another_port(&rig);
	}
	rig_close(&rig);
	return check_report();
}
