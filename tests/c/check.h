/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks for C tests.  A passed check is counted, and printed if the test was given -v; a failed one is printed at
 * once and again at the end, so that a truncated log still contains it, and the test continues.  For one thread.
 */
#ifndef NVMF_CHECK_H
#define NVMF_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The time limit for each condition: it ends a test that hangs, and asserts no speed. */
enum { CHECK_PATIENCE_S = 60 };

/*
 * Call it first in main: removes -v from the arguments, gives the embedded device's handshakes the same time limit,
 * and makes a test that dies or hangs report where.
 */
void check_begin(int *argc, char **argv);

/* Print the number of checks and the failed ones; returns the exit status of the test. */
int check_report(void);

unsigned check_failures(void);

bool check_va(bool ok, const char *where, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));
bool check_that(bool ok, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Further information: printed with -v only. */
void check_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The present section of the test: reported if the test dies, printed with -v. */
void check_section(const char *name);

/*
 * Whether the process's other threads sleep when there is nothing to do: none of them ran for a tenth of a second. On
 * a busy machine that may take several attempts; threads that spin, or tick, pass none.
 */
bool check_threads_sleep(const char *comm);

#define CHECK_LINE_(line) #line
#define CHECK_LINE(line) CHECK_LINE_(line)
#define CHECK_HERE __FILE__ ":" CHECK_LINE(__LINE__) ": "

/* CHECK(condition), CHECK(condition, format, ...): returns whether it holds */
#define CHECK(x, ...) check_that((x), CHECK_HERE #x ": ", " " __VA_ARGS__)
#define CHECK_STR(got, want) \
	check_that(!strcmp((got), (want)), CHECK_HERE, #got " is " #want ": %s", (got))
#define CHECK_HAS(got, part) \
	check_that(strstr((got), (part)) != NULL, CHECK_HERE, #got " has " #part ": %s", (got))

#endif
