/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The embedded iWARP device, inside: its objects and what the files of this folder ask of each other.
 *
 * Threads: the application's (any number, one per queue pair at a time in practice) and one helper
 * (helper.c).  Locks, in the order in which they nest:
 *   iw_cm_lock     mutex: CM ids, event queues, everything of the helper.  Never on the I/O path.
 *   iw_dev.lock    mutex: the list of queue pairs.
 *   cq->progress   spin, usually tried: who receives for the queue pairs of a CQ, their line, its staging.
 *   qp->lock       spin: everything of a queue pair.  Memory regions are looked at within a section (lock.h).
 *   srq->lock  spin: receives that are shared, and who waits for one.
 *   cq->ring_lock, chan->lock   spin, innermost: completions and events.
 */
#ifndef NVMF_IWARP_H
#define NVMF_IWARP_H

#include "mr.h"
#include "srq.h"
#include "stats.h"
#include "verbs.h"
#include "wire.h"
#include "util/list.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/uio.h>

enum {
	IW_MAX_SGE = 32,
	IW_MAX_INLINE = 1024,
	IW_MAX_WR = 32768,
	IW_MAX_SRQ_WR = 1 << 20,
	IW_MAX_IRD = 128,
	IW_MAX_CQE = 1 << 20,
	/* that the socket can be written to is added when it was full for the first time */
	IW_TURN_EVENTS = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (int)EPOLLET,
	IW_STAGING = 256 * 1024,
	IW_SEGMENT = 61440,		/* largest payload sent in an FPDU where the MSS allows it: 15 pages */
	IW_REASON = 256,
};

/* ---- the device ---- */

struct iw_qp;
struct iw_id;

struct iw_dev {
	struct ibv_device device;
	struct ibv_context context;
	pthread_mutex_t lock;
	struct iw_qp *qps;		/* every queue pair, by qp->dev_next, in the order of their numbers */
	/*
	 * Numbers are given in turn, so that one comes back as late as it can, and never while it is
	 * live.  next_at: the link to the first queue pair whose number is not below next_qpn.
	 */
	struct iw_qp **next_at;
	uint32_t next_qpn, last_qpn;
};
extern struct iw_dev iw_dev;
/* Give a queue pair its number and enter it; -1 if none is free (ENOMEM).  Undone by iw_dev_remove. */
int iw_dev_add(struct iw_qp *qp);
void iw_dev_remove(struct iw_qp *qp);

/* ---- completion queues ---- */

struct iw_chan {
	struct ibv_comp_channel ch;	/* ch.fd is an epoll of evfd and the CQs' epolls */
	int evfd;
	iw_spin lock;
	struct iw_cq *head, *tail;	/* with events not yet taken */
	bool told;			/* evfd is readable */
	atomic_bool patient;		/* its application has made it non-blocking */
	unsigned int taking;		/* threads that receive now, and look for events after */
	unsigned int ncq;
	struct iw_cq *only;		/* if there has never been another */
};

struct iw_cq {
	struct ibv_cq cq;
	iw_spin progress;
	iw_spin ring_lock;
	atomic_uint head, tail;		/* free running, 0 where empty; under ring_lock */
	uint32_t mask;
	struct ibv_wc *ring;
	enum { IW_DISARMED, IW_ARMED, IW_ARMED_SOLICITED } armed;	/* ring_lock */
	atomic_uint polls;		/* tells the helper that somebody is at it */
	atomic_uint users;		/* queue pairs made with it */

	/* under progress (turn.c) */
	struct iw_turn *ready, **ready_end;	/* the queue pairs to receive for, in line */
	unsigned int nready, nmore;	/* of them, surely with something to be done */
	unsigned int nlive, skipped, patience, crowd;
	uint32_t naps;			/* times that it was armed */
	bool rests;			/* armed, and not polled since: the line is empty */
	uint8_t *staging;
	atomic_uint nlive_hint;		/* nlive, for a look without the lock */

	int epfd;			/* sockets of the queue pairs attached, edge-triggered */
	struct iw_cq *next_event;	/* chan->lock */
	unsigned int events;		/* chan->lock: queued on the channel */
	unsigned int delivered;		/* cq.mutex */
	atomic_bool silent;		/* the channel's epoll does not tell of this one */
};

