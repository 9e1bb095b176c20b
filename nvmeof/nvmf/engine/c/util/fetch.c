/* SPDX-License-Identifier: BSD-3-Clause */
/* The processor decides which prefetches help.  Owns fetch_waits, which is constant when main runs. */
#include "fetch.h"

bool fetch_waits;

#if defined(__x86_64__)
__attribute__((constructor)) static void fetch_choose(void)
{
	__builtin_cpu_init();
	fetch_waits = __builtin_cpu_is("intel");
}
#endif
