/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs without an id, which the application connects by modify_qp, with numbers and addresses that it exchanged
 * by other means; and modify_qp of queue pairs with an id.  Under iw_cm_lock.
 */
#include "cm.h"

enum {
	RTR_NEEDS = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		    IBV_QP_MIN_RNR_TIMER,
	RTS_NEEDS = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	INIT_NEEDS = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
};

/* The queue pair has ended by itself, or waits for an acknowledgement. */
static void bare_called(struct iw_caller *caller)
{
	struct ro_qp *qp = container_of(caller, struct ro_qp, caller);

	if (atomic_load(&qp->ended))
		ro_qp_reap(qp);
	else
		ro_tick_start(qp);
}

struct ibv_qp *ro_bare_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ro_qp *qp = NULL;

	pthread_mutex_lock(&iw_cm_lock);
	if (!ro_cm_use(1)) {
		qp = ro_qp_create(pd, attr);
		if (!qp)
			ro_cm_use(-1);
	}
	if (qp) {
		qp->caller.answer = bare_called;
		ro_qp_set_state(qp, IBV_QPS_RESET);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return qp ? &qp->qp : NULL;
}

int ro_bare_destroy(struct ibv_qp *ibqp)
{
	struct ro_qp *qp = ro_qp(ibqp);
	struct rdma_cm_id *id = qp->owner;

	if (id) {
		ro_destroy_qp(id);
		return 0;
	}
	pthread_mutex_lock(&iw_cm_lock);
	iw_lock(&qp->lock);
	ro_qp_fail(qp, "this side destroyed the queue pair");
	iw_unlock(&qp->lock);
	ro_qp_reap(qp);
	iw_cq_forget(iw_cq(ibqp->send_cq), ibqp->qp_num);
	iw_cq_forget(iw_cq(ibqp->recv_cq), ibqp->qp_num);
	ro_qp_free(qp);
	ro_cm_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	return 0;
}

void ro_bare_release(struct rdma_cm_id *rid)
{
	struct ro_id *id = (struct ro_id *)rid;

	pthread_mutex_lock(&iw_cm_lock);
	if (rid->qp) {
		struct ro_qp *qp = ro_qp(rid->qp);

		ro_id_end(id, "this side destroyed the id", true);
		if (id->state == RO_ID_CONNECTED || id->state == RO_ID_REP_SENT)
			id->state = RO_ID_ENDED;
		rid->qp = NULL;
		qp->owner = NULL;
		qp->caller.answer = bare_called;
		ro_cm_use(1);	/* an id counts as well, so the helper runs and this cannot fail */
	}
	pthread_mutex_unlock(&iw_cm_lock);
}

/* RESET to INIT. */
static int to_init(struct ro_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if ((mask & INIT_NEEDS) != INIT_NEEDS || attr->port_num != 1 || attr->pkey_index)
		return EINVAL;
	qp->access = (int)attr->qp_access_flags;
	ro_qp_set_state(qp, IBV_QPS_INIT);
	return 0;
}

/* INIT to RTR: it begins to receive. */
static int to_rtr(struct ro_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ro_path path = { .dqpn = attr->dest_qp_num & RO_MASK24, .epsn = attr->rq_psn & RO_MASK24,
				.ird = attr->max_dest_rd_atomic, .receives = true };
	union ro_addr from;
	int rc;

	if ((mask & RTR_NEEDS) != RTR_NEEDS || attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096 ||
	    !attr->ah_attr.is_global || !ro_gid_get(&attr->ah_attr.grh.dgid, &path.peer))
		return EINVAL;
	rc = ro_gid_address(attr->ah_attr.grh.sgid_index, &from);
	if (rc)
		return rc;
	if (from.sa.sa_family != path.peer.sa.sa_family)
		return EINVAL;
	pthread_mutex_lock(&iw_cm_lock);
	path.port = ro_port_get(&from, &ro_cm_calls);
	path.mtu = 128u << attr->path_mtu;
	if (!path.port)
		rc = errno;
	else if (path.mtu > ro_port_path_mtu(path.port, &path.peer))
		rc = EINVAL;
	else if (ro_qp_start(qp, &path))
		rc = errno;
	if (path.port)
		ro_port_put(path.port);
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

/* RTR to RTS: it begins to send. */
static int to_rts(struct ro_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int rc = 0;

	if ((mask & RTS_NEEDS) != RTS_NEEDS)
		return EINVAL;
	iw_lock(&qp->lock);
	if (ro_qp_state(qp) == IBV_QPS_RTR)
		ro_qp_sends(qp, attr->sq_psn & RO_MASK24, attr->max_rd_atomic, attr->retry_cnt, attr->rnr_retry);
	else
		rc = EINVAL;	/* it has just ended */
	iw_unlock(&qp->lock);
	return rc;
}

static int bare_modify(struct ro_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const enum ibv_qp_state from = (enum ibv_qp_state)ro_qp_state(qp);
	int rc = EINVAL;

	if (attr->qp_state == IBV_QPS_INIT && from == IBV_QPS_RESET) {
		rc = to_init(qp, attr, mask);
	} else if (attr->qp_state == IBV_QPS_RTR && from == IBV_QPS_INIT) {
		rc = to_rtr(qp, attr, mask);
	} else if (attr->qp_state == IBV_QPS_RTS && from == IBV_QPS_RTR) {
		rc = to_rts(qp, attr, mask);
	} else if (attr->qp_state == from) {
		rc = 0;
	}
	return rc;
}

int ro_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct ro_qp *qp = ro_qp(ibqp);

	if (!(mask & IBV_QP_STATE))
		return mask ? EOPNOTSUPP : 0;
	if (attr->qp_state != IBV_QPS_ERR) {
		if (!qp->owner)
			return bare_modify(qp, attr, mask);
		/* the CM makes all the other transitions */
		return (int)attr->qp_state == ro_qp_state(qp) ? 0 : EINVAL;
	}
	iw_lock(&qp->lock);
	ro_qp_fail(qp, "this side put the queue pair into the error state");
	iw_unlock(&qp->lock);
	return 0;
}
