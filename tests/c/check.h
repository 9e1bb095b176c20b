/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks for C tests: each is counted, a failed one says where, and the test goes on. */
#ifndef NVMF_CHECK_H
#define NVMF_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static unsigned checks_passed, checks_failed;

static inline bool check_that(bool ok, const char *what, const char *got, const char *file, int line)
{
	if (ok) {
		checks_passed++;
	} else {
		checks_failed++;
		fprintf(stderr, "%s:%d: failed: %s%s%s\n", file, line, what, got ? ": " : "",
			got ? got : "");
	}
	return ok;
}

#define CHECK(x) check_that((x), #x, NULL, __FILE__, __LINE__)
#define CHECK_STR(got, want) check_that(!strcmp((got), (want)), #got " is " #want, (got), __FILE__, __LINE__)
#define CHECK_HAS(got, part) check_that(strstr((got), (part)), #got " has " #part, (got), __FILE__, __LINE__)

static inline int check_report(void)
{
	printf("%u passed, %u failed\n", checks_passed, checks_failed);
	return checks_failed ? 1 : 0;
}

#endif