struct ibv_comp_channel *iw_create_comp_channel(struct ibv_context *context);
int iw_destroy_comp_channel(struct ibv_comp_channel *channel);
int iw_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void iw_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);
void iw_chan_event(struct iw_chan *chan, struct iw_cq *cq);
/* One CQ more, or one less (n: -1). */
void iw_chan_add(struct iw_chan *chan, struct iw_cq *cq, int n);
void iw_chan_armed(struct iw_chan *chan, struct iw_cq *cq);
void iw_chan_forget(struct iw_chan *chan, struct iw_cq *cq);

struct ibv_cq *iw_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);
int iw_resize_cq(struct ibv_cq *cq, int cqe);
int iw_destroy_cq(struct ibv_cq *cq);
int iw_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc);
int iw_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void iw_cq_push(struct iw_cq *cq, const struct ibv_wc *wc, unsigned int n, bool solicited);
bool iw_cq_armed(struct iw_cq *cq);
/* Receive for the CQ's queue pairs that are ready; ask: also ask epoll, whatever else there is to do. */
void iw_cq_progress(struct iw_cq *cq, bool ask);
/* The CQ was armed: all that is left to do has to stir its epoll, on which somebody may sleep. */
void iw_cq_nap(struct iw_cq *cq);
int iw_cq_attach(struct iw_cq *cq, struct iw_qp *qp);
void iw_cq_detach(struct iw_cq *cq, struct iw_qp *qp);

/* ---- queue pairs ---- */

enum { IW_SEND_STABLE = 1 << 16 };	/* verbs.send_stable, far from the flags of libibverbs */

struct iw_swr {				/* a send work request */
	uint64_t wr_id;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t inval;			/* BIND: the window's new STag, with rkey its region's */
	uint32_t len;
	union {
		struct {
			uint32_t seg;	/* payload of each FPDU but the last */
			uint32_t msn;
			uint32_t placed;	/* READ: bytes that came */
		};
		struct {
			uint64_t bind_len;
			int bind_access;
		};
	};
	uint16_t num_sge;
	uint8_t wc_opcode;
	uint8_t rdmap;			/* enum rdmap_opcode, or IW_OP_* */
	bool inline_data, signaled, fence, done;
	bool stable;			/* what it sends does not change until it is done */
};
/* Work requests that send nothing. */
enum { IW_OP_LOCAL = 0x10, IW_OP_LOCAL_INV = 0x10, IW_OP_BIND = 0x11 };

struct iw_rwr {
	uint64_t wr_id;
	uint32_t len;
	uint32_t num_sge;
};

struct iw_irq {				/* a READ of the peer's, to be answered */
	uint64_t sink_to, src_to;
	uint32_t sink_stag, src_stag, size, seg;
};

enum iw_rx_state { IW_RX_HEADER, IW_RX_PAYLOAD, IW_RX_TRAILER };

struct iw_rx {
	enum iw_rx_state state;
	uint8_t hdr[FPDU_HDR_MAX];	/* of the FPDU being received, as far as it is here */
	uint32_t hdr_have;
	uint32_t ulpdu_len;
	uint32_t remain;		/* payload or trailer still to come */
	uint8_t opcode;
	bool last;
	bool big;			/* large payloads lately: receive them in place */
	uint8_t small_run;
	uint32_t stag;			/* tagged: where the next byte goes */
	uint64_t to;
	uint32_t send_msn, read_msn;	/* expected */
	uint32_t mo;			/* bytes of the open Send received */
	uint32_t term_have;
	uint8_t term[FPDU_TERM_CTRL + FPDU_HDR_MAX];
	/* CRC on: an FPDU is whole before a byte of it is looked at, but for large ones: see rx_crc.c */
	uint32_t crc;			/* of one of those, so far */
	uint8_t *carry;
	uint32_t carry_have;
	/*
	 * No receive was there for a Send: its header (in hdr) or FPDU (in carry) waits, if it was not
	 * found whole in the stash, which is what had been received behind it.
	 */
	bool waits, header_waits;
	uint8_t *stash;
	uint32_t stash_off, stash_len;
};

enum iw_kind { IW_TX_SQ, IW_TX_READ_RESP };

struct iw_tx {
	uint32_t off;			/* payload bytes of sq[tx] already in sent FPDUs */
	uint32_t rr_off;		/* the same for irq[irq_head] */
	uint32_t part;			/* bytes of the current FPDU that the socket has taken */
	enum iw_kind kind;		/* of the current FPDU */
	uint32_t send_msn, read_msn;	/* next */
	uint32_t mulpdu, mulpdu_left;	/* largest ULPDU, and messages until that is looked at again */
	bool hold;			/* responder: silent until the first FPDU came */
	atomic_bool blocked;		/* the socket is full (the helper looks without the lock) */
	bool watched;			/* the CQs' epolls tell when the socket is no longer full */
	bool yielded;			/* blocked although the socket is not full: no edge will tell */
	/* CRC on: FPDUs are built here, so that the CRC is of the bytes that are sent */
	uint8_t *bounce;
	uint32_t bounce_off, bounce_len;
};

