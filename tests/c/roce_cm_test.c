/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the connection manager of the embedded RoCEv2 device, with addresses that may be forged. */
#include "roce_cm_rig.h"

#include <sys/resource.h>

/* An address that may not be the peer's gets one answer for each request. */
static void answered_once(struct rig *rig, struct rig_cm *cm)
{
	struct ro_cm_fields f, rtu = { .kind = RO_CM_RTU, .local_comm = PEER_COMM };
	struct ro_id *id, *second;

	check_section("a request is answered once until its address has shown that it receives");
	id = accepted(rig, cm, PEER_QPN);
	if (!id)
		return;
	f = next_message(rig);
	CHECK(f.kind == RO_CM_REP && f.remote_comm == PEER_COMM && f.rnr_retry_count == 5);
	CHECK(f.responder_resources == 2 && f.initiator_depth == 4);
	pthread_mutex_lock(&iw_cm_lock);
	CHECK(id->send_at == UINT64_MAX);
	CHECK(ro_qp(id->id.qp)->rnr_limit == 3 && ro_qp(id->id.qp)->retry_limit == 6);
	CHECK(ro_qp(id->id.qp)->ird == 2 && ro_qp(id->id.qp)->ord == 4);
	pthread_mutex_unlock(&iw_cm_lock);

	send_request(rig, PEER_QPN, PEER_COMM);
	CHECK(next_message(rig).local_comm == f.local_comm, "(a repeated request gets the answer again)");
	send_request(rig, PEER_QPN, PEER_COMM + 1);
	CHECK(next_message(rig).reason == RO_REJ_STALE);

	rtu.remote_comm = f.local_comm;
	send_message(rig, &rtu);
	CHECK(event(cm, RDMA_CM_EVENT_ESTABLISHED) == &id->id);
	second = accepted(rig, cm, PEER_QPN + 1);
	CHECK(next_message(rig).kind == RO_CM_REP);
	pthread_mutex_lock(&iw_cm_lock);
	CHECK(second && second->send_at != UINT64_MAX && list_has(&second->timed));
	pthread_mutex_unlock(&iw_cm_lock);
	if (second)
		ro_destroy_id(&second->id);
	CHECK(next_message(rig).kind == RO_CM_DREQ);
	ro_destroy_id(&id->id);
	do
		f = next_message(rig);
	while (f.kind == RO_CM_DREQ && f.remote_comm == PEER_COMM && f.qpn != PEER_QPN);
	CHECK(f.kind == RO_CM_DREQ && f.qpn == PEER_QPN);
	pthread_mutex_lock(&iw_cm_lock);
	ro_goodbyes_drop();
	pthread_mutex_unlock(&iw_cm_lock);
}

/* A peer that never confirmed a connection is not notified of its end either. */
static void not_told(struct rig *rig, struct rig_cm *cm)
{
	const struct ro_cm_fields f = { .kind = RO_CM_DREQ, .local_comm = 1, .remote_comm = 2 };
	struct ro_id *id;

	check_section("the end of a connection that was not confirmed");
	id = accepted(rig, cm, PEER_QPN + 2);
	CHECK(next_message(rig).kind == RO_CM_REP);
	if (id)
		ro_destroy_id(&id->id);
	send_message(rig, &f);
	CHECK(next_message(rig).kind == RO_CM_DREP, "(and nothing came before it)");
}

/* Unknown peers that do not confirm: one more than are kept, and the first of them is ended. */
static void too_many(struct rig *rig, struct rig_cm *cm)
{
	enum { KEPT = 256 };
	struct ro_id *id[KEPT + 1];

	check_section("connections that unknown peers do not confirm");
	for (uint32_t i = 0; i < KEPT + 1; i++) {
		id[i] = accepted_as(rig, cm, PEER_QPN + 100 + i, PEER_COMM + i);
		if (!id[i])
			return;
		CHECK(next_message(rig).kind == RO_CM_REP);
	}
	CHECK(event(cm, RDMA_CM_EVENT_UNREACHABLE) == &id[0]->id);
	pthread_mutex_lock(&iw_cm_lock);
	CHECK(id[0]->state == RO_ID_ENDED && id[1]->state == RO_ID_REP_SENT && id[KEPT]->state == RO_ID_REP_SENT);
	pthread_mutex_unlock(&iw_cm_lock);
	for (uint32_t i = 0; i < KEPT + 1; i++)
		ro_destroy_id(&id[i]->id);
}

