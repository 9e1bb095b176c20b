/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: created and ended (qp.c), found by number (numbers.c), posted to (post.c), the requester (requester.c),
 * the responses to it (completer.c), the responder (responder.c) and time (timer.c).  Everything of a queue pair is
 * under its lock, unless stated otherwise.
 */
#ifndef NVMF_ROCE_QP_H
#define NVMF_ROCE_QP_H

#include "port.h"
#include "srq.h"
#include "work.h"

enum {
	RO_MAX_SGE = 32,
	RO_MAX_INLINE = 1024,
	RO_MAX_WR = 32768,
	RO_MAX_RD = 16,			/* requests with a response (ro_has_response) open in either direction */
	RO_REASON = 256,
	RO_WINDOW_MIN = 2,		/* packets that are sent and not acknowledged */
	RO_WINDOW_FIRST = 32,
	RO_WINDOW_MAX = 128,
	RO_TRAIN = 15,			/* packets at once; with full packets, the kernel's limit of 64 KiB is reached first */
	RO_ALPHA = 1024,
	RO_ALPHA_SHARE = 16,		/* the share of alpha that changes at a time */
	RO_READ_PACKETS = 16,		/* of the response to one request at most; longer READs are several requests */
	RO_DENSE = 32,			/* losses with fewer packets between them, on average, are taken for congestion */
};

/* A send work request. */
struct ro_swr {
	uint64_t wr_id, raddr;
	uint32_t rkey;
	uint32_t imm;			/* immediate data as it is sent, or the rkey to invalidate; BIND: the new rkey */
	uint32_t len;
	uint32_t psn, packets;		/* once it was begun */
	uint64_t bind_len;
	uint64_t swap, compare;		/* of an atomic operation; swap is also the added value */
	uint32_t feth, flush_len;	/* of a FLUSH */
	int bind_access;
	uint16_t num_sge;
	uint8_t wc_opcode, kind;	/* enum ro_kind; RO_NONE: nothing is sent */
	uint8_t icrcs;			/* of a FLUSH: the ICRCs with which it was sent, bits by enum ro_flush */
	bool has_imm, invalidates, solicited, fence, signaled, inline_data, bind, adds, done;
};

/* A request of the peer to be answered: a READ, a FLUSH, or an operation that is done. */
struct ro_read {
	uint64_t va;			/* atomic: the original value */
	uint64_t to_flush;		/* FLUSH: bytes at va that are not written back yet */
	uint32_t rkey, len, psn, sent;	/* sent: packets */
	bool atomic;
	bool again;			/* it was answered before */
};

struct ro_requester {
	struct ro_swr *sq;
	struct ibv_sge *sge;
	uint8_t *data;			/* inline */
	uint32_t size;
	uint32_t head;			/* free running: posted */
	uint32_t fresh;			/* the first request that was not begun, and has no PSN */
	uint32_t tx, tx_packet;		/* the next to be sent, and its packet */
	uint32_t tail;			/* the oldest that is not complete */
	uint32_t next_psn;		/* of the first packet of the next fresh one */
	uint32_t high_psn;		/* the PSN after the highest that was sent */
	uint32_t una;			/* the oldest not acknowledged */
	uint32_t window, grown;		/* packets; acknowledged since it grew */
	uint32_t alpha;			/* congestion of the path, as a share of RO_ALPHA */
	uint32_t calm_psn;		/* the window was cut for packets before it, while calming */
	bool calming;
	bool cut;			/* since the window grew */
	uint32_t spacing, since;	/* packets between losses, on average, and since the last one */
	uint32_t read_end[RO_MAX_RD];	/* the PSNs after the expected responses, by reads_head, reads_tail */
	uint32_t read_len[RO_MAX_RD];	/* bytes of these that are counted in the port's asked */
	uint32_t reads_head, reads_tail;
	bool waits;			/* for room in the socket, without expecting a response */
	uint32_t oldest;		/* reads_tail at the last ticks, since oldest_at */
	uint64_t oldest_at;
	bool rewound;			/* since the last progress, at rewound_at */
	uint64_t rewound_at;
	uint32_t ahead_psn;		/* of the last response after a gap */
	bool rnr;			/* wait until rnr_until */
	uint64_t rnr_until;
	unsigned int retries, rnr_retries;
	/* timer.c */
	uint32_t seen_una;
	uint64_t seen_at, quiet_since;
};

