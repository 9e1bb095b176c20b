/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect, accept, reject, disconnect: the application's part of a connection's life cycle, on its threads under
 * iw_cm_lock.  The helper's part is cm_handshake.c.
 */
#include "cm.h"
#include "stats.h"
#include "capture/capture.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

static int connect_fail(int e)
{
	errno = e;
	return -1;
}

/* The socket now belongs to the queue pair. */
bool iw_id_establish(struct iw_id *id)
{
	struct iw_qp *qp = iw_qp(id->id.qp);
	int fd = id->fd;
	bool initiator = id->state == IW_ID_SETTLING;

	iw_id_deadline(id, 0);
	if (id->polled)
		iw_helper_poll(EPOLL_CTL_DEL, fd, 0, NULL);
	id->polled = false;
	/* in the meantime the application may have destroyed it, or put it into the error state */
	if (!qp || atomic_load(&qp->state) != IBV_QPS_INIT)
		return false;
	if (iw_qp_start(qp, fd, id->crc, initiator, id->ird, id->ord)) {
		if (qp->stream.fd == fd)
			qp->stream.fd = -1;
		return false;
	}
	id->fd = -1;
	if (iw_watch_start(qp)) {
		/* the kernel has no memory to watch its socket: the connection is unusable */
		iw_qp_detach(qp);
		iw_lock(&qp->lock);
		qp->stream.fd = -1;
		iw_qp_fail(qp, TERM_NONE, NULL, "the connection could not be watched");
		iw_unlock(&qp->lock);
		close(fd);
		return false;
	}
	iw_reset_unless_lingering(fd);
	iw_stats.handshakes++;
	id->state = IW_ID_CONNECTED;
	return true;
}

static void connect_depths(struct iw_id *id, const struct rdma_conn_param *param)
{
	id->ird = param ? param->responder_resources : IW_MAX_IRD;
	id->ord = param ? param->initiator_depth : IW_MAX_IRD;
	if (id->ird > IW_MAX_IRD)
		id->ird = IW_MAX_IRD;
	if (id->ord > IW_MAX_IRD)
		id->ord = IW_MAX_IRD;
}

/* The request is built now, because the private data belongs to the caller; it is sent when TCP is connected. */
static void connect_request(struct iw_id *id, const struct rdma_conn_param *param)
{
	struct iwarp_options o;
	struct iw_mpa m = { 0 };

	iwarp_get_options(&o);
	id->revision = m.revision = o.mpa_revision == 1 ? 1 : 2;
	id->enhanced = m.enhanced = m.revision == 2;
	id->crc = m.crc = o.crc;
	m.ird_word = id->ird;
	m.ord_word = id->ord;
	if (param && param->private_data) {
		m.pd = param->private_data;
		m.pd_len = param->private_data_len;
		if (m.enhanced && m.pd_len > MPA_PD_SENT - MPA_V2_LEN)
			m.pd_len = MPA_PD_SENT - MPA_V2_LEN;
	}
	id->mpa_have = iw_mpa_put(id->mpa, &m);
}

/* Connect the id's socket; an immediate failure is reported by an event, like a later one. */
static int connect_tcp(struct iw_id *id, uint64_t patience_ns)
{
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;

	id->err = 0;
	iw_congestion_path(id->fd, &id->id.route.addr.src_addr, dst, "");
	if (connect(id->fd, dst, iw_sa_len(dst)) && errno != EINPROGRESS)
		id->err = errno;
	if (!id->err && iw_helper_poll(EPOLL_CTL_ADD, id->fd, EPOLLOUT, &id->source))
		return -1;
	id->polled = !id->err;
	id->state = IW_ID_CONNECTING;
	iw_id_deadline(id, id->err ? 1 : patience_ns);
	return 0;
}

/* Connect a new socket, whose address is that of the former one. */
static bool dial(struct iw_id *id, uint64_t patience_ns)
{
	struct sockaddr_storage src = id->id.route.addr.src_storage;

	id->fd = iw_id_socket(id, id->id.route.addr.dst_addr.sa_family);
	if (id->fd < 0)
		return false;
	if (id->bound) {
		/* the same address, but any port: the peer may still have its end of the former connection */
		if (src.ss_family == AF_INET)
			((struct sockaddr_in *)&src)->sin_port = 0;
		else
			((struct sockaddr_in6 *)&src)->sin6_port = 0;
		if (bind(id->fd, (struct sockaddr *)&src, iw_sa_len((struct sockaddr *)&src)))
			return false;
	}
	return !connect_tcp(id, patience_ns);
}

bool iw_id_redial(struct iw_id *id)
{
	return dial(id, id->patience_ms * 1000000ull);
}

bool iw_id_again(struct iw_id *id)
{
	uint64_t now = clock_ns(), left = id->deadline > now ? id->deadline - now : 1;
	uint8_t frame[MPA_FRAME_MAX];
	struct iw_mpa m;
	const char *why;
	uint32_t need;

	/* the request is still in mpa: no data was received over it */
	if (!id->enhanced || iw_mpa_get(id->mpa, sizeof(id->mpa), false, &m, &need, &why) <= 0)
		return false;
	m.revision = 1;
	m.enhanced = false;
	id->mpa_have = iw_mpa_put(frame, &m);
	memcpy(id->mpa, frame, id->mpa_have);
	id->revision = 1;
	id->enhanced = false;
	id->again = true;
	iw_id_close(id);
	return dial(id, left);
}

