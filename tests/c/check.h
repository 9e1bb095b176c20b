/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks for C tests.  A passed one is counted, and printed where the test was given -v; a failed one
 * is printed at once and again at the end, so that a log that was cut still names it, and the test
 * goes on.  For one thread.
 */
#ifndef NVMF_CHECK_H
#define NVMF_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* For as long as this a condition is waited for: it ends a test that hangs, and asserts no speed. */
enum { CHECK_PATIENCE_S = 60 };

/*
 * First thing in main: takes -v out of the arguments, gives the embedded device's handshakes the same
 * patience, and sees to it that a test that dies, or hangs all the same, says where.
 */
void check_begin(int *argc, char **argv);

/* Counts the checks and names the failed ones; the exit status of the test. */
int check_report(void);

unsigned check_failures(void);

bool check_va(bool ok, const char *where, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));
bool check_that(bool ok, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* What happens beside the checks: printed with -v only. */
void check_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Where the test is: remembered for a test that dies, printed with -v. */
void check_section(const char *name);

/*
 * Whether the process's other threads sleep when there is nothing to do: for a tenth of a second not
 * one of them ran.  On a busy machine that may take several looks; threads that spin, or tick, pass in none.
 */
bool check_threads_sleep(const char *comm);

#define CHECK_LINE_(line) #line
#define CHECK_LINE(line) CHECK_LINE_(line)
#define CHECK_HERE __FILE__ ":" CHECK_LINE(__LINE__) ": "

/* CHECK(condition), CHECK(condition, format, ...): whether it holds */
#define CHECK(x, ...) check_that((x), CHECK_HERE #x ": ", " " __VA_ARGS__)
#define CHECK_STR(got, want) \
	check_that(!strcmp((got), (want)), CHECK_HERE, #got " is " #want ": %s", (got))
#define CHECK_HAS(got, part) \
	check_that(strstr((got), (part)) != NULL, CHECK_HERE, #got " has " #part ": %s", (got))

#endif
