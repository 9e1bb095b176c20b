/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the embedded iWARP device. */
#include "iwarp_pair.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "numbers", test_numbers },
	{ "verbs", test_verbs },
	{ "verbs_more", test_verbs_more },
	{ "windows", test_windows },
	{ "srq", test_srq },
	{ "regs", test_regs },
	{ "cm", test_cm },
	{ "peers", test_peers },
	{ "wire", test_wire },
	{ "crc", test_crc },
	{ "frames", test_frames },
	{ "ends", test_ends },
	{ "strict", test_strict },
	{ "segments", test_segments },
	{ "idle", test_idle },
	{ "many", test_many },
	{ "turns", test_turns },
	{ "quiet", test_quiet },
	{ "ahead", test_ahead },
	{ "leaves", test_leaves },
};

/* iwarp_test [-v] [name...] */
int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	v = verbs_iwarp();
	if (argc == 3 && !strcmp(argv[1], BE_KILLED))
		return be_killed(argv[2]);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int wanted = argc == 1;

		for (int k = 1; k < argc; k++)
			wanted |= !strcmp(argv[k], tests[i].name);
		if (!wanted)
			continue;
		check_section(tests[i].name);
		tests[i].run();
	}
	return check_report();
}