enum iw_watch { IW_WATCH_NONE, IW_WATCH_ASLEEP, IW_WATCH_TICK };

/* A queue pair's place among those that a CQ receives for, under cq->progress (turn.c). */
struct iw_turn {
	struct iw_qp *qp;
	struct iw_turn *next, **prev;	/* prev: NULL when not in line */
	bool more;			/* there is something to be done; else it may be */
	bool end;			/* epoll spoke of the stream's end: receive until it comes */
	bool hup;
	uint8_t full;			/* visits that brought something, since nap */
	unsigned int misses;		/* visits in a row that brought nothing */
	uint32_t nap;			/* cq->naps then */
};

/* What came of receiving and sending for a queue pair. */
struct iw_visit {
	int bytes;			/* received */
	bool more;			/* not all that there was, or somebody else is at it */
	bool ended;
};

struct iw_qp {
	struct ibv_qp qp;
	iw_spin lock;
	atomic_int state;		/* enum ibv_qp_state */
	int fd;
	bool crc;
	bool sq_sig_all;
	bool initiator;
	struct ibv_qp_cap cap;
	uint16_t ird, ord;

	struct iw_swr *sq;
	struct ibv_sge *sq_sge;
	uint8_t *sq_inline;
	uint32_t sq_size, sq_head, sq_tx, sq_tail;	/* free running */
	struct iw_srq *srq;		/* if there is one, rq has a single place, filled from it */
	struct iw_srq_place place;
	const struct ibv_pd *recv_pd;
	struct iw_rwr *rq;
	struct ibv_sge *rq_sge;
	uint32_t rq_size, rq_head, rq_tail;
	struct iw_irq *irq;
	uint32_t irq_head, irq_tail;	/* free running, modulo IW_MAX_IRD */
	uint32_t reads_out;
	uint32_t read_next;		/* sq index of the oldest READ not answered */
	uint32_t sink_stag;		/* names the sinks of our READs; no memory region has it */
	struct iw_windows windows;

	struct iw_turn turns[2];	/* on the receive CQ, and the send CQ if that is another */
	struct iw_rx rx;
	struct iw_tx tx;
	uint32_t sq_fail_index, rq_fail_index;	/* completes with *_fail_status, not flushed */
	enum ibv_wc_status sq_fail_status, rq_fail_status;
	bool tx_due;			/* receiving made something sendable */
	atomic_uint rx_count;		/* bumped with each receive: tells the helper of traffic */

	/* the end, written once under lock */
	char reason[IW_REASON];
	atomic_bool ended;		/* reason stands, the helper has work to do */
	bool reaped;			/* iw_cm_lock: the helper has done it */
	uint8_t *last_words;		/* rest of a cut FPDU and the TERMINATE */
	uint32_t last_len;

	/* iw_cm_lock */
	struct iw_id *id;
	struct list_link ticking;	/* of the helper's list of those in TICK */
	atomic_int watch;		/* enum iw_watch */
	atomic_bool attention;		/* in the helper's stack of those that called for it */
	struct iw_qp *attention_next;
	uint32_t seen_polls, seen_rx;
	struct iw_qp *dev_next, **dev_prev;	/* iw_dev.lock */
};

static inline struct iw_qp *iw_qp(struct ibv_qp *qp)
{
	return (struct iw_qp *)qp;
}

static inline struct iw_cq *iw_cq(struct ibv_cq *cq)
{
	return (struct iw_cq *)cq;
}

struct iw_qp *iw_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void iw_qp_free(struct iw_qp *qp);
int iw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init);
int iw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
/* The handshake is over: fd belongs to the queue pair from here on (also if this fails). */
int iw_qp_start(struct iw_qp *qp, int fd, bool crc, bool initiator, unsigned int ird,
		unsigned int ord);
/*
 * End the connection, qp->lock held: TERMINATE (unless TERM_NONE) with the offending header copied,
 * flush, error state.  The rest of it (closing in order, the CM event) is the helper's.
 */