/* The peer no longer waits for an answer, which it has not received. */
static void no_longer_waited_for(struct rig *rig, struct rig_cm *cm)
{
	const struct ro_cm_fields f = { .kind = RO_CM_REJ, .local_comm = PEER_COMM, .reason = RO_REJ_TIMEOUT };
	struct ro_id *id;

	check_section("a peer that no longer waits");
	id = accepted(rig, cm, PEER_QPN + 3);
	CHECK(next_message(rig).kind == RO_CM_REP);
	send_message(rig, &f);
	CHECK(event(cm, RDMA_CM_EVENT_REJECTED) == (id ? &id->id : NULL));
	if (id)
		ro_destroy_id(&id->id);
}

/* An id that asks the rig's peer for a connection. */
static struct ro_id *asks(struct rig *rig, struct rig_cm *cm)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = rig->cq, .recv_cq = rig->cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct sockaddr_in there = rig->peer.in;
	struct rdma_cm_id *id;

	there.sin_port = htons(SERVICE);
	if (!CHECK(!ro_create_id(cm->channel, &id, NULL, RDMA_PS_TCP)))
		return NULL;
	CHECK(!ro_resolve_addr(id, NULL, (struct sockaddr *)&there, 1000) && event(cm, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK(!ro_resolve_route(id, 0) && event(cm, RDMA_CM_EVENT_ROUTE_RESOLVED));
	CHECK(!ro_create_qp(id, rig->pd, &attr) && !ro_connect(id, NULL));
	return (struct ro_id *)id;
}

/* Whether a queue pair expects acknowledgements that it has not asked for. */
static bool expects_acks(struct ro_id *id)
{
	bool expects;

	pthread_mutex_lock(&iw_cm_lock);
	expects = ro_qp(id->id.qp)->acks_unasked;
	pthread_mutex_unlock(&iw_cm_lock);
	return expects;
}

/* A peer of this device is known by its GUID, on both sides of a connection. */
static void known(struct rig *rig, struct rig_cm *cm)
{
	check_section("the device of a peer");
	for (int i = 0; i < 2; i++) {
		struct ro_cm_fields f, rep = {
			.kind = RO_CM_REP, .local_comm = 1000 + (uint32_t)i, .qpn = 2000 + (uint32_t)i, .psn = RIG_PSN,
			.responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7,
		};
		struct ro_id *id;

		foreign = i == 1;
		id = accepted(rig, cm, 3000 + (uint32_t)i);
		if (!id)
			break;
		CHECK(next_message(rig).kind == RO_CM_REP);
		CHECK(expects_acks(id) == !foreign, "(of a request)");
		ro_destroy_id(&id->id);
		id = asks(rig, cm);
		if (!id)
			break;
		f = next_message(rig);
		CHECK(f.kind == RO_CM_REQ && f.same_device);
		rep.remote_comm = f.local_comm;
		send_message_to(rig, id->port, &rep);
		CHECK(event(cm, RDMA_CM_EVENT_ESTABLISHED) == &id->id);
		CHECK(expects_acks(id) == !foreign, "(of an answer)");
		CHECK(next_message(rig).kind == RO_CM_RTU);
		ro_destroy_id(&id->id);
		CHECK(next_message(rig).kind == RO_CM_DREQ);
		pthread_mutex_lock(&iw_cm_lock);
		ro_goodbyes_drop();
		pthread_mutex_unlock(&iw_cm_lock);
	}
	foreign = false;
}

static void refuse(struct rig *rig, struct ro_id *id, uint32_t comm, uint16_t reason)
{
	const struct ro_cm_fields f = {
		.kind = RO_CM_REJ, .local_comm = 5, .remote_comm = comm, .reason = reason,
	};

	send_message_to(rig, id->port, &f);
}

/* Without a listener, the request is refused at once, or repeated for a while if the application requests that. */
static void refused(struct rig *rig, struct rig_cm *cm)
{
	struct iwarp_options old, o;
	struct ro_cm_fields first, second;
	struct ro_id *id;

	check_section("nobody listens");
	id = asks(rig, cm);
	if (!id)
		return;
	refuse(rig, id, next_message(rig).local_comm, RO_REJ_INVALID_SERVICE);
	CHECK(event(cm, RDMA_CM_EVENT_REJECTED) == &id->id);
	ro_destroy_id(&id->id);

	check_section("nobody listens yet");
	iwarp_get_options(&old);
	o = old;
	o.refused_ms = CHECK_PATIENCE_S * 1000;
	iwarp_set_options(&o);
	id = asks(rig, cm);
	iwarp_set_options(&old);
	if (!id)
		return;
	first = next_message(rig);
	refuse(rig, id, first.local_comm, RO_REJ_INVALID_SERVICE);
	refuse(rig, id, first.local_comm, RO_REJ_INVALID_SERVICE);	/* which came twice */
	do
		second = next_message(rig);
	while (second.kind == RO_CM_REQ && second.local_comm == first.local_comm);
	CHECK(second.kind == RO_CM_REQ && second.qpn == first.qpn && second.service_id == first.service_id);
	refuse(rig, id, second.local_comm, RO_REJ_CONSUMER);
	CHECK(event(cm, RDMA_CM_EVENT_REJECTED) == &id->id);
	ro_destroy_id(&id->id);
}

/* Without a response, the peer is told that the request has ended, with the GUID by which it knows the request. */
static void unanswered(struct rig *rig, struct rig_cm *cm)
{
	struct iwarp_options old, o;
	struct ro_cm_fields f;
	struct ro_id *id;
	uint8_t guid[8] = { 0 };

	check_section("nobody answers");
	iwarp_get_options(&old);
	o = old;
	o.handshake_timeout_ms = 100;
	iwarp_set_options(&o);
	id = asks(rig, cm);
	iwarp_set_options(&old);
	if (!id)
		return;
	while ((f = next_message(rig)).kind == RO_CM_REQ)
		memcpy(guid, rig->got + RO_BTH + RO_DETH + 24 + 16, sizeof(guid));
	CHECK(f.kind == RO_CM_REJ && f.reason == RO_REJ_TIMEOUT && !f.remote_comm && f.about == 2, "(%x, %u)",
	      (unsigned int)f.kind, (unsigned int)f.reason);
	CHECK(rig->got[RO_BTH + RO_DETH + 24 + 9] == 16);
	CHECK(!memcmp(rig->got + RO_BTH + RO_DETH + 24 + 12, guid, sizeof(guid)));
	CHECK(event(cm, RDMA_CM_EVENT_UNREACHABLE) == &id->id);
	ro_destroy_id(&id->id);

	check_section("the application does not wait for the answer");
	id = asks(rig, cm);
	if (!id)
		return;
	CHECK(next_message(rig).kind == RO_CM_REQ);
	ro_destroy_id(&id->id);
	while ((f = next_message(rig)).kind == RO_CM_REQ)
		;
	CHECK(f.kind == RO_CM_REJ && f.reason == RO_REJ_TIMEOUT);
}

/* No descriptor is left for the second address: the first address's objects are released. */
static void listen_fails(struct rig_cm *cm)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(SERVICE + 1) };
	struct rlimit old, tight;
	struct rdma_cm_id *id;
	unsigned int before = 0, after = 0;
	int fd, rc;

	check_section("a wildcard listen that fails leaves nothing");
	for (struct list_link *link = ro_ports.head; link; link = link->next)
		before++;
	if (!CHECK(!ro_create_id(cm->channel, &id, NULL, RDMA_PS_TCP) && !ro_bind_addr(id, (struct sockaddr *)&any)))
		return;
	fd = dup(0);
	close(fd);
	getrlimit(RLIMIT_NOFILE, &old);
	for (int more = 0; more < 2; more++) {
		tight = (struct rlimit){ (rlim_t)fd + (rlim_t)more, old.rlim_max };
		setrlimit(RLIMIT_NOFILE, &tight);
		rc = ro_listen(id, 1);
		setrlimit(RLIMIT_NOFILE, &old);
		if (!rc)	/* this machine has one address only */
			break;
		CHECK(!((struct ro_id *)id)->ports && !((struct ro_id *)id)->nports);
	}
	CHECK(rc || fd >= 0);
	ro_destroy_id(id);
	for (struct list_link *link = ro_ports.head; link; link = link->next)
		after++;
	CHECK(before == after, "(%u ports, then %u)", before, after);
}

int main(int argc, char **argv)
{
	static struct rig rig;
	struct rig_cm cm;

	check_begin(&argc, argv);
	if (rig_open(&rig)) {
		if (rig_listens(&rig, &cm)) {
			answered_once(&rig, &cm);
			not_told(&rig, &cm);
			too_many(&rig, &cm);
			no_longer_waited_for(&rig, &cm);
			known(&rig, &cm);
			refused(&rig, &cm);
			unanswered(&rig, &cm);
			listen_fails(&cm);
		}
		rig_listens_no_more(&cm);
	}
	rig_close(&rig);
	return check_report();
}
