/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the host side: connecting a queue and waiting for it. */
#ifndef NVMF_HOST_RIG_H
#define NVMF_HOST_RIG_H

#include "check.h"
#include "host/host.h"

#include <time.h>

static inline double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* A queue whose connection attempt fails only after timeout_ms without an answer. */
static inline struct host_queue *connect_within(struct host_device *d, const char *addr,
						const char *port, uint16_t qid, uint16_t size,
						bool notify, int timeout_ms, struct host_error *e)
{
	const struct host_queue_options o = {
		.traddr = addr, .trsvcid = port, .qid = qid, .size = size, .timeout_ms = timeout_ms,
		.notify = notify, .in_capsule = 8192,
	};

	return host_queue_connect(d, &o, e);
}

static inline struct host_queue *connect_to(struct host_device *d, const char *addr, const char *port,
				     uint16_t qid, uint16_t size, bool notify, struct host_error *e)
{
	return connect_within(d, addr, port, qid, size, notify, CHECK_PATIENCE_S * 1000, e);
}

static inline int poll_for(struct host_queue *q, struct host_completion *done)
{
	const double until = seconds_now() + CHECK_PATIENCE_S;
	int n;

	do
		n = host_queue_poll(q, done, 1);
	while (!n && seconds_now() < until);
	return n;
}

#endif