void iw_qp_fail(struct iw_qp *qp, uint16_t term, const uint8_t *hdr, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void iw_qp_flush(struct iw_qp *qp);
/*
 * Receive and send what can be, within bounds that leave time for the others; qp->lock not held.  to_end:
 * a short receive is not the last.
 */
struct iw_visit iw_qp_visit(struct iw_qp *qp, uint8_t *staging, bool try_only, bool to_end);
/* The same, on behalf of nobody's CQ.  Bytes received, 0, or -1 for an ended one. */
int iw_qp_progress(struct iw_qp *qp, uint8_t *staging, bool try_only);
/* The CQs' epolls are to tell of the queue pair once more, soon. */
void iw_qp_stir(struct iw_qp *qp);
void iw_turn_stir(struct iw_cq *cq, struct iw_turn *turn);
/* A queue pair that waits for a receive is promised one: whoever polls comes round.  Under srq->lock. */
void iw_qp_wake(struct iw_qp *qp);
/* epoll said that the connection is gone, which a queue pair that receives nothing does not notice. */
void iw_qp_hangup(struct iw_qp *qp);

int iw_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int iw_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void iw_tx_run(struct iw_qp *qp);
bool iw_tx_pending(const struct iw_qp *qp);
void iw_sq_sweep(struct iw_qp *qp);
uint32_t iw_tx_rest(struct iw_qp *qp, uint8_t *buf);
void iw_wc_send(struct iw_qp *qp, const struct iw_swr *wr, enum ibv_wc_status status);
/* Payload of each FPDU but the last of a message of len bytes, whose headers have hdr_len. */
uint32_t iw_segment(struct iw_qp *qp, uint32_t len, uint32_t hdr_len);
int iw_take_sges(struct ibv_sge *to, const struct ibv_sge *from, int num, uint32_t *len);
/* Gather len bytes at off of a list of SGEs; iovecs used, or -1 with the access error in *err. */
int iw_sge_iov(const struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t num_sge, uint64_t off,
	       uint32_t len, int access, struct iovec *iov, enum iw_access *err);

static inline struct iw_swr *iw_sq(const struct iw_qp *qp, uint32_t i)
{
	return &qp->sq[i & (qp->sq_size - 1)];
}

/* Bytes received, -1 for an ended one; more: not all that there was. */
int iw_rx_run(struct iw_qp *qp, uint8_t *staging, bool to_end, bool *more);
/* Feed received bytes; -1 when the connection ended. */
int iw_rx_bytes(struct iw_qp *qp, uint8_t *data, uint32_t len);
/* -1 if the connection ended over it, 1 if there is no receive for it yet: then once more, later. */
int iw_rx_header(struct iw_qp *qp, const uint8_t *hdr, uint32_t hdr_len);
/* Whether the tagged FPDU of this header may go to its place before its CRC is known. */
bool iw_rx_may_place(const struct iw_qp *qp, const uint8_t *hdr);
int iw_rx_place_iov(struct iw_qp *qp, uint32_t max, struct iovec *iov);
void iw_rx_placed(struct iw_qp *qp, uint32_t n);
int iw_rx_place(struct iw_qp *qp, const uint8_t *data, uint32_t len);
int iw_rx_place_whole(struct iw_qp *qp, const uint8_t *data, uint32_t len);
int iw_rx_segment_end(struct iw_qp *qp);

uint32_t iw_term_build(uint8_t *buf, uint16_t code, const uint8_t *hdr, bool crc);
void iw_term_text(uint16_t code, char *buf, size_t len);

/* ---- MPA, pure ---- */

struct iw_mpa {
	bool reply, markers, crc, reject, enhanced;
	uint8_t revision;
	uint16_t ird_word, ord_word;
	uint16_t pd_len;		/* without the two words */
	const uint8_t *pd;
};
/* Frame into buf (MPA_FRAME_MAX bytes); its length. */
uint32_t iw_mpa_put(uint8_t *buf, const struct iw_mpa *m);
/*
 * What have bytes of a frame are: 0 and *need (bytes wanted in all), the frame's length when it is
 * complete (m filled), or -1 with the complaint in *why.
 */
int iw_mpa_get(const uint8_t *buf, uint32_t have, bool reply, struct iw_mpa *m, uint32_t *need,
	       const char **why);

/* ---- helper and CM ---- */

extern pthread_mutex_t iw_cm_lock;
void iw_helper_kick(void);		/* any lock may be held */
/* The same: qp ended and is to be reaped, or is stuck with something to send and is to be watched. */
void iw_helper_attention(struct iw_qp *qp);
void iw_helper_forget(struct iw_qp *qp);	/* it goes away, and nobody calls for it from here on */
const char *iw_addr_text(const struct sockaddr *sa, char *buf, size_t len);
int iw_tune_socket(int fd);

#endif
