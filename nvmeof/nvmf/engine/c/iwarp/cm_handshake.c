/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake, driven by sockets and deadlines: listeners that accept, incoming requests, requests that are sent
 * when TCP is connected, replies.  Runs on the helper, under iw_cm_lock.
 */
#include "cm.h"
#include "stats.h"
#include "terminate.h"
#include "capture/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	HALF_OPEN_MAX = 256,		/* of a listener: connections without a complete request */
	ACCEPTS = 64,			/* in a row, before other sockets are served */
	PAUSE_MS = 100,			/* pause of a listener if the process has no free descriptors */
	REDIAL_MS = 20,			/* before a refused connection is attempted again */
};

static uint64_t handshake_timeout_ns(void)
{
	struct iwarp_options o;

	iwarp_get_options(&o);
	return o.handshake_timeout_ms * 1000000ull;
}

/* ---- incoming ---- */

static void incoming_refuse(struct iw_id *id, const char *why)
{
	iw_refused(&id->id.route.addr.dst_addr, why);
	iw_id_free(id);
}

/* Make room for a new connection: the one that has been silent for the longest time is closed. */
static void incoming_drop_oldest(struct iw_id *listener)
{
	for (struct iw_id *id = iw_timers[IW_ID_REQUEST_WAIT].first; id; id = id->timed_next) {
		if (id->listener == listener) {
			incoming_refuse(id, "too many connections without an MPA request");
			return;
		}
	}
}

static void incoming_new(struct iw_id *listener, int fd)
{
	if (listener->half_open >= HALF_OPEN_MAX)
		incoming_drop_oldest(listener);

	struct iw_id *id = iw_id_new(listener->id.channel, listener->id.context, listener->id.ps);

	if (!id) {
		close(fd);
		return;
	}
	id->fd = fd;
	id->id.verbs = &iw_dev.ext.context;
	id->id.port_num = 1;
	iw_id_names(id, fd);
	iw_congestion_path(fd, &id->id.route.addr.src_addr, &id->id.route.addr.dst_addr,
			   listener->congestion);
	id->state = IW_ID_REQUEST_WAIT;
	id->listener = listener;
	listener->half_open++;
	if (iw_tune_socket(fd) || iw_helper_poll(EPOLL_CTL_ADD, fd, EPOLLIN, &id->source)) {
		iw_id_free(id);
		return;
	}
	id->polled = true;
	iw_id_deadline(id, handshake_timeout_ns());
}

static void incoming_accept(struct iw_id *id)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(id->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			incoming_new(id, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			/* the connection stays in the queue and would wake the helper repeatedly */
			iw_helper_poll(EPOLL_CTL_DEL, id->fd, 0, NULL);
			id->polled = false;
			iw_id_deadline(id, PAUSE_MS * 1000000ull);
			return;
		}
		if (errno == EAGAIN || errno == EINVAL)
			return;
	}
}

static void incoming_request(struct iw_id *id)
{
	struct iw_id *listener = id->listener;
	struct iwarp_options o;

	if (listener->pending >= listener->backlog) {
		incoming_refuse(id, "the application does not keep up with connection requests");
		return;
	}
	iwarp_get_options(&o);
	id->revision = id->peer.revision;
	id->enhanced = id->peer.enhanced;
	id->crc = id->peer.crc || o.crc;
	id->ird = id->enhanced ? iw_mpa_depth(id->peer.ird_word) : IW_MAX_IRD;
	id->ord = id->enhanced ? iw_mpa_depth(id->peer.ord_word) : IW_MAX_IRD;
	iw_id_deadline(id, 0);
	iw_helper_poll(EPOLL_CTL_DEL, id->fd, 0, NULL);
	id->polled = false;
	listener->half_open--;
	listener->pending++;
	id->state = IW_ID_REQUESTED;
	iw_cm_use(1);	/* counts as an id from here on */
	iw_event_post(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &id->peer);
}

/*
 * Read exactly the frame: data after it belongs to the queue pair.  1 if it is complete, 0 if more is to come, -1
 * with the reason.
 */
static int handshake_read(struct iw_id *id, bool reply, const char **why)
{
	for (;;) {
		uint32_t need;
		int r = iw_mpa_get(id->mpa, id->mpa_have, reply, &id->peer, &need, why);

		if (r)
			return r < 0 ? -1 : 1;

		ssize_t n = recv(id->fd, id->mpa + id->mpa_have, need - id->mpa_have, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			*why = reply ? "the connection was closed instead of answered" :
				       "closed before the MPA request was complete";
			return -1;
		}
		if (capture_on())
			capture_bytes(id->fd, false, id->mpa + id->mpa_have, (size_t)n);
		id->mpa_have += (uint32_t)n;
	}
}

/* ---- outgoing ---- */

static void outgoing_failed(struct iw_id *id, enum rdma_cm_event_type type, int e, const struct iw_mpa *mpa)
{
	iw_id_close(id);
	id->state = IW_ID_ENDED;
	iw_stats.failed++;
	iw_event_post(id, type, -e, mpa);
}

static void outgoing_connect_failed(struct iw_id *id, int e)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_ERROR;

	if (e == ECONNREFUSED && clock_ns() < id->refused_until) {
		iw_id_close(id);
		id->err = e;
		iw_id_deadline(id, REDIAL_MS * 1000000ull);
		return;
	}
	/* classified as in the kernel's rdma_cm for iWARP */
	if (e == ECONNREFUSED || e == ECONNRESET)
		type = RDMA_CM_EVENT_REJECTED;
	else if (e == ETIMEDOUT || e == EHOSTUNREACH || e == ENETUNREACH)
		type = RDMA_CM_EVENT_UNREACHABLE;
	outgoing_failed(id, type, e, NULL);
}

