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
	MEMORY_WRITE_READ,	/* an RDMA READ of the last bytes follows the WRITE */
	MEMORY_WRITE_FLUSH,	/* an RDMA FLUSH of the same bytes follows the WRITE */
	MEMORY_WRITE_FLUSH_TAIL,/* the same, then an ATOMIC WRITE of the tail word, and its FLUSH */
	MEMORY_WRITE_SEND,	/* a PERSIST follows the WRITE; the target's processor answers it */
	MEMORY_FLOOR,		/* an ECHO follows the WRITE: nothing is made persistent */
	MEMORY_READ,		/* not a method: reads */
	MEMORY_MAKE_PERSISTENT,	/* not a method: a PERSIST of what is there, of any length, with nothing written */
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
/* Get the private data of the answer; returns its length. */
uint8_t memory_client_reply(const struct memory_client *client, const void **data);
unsigned memory_client_depth(const struct memory_client *client);
uint32_t memory_client_slot_bytes(const struct memory_client *client);
/* Whether the device of this host supports FLUSH. */
bool memory_client_flushes(const struct memory_client *client);
/* Set the range granted by OPENED, and the properties of the target (enum memory_platform). */
void memory_client_opened(struct memory_client *client, uint64_t address, uint32_t key, uint64_t size,
			  uint32_t platform);

uint8_t *memory_client_slot(const struct memory_client *client, unsigned slot);
/* Send a message that is not PERSIST or ECHO: 0, or a negative errno.  memory_client_message returns its answer. */
int memory_client_send(struct memory_client *client, const void *message, uint32_t length);
/* Take the answer, if it has arrived; returns its length, or 0. */
uint32_t memory_client_message(struct memory_client *client, void *message);
/*
 * Set the offset of the tail word, a multiple of 8: 0, or -EINVAL.  Until then it is at the end of the range.
 * MEMORY_WRITE_FLUSH_TAIL writes the 8 bytes that its slot has for it.
 */
int memory_client_tail_at(struct memory_client *client, uint64_t offset);
uint8_t *memory_client_word(const struct memory_client *client, unsigned slot);
/*
 * Begin an operation with a free slot, which contains the data of a write: 0, or a negative errno, -EOPNOTSUPP if the
 * device does not support the method.
 */
int memory_client_begin(struct memory_client *client, unsigned slot, enum memory_method method, uint64_t offset,
			uint32_t length);

struct memory_done {
	unsigned slot;
	enum memory_status status;
};
/* Return operations that have ended: their number, or -ENOTCONN after the connection was lost. */
int memory_client_poll(struct memory_client *client, struct memory_done *done, unsigned max);
/* A descriptor that is readable if poll may find something: arm, poll again, wait; drain it when it is readable. */
int memory_client_fd(const struct memory_client *client);
void memory_client_arm(struct memory_client *client);
void memory_client_drain(struct memory_client *client);
const char *memory_client_why(const struct memory_client *client);

enum { MEMORY_BENCH_CLIENTS = 15 };	/* as many as a mirror has replicas */

struct memory_bench_options {
	enum memory_method method;
	uint32_t size;			/* bytes of an operation */
	unsigned depth;
	unsigned read_percent;		/* percentage of reads; the other operations write with the method */
	bool sleeps;			/* instead of polling all the time: there are more processes than processors */
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

/*
 * Run a load for some time: 0, or a negative errno with a sentence.  It ends early if *cancel becomes true.
 * An operation is done on all clients at the same time, with the same place and size, and ends when all of them have
 * ended it.
 */
int memory_client_bench(struct memory_client *const *clients, unsigned nclients,
			const struct memory_bench_options *options, const volatile bool *cancel,
			struct memory_bench_result *result, char *err, size_t len);

#endif