struct ro_responder {
	struct ibv_sge *sge;
	struct iw_rwr *rq;
	uint32_t size, head, tail;	/* free running */
	uint32_t epsn, msn;
	uint8_t kind;			/* of the open message, or RO_NONE */
	uint32_t have;			/* of the open Send: bytes received */
	uint64_t va;			/* of the open Write */
	uint32_t rkey, length, left;
	bool nak_sent;			/* for this gap, or since a receive was missing */
	bool gap;			/* a packet is missing */
	bool stirred;			/* one came after it, since the last tick */
	uint32_t ahead_psn;		/* of that */
	struct ro_ahead *ahead;		/* ahead.c; NULL before the first gap */
	bool flushing;			/* later requests wait for a FLUSH */
	bool ack_due, ack_held;		/* held: until after a visit, see visit.c */
	bool unasked;			/* packets were taken whose acknowledgement was not asked for: after a tick */
	uint32_t unacked;		/* packets taken since the last acknowledgement */
	uint8_t nak;			/* AETH of a negative acknowledgement that is due, or 0 */
	struct ro_read reads[RO_MAX_RD];
	uint32_t reads_head, reads_tail;
	atomic_uint served;		/* answered; also read without the lock */
	struct ro_read atomics[RO_MAX_RD];	/* the last ones, whose answers may have to be repeated */
	uint32_t atomics_head;
};

/* The ICRC of FLUSH requests (icrc.h).  It changes with each lost one, until one that the peer accepts is known. */
enum ro_flush {
	RO_FLUSH_RIGHT,
	RO_FLUSH_RXE,
};

struct ro_qp {
	union {
		struct ibv_qp qp;
		struct verbs_qp_head extended;
	};
	bool sq_sig_all;
	struct ibv_qp_cap cap;
	const struct ibv_pd *recv_pd;
	struct iw_srq *srq;
	struct iw_srq_place place;

	iw_spin lock;
	atomic_int state;		/* enum ibv_qp_state */
	struct iw_windows windows;
	struct ro_port *port;		/* from the start to the end of the connection */
	union ro_addr peer;
	struct ro_flow flow;
	uint32_t dqpn, mtu;
	uint32_t read_packets;		/* of the response to one request */
	uint16_t ird, ord;
	unsigned int retry_limit, rnr_limit;
	int access;			/* the peer's rights to memory, in addition to those of the region */
	uint8_t flush;			/* enum ro_flush */
	bool flush_known;
	bool too_large;			/* a packet did not fit the interface */
	bool fits;			/* the peer has acknowledged a packet of full size */
	bool acks_unasked;		/* the peer acknowledges what it was not asked to after a tick, as this device does */
	struct ro_requester req;
	struct ro_responder rsp;

	/* the end, written once */
	char reason[RO_REASON];
	atomic_bool ended;
	uint32_t fail_index;		/* completes with fail_status, not flushed */
	enum ibv_wc_status fail_status, recv_fail_status;

	/* port->lock */
	struct list_link more;		/* in the list of queue pairs with more to send */
	struct list_link held;		/* in the list of those whose acknowledgement waits, since the visit held_in */
	uint32_t held_in;
	bool marked;			/* a received packet was marked */
	uint64_t notified_at;

	/* the port's room_lock */
	struct list_link line;
	bool in_line;
	uint32_t wanted;		/* bytes of its next READ, if in line */

	/* iw_cm_lock */
	struct iw_caller caller;
	struct list_link ticking;	/* of timer.c */
	void *owner;
	bool reaped;
	atomic_bool ticks;		/* in ticking, or about to be; set by any thread, reset under the lock too */
	atomic_bool data;		/* the peer's first request has arrived */

	/* numbers.c */
	struct ro_qp *_Atomic number_next;
};

static inline struct ro_qp *ro_qp(struct ibv_qp *qp)
{
	return (struct ro_qp *)qp;
}

static inline struct ro_swr *ro_sq(struct ro_qp *qp, uint32_t i)
{
	return &qp->req.sq[i & (qp->req.size - 1)];
}

static inline int ro_qp_state(const struct ro_qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed);
}

