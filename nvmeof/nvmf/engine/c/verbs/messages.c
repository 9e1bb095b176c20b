/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * messages.h.  Owns the requests of ids whose device chooses their port while it connects: such a request is recorded
 * with its answer, when the port is known.
 */
#include "messages.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

enum { LATE = 64 };			/* requests without an answer; a further one takes the place of the oldest */

static struct late {
	const struct rdma_cm_id *id;	/* NULL: free */
	size_t n;
	uint8_t data[256];		/* rdma_conn_param has not more */
} late[LATE];
static unsigned next_late;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct capture_ends ends_of(struct rdma_cm_id *id)
{
	return (struct capture_ends){ .local = rdma_get_local_addr(id), .peer = rdma_get_peer_addr(id) };
}

static bool has_port(const struct sockaddr *sa)
{
	struct sockaddr_in in;		/* the port of an IPv6 address is in the same place */

	memcpy(&in, sa, sizeof(in));
	return in.sin_port;
}

static void keep_request(const struct rdma_cm_id *id, const void *data, size_t n)
{
	struct late *l;

	pthread_mutex_lock(&lock);
	l = &late[next_late++ % LATE];
	l->id = id;
	l->n = data ? n < sizeof(l->data) ? n : sizeof(l->data) : 0;
	if (l->n)
		memcpy(l->data, data, l->n);
	pthread_mutex_unlock(&lock);
}

/* Record the request of an id if it was kept. */
static void late_request(const struct rdma_cm_id *id, const struct capture_ends *ends)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < LATE; i++) {
		if (late[i].id != id)
			continue;
		capture_message(ends, CAPTURE_REQUEST, true, late[i].data, late[i].n);
		late[i].id = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void messages_sent(struct rdma_cm_id *id, enum capture_message message, const void *data, size_t n)
{
	const struct capture_ends ends = ends_of(id);

	if (!capture_on())
		return;
	if (message == CAPTURE_REQUEST && !has_port(ends.local))
		keep_request(id, data, n);
	else
		capture_message(&ends, message, true, data, n);
}

void messages_closed(struct rdma_cm_id *id)
{
	const struct capture_ends ends = ends_of(id);

	if (capture_on())
		capture_closed(&ends, true);
}

void messages_event(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *conn = &event->param.conn;
	const struct capture_ends ends = ends_of(event->id);

	if (!capture_on())
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		capture_message(&ends, CAPTURE_REQUEST, false, conn->private_data, conn->private_data_len);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		late_request(event->id, &ends);
		if (conn->private_data)		/* otherwise it is the end that has replied */
			capture_message(&ends, CAPTURE_REPLY, false, conn->private_data, conn->private_data_len);
		break;
	case RDMA_CM_EVENT_REJECTED:
		late_request(event->id, &ends);
		capture_message(&ends, CAPTURE_REJECT, false, conn->private_data, conn->private_data_len);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		capture_closed(&ends, false);
		break;
	default:
		break;
	}
}
