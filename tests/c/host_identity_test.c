/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's identity: the same as nvmf/initiator/base/identity.py makes from the same NQN and host ID, whatever the
 * machine.
 */
#include "check.h"
#include "host/controller.h"

static const struct {
	const char *nqn, *hostid;	/* given */
	const char *id;			/* expected; NULL: refused */
	const char *as;			/* the NQN, unless it is the one given */
} cases[] = {
	/* uuid5(_OURS, NQN): one block of the hash, two and three */
	{ "nqn.2026-11.io.example:host", NULL, "e54412f3032a5888b060dd4232cdc914", NULL },
	{ "nqn.2026-11.io.example:a-host-whose-name-fills", NULL, "71d19c374b485c7cb6d97d9ab7113e26", NULL },
	{ "nqn.2026-11.io.example:"
	  "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
	  "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh",
	  NULL, "d79d8e72feda537cbfec17672e1f5804", NULL },
	/* a UUID is the host ID itself */
	{ "nqn.2014-08.org.nvmexpress:uuid:0f48847c-0d1f-4468-9a19-f589fc88a692", NULL,
	  "0f48847c0d1f44689a19f589fc88a692", NULL },
	/* what is given counts */
	{ "nqn.2026-11.io.example:host", "0f48847c-0d1f-4468-9a19-f589fc88a692",
	  "0f48847c0d1f44689a19f589fc88a692", NULL },
	{ NULL, "0f48847c-0d1f-4468-9a19-f589fc88a692", "0f48847c0d1f44689a19f589fc88a692",
	  "nqn.2014-08.org.nvmexpress:uuid:0f48847c-0d1f-4468-9a19-f589fc88a692" },
	{ "nqn.2026-11.io.example:host", "not a UUID", NULL, NULL },
	{ "nqn.2026-11.io.example:host", "0f48847c-0d1f-4468-9a19-f589fc88a6", NULL, NULL },
};

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct host_controller_options o = { .subnqn = "nqn.2026-11.io.example:disk",
							   .hostnqn = cases[i].nqn, .hostid = cases[i].hostid };
		struct host_controller c = { 0 };
		struct host_error e = { 0 };
		char hex[33];
		const int ret = host_controller_identity(&c, &o, &e);

		if (!cases[i].id) {
			CHECK(ret == -EINVAL);
			CHECK_HAS(e.text, "is not a UUID");
			continue;
		}
		for (unsigned k = 0; k < 16; k++)
			sprintf(hex + 2 * k, "%02x", c.identity.hostid[k]);
		CHECK(!ret && !strcmp(hex, cases[i].id), "case %zu: %s", i, hex);
		CHECK_HAS(c.identity.hostnqn, cases[i].as ? cases[i].as : cases[i].nqn);
	}
	return check_report();
}
