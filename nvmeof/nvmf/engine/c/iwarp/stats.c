/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's counters.  Any thread. */
#include "stats.h"

struct iwarp_stats iw_stats;
struct iwarp_live iw_live;

const struct iwarp_stats *iwarp_get_stats(void)
{
	return &iw_stats;
}

const struct iwarp_live *iwarp_get_live(void)
{
	return &iw_live;
}
