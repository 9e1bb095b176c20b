/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of memory that have failed: what is within a range, what is forgotten, and a full table. */
#include "check.h"
#include "util/bad.h"

enum { PAGE = 4096 };

int main(int argc, char **argv)
{
	const uintptr_t base = 64 * PAGE;

	check_begin(&argc, argv);
	CHECK(!bad_within(0, SIZE_MAX), "nothing has failed yet");
	bad_add(base + 2 * PAGE, PAGE);
	CHECK(bad_within(base, 8 * PAGE), "the page is in the region");
	CHECK(bad_within(base + 3 * PAGE - 1, 1), "the last byte of the page");
	CHECK(!bad_within(base + 3 * PAGE, PAGE), "the page after it");
	CHECK(!bad_within(base, 2 * PAGE), "the pages before it");
	bad_add(base + 5 * PAGE, 2 * PAGE);
	bad_forget(base, 4 * PAGE);
	CHECK(!bad_within(base, 4 * PAGE), "a range that was mapped again");
	CHECK(bad_within(base, 8 * PAGE), "and one that was not");
	bad_forget(base, 8 * PAGE);
	CHECK(!bad_within(0, SIZE_MAX), "all were mapped again");
	for (uintptr_t page = 0; page < 1000; page++)
		bad_add(base + page * PAGE, PAGE);
	CHECK(bad_within(PAGE, 1), "without room for a range, all memory counts as bad");
	return check_report();
}
