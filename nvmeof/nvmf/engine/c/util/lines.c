/* SPDX-License-Identifier: BSD-3-Clause */
/* See lines.h.  Owns nothing; the choice of instruction is made once. */
#include "util/lines.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { LINE = 64 };

/* clwb keeps the line in the cache, clflushopt does not, and clflush also waits for each line. */
__attribute__((target("clwb")))
static void write_back_clwb(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += LINE)
		_mm_clwb((void *)at);
}

__attribute__((target("clflushopt")))
static void write_back_clflushopt(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += LINE)
		_mm_clflushopt((void *)at);
}

static void write_back_clflush(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += LINE)
		_mm_clflush((const void *)at);
}

typedef void (*write_back_fn)(uintptr_t at, uintptr_t end);

static write_back_fn choose(void)
{
	unsigned int a, b = 0, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return write_back_clflush;
	if (b & bit_CLWB)
		return write_back_clwb;
	return b & bit_CLFLUSHOPT ? write_back_clflushopt : write_back_clflush;
}

void lines_write_back(const void *from, size_t length)
{
	static write_back_fn chosen;
	write_back_fn f = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
	uintptr_t at = (uintptr_t)from;

	if (!length)
		return;
	if (!f) {
		f = choose();
		__atomic_store_n(&chosen, f, __ATOMIC_RELAXED);
	}
	f(at & ~(uintptr_t)(LINE - 1), at + length);
	_mm_sfence();
}

#else

void lines_write_back(const void *from, size_t length)
{
	(void)from;
	(void)length;
}

#endif