static inline void ro_qp_set_state(struct ro_qp *qp, enum ibv_qp_state state)
{
	atomic_store(&qp->state, state);
	__atomic_store_n(&qp->qp.state, state, __ATOMIC_RELAXED);
}

/* Return whether the queue pair receives. */
static inline bool ro_qp_up(const struct ro_qp *qp)
{
	const int state = ro_qp_state(qp);

	return state == IBV_QPS_RTS || state == IBV_QPS_RTR;
}

/* Packets that are adjacent in memory, to be sent at once: of one size, except that the last may be shorter. */
enum { RO_BURST = 65408 };	/* with all headers, less than the 64 KiB of an IP packet */
struct ro_burst {
	struct ro_qp *qp;
	uint32_t len, seg, packets;
	uint32_t end, covered, crc;	/* of the packet that is begun: its length without ICRC, and the first bytes' CRC */
	bool closed;
	uint8_t buf[RO_BURST];
};

/* ---- qp.c ---- */

struct ro_qp *ro_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void ro_qp_free(struct ro_qp *qp);
int ro_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);

/* The path of a connection, and the values that its ends have negotiated. */
struct ro_path {
	struct ro_port *port;		/* the queue pair has a reference of its own */
	union ro_addr peer;
	uint32_t dqpn, mtu, psn, epsn;
	unsigned int ird, ord, retry_limit, rnr_limit;
	bool acks_unasked;
	bool receives;			/* it only receives (RTR) until ro_qp_sends(), with the fields of the requester */
};
/* Under iw_cm_lock; -1 with errno. */
int ro_qp_start(struct ro_qp *qp, const struct ro_path *path);
/* Start sending: RTS, lock held. */
void ro_qp_sends(struct ro_qp *qp, uint32_t psn, unsigned int ord, unsigned int retry_limit, unsigned int rnr_limit);
/* Detach the queue pair from its port; under iw_cm_lock, lock not held. */
void ro_qp_reap(struct ro_qp *qp);
/* End the connection, lock held: flush, error state. */
void ro_qp_fail(struct ro_qp *qp, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ro_qp_flush(struct ro_qp *qp);
const char *ro_qp_reason(struct ro_qp *qp);

/* ---- numbers.c ---- */

extern pthread_mutex_t ro_numbers_lock;
/* Give a queue pair a number that cannot be guessed. */
void ro_number_give(struct ro_qp *qp);
/* Remove the number: after this no thread finds or uses the queue pair by it. */
void ro_number_take(struct ro_qp *qp);
/* Within a section. */
struct ro_qp *ro_number_find(uint32_t qpn);
void ro_numbers_each(void (*call)(struct ro_qp *qp));

/* ---- burst.c ---- */

void ro_burst_begin(struct ro_burst *b, struct ro_qp *qp);
/* Make room for a packet with len bytes of payload; returns its header, which is filled in for its opcode. */
uint8_t *ro_burst_packet(struct ro_burst *b, const struct ro_bth *bth, uint32_t len);
/* Add to the payload of the packet that was begun last; its headers are complete.  more: bytes after it, of the next packets. */
void ro_burst_copy(struct ro_burst *b, uint8_t *packet, const void *from, uint32_t len, uint32_t more);
/* Complete the packet that was begun last. */
void ro_burst_seal(struct ro_burst *b, uint8_t *packet, uint32_t len);
void ro_burst_send(struct ro_burst *b);
/* The last of a visit: an acknowledgement is sent with those of other queue pairs.  Under port->lock. */
void ro_burst_send_late(struct ro_burst *b);
/* Whether a packet without payload can be added to a burst. */
bool ro_burst_has_room(const struct ro_burst *b, uint8_t opcode);

/* Copy len bytes at off of a list of SGEs from a buffer, or, if into is not NULL, to its packet that is in the buffer. */
enum iw_access ro_sge_copy(const struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t num_sge, uint32_t off,
			   uint8_t *buf, uint32_t len, struct ro_burst *into);

/* ---- post.c ---- */

int ro_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ro_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- requester.c; connected, within a section ---- */

void ro_send(struct ro_qp *qp, struct ro_burst *b);
enum ro_cause {
	RO_NOT_READY,			/* the peer asked for it to be sent later */
	RO_GAP,				/* the peer received what comes after it */
	RO_SILENCE,			/* the peer acknowledged nothing */
};
/* Send again from the oldest packet that is not acknowledged. */
void ro_rewind(struct ro_qp *qp, enum ro_cause cause);
/* Return the number of packets that are sent and not acknowledged. */
static inline uint32_t ro_outstanding(const struct ro_qp *qp)
{
	return (qp->req.high_psn - qp->req.una) & RO_MASK24;
}
void ro_fail_request(struct ro_qp *qp, uint32_t index, enum ibv_wc_status status, const char *why);
/* The path to or from the peer is congested: send less. */
void ro_congested(struct ro_qp *qp);
/* Complete the requests that are done. */
void ro_sweep(struct ro_qp *qp);

/* ---- completer.c, responder.c ---- */

void ro_complete(struct ro_qp *qp, const struct ro_packet *p);
void ro_respond(struct ro_qp *qp, const struct ro_packet *p);
/* Send responses and acknowledgements that are due (not positive ones, if hold); false if there are more. */
bool ro_answer(struct ro_qp *qp, struct ro_burst *b, bool hold);
/* Add an acknowledgement that is due to a burst, if the burst has packets and room. */
void ro_acknowledge_along(struct ro_qp *qp, struct ro_burst *b);
/* Send an acknowledgement that is due, or was not asked for. */
void ro_acknowledge(struct ro_qp *qp);
/* Ask again for a packet that is missing, if nothing arrived since the last call. */
void ro_ask_again(struct ro_qp *qp);
/* Whether an acknowledgement is due that may wait a little. */
bool ro_ack_can_wait(const struct ro_qp *qp);
uint32_t ro_reads_served(const struct ibv_qp *qp);

/* ---- room.c ---- */

/* The number of packets in the response to one request, such that several such responses have room. */
uint32_t ro_room_packets(const struct ro_port *port, uint32_t mtu);
/* Whether a READ of len bytes has to wait for room; ro_room_next() returns the queue pair then, or it has a response to come. */
bool ro_room_wait(struct ro_qp *qp, uint32_t len);
/* The first queue pair in line, if there is room for it, otherwise NULL: it is to send.  Under port->lock. */
struct ro_qp *ro_room_next(struct ro_port *port);
/* The queue pair no longer wants to send a READ. */
void ro_room_leave(struct ro_port *port, struct ro_qp *qp);
/* A request was sent; its response has len bytes of data, and end is the PSN after it. */
void ro_expect(struct ro_qp *qp, uint32_t end, uint32_t len);
/* The expected responses do not come in time: they take no room from now on. */
void ro_reads_late(struct ro_qp *qp);
/* The responses before this one (by reads_head) have arrived, or are no longer expected. */
void ro_reads_end(struct ro_qp *qp, uint32_t until);

/* ---- ahead.c ---- */

/* Keep a request that arrived after a gap, if there is room. */
void ro_ahead_keep(struct ro_qp *qp, const struct ro_packet *p);
/* Pass on the kept requests that come next; true if any was taken.  Something must have been kept before. */
bool ro_ahead_resume(struct ro_qp *qp, void (*take)(struct ro_qp *qp, const struct ro_packet *p));
/* Whether there are kept requests. */
bool ro_ahead_waits(const struct ro_qp *qp);
void ro_ahead_free(struct ro_qp *qp);

/* ---- timer.c; under iw_cm_lock ---- */

/* Make the helper call ro_tick_start() for a queue pair, unless it ticks already.  Lock of the queue pair held. */
static inline void ro_tick_want(struct ro_qp *qp)
{
	if (!atomic_load_explicit(&qp->ticks, memory_order_relaxed)) {
		atomic_store(&qp->ticks, true);
		iw_helper_call(&qp->caller);
	}
}
void ro_tick_start(struct ro_qp *qp);
void ro_tick_stop(struct ro_qp *qp);
uint64_t ro_tick(uint64_t now);	/* returns when to call again, or 0 */

/* ---- visit.c ---- */

extern const struct ro_port_calls ro_qp_calls;	/* except cm */
void ro_qp_congested(struct ro_port *port, uint32_t qpn, const union ro_addr *from);
void ro_qp_packet(struct ro_port *port, const struct ro_packet *p, const union ro_addr *from);
void ro_qp_port_flush(struct ro_port *port);

#endif
