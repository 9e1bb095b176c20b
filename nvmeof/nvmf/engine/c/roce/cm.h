/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management, inside: ids (cm_id.c, cm_find.c), their addresses (cm_addr.c) and events (cm_event.c), the
 * application's calls (cm_connect.c), and the peer's messages (cm_receive.c).  Everything is under iw_cm_lock.
 */
#ifndef NVMF_ROCE_CM_H
#define NVMF_ROCE_CM_H

#include "cm_wire.h"
#include "device.h"
#include "qp.h"
#include "util/fifo.h"

enum ro_id_state {
	RO_ID_IDLE,
	RO_ID_BOUND,
	RO_ID_LISTENING,
	RO_ID_ADDR,
	RO_ID_ROUTE,
	RO_ID_REQ_SENT,
	RO_ID_REQUESTED,	/* incoming: for the application to accept or reject */
	RO_ID_REP_SENT,
	RO_ID_CONNECTED,
	RO_ID_ENDED,
};

struct ro_id {
	union {
		struct rdma_cm_id id;
		struct verbs_id_head extended;
	};
	enum ro_id_state state;
	struct ro_port *port;
	bool bound, afonly;
	struct list_link link;		/* of the list of all ids */
	struct list_link numbered, requesting, asking, receiving, listening;	/* used by cm_find.c */
	struct ro_id *listener;
	unsigned int pending, backlog;	/* of a listener: its children that the application has not decided */
	unsigned int events;		/* queued, or taken and not acknowledged */
	struct ro_port **ports;		/* of a listener on the wildcard address */
	unsigned int nports;

	union ro_addr peer;
	uint32_t local_comm, remote_comm;
	uint32_t psn;			/* of the peer's first packet, as given in our message */
	struct ro_cm_fields request;	/* incoming: the request of the peer, without its data */
	unsigned int ird, ord;
	unsigned int retry_limit, rnr_limit;
	uint32_t mtu;
	uint32_t patience_ms;

	uint8_t mad[RO_MAD];		/* repeated until there is a response */
	struct list_link timed;		/* of the ids with such a message */
	uint64_t send_at, give_up_at, interval;
	uint64_t refused_until;		/* until then, a request without a listener is sent again */
	struct ro_stale *stale;		/* a request of the connected queue pair, which waits (cm_stale.c) */
};

/* cm_event.c */
/* Queue an event.  f: the message whose private data and depths it gets, or NULL. */
void ro_event_post(struct ro_id *id, enum rdma_cm_event_type type, int status, const struct ro_cm_fields *f);
void ro_event_purge(struct ro_id *id);
int ro_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/* cm_id.c */
extern struct list ro_ids;
extern const struct ro_port_calls ro_cm_calls;
int ro_cm_use(int n);
struct ro_id *ro_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
void ro_id_free(struct ro_id *id);
void ro_id_left_request(struct ro_id *id);
/* Send the id's message and, if again is set, repeat it until ro_id_quiet() or the time limit. */
void ro_id_say(struct ro_id *id, uint64_t patience_ns, bool again);
void ro_id_quiet(struct ro_id *id);
/* An incoming connection waits for its peer: the oldest of those of unknown peers is ended if there are too many. */
void ro_ids_limit(void);
/* Tell the peer that its answer is no longer awaited. */
void ro_id_gave_up(struct ro_id *id);
/* End the queue pair of an id, and notify the peer. */
void ro_id_end(struct ro_id *id, const char *why, bool tell);
int ro_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);
int ro_destroy_id(struct rdma_cm_id *id);
int ro_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void ro_destroy_qp(struct rdma_cm_id *id);

/* bare.c */
struct ibv_qp *ro_bare_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int ro_bare_destroy(struct ibv_qp *qp);
void ro_bare_release(struct rdma_cm_id *id);
int ro_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

/* gids.c */
int ro_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int ro_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
/* Get the address of a GID index (an errno if there is none), and convert addresses to GIDs. */
int ro_gid_address(int index, union ro_addr *addr);
void ro_gid_set(union ibv_gid *gid, const union ro_addr *addr);
bool ro_gid_get(const union ibv_gid *gid, union ro_addr *addr);

/* cm_find.c */
void ro_id_number(struct ro_id *id);	/* give it a different local communication id */
void ro_id_requests(struct ro_id *id);
void ro_id_receives(struct ro_id *id);
void ro_id_listens(struct ro_id *id);
void ro_id_forget(struct ro_id *id);
/* The id to which a message belongs; an id that sent a REQ does not know the peer's communication id yet. */
struct ro_id *ro_id_find(const struct ro_port *port, const union ro_addr *from, const struct ro_cm_fields *f);
/* The id of the request by a peer's queue pair, unless the id has ended. */
struct ro_id *ro_id_of_request(const struct ro_port *port, const union ro_addr *from, uint32_t qpn);
/* The id whose answer a peer no longer awaits; the peer knows only its own communication id. */
struct ro_id *ro_id_of_asker(const struct ro_port *port, const union ro_addr *from, uint32_t comm);
struct ro_id *ro_id_listener(const struct ro_port *port, uint64_t service);
/* Whether an address has a connection with this port, which proves that it receives. */
bool ro_addr_receives(const struct ro_port *port, const union ro_addr *peer);

/* cm_addr.c */
int ro_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);
int ro_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int ro_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
int ro_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int ro_listen(struct rdma_cm_id *id, int backlog);
void ro_unlisten(struct ro_id *id);

/* cm_connect.c */
uint64_t ro_patience_ns(const struct ro_id *id);
int ro_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int ro_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int ro_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len);
int ro_disconnect(struct rdma_cm_id *id);

/* cm_receive.c */
void ro_cm_receive(struct ro_port *port);
void ro_established(struct ro_id *id);	/* by the peer's RTU, or by its first packet */
void ro_cm_requested(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f);
void ro_cm_refuse(struct ro_port *port, const struct ro_cm_message *m, const struct ro_cm_fields *f, uint16_t reason);

/* cm_goodbye.c: DREQs that are sent again until they are answered, even after their id was destroyed */
void ro_goodbye(const struct ro_id *id, uint32_t dqpn);
void ro_goodbye_answered(const struct ro_port *port, const struct ro_cm_fields *f, const union ro_addr *from);
uint64_t ro_goodbyes_expire(uint64_t now);
void ro_goodbyes_drop(void);

/* cm_stale.c: requests of a queue pair that has a connection, which its system may have forgotten */
/* Keep the request until the peer has been asked; false: refuse it, because it cannot be kept, or a different one is. */
bool ro_stale_begin(struct ro_id *id, const struct ro_cm_message *m, uint32_t comm);
/* For an id whose request waits: the peer has the connection, or has not. */
void ro_stale_alive(struct ro_id *id);
void ro_stale_gone(struct ro_id *id);
void ro_stale_destroyed(struct ro_id *id);
uint64_t ro_stales_expire(uint64_t now);
void ro_stales_drop(void);

/* fork.c */
void ro_fork_setup(void);

#endif