int iw_connect(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct iw_id *id = (struct iw_id *)rid;
	const struct sockaddr *dst = &rid->route.addr.dst_addr;
	struct iwarp_options o;
	int rc = -1;

	iwarp_get_options(&o);
	pthread_mutex_lock(&iw_cm_lock);
	if ((id->state != IW_ID_ADDR && id->state != IW_ID_ROUTE) || !rid->qp) {
		errno = EINVAL;
		goto out;
	}
	if (param && param->private_data_len && !param->private_data) {
		errno = EINVAL;
		goto out;
	}
	if (id->fd < 0) {
		id->fd = iw_id_socket(id, dst->sa_family);
		if (id->fd < 0)
			goto out;
	}
	connect_depths(id, param);
	connect_request(id, param);
	if (id->patience_ms < o.handshake_timeout_ms)
		id->patience_ms = o.handshake_timeout_ms;
	id->refused_until = clock_ns() + o.refused_ms * 1000000ull;
	if (connect_tcp(id, id->patience_ms * 1000000ull))
		goto out;
	iw_helper_kick();
	rc = 0;
out:
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

/* siw's choice: a WRITE if the peer supports it, otherwise a READ; a zero-length Send is not offered. */
static void reply_rtr(const struct iw_mpa *req, struct iw_mpa *rep)
{
	if (!(req->ird_word & MPA_IRD_PEER_TO_PEER))
		return;
	rep->ird_word |= MPA_IRD_PEER_TO_PEER;
	if (req->ord_word & MPA_ORD_WRITE_RTR)
		rep->ord_word |= MPA_ORD_WRITE_RTR;
	else if (req->ord_word & MPA_ORD_READ_RTR)
		rep->ord_word |= MPA_ORD_READ_RTR;
}

static uint16_t reply_depth(uint16_t asked, uint16_t ours)
{
	return (asked & MPA_DEPTH_MASK) == MPA_DEPTH_OPEN ? (uint16_t)MPA_DEPTH_OPEN : ours;
}

static int reply_send(struct iw_id *id, bool reject, const void *pd, uint16_t pd_len)
{
	uint8_t buf[MPA_FRAME_MAX];
	struct iw_mpa m = {
		.reply = true,
		.reject = reject,
		.crc = id->crc,
		.enhanced = id->enhanced,
		.revision = id->revision,
		.pd = pd,
		.pd_len = pd ? pd_len : 0,
	};

	if (m.enhanced) {
		if (m.pd_len > MPA_PD_SENT - MPA_V2_LEN)
			m.pd_len = MPA_PD_SENT - MPA_V2_LEN;
		/* if the peer does not negotiate a depth, neither do we */
		m.ird_word = reply_depth(id->peer.ord_word, id->ird);
		m.ord_word = reply_depth(id->peer.ird_word, id->ord);
		if (!reject)
			reply_rtr(&id->peer, &m);
	}

	uint32_t len = iw_mpa_put(buf, &m);

	/* the socket is new and empty: a frame this short is sent completely, or the connection is lost */
	if (send(id->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_EOR) != (ssize_t)len)
		return errno ? errno : ECONNRESET;
	if (capture_on())
		capture_bytes(id->fd, true, buf, len);
	return 0;
}

int iw_accept(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct iw_id *id = (struct iw_id *)rid;
	int e = 0;

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state != IW_ID_REQUESTED || !rid->qp ||
	    atomic_load(&iw_qp(rid->qp)->state) != IBV_QPS_INIT) {
		pthread_mutex_unlock(&iw_cm_lock);
		return connect_fail(EINVAL);
	}

	uint16_t peer_ird = id->ird, peer_ord = id->ord;

	connect_depths(id, param);
	if (id->enhanced) {
		/* resources cost little here: the peer gets as many READs as it intends to have open */
		if (id->ird < peer_ord)
			id->ird = peer_ord > IW_MAX_IRD ? IW_MAX_IRD : peer_ord;
		if (id->ord > peer_ird)
			id->ord = peer_ird;
	}
	iw_id_left_request(id);
	e = reply_send(id, false, param ? param->private_data : NULL,
		       param ? param->private_data_len : 0);
	if (!e && !iw_id_establish(id))
		e = errno ? errno : ENOMEM;
	if (e) {
		iw_id_close(id);
		id->state = IW_ID_ENDED;
	} else {
		iw_event_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return e ? connect_fail(e) : 0;
}

int iw_reject(struct rdma_cm_id *rid, const void *private_data, uint8_t len)
{
	struct iw_id *id = (struct iw_id *)rid;
	int e;

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state != IW_ID_REQUESTED) {
		pthread_mutex_unlock(&iw_cm_lock);
		return connect_fail(EINVAL);
	}
	iw_id_left_request(id);
	iw_stats.rejected++;
	e = reply_send(id, true, private_data, len);
	if (!e)
		iw_linger(id->fd, NULL, 0);
	else
		close(id->fd);
	id->fd = -1;
	id->state = IW_ID_ENDED;
	pthread_mutex_unlock(&iw_cm_lock);
	return e ? connect_fail(e) : 0;
}

int iw_disconnect(struct rdma_cm_id *rid)
{
	struct iw_id *id = (struct iw_id *)rid;
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	switch (id->state) {
	case IW_ID_CONNECTED:
		if (rid->qp) {
			struct iw_qp *qp = iw_qp(rid->qp);

			iw_lock(&qp->lock);
			iw_qp_fail(qp, TERM_NONE, NULL, "this side disconnected");
			iw_unlock(&qp->lock);
			iw_reap(qp);
		}
		id->state = IW_ID_ENDED;
		iw_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	case IW_ID_CONNECTING:
	case IW_ID_REPLY_WAIT:
	case IW_ID_SETTLING:
		iw_id_close(id);
		id->state = IW_ID_ENDED;
		break;
	case IW_ID_ENDED:
		break;
	default:
		rc = connect_fail(EINVAL);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}
