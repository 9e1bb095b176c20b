/* SPDX-License-Identifier: BSD-3-Clause */
/* A pause for spinning threads between two checks, which helps the core's other thread.  Any thread. */
#ifndef NVMF_UTIL_PAUSE_H
#define NVMF_UTIL_PAUSE_H

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");	/* as long as x86's pause; yield has no effect on most cores */
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
