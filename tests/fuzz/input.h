/* SPDX-License-Identifier: BSD-3-Clause */
/* A fuzzer's input as a list of numbers: it has zeroes behind its end. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdint.h>

struct input {
	const uint8_t *p, *end;
};

static inline uint32_t take(struct input *in, int bytes)
{
	uint32_t value = 0;

	while (bytes-- && in->p < in->end)
		value = value << 8 | *in->p++;
	return value;
}

#endif
