/* SPDX-License-Identifier: BSD-3-Clause */
/* What the embedded iWARP device counts and says about connections that came to nothing. */
#ifndef NVMF_IWARP_STATS_H
#define NVMF_IWARP_STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct iwarp_stats {
	atomic_uint_fast64_t handshakes;	/* MPA exchanges completed, either side */
	atomic_uint_fast64_t refused;		/* incoming connections ended for a bad or late request */
	atomic_uint_fast64_t rejected;		/* incoming requests that the application rejected */
	atomic_uint_fast64_t failed;		/* outgoing connections that came to nothing */
	atomic_uint_fast64_t terminates_sent;
	atomic_uint_fast64_t terminates_received;
	atomic_uint_fast64_t helper_wakeups;
	atomic_uint_fast64_t helper_looks;	/* times it looked at a queue pair, for its tick or when called */
	atomic_uint_fast64_t helper_served;	/* times the helper received for a queue nobody polled */
};

extern struct iwarp_stats iw_stats;

/* The process's counters; always valid. */
const struct iwarp_stats *iwarp_get_stats(void);

/* What there is of each kind of object right now: made, and not destroyed yet. */
struct iwarp_live {
	atomic_uint pd, mr, mw, cq, srq, qp;
	atomic_uint cm_id;		/* with those of requests that nobody has decided yet */
};
extern struct iwarp_live iw_live;
const struct iwarp_live *iwarp_get_live(void);

/* Called on the helper thread, with no lock of the caller's held, for every refused handshake. */
void iwarp_set_event_log(void (*log)(const char *peer, const char *what));

#endif
