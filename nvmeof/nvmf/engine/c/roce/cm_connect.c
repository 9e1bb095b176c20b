/* SPDX-License-Identifier: BSD-3-Clause */
/* connect, accept, reject, disconnect: the application's part of a connection's life cycle, under iw_cm_lock. */
#include "cm.h"
#include "stats.h"
#include "util/clock.h"

static int connect_fail(int e)
{
	errno = e;
	return -1;
}

uint64_t ro_patience_ns(const struct ro_id *id)
{
	struct iwarp_options o;

	iwarp_get_options(&o);
	return 1000000ull * (id->patience_ms > o.handshake_timeout_ms ? id->patience_ms : o.handshake_timeout_ms);
}

static uint64_t refused_ns(void)
{
	struct iwarp_options o;

	iwarp_get_options(&o);
	return 1000000ull * o.refused_ms;
}

static void connect_depths(struct ro_id *id, const struct rdma_conn_param *param)
{
	id->ird = param && param->responder_resources < RO_MAX_RD ? param->responder_resources : RO_MAX_RD;
	id->ord = param && param->initiator_depth < RO_MAX_RD ? param->initiator_depth : RO_MAX_RD;
	id->retry_limit = param ? param->retry_count & 7 : 7;
	id->rnr_limit = param ? param->rnr_retry_count & 7 : 7;
}

static uint32_t private_len(const struct rdma_conn_param *param, uint32_t max)
{
	return !param || !param->private_data ? 0 : param->private_data_len < max ? param->private_data_len : max;
}

int ro_connect(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct ro_id *id = (struct ro_id *)rid;
	struct ro_cm_fields f = { .kind = RO_CM_REQ };
	uint16_t port;

	if (param && param->private_data_len && !param->private_data)
		return connect_fail(EINVAL);
	pthread_mutex_lock(&iw_cm_lock);
	if ((id->state != RO_ID_ADDR && id->state != RO_ID_ROUTE) || !rid->qp ||
	    ro_qp_state(ro_qp(rid->qp)) != IBV_QPS_INIT) {
		pthread_mutex_unlock(&iw_cm_lock);
		return connect_fail(EINVAL);
	}
	connect_depths(id, param);
	ro_id_number(id);
	id->psn = iw_random32() & RO_MASK24;
	id->mtu = ro_port_path_mtu(id->port, &id->peer);
	port = ntohs(id->peer.sa.sa_family == AF_INET ? id->peer.in.sin_port : id->peer.in6.sin6_port);
	f.local_comm = id->local_comm;
	f.qpn = rid->qp->qp_num;
	f.psn = id->psn;
	f.mtu = id->mtu;
	f.service_id = ro_service_id(port);
	f.responder_resources = (uint8_t)id->ird;
	f.initiator_depth = (uint8_t)id->ord;
	f.retry_count = (uint8_t)id->retry_limit;
	f.rnr_retry_count = (uint8_t)id->rnr_limit;
	ro_addr_set(&f.src, &rid->route.addr.src_addr);
	f.dst = id->peer;
	f.data_len = private_len(param, RO_REQ_USER);
	f.data = param ? param->private_data : NULL;
	ro_cm_put(id->mad, &f);
	id->state = RO_ID_REQ_SENT;
	id->refused_until = clock_ns() + refused_ns();
	ro_id_say(id, ro_patience_ns(id), true);
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

static int accept_start(struct ro_id *id)
{
	const struct ro_cm_fields *q = &id->request;
	const struct ro_path path = {
		.port = id->port, .peer = id->peer, .dqpn = q->qpn, .mtu = id->mtu, .psn = q->psn,
		.epsn = id->psn, .ird = id->ird, .ord = id->ord, .retry_limit = q->retry_count,
		.rnr_limit = q->rnr_retry_count, .acks_unasked = q->same_device,
	};

	return ro_qp_start(ro_qp(id->id.qp), &path);
}

int ro_accept(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct ro_id *id = (struct ro_id *)rid;
	struct ro_cm_fields f = { .kind = RO_CM_REP };

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state != RO_ID_REQUESTED || !rid->qp || ro_qp_state(ro_qp(rid->qp)) != IBV_QPS_INIT) {
		pthread_mutex_unlock(&iw_cm_lock);
		return connect_fail(EINVAL);
	}
	connect_depths(id, param);
	if (id->ord > id->request.responder_resources)
		id->ord = id->request.responder_resources;
	id->psn = iw_random32() & RO_MASK24;
	ro_id_left_request(id);
	if (accept_start(id)) {
		const int e = errno;

		id->state = RO_ID_ENDED;
		pthread_mutex_unlock(&iw_cm_lock);
		return connect_fail(e);
	}
	f.local_comm = id->local_comm;
	f.remote_comm = id->remote_comm;
	f.qpn = rid->qp->qp_num;
	f.psn = id->psn;
	f.responder_resources = (uint8_t)id->ird;
	f.initiator_depth = (uint8_t)id->ord;
	f.rnr_retry_count = (uint8_t)id->rnr_limit;
	f.data_len = private_len(param, RO_REP_DATA);
	f.data = param ? param->private_data : NULL;
	ro_cm_put(id->mad, &f);
	id->state = RO_ID_REP_SENT;
	/* the address of a request may be forged: one answer for each, until the address has proved that it receives */
	ro_id_say(id, ro_patience_ns(id), ro_addr_receives(id->port, &id->peer));
	ro_ids_limit();
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

int ro_reject(struct rdma_cm_id *rid, const void *private_data, uint8_t len)
{
	struct ro_id *id = (struct ro_id *)rid;
	struct ro_cm_fields f = { .kind = RO_CM_REJ, .reason = RO_REJ_CONSUMER };
	uint8_t mad[RO_MAD];

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state != RO_ID_REQUESTED) {
		pthread_mutex_unlock(&iw_cm_lock);
		return connect_fail(EINVAL);
	}
	ro_id_left_request(id);
	iw_stats.rejected++;
	f.local_comm = id->local_comm;
	f.remote_comm = id->remote_comm;
	f.data = private_data;
	f.data_len = !private_data ? 0 : len < RO_REJ_DATA ? len : RO_REJ_DATA;
	ro_cm_put(mad, &f);
	ro_port_send_mad(id->port, &id->peer, mad);
	id->state = RO_ID_ENDED;
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

int ro_disconnect(struct rdma_cm_id *rid)
{
	struct ro_id *id = (struct ro_id *)rid;
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	switch (id->state) {
	case RO_ID_CONNECTED:
	case RO_ID_REP_SENT:
		ro_id_end(id, "this side disconnected", true);
		id->state = RO_ID_ENDED;
		ro_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	case RO_ID_REQ_SENT:
		ro_id_quiet(id);
		ro_id_gave_up(id);
		id->state = RO_ID_ENDED;
		break;
	case RO_ID_ENDED:
		break;
	default:
		rc = connect_fail(EINVAL);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}
