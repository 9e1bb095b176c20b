/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends one command and waits for it: C programs set up their queues in this way.
 *
 * Runs on the thread that polls the queue, which sleeps if the queue has a descriptor.
 */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

static void command_sleep(struct host_queue *q, uint64_t deadline)
{
	const uint64_t now = clock_ns();
	struct pollfd p = { .fd = host_queue_fd(q), .events = POLLIN };

	if (now < deadline && poll(&p, 1, (int)((deadline - now) / 1000000) + 1) > 0)
		host_queue_drain(q);
}

/* The time of the next nudge if the command is a Connect that may need one, otherwise UINT64_MAX. */
static uint64_t command_nudge(struct host_queue *q, const struct nvme_sqe *sqe)
{
	const bool connect = sqe->opc == NVME_OPC_FABRICS && sqe->nsid == NVME_FCTYPE_CONNECT;
	const unsigned ms = connect ? host_queue_nudge(q) : 0;

	return ms ? clock_ns() + ms * 1000000ull : UINT64_MAX;
}

int host_queue_command(struct host_queue *queue, const struct nvme_sqe *sqe,
		       const struct host_data *data, uint32_t timeout_ms, struct nvme_cqe *cqe)
{
	const uint64_t deadline = clock_ns() + timeout_ms * 1000000ull;
	struct host_completion c;
	bool armed = false;
	int ret = host_queue_submit(queue, sqe, data, cqe, false);
	uint64_t next = ret < 0 ? UINT64_MAX : command_nudge(queue, sqe);

	for (unsigned spins = 0; ret >= 0; spins++) {
		ret = host_queue_poll(queue, &c, 1);
		if (ret == 1 && c.user == cqe) {
			*cqe = c.cqe;
			return c.cqe.status >> 1;
		}
		if (ret)
			continue;
		if (host_queue_fd(queue) >= 0) {
			if (armed)
				command_sleep(queue, next < deadline ? next : deadline);
			else
				host_queue_arm(queue);
			armed = !armed;
		} else if (spins % 64) {
			continue;
		} else {
			sched_yield();	/* the target may share the processor */
		}

		const uint64_t now = clock_ns();

		if (now >= next)
			next = command_nudge(queue, sqe);
		if (now >= deadline) {
			host_queue_lose(queue, "no answer to a command within %u ms", timeout_ms);
			queue->verbs->disconnect(queue->id);
			return -ETIMEDOUT;
		}
	}
	return ret;
}
