/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a range for programs without Python, such as fio: OPEN and OPENED (nvmeof/docs/remote-memory.md). */
#include "host/controller.h"
#include "memory/client_open.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { RECFMT = 0x4d52, VERSION = 1, TRANSIENT_MS = 100 };

struct request {
	uint16_t recfmt, version, refusal, depth;
	uint8_t zero[8];
};
static_assert(sizeof(struct request) == 16, "private data");

struct open {
	uint8_t type, access;
	uint16_t flags;
	uint32_t nsid;
	uint8_t hostid[16];
	char subnqn[256], hostnqn[256];
};
static_assert(sizeof(struct open) == 536, "OPEN");

struct opened {
	uint8_t type, status;
	uint16_t platform;
	uint32_t key;
	uint64_t address, length;
	uint8_t zero[8];
	char text[256];
};
static_assert(sizeof(struct opened) == 288, "OPENED");

/* Wait for a message: 0, or a negative errno with a sentence. */
static int await_message(struct memory_client *client, uint32_t timeout_ms, uint8_t *message, char *err, size_t len)
{
	const uint64_t until = clock_ns() + timeout_ms * 1000000ull;
	struct pollfd p = { .fd = memory_client_fd(client), .events = POLLIN };
	struct memory_done none[1];
	uint32_t length;

	for (;;) {
		if (memory_client_poll(client, none, 1) < 0) {
			snprintf(err, len, "%s", memory_client_why(client));
			return -ENOTCONN;
		}
		length = memory_client_message(client, message);
		if (length == sizeof(struct opened))
			return 0;
		if (length) {
			snprintf(err, len, "the target sent a message of %u bytes in answer to OPEN", length);
			return -EPROTO;
		}
		if (clock_ns() >= until) {
			snprintf(err, len, "the target has not answered OPEN within %u ms", timeout_ms);
			return -ETIMEDOUT;
		}
		memory_client_arm(client);
		/* for a short time only: no event reports a message that arrived before arming */
		poll(&p, 1, TRANSIENT_MS);
		memory_client_drain(client);
	}
}

static int open_range(struct memory_client *client, const struct memory_open_options *o,
		      const struct connect_data *who, struct memory_range *range, char *err, size_t len)
{
	struct open ask = { .type = MEMORY_OPEN, .access = o->read_only ? 1 : 2, .nsid = o->nsid };
	uint8_t message[MEMORY_MESSAGE];
	struct opened answer;
	int rc;

	memcpy(ask.hostid, who->hostid, sizeof(ask.hostid));
	memcpy(ask.subnqn, who->subnqn, sizeof(ask.subnqn));
	memcpy(ask.hostnqn, who->hostnqn, sizeof(ask.hostnqn));
	rc = memory_client_send(client, &ask, sizeof(ask));
	if (rc) {
		snprintf(err, len, "%s", memory_client_why(client));
		return rc;
	}
	rc = await_message(client, o->connection.timeout_ms, message, err, len);
	if (rc)
		return rc;
	memcpy(&answer, message, sizeof(answer));
	answer.text[sizeof(answer.text) - 1] = 0;
	if (answer.status) {
		snprintf(err, len, "cannot open namespace %u of %s as memory: %s (status %u)", o->nsid, o->subnqn,
			 answer.text, answer.status);
		return -EACCES;
	}
	memory_client_opened(client, answer.address, answer.key, answer.length, answer.platform);
	*range = (struct memory_range){ .size = answer.length, .platform = answer.platform };
	return 0;
}

struct memory_client *memory_client_open(const struct memory_open_options *options, struct memory_range *range,
					 char *err, size_t len)
{
	const struct host_controller_options names = {
		.subnqn = options->subnqn,
		.hostnqn = options->hostnqn,
		.hostid = options->hostid,
	};
	const struct request request = { .recfmt = RECFMT, .version = VERSION,
					 .depth = (uint16_t)options->connection.depth };
	struct memory_client_options connection = options->connection;
	struct host_error error = { .cm_event = -1 };
	struct connect_data who = { .cntlid = 0 };
	struct memory_client *client;
	const struct request *reply;
	uint8_t length;
	int rc;

	rc = host_identity(&who, &names, &error);
	if (rc) {
		snprintf(err, len, "%s", error.text);
		errno = -rc;
		return NULL;
	}
	connection.data = &request;
	connection.data_len = sizeof(request);
	client = memory_client_connect(&connection, err, len);
	if (!client)
		return NULL;
	length = memory_client_reply(client, (const void **)&reply);
	if (length < sizeof(*reply) || reply->recfmt != RECFMT || reply->version != VERSION ||
	    reply->depth < connection.depth) {
		snprintf(err, len, "the target did not accept a memory connection with a depth of %u (at most 128)",
			 connection.depth);
		rc = -EPROTO;
	} else {
		rc = open_range(client, options, &who, range, err, len);
	}
	if (!rc)
		return client;
	memory_client_free(client);
	errno = -rc;
	return NULL;
}
