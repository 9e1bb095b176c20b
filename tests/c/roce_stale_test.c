/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a queue pair that has a connection already, which its system may have forgotten. */
#include "roce_cm_rig.h"

/* A connected queue pair asks for a connection: its system may have restarted.  Returns the REP that asks the peer. */
static struct ro_cm_fields asks_anew(struct rig *rig, uint32_t qpn, uint32_t comm, const struct ro_id *old)
{
	struct ro_cm_fields f;

	send_request(rig, qpn, comm);
	f = next_message(rig);
	CHECK(f.kind == RO_CM_REP && f.local_comm == old->local_comm && f.remote_comm == old->remote_comm, "(%x)",
	      (unsigned int)f.kind);
	return f;
}

/* The old connection has ended, and the new one is accepted. */
static void replaced(struct rig *rig, struct rig_cm *cm, struct ro_id *old, uint32_t comm)
{
	struct ro_cm_fields f;
	struct ro_id *id;

	if (old)
		CHECK(event(cm, RDMA_CM_EVENT_DISCONNECTED) == &old->id);
	id = accepts(rig, cm);
	if (!id)
		return;
	do
		f = next_message(rig);
	while (f.kind == RO_CM_DREQ);
	CHECK(f.kind == RO_CM_REP && f.remote_comm == comm, "(%x, %u)", (unsigned int)f.kind, f.remote_comm);
	ro_destroy_id(&id->id);
	if (old)
		ro_destroy_id(&old->id);
	pthread_mutex_lock(&iw_cm_lock);
	ro_goodbyes_drop();
	pthread_mutex_unlock(&iw_cm_lock);
}

static struct ro_id *connected(struct rig *rig, struct rig_cm *cm, uint32_t qpn)
{
	struct ro_cm_fields rtu = { .kind = RO_CM_RTU, .local_comm = PEER_COMM };
	struct ro_id *id = accepted(rig, cm, qpn);

	rtu.remote_comm = next_message(rig).local_comm;
	send_message(rig, &rtu);
	return id && CHECK(event(cm, RDMA_CM_EVENT_ESTABLISHED) == &id->id) ? id : NULL;
}

static void still_connected(const struct ro_id *id)
{
	pthread_mutex_lock(&iw_cm_lock);
	CHECK(id->state == RO_ID_CONNECTED && ro_qp_state(ro_qp(id->id.qp)) == IBV_QPS_RTS);
	pthread_mutex_unlock(&iw_cm_lock);
}

static void restarted(struct rig *rig, struct rig_cm *cm)
{
	enum { QPN = PEER_QPN + 40, COMM = PEER_COMM + 40 };
	struct ro_cm_fields f, rtu = { .kind = RO_CM_RTU, .local_comm = PEER_COMM }, rej = {
		.kind = RO_CM_REJ, .local_comm = PEER_COMM, .reason = RO_REJ_INVALID_COMM_ID, .about = 1,
	};
	struct ro_id *id;

	check_section("a request of a connected queue pair: the peer has the connection");
	id = connected(rig, cm, QPN);
	if (!id)
		return;
	rtu.remote_comm = asks_anew(rig, QPN, COMM, id).local_comm;
	send_message(rig, &rtu);
	f = next_message(rig);
	CHECK(f.kind == RO_CM_REJ && f.reason == RO_REJ_STALE && f.remote_comm == COMM, "(%x, %u)", (unsigned int)f.kind,
	      f.reason);
	still_connected(id);

	check_section("the peer does not know the connection");
	f = asks_anew(rig, QPN, COMM + 1, id);
	rej.remote_comm = f.local_comm;
	send_message(rig, &rej);
	replaced(rig, cm, id, COMM + 1);

	check_section("the peer does not answer");
	id = connected(rig, cm, QPN);
	if (!id)
		return;
	asks_anew(rig, QPN, COMM + 2, id);
	send_request(rig, QPN, COMM + 2);	/* repeated: no answer */
	send_request(rig, QPN, COMM + 3);
	while ((f = next_message(rig)).kind == RO_CM_REP)
		;
	CHECK(f.kind == RO_CM_REJ && f.reason == RO_REJ_STALE && f.remote_comm == COMM + 3, "(one at a time)");
	while ((f = next_message(rig)).kind == RO_CM_REP)
		;
	CHECK(f.kind == RO_CM_DREQ && f.remote_comm == PEER_COMM && f.qpn == QPN, "(%x)", (unsigned int)f.kind);
	replaced(rig, cm, id, COMM + 2);

	check_section("the application ends the connection meanwhile");
	id = connected(rig, cm, QPN);
	if (!id)
		return;
	asks_anew(rig, QPN, COMM + 4, id);
	ro_destroy_id(&id->id);
	replaced(rig, cm, NULL, COMM + 4);
}

/* Others send so many messages that the peer's answer finds no room. */
static void answer_is_lost(struct rig *rig, const struct ro_cm_fields *rtu)
{
	const struct ro_cm_fields stray = { .kind = RO_CM_DREP, .local_comm = 1, .remote_comm = 2 };

	pthread_mutex_lock(&iw_cm_lock);	/* the helper takes none of them */
	for (int i = 0; i < RO_CM_QUEUE + RO_BATCH; i++) {
		send_message(rig, i < RO_CM_QUEUE ? &stray : rtu);
		iw_cq_progress(iw_cq(rig->cq), false);
	}
	for (int i = 0; i < RO_BATCH; i++)
		iw_cq_progress(iw_cq(rig->cq), false);
	pthread_mutex_unlock(&iw_cm_lock);
}

static void flooded(struct rig *rig, struct rig_cm *cm)
{
	enum { QPN = PEER_QPN + 50, COMM = PEER_COMM + 50, TRIES = 4 };
	struct ro_cm_fields f, rtu = { .kind = RO_CM_RTU, .local_comm = PEER_COMM };
	struct ro_id *id;

	check_section("the peer has the connection, but its answers are lost in a flood");
	id = connected(rig, cm, QPN);
	if (!id)
		return;
	f = asks_anew(rig, QPN, COMM, id);
	rtu.remote_comm = f.local_comm;
	for (int i = 0; i < TRIES && f.kind == RO_CM_REP; i++) {
		answer_is_lost(rig, &rtu);
		f = next_message(rig);
	}
	CHECK(f.kind == RO_CM_REP && f.local_comm == id->local_comm, "(asked again: %x)", (unsigned int)f.kind);
	send_message(rig, &rtu);
	f = next_message(rig);
	CHECK(f.kind == RO_CM_REJ && f.reason == RO_REJ_STALE && f.remote_comm == COMM, "(%x)", (unsigned int)f.kind);
	still_connected(id);
	ro_destroy_id(&id->id);
}

int main(int argc, char **argv)
{
	static struct rig rig;
	struct rig_cm cm;

	check_begin(&argc, argv);
	if (rig_open(&rig)) {
		if (rig_listens(&rig, &cm)) {
			restarted(&rig, &cm);
			flooded(&rig, &cm);
		}
		rig_listens_no_more(&cm);
	}
	rig_close(&rig);
	return check_report();
}
