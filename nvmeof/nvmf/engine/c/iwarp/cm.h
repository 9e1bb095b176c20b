/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal declarations of connection management: ids, their events, the handshake. Everything here is under
 * iw_cm_lock.
 */
#ifndef NVMF_IWARP_CM_H
#define NVMF_IWARP_CM_H

#include "device.h"
#include "events.h"
#include "mpa.h"
#include "watch.h"
#include "util/clock.h"
#include "util/fifo.h"

#include <sys/socket.h>

enum { IW_CONGESTION_NAME = 16 };	/* TCP_CA_NAME_MAX */

enum iw_id_state {
	IW_ID_IDLE,
	IW_ID_BOUND,
	IW_ID_LISTENING,
	IW_ID_ADDR,		/* address resolved */
	IW_ID_ROUTE,
	IW_ID_CONNECTING,	/* TCP */
	IW_ID_REPLY_WAIT,	/* request sent */
	IW_ID_SETTLING,		/* reply received; a pause before the first FPDU */
	IW_ID_REQUEST_WAIT,	/* incoming: request not complete yet; not reported to the application */
	IW_ID_REQUESTED,	/* incoming: the application can accept or reject it */
	IW_ID_CONNECTED,
	IW_ID_ENDED,
};

struct iw_id {
	union {
		struct rdma_cm_id id;
		struct verbs_id_head extended;
	};
	enum iw_id_state state;
	int fd;				/* belongs to the queue pair once connected */
	int err;			/* of a connect that failed at once */
	bool afonly, bound, polled;	/* polled: fd is in the helper's epoll */
	int tos;			/* -1: not set */
	uint64_t deadline;		/* ns, 0 for none */
	uint32_t patience_ms;		/* the timeout of resolve_route, also used for connect */
	struct iw_source source;
	struct list_link link;		/* in the list of all ids */
	struct iw_timers *timers;	/* its list, if it has a deadline */
	struct iw_id *timed_next, *timed_prev;
	struct iw_id *listener;
	char congestion[IW_CONGESTION_NAME];	/* of a listener: its original one; "": the present one */
	unsigned int half_open, pending, backlog;	/* of a listener: its children in the first
							   two incoming states */
	unsigned int events;		/* queued, or taken and not acknowledged */

	uint8_t mpa[MPA_FRAME_MAX];	/* received so far, or to be sent */
	uint32_t mpa_have;
	struct iw_mpa peer;		/* its frame; peer.pd points into mpa */
	uint8_t revision;
	bool crc, enhanced;
	bool again;			/* in the second attempt, with revision 1 */
	uint64_t refused_until;		/* ns: until then, a refused connection is attempted again */
	uint16_t ird, ord;
	unsigned int nudges;
};

/*
 * Ids with a deadline, the earliest first.  There is one list for each state in which a deadline is set: all
 * deadlines in it have the same length, so a new one goes to the end, and the helper checks only the first.
 */
struct iw_timers {
	struct iw_id *first, *last;
};
extern struct iw_timers iw_timers[IW_ID_ENDED + 1];

/* The depth that the peer's word allows; our own limit if the word leaves the depth to the consumers. */
static inline uint16_t iw_mpa_depth(uint16_t word)
{
	word &= MPA_DEPTH_MASK;
	return word == MPA_DEPTH_OPEN ? (uint16_t)IW_MAX_IRD : word;
}

/* cm_event.c */
void iw_event_post(struct iw_id *id, enum rdma_cm_event_type type, int status,
		   const struct iw_mpa *mpa);
void iw_event_purge(struct iw_id *id);
int iw_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/* cm.c */
extern struct list iw_ids;		/* by link */
int iw_cm_use(int n);			/* add n to the number of ids; the helper runs while it is not 0 */
struct iw_id *iw_id_new(struct rdma_event_channel *channel, void *context,
			enum rdma_port_space ps);
void iw_id_free(struct iw_id *id);
void iw_id_deadline(struct iw_id *id, uint64_t ns);	/* from now; 0: none */
void iw_id_close(struct iw_id *id);
void iw_id_left_request(struct iw_id *id);
int iw_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		 enum rdma_port_space ps);
int iw_destroy_id(struct rdma_cm_id *id);
int iw_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void iw_destroy_qp(struct rdma_cm_id *id);
struct ibv_qp *iw_bare_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int iw_bare_destroy(struct ibv_qp *qp);
void iw_bare_release(struct rdma_cm_id *id);

/* cm_congestion.c */
/*
 * Before listen(); own: receives the name that iw_congestion_path restores for connections from other machines, or
 * "".
 */
void iw_congestion_listen(int fd, char own[IW_CONGESTION_NAME]);
/* Before connect(), or after accept() with the listener's own. */
void iw_congestion_path(int fd, const struct sockaddr *from, const struct sockaddr *to, const char *own);

/* cm_addr.c */
int iw_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);
int iw_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int iw_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
		    int timeout_ms);
int iw_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int iw_listen(struct rdma_cm_id *id, int backlog);
void iw_id_names(struct iw_id *id, int fd);	/* route.addr from the socket */
socklen_t iw_sa_len(const struct sockaddr *sa);
int iw_id_socket(struct iw_id *id, int family);

/* cm_connect.c */
int iw_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int iw_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int iw_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len);
int iw_disconnect(struct rdma_cm_id *id);
bool iw_id_establish(struct iw_id *id);
/*
 * The peer closed after a request of revision 2: connect again, with revision 1.  False if that was not the cause, or
 * is not possible.
 */
bool iw_id_again(struct iw_id *id);
/* Connect once more, as at first; false if that is not possible. */
bool iw_id_redial(struct iw_id *id);

/* cm_handshake.c: events of an id on the helper */
void iw_id_ready(struct iw_source *source, uint32_t events);
void iw_id_expired(struct iw_id *id);

/* nudge.c */
void iw_nudge(struct iw_id *id, bool first);

/* fork.c */
void iw_fork_setup(void);

#endif