static void outgoing_tcp_up(struct iw_id *id)
{
	socklen_t len = sizeof(id->err);

	if (getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &id->err, &len))
		id->err = errno;
	if (id->err) {
		outgoing_connect_failed(id, id->err);
		return;
	}
	iw_id_names(id, id->fd);
	/* in one piece: siw treats a header whose rest comes later as an error */
	if (send(id->fd, id->mpa, id->mpa_have, MSG_NOSIGNAL | MSG_EOR) != (ssize_t)id->mpa_have) {
		outgoing_connect_failed(id, errno);
		return;
	}
	if (capture_on())
		capture_bytes(id->fd, true, id->mpa, id->mpa_have);
	id->mpa_have = 0;
	id->state = IW_ID_REPLY_WAIT;
	iw_helper_poll(EPOLL_CTL_MOD, id->fd, EPOLLIN, &id->source);
	/* a second attempt has the remaining time of the first */
	if (!id->again)
		iw_id_deadline(id, id->patience_ms * 1000000ull);
}

static void outgoing_established(struct iw_id *id)
{
	if (!iw_id_establish(id)) {
		outgoing_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, ENOMEM, NULL);
		return;
	}
	iw_event_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, &id->peer);
	iw_nudge(id, true);
}

/* The reply is unacceptable: send a TERMINATE with the reason, then close in order. */
static void outgoing_terminate(struct iw_id *id, uint16_t code)
{
	uint8_t *words = malloc(TERM_FPDU_MAX);
	int fd = id->fd;

	if (!words)
		return;
	iw_helper_poll(EPOLL_CTL_DEL, fd, 0, NULL);
	id->polled = false;
	id->fd = -1;
	iw_stats.terminates_sent++;
	iw_linger(fd, words, iw_term_build(words, code, NULL, id->crc));
}

static void outgoing_reply(struct iw_id *id)
{
	const struct iw_mpa *m = &id->peer;
	struct iwarp_options o;

	if (m->reject) {
		outgoing_failed(id, RDMA_CM_EVENT_REJECTED, ECONNREFUSED, m);
		return;
	}
	if (id->enhanced && (m->revision != 2 || !m->enhanced)) {
		outgoing_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, EPROTO, NULL);
		return;
	}
	if (!id->enhanced && m->enhanced) {
		outgoing_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, EPROTO, NULL);
		return;
	}
	/* the request of one side is enough (RFC 5044 7.1.1) */
	id->crc |= m->crc;
	if (id->enhanced) {
		uint16_t peer_ird = iw_mpa_depth(m->ird_word);
		uint16_t peer_ord = iw_mpa_depth(m->ord_word);

		if (peer_ord > IW_MAX_IRD) {
			outgoing_terminate(id, TERM_LLP_IRD);
			outgoing_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, ENOMEM, NULL);
			return;
		}
		/* resources cost little here: as many as the peer intends to have open, up to our limit */
		if (id->ird < peer_ord)
			id->ird = peer_ord;
		if (id->ord > peer_ird)
			id->ord = peer_ird;
	}
	id->state = IW_ID_SETTLING;
	iwarp_get_options(&o);
	if (!o.first_fpdu_delay_us) {
		outgoing_established(id);
		return;
	}
	iw_helper_poll(EPOLL_CTL_DEL, id->fd, 0, NULL);
	id->polled = false;
	iw_id_deadline(id, o.first_fpdu_delay_us * 1000ull);
}

/* ---- called by the helper ---- */

void iw_id_ready(struct iw_source *source, uint32_t events)
{
	struct iw_id *id = container_of(source, struct iw_id, source);
	const char *why = "";
	int r;

	(void)events;
	switch (id->state) {
	case IW_ID_LISTENING:
		incoming_accept(id);
		break;
	case IW_ID_REQUEST_WAIT:
		r = handshake_read(id, false, &why);
		if (r > 0)
			incoming_request(id);
		else if (r < 0)
			incoming_refuse(id, why);
		break;
	case IW_ID_CONNECTING:
		outgoing_tcp_up(id);
		break;
	case IW_ID_REPLY_WAIT:
		r = handshake_read(id, true, &why);
		if (r > 0)
			outgoing_reply(id);
		else if (r < 0 && (id->mpa_have || !iw_id_again(id)))
			outgoing_connect_failed(id, id->mpa_have ? EPROTO : ECONNRESET);
		break;
	default:
		break;
	}
}

void iw_id_expired(struct iw_id *id)
{
	switch (id->state) {
	case IW_ID_LISTENING:
		iw_id_deadline(id, 0);
		if (iw_helper_poll(EPOLL_CTL_ADD, id->fd, EPOLLIN, &id->source))
			iw_id_deadline(id, PAUSE_MS * 1000000ull);
		else
			id->polled = true;
		break;
	case IW_ID_REQUEST_WAIT:
		incoming_refuse(id, "no complete MPA request in time");
		break;
	case IW_ID_SETTLING:
		outgoing_established(id);
		break;
	case IW_ID_CONNECTED:
		iw_nudge(id, false);
		break;
	case IW_ID_CONNECTING:
		if (id->fd < 0 && iw_id_redial(id))
			break;
		outgoing_connect_failed(id, id->err ? id->err : ETIMEDOUT);
		break;
	case IW_ID_REPLY_WAIT:
		outgoing_connect_failed(id, ETIMEDOUT);
		break;
	default:
		iw_id_deadline(id, 0);
	}
}
