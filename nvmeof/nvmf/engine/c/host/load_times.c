/* SPDX-License-Identifier: BSD-3-Clause */
/* The latencies measured by a load: their sums and the reported values.  Runs on the thread that created the load. */
#include "load_thread.h"

#include <math.h>

void load_times_merge(struct load_times *into, const struct load_times *from)
{
	if (from->histogram.count && (!into->histogram.count || from->min < into->min))
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	into->sum += from->sum;
	into->squares += from->squares;
	histogram_merge(&into->histogram, &from->histogram);
}

void load_times_part(const struct load_times *t, const struct host_load_run *what,
		      double us_per_tick, struct host_load_part *part)
{
	const double n = (double)t->histogram.count;

	part->ios = t->histogram.count;
	if (!part->ios)
		return;

	const double mean = t->sum / n, variance = t->squares / n - mean * mean;

	part->min_us = (double)t->min * us_per_tick;
	part->max_us = (double)t->max * us_per_tick;
	part->mean_us = mean * us_per_tick;
	part->stddev_us = variance > 0 ? sqrt(variance) * us_per_tick : 0;
	for (unsigned i = 0; i < what->npercentiles; i++) {
		const double us = histogram_percentile(&t->histogram, what->percentiles[i]) * us_per_tick;

		/* the middle of a bucket may be outside the range of measured values */
		part->percentile_us[i] = fmin(fmax(us, part->min_us), part->max_us);
	}
}
