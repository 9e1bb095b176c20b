/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory servers and their connections, on the control thread: see server.h; the thread itself is in serve.c. */
#include "memory/persist.h"
#include "memory/server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void signal_fd(int fd)
{
	const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

void memory_server_free(struct memory_server *server)
{
	close(server->wake_fd);
	close(server->event_fd);
	close(server->epfd);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

static struct memory_server *not_started(struct memory_server *s, char *err, size_t len)
{
	const int e = errno;

	snprintf(err, len, "cannot start the thread for remote memory: %s", strerror(e));
	memory_server_free(s);
	errno = e;
	return NULL;
}

struct memory_server *memory_server_make(unsigned spin_us, char *err, size_t len)
{
	struct memory_server *s = calloc(1, sizeof(*s));
	struct epoll_event ev = { .events = EPOLLIN };

	if (!s) {
		snprintf(err, len, "no memory for a memory server");
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	fifo_init(&s->asked);
	fifo_init(&s->events);
	fifo_init(&s->ended);
	s->spin_ns = spin_us * 1000ull;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (s->wake_fd >= 0 && s->event_fd >= 0 && s->epfd >= 0 &&
	    !epoll_ctl(s->epfd, EPOLL_CTL_ADD, s->wake_fd, &ev))
		return s;
	return not_started(s, err, len);
}

struct memory_server *memory_server_create(unsigned spin_us, char *err, size_t len)
{
	struct memory_server *s = memory_server_make(spin_us, err, len);

	if (!s)
		return NULL;
	errno = pthread_create(&s->thread, NULL, memory_serve, s);
	return errno ? not_started(s, err, len) : s;
}

void memory_server_destroy(struct memory_server *server)
{
	atomic_store(&server->stop, true);
	signal_fd(server->wake_fd);
	pthread_join(server->thread, NULL);
	memory_server_free(server);
}

int memory_server_fd(const struct memory_server *server)
{
	return server->event_fd;
}

void memory_server_tell(struct memory_conn *conn, unsigned what)
{
	struct memory_server *s = conn->server;

	if (!conn->tells)
		fifo_push(&s->events, &conn->event_link);
	conn->tells |= what;
	signal_fd(s->event_fd);
}

static void take_event(struct memory_conn *conn, struct memory_event *event)
{
	event->cookie = conn->cookie;
	if (conn->tells & TELL_MESSAGE) {
		conn->tells &= ~(unsigned)TELL_MESSAGE;
		event->type = MEMORY_EVENT_MESSAGE;
		event->length = conn->in_length;
		memcpy(event->message, conn->in, conn->in_length);
	} else {
		conn->tells = 0;
		event->type = MEMORY_EVENT_CLOSED;
		memcpy(event->reason, conn->reason, sizeof(event->reason));
	}
}

void memory_server_event(struct memory_server *server, struct memory_event *event)
{
	struct fifo_link *link;
	uint64_t n;

	event->type = MEMORY_EVENT_NONE;
	pthread_mutex_lock(&server->lock);
	link = fifo_pop(&server->events);
	if (link) {
		struct memory_conn *conn = container_of(link, struct memory_conn, event_link);

		take_event(conn, event);
		if (conn->tells)
			fifo_push(&server->events, &conn->event_link);
	} else {
		(void)!read(server->event_fd, &n, sizeof(n));
	}
	pthread_mutex_unlock(&server->lock);
}

/* ---- connections ---- */

static void ask(struct memory_conn *conn, unsigned what)	/* under the lock */
{
	if (!conn->asks)
		fifo_push(&conn->server->asked, &conn->ask_link);
	conn->asks |= what;
	signal_fd(conn->server->wake_fd);
}

struct memory_conn *memory_conn_accept(struct memory_server *server, const struct verbs *verbs,
				       struct rdma_cm_id *id, unsigned depth, uint8_t reads,
				       const void *data, uint8_t data_len, void *cookie, char *err, size_t len)
{
	struct memory_conn *c = calloc(1, sizeof(*c));
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = data_len,
		.responder_resources = reads,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	int rc;

	if (!c) {
		snprintf(err, len, "no memory for a memory connection");
		errno = ENOMEM;
		return NULL;
	}
	c->server = server;
	c->cookie = cookie;
	/*
	 * A buffer is free again when the device reports that the answer was sent, which may be after the peer has
	 * received it and has sent the next message: the second half is for those.  Without it, a queue pair that
	 * does not hold the sender back itself (RoCE) answers "receiver not ready", and the sender pauses.
	 */
	c->depth = 2 * depth;
	c->end.verbs = verbs;
	c->end.id = id;
	pthread_mutex_init(&c->grant_lock, NULL);
	rc = memory_end_build(&c->end, c->depth, c->depth + 1, c->depth + 1, err, len);
	if (!rc && verbs->accept(id, &param)) {
		rc = errno ? -errno : -EIO;
		snprintf(err, len, "cannot accept a memory connection: %s", strerror(-rc));
		memory_end_break(&c->end);
	}
	if (rc) {
		pthread_mutex_destroy(&c->grant_lock);
		free(c);
		errno = -rc;
		return NULL;
	}
	pthread_mutex_lock(&server->lock);
	ask(c, ASK_JOIN);
	pthread_mutex_unlock(&server->lock);
	return c;
}

/* Whether the device carries out the peer's FLUSH. */
static bool serves_flush(const struct memory_conn *conn)
{
	const struct verbs *v = conn->end.verbs;

	return v->flushes || (v->serves_flush && v->serves_flush(conn->end.id->verbs));
}

static bool serves_atomic_write(const struct memory_conn *conn)
{
	const struct verbs *v = conn->end.verbs;

	return v->flushes || (v->serves_atomic_write && v->serves_atomic_write(conn->end.id->verbs));
}

static uint32_t platform_of(const struct memory_conn *conn, const struct store *store)
{
	const uint32_t atomic = serves_atomic_write(conn) ? MEMORY_ATOMIC : 0;

	/* RAM and files of tmpfs are lost with power; so is DAX memory with a volatile write cache */
	if (store->fd < 0 || !store->memory_is_stable || store->volatile_write_cache)
		return atomic;
	return atomic | MEMORY_MEDIA | MEMORY_PERSISTS | (conn->end.verbs->places_persistently ? MEMORY_PLACED : 0) |
	       (serves_flush(conn) ? MEMORY_FLUSHED : 0);
}

static int register_range(struct memory_conn *c, struct store *store, uint64_t length, bool write, char *err,
			  size_t len)
{
	const struct verbs *v = c->end.verbs;
	int access = IBV_ACCESS_REMOTE_READ;

	if (write)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	if (write && serves_flush(c))
		access |= VERBS_ACCESS_FLUSH_GLOBAL;
	if (write && (platform_of(c, store) & MEMORY_FLUSHED))
		access |= VERBS_ACCESS_FLUSH_PERSISTENT;
	if (write && (platform_of(c, store) & MEMORY_PLACED))
		access |= VERBS_PLACE_PERSISTENTLY;
	if (v->pins_memory)
		__atomic_store_n(&store->pinned, true, __ATOMIC_RELEASE);
	errno = 0;
	c->mr = v->reg_mr(c->end.pd, store->map, length, access);
	if (!c->mr) {
		const int e = errno ? errno : EIO;

		snprintf(err, len, "the RDMA device cannot register %llu bytes: %s",
			 (unsigned long long)length, strerror(e));
		return -e;
	}
	c->store = store;
	c->length = length;
	atomic_store_explicit(&c->granted, true, memory_order_release);
	return 0;
}

int memory_conn_grant(struct memory_conn *conn, struct store *store, uint64_t length, bool write, uint32_t *key,
		      uint64_t *address, uint32_t *platform, char *err, size_t len)
{
	int rc = -ENOTCONN;

	pthread_mutex_lock(&conn->grant_lock);
	/* first: the store of a connection that has ended may be closed */
	if (conn->ended || conn->mr) {
		snprintf(err, len, conn->ended ? "the connection has ended" : "it already has a range");
	} else if (!store->map) {
		snprintf(err, len, "its file is not mapped memory: a pmem store is, on DAX or tmpfs");
		rc = -ENOTSUP;
	} else {
		rc = register_range(conn, store, length, write, err, len);
	}
	if (!rc) {
		*key = conn->mr->rkey;
		*address = (uintptr_t)store->map;
		*platform = platform_of(conn, store);
	}
	pthread_mutex_unlock(&conn->grant_lock);
	return rc;
}

int memory_conn_send(struct memory_conn *conn, const void *message, uint32_t length)
{
	int rc = 0;

	if (length > MEMORY_MESSAGE)
		return -EMSGSIZE;
	pthread_mutex_lock(&conn->server->lock);
	if (conn->asks & ASK_SEND) {
		rc = -EBUSY;
	} else {
		memcpy(conn->out, message, length);
		conn->out_length = length;
		ask(conn, ASK_SEND);
	}
	pthread_mutex_unlock(&conn->server->lock);
	return rc;
}

void memory_conn_close(struct memory_conn *conn, const char *reason)
{
	pthread_mutex_lock(&conn->server->lock);
	if (!conn->reason[0])
		snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
	ask(conn, ASK_CLOSE);
	pthread_mutex_unlock(&conn->server->lock);
}

struct memory_counts memory_conn_counts(const struct memory_conn *conn)
{
	return (struct memory_counts){
		.persists = stat_read(&conn->counts.persists),
		.persisted_bytes = stat_read(&conn->counts.persisted_bytes),
		.errors = stat_read(&conn->counts.errors),
		.written_bytes = stat_read(&conn->counts.written_bytes),
		.read_bytes = stat_read(&conn->counts.read_bytes),
		.counts_bytes = conn->end.verbs->bytes != NULL,
	};
}

void memory_conn_free(struct memory_conn *conn)
{
	struct memory_server *s = conn->server;

	/* requests that arrived after its end */
	pthread_mutex_lock(&s->lock);
	if (conn->asks)
		fifo_remove(&s->asked, &conn->ask_link);
	if (conn->tells)
		fifo_remove(&s->events, &conn->event_link);
	pthread_mutex_unlock(&s->lock);
	conn->end.verbs->destroy_id(conn->end.id);
	pthread_mutex_destroy(&conn->grant_lock);
	free(conn);
}
