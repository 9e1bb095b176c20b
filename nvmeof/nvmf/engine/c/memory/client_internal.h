/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of the memory client: connecting (client_connect.c), the path (client.c), the load. */
#ifndef NVMF_MEMORY_CLIENT_INTERNAL_H
#define NVMF_MEMORY_CLIENT_INTERNAL_H

#include "memory/client.h"
#include "memory/end.h"

/* How the operation of a slot ends: by the completion of its last work request, or by a message of the target. */
enum client_end {
	CLIENT_IDLE,
	CLIENT_COMPLETION,
	CLIENT_PERSISTED = MEMORY_PERSISTED,
	CLIENT_ECHOED = MEMORY_ECHOED,
};

/* bytes read after a WRITE; or the tail word */
enum { CLIENT_SINK = 8 };

struct memory_client {
	struct memory_end end;
	struct rdma_event_channel *events;
	unsigned depth;
	uint32_t slot_bytes;
	uint8_t *memory;		/* slots, then a sink of each */
	size_t memory_bytes;
	struct ibv_mr *mr;
	uint64_t address, size, tail_at;
	uint32_t key;
	unsigned flush_type;		/* placement type of write-flush */
	uint8_t *ends;			/* enum client_end of each slot */
	bool lost, has_message, connected;
	uint32_t message_length;
	uint8_t message[MEMORY_MESSAGE];
	uint8_t reply[256], reply_len;
	char where[80];
	char why[256];
};

#endif
