/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections on one shared receive queue. */
#ifndef TESTS_IWARP_SHARED_H
#define TESTS_IWARP_SHARED_H

#include "iwarp_pair.h"

enum { PEERS = 24, SLOT = 256 };

/* Connections whose responders share a domain, a CQ and a receive queue. */
struct shared {
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct rdma_cm_id *ids[PEERS];
	struct side a[PEERS];
	struct rdma_event_channel *a_events;
	struct rdma_cm_id *listener;
	unsigned int n;
};

void shared_open(struct shared *s, unsigned int n, unsigned int max_wr);
void shared_close(struct shared *s);
/* A receive, into the slot with this number. */
int shared_post(struct shared *s, uint64_t wr_id);
/* Messages contain the sender and a sequence number. */
int shared_say(struct shared *s, unsigned int who, uint32_t seq, uint32_t len);
/* A receive completed: returns the sender, checked against the message. */
bool shared_heard(struct shared *s, const struct ibv_wc *wc, uint32_t *next);
/* Take the completions of the senders. */
void shared_drain(struct shared *s);

void srq_empty(bool crc);

#endif
