/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Background threads: calls of libibverbs and librdmacm that block, in the order in which they were posted.
 *
 * A target has two, so that connections end in time although memory is being registered: `ends` ends
 * connections and destroys queue pairs, `memory` opens devices and registers and deregisters memory.
 */
#ifndef NVMF_TARGET_BACKGROUND_H
#define NVMF_TARGET_BACKGROUND_H

#include <stdint.h>

struct job {			/* embedded in the object that it concerns */
	struct job *next;
	void (*run)(struct job *job);
};

struct background;

struct background *background_start(const char *name);	/* NULL with errno */
/* Any thread; never blocks.  background NULL: the job runs at once, on this thread. */
void background_post(struct background *background, struct job *job, void (*run)(struct job *job));
/* Run the posted jobs, then end the thread and free it; -ETIMEDOUT, with nothing freed, if a job does not end. */
int background_stop(struct background *background, uint64_t deadline);

#endif
