/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's end of remote memory: connections whose peers write to and read from a range of a store by RDMA, and
 * may ask for a part of it to be made persistent (wire.h).
 *
 * The thread of a server polls the queues of all its connections, and serves PERSIST and ECHO itself.  Everything
 * else is an event for the control thread, which decides who may open which range.  The thread may block in the
 * store's sync of a file; that is why it is not a reactor.
 */
#ifndef NVMF_MEMORY_SERVER_H
#define NVMF_MEMORY_SERVER_H

#include "memory/wire.h"
#include "store/store.h"
#include "verbs/verbs.h"

struct memory_server;
struct memory_conn;

enum memory_event_type {
	MEMORY_EVENT_NONE,
	MEMORY_EVENT_MESSAGE,	/* a message that the thread does not serve */
	MEMORY_EVENT_CLOSED,	/* the peer can no longer access the store */
};

struct memory_event {
	enum memory_event_type type;
	void *cookie;
	uint32_t length;
	uint8_t message[MEMORY_MESSAGE];
	char reason[200];
};

struct memory_counts {
	uint64_t persists, persisted_bytes, errors;
	uint64_t written_bytes, read_bytes;	/* by RDMA, if the device counts them */
	bool counts_bytes;
};

struct memory_server *memory_server_create(unsigned spin_us, char *err, size_t len);
/* Every connection must have been freed.  Blocks until the thread has ended. */
void memory_server_destroy(struct memory_server *server);
/* Readable while there are events. */
int memory_server_fd(const struct memory_server *server);
/* Take an event; MEMORY_EVENT_NONE if there is none. */
void memory_server_event(struct memory_server *server, struct memory_event *event);

/*
 * Accept a connection request.  depth: messages that the peer may have outstanding; private data of the answer.
 * NULL with errno and a sentence, and the id is the caller's.
 */
struct memory_conn *memory_conn_accept(struct memory_server *server, const struct verbs *verbs,
				       struct rdma_cm_id *id, unsigned depth, uint8_t reads,
				       const void *data, uint8_t data_len, void *cookie, char *err, size_t len);
/*
 * Register a range of the store's map for the peer: 0, with its key and address, or a negative errno with a sentence.
 * The store must stay open until MEMORY_EVENT_CLOSED.  May block (a device may pin the range); any one thread.
 */
int memory_conn_grant(struct memory_conn *conn, struct store *store, uint64_t length, bool write, uint32_t *key,
		      uint64_t *address, uint32_t *platform, char *err, size_t len);
/* Send a message: 0, or a negative errno.  One at a time. */
int memory_conn_send(struct memory_conn *conn, const void *message, uint32_t length);
/* End it: MEMORY_EVENT_CLOSED follows, once.  This is the fence: the key is invalid before that event. */
void memory_conn_close(struct memory_conn *conn, const char *reason);
/* Return the counts, also after the end of the connection. */
struct memory_counts memory_conn_counts(const struct memory_conn *conn);
/* Free it, and its id, after MEMORY_EVENT_CLOSED. */
void memory_conn_free(struct memory_conn *conn);

#endif
