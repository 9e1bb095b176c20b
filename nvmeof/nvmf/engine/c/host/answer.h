/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands whose completions are counted in C: the user of such a command (host_queue_submit) begins with a
 * host_answer.
 */
#ifndef NVMF_HOST_ANSWER_H
#define NVMF_HOST_ANSWER_H

#include "host/host.h"

struct host_answer {
	void (*take)(struct host_answer *answer, const struct nvme_cqe *cqe);
};

static inline void host_answer_take(void *user, const struct nvme_cqe *cqe)
{
	struct host_answer *a = user;

	a->take(a, cqe);
}

#endif
