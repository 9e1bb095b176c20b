/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of the memory server: connections (server.c), and the thread (serve.c). */
#ifndef NVMF_MEMORY_SERVER_INTERNAL_H
#define NVMF_MEMORY_SERVER_INTERNAL_H

#include "memory/end.h"
#include "memory/server.h"
#include "util/fifo.h"
#include "util/list.h"
#include "util/stat.h"

#include <pthread.h>
#include <stdatomic.h>

struct memory_server {
	pthread_t thread;
	pthread_mutex_t lock;		/* the two lists below, and the connections' requests to the thread */
	struct fifo asked;		/* connections with something for the thread */
	struct fifo events;		/* connections with something for the control thread */
	int wake_fd, event_fd, epfd;
	uint64_t spin_ns;
	atomic_bool stop;
	/* thread */
	unsigned round;
	struct list active;		/* connections that are polled */
	struct fifo ended;		/* ended connections that were not reported yet */
};

/* Requests to the thread, and events for the control thread. */
enum {
	ASK_JOIN = 1,
	ASK_SEND = 2,
	ASK_CLOSE = 4,
	TELL_MESSAGE = 1,
	TELL_CLOSED = 2,
};

/* The PERSIST that is being carried out. */
struct memory_persisting {
	bool active;
	uint16_t id;
	unsigned slot;
	uint64_t offset, length, left;
};

enum { MEMORY_BATCH = 32 };

struct memory_conn {
	struct memory_server *server;
	struct memory_end end;
	void *cookie;
	unsigned depth;			/* message buffers, each way; one more is for the control thread */
	/* under the server's lock */
	struct fifo_link ask_link, event_link;
	unsigned asks, tells;
	uint32_t out_length, in_length;
	uint8_t out[MEMORY_MESSAGE], in[MEMORY_MESSAGE];
	char reason[200];
	/* the grant: set by the control thread before it sends, ended by the thread */
	pthread_mutex_t grant_lock;
	struct ibv_mr *mr;
	struct store *store;
	uint64_t length;
	atomic_bool granted;
	bool ended;			/* under grant_lock */
	/* thread */
	struct list_link active_link;
	struct fifo_link end_link;
	uint64_t busy_until, served;
	bool sending;			/* the control thread's message is on its way */
	uint32_t later_length;		/* of the next one, which waits for that */
	uint8_t later[MEMORY_MESSAGE];
	struct memory_persisting persisting;
	struct ibv_wc wc[MEMORY_BATCH];	/* polled; those from wc_next on wait for the end of a PERSIST */
	unsigned wc_next, wc_count;
	struct memory_counts counts;
};

/* Thread. */
void memory_conn_end(struct memory_conn *conn, const char *reason);
/* Report to the control thread; under the lock. */
void memory_server_tell(struct memory_conn *conn, unsigned what);
/* One round; wait: sleep if there is nothing to do. */
void memory_server_turn(struct memory_server *server, bool wait);
void *memory_serve(void *server);

/* Create a server without a thread: its caller runs the turns, and frees it with memory_server_free. */
struct memory_server *memory_server_make(unsigned spin_us, char *err, size_t len);
void memory_server_free(struct memory_server *server);

#endif
