/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's end of remote memory (wire.h): connects, and writes and reads the range with one of the methods.
 *
 * One thread at a time.  Data is copied into slots of registered memory, one for each operation outstanding.
 */
#ifndef NVMF_MEMORY_CLIENT_H
#define NVMF_MEMORY_CLIENT_H

#include "memory/wire.h"
#include "verbs/verbs.h"

#include <stdbool.h>

struct memory_client;

enum memory_method {
	MEMORY_WRITE_READ,	/* an RDMA READ of the last bytes behind the WRITE */
	MEMORY_WRITE_FLUSH,	/* an RDMA FLUSH of the same bytes behind the WRITE */
	MEMORY_WRITE_SEND,	/* a PERSIST behind the WRITE, which the target's processor answers */
	MEMORY_FLOOR,		/* an ECHO behind the WRITE: nothing is made persistent */
	MEMORY_READ,		/* not a method: reads */
};

struct memory_client_options {
	const char *traddr, *trsvcid, *host_traddr;	/* host_traddr: or NULL */
	const struct verbs *verbs;
	unsigned depth;			/* operations outstanding */
	uint32_t slot_bytes;		/* of each */
	uint32_t timeout_ms;
	const void *data;		/* private data of the request */
	uint8_t data_len;
};

/* Connect; blocks for at most timeout_ms.  NULL with errno and a sentence. */
struct memory_client *memory_client_connect(const struct memory_client_options *options, char *err, size_t len);
void memory_client_free(struct memory_client *client);
/* Private data of the answer: its length. */
uint8_t memory_client_reply(const struct memory_client *client, const void **data);
unsigned memory_client_depth(const struct memory_client *client);
uint32_t memory_client_slot_bytes(const struct memory_client *client);
/* Whether this host's device has FLUSH. */
bool memory_client_flushes(const struct memory_client *client);
/* Set what OPENED granted, and told of the target (enum memory_platform). */
void memory_client_opened(struct memory_client *client, uint64_t address, uint32_t key, uint64_t size,
			  uint32_t platform);

uint8_t *memory_client_slot(const struct memory_client *client, unsigned slot);
/* Send a message that is not PERSIST or ECHO: 0, or a negative errno.  Its answer comes from memory_client_message. */
int memory_client_send(struct memory_client *client, const void *message, uint32_t length);
/* Take the answer, if it has arrived: its length, or 0. */
uint32_t memory_client_message(struct memory_client *client, void *message);
/*
 * Begin an operation with a free slot, which has the data of a write: 0, or a negative errno, EOPNOTSUPP if the device
 * lacks what the method needs.
 */
int memory_client_begin(struct memory_client *client, unsigned slot, enum memory_method method, uint64_t offset,
			uint32_t length);

struct memory_done {
	unsigned slot;
	enum memory_status status;
};
/* Operations that have ended: their number, or -ENOTCONN once the connection is lost. */
int memory_client_poll(struct memory_client *client, struct memory_done *done, unsigned max);
/* For a descriptor that is readable when poll has something: arm, poll again, wait; drain when it is readable. */
int memory_client_fd(const struct memory_client *client);
void memory_client_arm(struct memory_client *client);
void memory_client_drain(struct memory_client *client);
const char *memory_client_why(const struct memory_client *client);

struct memory_bench_options {
	enum memory_method method;
	uint32_t size;			/* bytes of an operation */
	unsigned depth;
	unsigned read_percent;		/* of the operations; the others write with the method */
	double seconds;
	unsigned npercentiles;
	double percentiles[16];
};

struct memory_bench_part {
	uint64_t ios;
	double mean_us, min_us, max_us;
	double percentile_us[16];
};

struct memory_bench_result {
	struct memory_bench_part write, read;
	double seconds, cpu_seconds;
};

/* Run a load for a time: 0, or a negative errno with a sentence.  *cancel is looked at. */
int memory_client_bench(struct memory_client *client, const struct memory_bench_options *options,
			const volatile bool *cancel, struct memory_bench_result *result, char *err, size_t len);

#endif
