/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures of persistent memory, at every instruction that makes it persistent.
 *
 * store/persist.c, store/stream.c and util/lines.c are compiled here with a model in place of their instructions: a
 * store is in the cache; clwb, clflushopt and clflush take a line of it, and a non-temporal store its bytes, to a
 * queue; a fence takes the queue to the media.  After a call, whatever else is lost, its bytes must be on the media.
 * The proof can fail: without any one write-back or fence of a call, they are not.
 */
#include "check.h"

#if !defined(__x86_64__)
int main(void)
{
	return 77;	/* the files do nothing there */
}
#else
#include <cpuid.h>
#include <immintrin.h>
#include <stdlib.h>

enum { BYTES = 2048, QUEUED = 256, NOTHING = -1 };

static _Alignas(64) uint8_t memory[BYTES];	/* the processor's view */
static uint8_t media[BYTES];			/* the content after a power failure */
static struct { size_t at, length; uint8_t bytes[64]; } queue[QUEUED];
static unsigned queued;
static int steps, left_out = NOTHING;		/* write-backs and fences; the one that does nothing */

static void model_queue(const void *at, size_t length)
{
	const size_t offset = (size_t)((const uint8_t *)at - memory);

	if (!CHECK(offset < BYTES && length <= BYTES - offset && queued < QUEUED))
		return;
	queue[queued].at = offset;
	queue[queued].length = length;
	memcpy(queue[queued++].bytes, at, length);
}

static void model_write_back(const void *at)
{
	if (steps++ != left_out)
		model_queue((const void *)((uintptr_t)at & ~(uintptr_t)63), 64);
}

static void model_fence(void)
{
	if (steps++ == left_out)
		return;
	for (unsigned i = 0; i < queued; i++)
		memcpy(media + queue[i].at, queue[i].bytes, queue[i].length);
	queued = 0;
}

static void model_stream_16(void *to, __m128i from)
{
	_mm_storeu_si128(to, from);
	model_queue(to, 16);
}

__attribute__((target("avx2")))
static void model_stream_32(void *to, __m256i from)
{
	_mm256_storeu_si256(to, from);
	model_queue(to, 32);
}

static void model_stream_8(void *to, long long from)
{
	memcpy(to, &from, 8);
	model_queue(to, 8);
}

#define _mm_clwb(at) model_write_back(at)
#define _mm_clflushopt(at) model_write_back(at)
#define _mm_clflush(at) model_write_back(at)
#define _mm_sfence() model_fence()
#define _mm_stream_si128(to, from) model_stream_16(to, from)
#define _mm256_stream_si256(to, from) model_stream_32(to, from)
#define _mm_stream_si64(to, from) model_stream_8(to, from)
#include "store/stream.c"
#define LINE LINE_OF_PERSIST
#include "store/persist.c"
#undef LINE
#define LINE LINE_OF_LINES
#include "util/lines.c"
#undef LINE

/* ---- calls ---- */

struct call {
	const char *name;
	void (*run)(size_t at, const uint8_t *data, size_t length);
	size_t unit;			/* places and lengths are multiples of it */
};

static void copy(size_t at, const uint8_t *data, size_t length)
{
	store_persist_copy(memory + at, data, length);
}

static void word(size_t at, const uint8_t *data, size_t length)
{
	uint64_t value;

	(void)length;
	memcpy(&value, data, 8);
	store_persist_word((uint64_t *)(void *)(memory + at), value);
}

/* As a device places data. */
static void placed(size_t at, const uint8_t *data, size_t length)
{
	memcpy(memory + at, data, length);
	lines_write_back(memory + at, length);
}

/* The data's last lines, with an instruction that this processor may not have. */
static void placed_by(write_back_fn f, size_t at, const uint8_t *data, size_t length)
{
	memcpy(memory + at, data, length);
	f((uintptr_t)(memory + at) & ~(uintptr_t)63, (uintptr_t)(memory + at) + length);
	model_fence();
}

static void by_clwb(size_t at, const uint8_t *data, size_t length)
{
	placed_by(write_back_clwb, at, data, length);
}

static void by_clflushopt(size_t at, const uint8_t *data, size_t length)
{
	placed_by(write_back_clflushopt, at, data, length);
}

static void by_clflush(size_t at, const uint8_t *data, size_t length)
{
	placed_by(write_back_clflush, at, data, length);
}

static void lines_sse2(size_t at, const uint8_t *data, size_t length)
{
	stream_lines_sse2(memory + at, data, length);
	model_fence();
}

/* ---- one call ---- */

/* Whether the bytes are on the media after it, and all others are as before. */
static bool call_holds(const struct call *call, size_t at, size_t length)
{
	uint8_t data[BYTES], before[BYTES];

	for (size_t i = 0; i < BYTES; i++) {
		memory[i] = media[i] = before[i] = (uint8_t)rand();
		data[i] = (uint8_t)~before[(at + i) % BYTES];
	}
	steps = 0;
	queued = 0;
	call->run(at, data, length);
	return !memcmp(media + at, data, length) && !memcmp(memory, media, BYTES) &&
	       !memcmp(media, before, at) && !memcmp(media + at + length, before + at + length, BYTES - at - length);
}

static void each_step(const struct call *call)
{
	enum { TRIALS = 300 };
	unsigned bad = 0, missed = 0, all = 0;

	check_section(call->name);
	for (unsigned trial = 0; trial < TRIALS; trial++) {
		const size_t most = trial % 2 ? 200 : 1500;
		const size_t length = call->unit == 8 ? 8 : (1 + (size_t)rand() % (most / call->unit)) * call->unit;
		const size_t at = (size_t)rand() % ((BYTES - length) / call->unit + 1) * call->unit;
		int there;

		bad += !call_holds(call, at, length);
		there = steps;
		for (left_out = 0; left_out < there; left_out++, all++)
			missed += call_holds(call, at, length);
		left_out = NOTHING;
	}
	CHECK(!bad, "(%u of %d)", bad, TRIALS);
	CHECK(all && !missed, "(of %u write-backs and fences that were left out, %u were not missed)", all, missed);
}

int main(int argc, char **argv)
{
	static const struct call calls[] = {
		{ "store_persist_copy", copy, 1 },
		{ "its lines, without AVX2", lines_sse2, 64 },
		{ "store_persist_word", word, 8 },
		{ "lines_write_back", placed, 1 },
		{ "with clwb", by_clwb, 1 },
		{ "with clflushopt", by_clflushopt, 1 },
		{ "with clflush", by_clflush, 1 },
	};

	check_begin(&argc, argv);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		each_step(&calls[i]);
	return check_report();
}
#endif
