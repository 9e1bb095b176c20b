/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connected queue pairs in one process. */
#ifndef IWARP_PAIR_H
#define IWARP_PAIR_H

#include "check.h"
#include "stats.h"
#include "verbs.h"

enum { SIDE_MEM = 4 << 20, DEPTH = 128 };

struct side {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *mem;
	struct ibv_mr *mr;
};

struct pair {
	struct side a, b;		/* initiator, responder */
	struct rdma_cm_id *listener;
	struct rdma_conn_param seen_request, seen_reply;
	uint8_t request_pd[256], reply_pd[256];
};

struct pair_options {
	const char *host;		/* default 127.0.0.1 */
	int ird, ord;			/* both sides' depths; 0: 16, -1: 0 */
	int depth;			/* of the queues; 0: DEPTH */
	int access;			/* of the memory; 0: everything */
	const void *pd;			/* private data both ways */
	uint8_t pd_len;
	int sge;			/* 0: 4 */
};

extern const struct verbs *v;

void check(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next event on a channel, acknowledged; its type, or -1.  Any of the pointers may be NULL. */
int next_event(struct rdma_event_channel *ch, struct rdma_cm_id **id, int *status,
	       struct rdma_conn_param *param, uint8_t *pd);
int side_objects(struct side *s, const struct pair_options *o);
int side_qp(struct side *s, const struct pair_options *o);
void side_close(struct side *s);
struct rdma_cm_id *listen_on(struct rdma_event_channel *ch, const char *host, int *port);
/* resolve to host:port; 0 when the route is there */
int resolve(struct side *s, const char *host, int port);
int pair_open(struct pair *p, const struct pair_options *o);
void pair_close(struct pair *p);

int post_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len);
int post_send(struct side *s, uint64_t wr_id, enum ibv_wr_opcode op, unsigned int flags,
	      uint32_t off, uint32_t len, uint64_t raddr, uint32_t rkey);
/* A completion, polling the other side too if given (its completions are for later). */
int next_wc(struct side *s, struct side *other, struct ibv_wc *wc);
/* the same, checked */
void expect_wc(struct side *s, struct side *other, uint64_t wr_id, enum ibv_wc_status status,
	       const char *what);
double now_s(void);

void test_numbers(void);
void test_verbs(void);
void test_verbs_more(void);
void test_windows(void);
void test_regs(void);
void test_srq(void);
void test_cm(void);
void test_peers(void);
void test_wire(void);
void test_crc(void);
void test_frames(void);
void test_ends(void);
#define BE_KILLED "be-killed"	/* the name under which test_ends runs be_killed in a process of its own */
int be_killed(const char *tell);
void test_strict(void);
void test_segments(void);
void test_idle(void);
void test_many(void);
void test_turns(void);
void test_quiet(void);
void test_ahead(void);
void test_leaves(void);

#endif
