/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of the embedded iWARP device, and reports of failed connections. */
#ifndef NVMF_IWARP_STATS_H
#define NVMF_IWARP_STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct iwarp_stats {
	atomic_uint_fast64_t handshakes;	/* MPA exchanges completed, either side */
	atomic_uint_fast64_t refused;		/* incoming connections ended for a bad or late request */
	atomic_uint_fast64_t rejected;		/* incoming requests rejected by the application */
	atomic_uint_fast64_t failed;		/* outgoing connections that failed */
	atomic_uint_fast64_t terminates_sent;
	atomic_uint_fast64_t terminates_received;
	atomic_uint_fast64_t helper_wakeups;
	atomic_uint_fast64_t helper_looks;	/* times the helper checked a queue pair, for its tick or when called */
	atomic_uint_fast64_t helper_served;	/* times the helper received for a queue that no thread polled */
};

extern struct iwarp_stats iw_stats;

/* The process's counters; always valid. */
const struct iwarp_stats *iwarp_get_stats(void);

/* The number of present objects of each kind: created, and not destroyed yet. */
struct iwarp_live {
	atomic_uint pd, mr, mw, cq, srq, qp;
	atomic_uint cm_id;		/* includes requests that were neither accepted nor rejected yet */
};
extern struct iwarp_live iw_live;
const struct iwarp_live *iwarp_get_live(void);

/* Called on the helper thread, with no lock of the caller's held, for every refused handshake. */
void iwarp_set_event_log(void (*log)(const char *peer, const char *what));

#endif
