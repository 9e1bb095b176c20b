/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the host side share: connecting a queue and waiting for it. */
#ifndef NVMF_HOST_RIG_H
#define NVMF_HOST_RIG_H

#include "host/host.h"

#include <time.h>

static inline double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static inline struct host_queue *connect_to(struct host_device *d, const char *addr, const char *port,
				     uint16_t qid, uint16_t size, bool notify, struct host_error *e)
{
	const struct host_queue_options o = {
		.traddr = addr, .trsvcid = port, .qid = qid, .size = size, .timeout_ms = 1500,
		.notify = notify, .in_capsule = 8192,
	};

	return host_queue_connect(d, &o, e);
}

static inline int poll_for(struct host_queue *q, struct host_completion *done, double seconds)
{
	const double until = seconds_now() + seconds;
	int n;

	do
		n = host_queue_poll(q, done, 1);
	while (!n && seconds_now() < until);
	return n;
}

#endif
