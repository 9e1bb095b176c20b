/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of a memory client: see client.h. */
#include "memory/client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	WR_SLOT = 0xffff,
	WR_LAST = 1 << 16,	/* the work request that ends an operation: a READ or FLUSH */
	WR_SEND = 2 << 16,	/* the operation ends with the answer, not with this completion */
	BATCH = 32,
};

uint8_t memory_client_reply(const struct memory_client *client, const void **data)
{
	*data = client->reply;
	return client->reply_len;
}

unsigned memory_client_depth(const struct memory_client *client)
{
	return client->depth;
}

uint32_t memory_client_slot_bytes(const struct memory_client *client)
{
	return client->slot_bytes;
}

bool memory_client_flushes(const struct memory_client *client)
{
	return client->end.verbs->flushes;
}

void memory_client_opened(struct memory_client *client, uint64_t address, uint32_t key, uint64_t size,
			  uint32_t platform)
{
	client->address = address;
	client->key = key;
	client->size = size;
	client->tail_at = size < CLIENT_SINK ? 0 : (size - CLIENT_SINK) & ~7ull;
	/* memory that is not persistent grants only the global type, which measurements use */
	client->flush_type = platform & MEMORY_FLUSHED ? VERBS_FLUSH_PERSISTENT : VERBS_FLUSH_GLOBAL;
}

uint8_t *memory_client_slot(const struct memory_client *client, unsigned slot)
{
	return client->memory + (size_t)slot * client->slot_bytes;
}

static uint8_t *sink_of(const struct memory_client *c, unsigned slot)
{
	return c->memory + (size_t)c->depth * c->slot_bytes + slot * CLIENT_SINK;
}

int memory_client_tail_at(struct memory_client *client, uint64_t offset)
{
	if (offset % CLIENT_SINK || client->size < CLIENT_SINK || offset > client->size - CLIENT_SINK)
		return -EINVAL;
	client->tail_at = offset;
	return 0;
}

uint8_t *memory_client_word(const struct memory_client *client, unsigned slot)
{
	return sink_of(client, slot);
}

const char *memory_client_why(const struct memory_client *client)
{
	return client->why;
}

static int lose(struct memory_client *c, const char *why)
{
	const char *device = memory_end_reason(&c->end);

	if (!c->lost)
		snprintf(c->why, sizeof(c->why), "the memory connection to %s was lost: %s", c->where,
			 *device ? device : why);
	c->lost = true;
	return -ENOTCONN;
}

int memory_client_send(struct memory_client *client, const void *message, uint32_t length)
{
	if (client->lost)
		return -ENOTCONN;
	if (length > MEMORY_MESSAGE)
		return -EMSGSIZE;
	memcpy(memory_end_message(&client->end, client->depth), message, length);
	return memory_end_send(&client->end, client->depth, length, WR_SEND | client->depth) ?
	       lose(client, "the device refused a message") : 0;
}

uint32_t memory_client_message(struct memory_client *client, void *message)
{
	if (!client->has_message)
		return 0;
	client->has_message = false;
	memcpy(message, client->message, client->message_length);
	return client->message_length;
}

/* ---- operations ---- */

/* A WRITE and the requests that follow it, as a chain. */
struct chain {
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[4];
};

static void chain_write(const struct memory_client *c, struct chain *chain, unsigned slot, uint64_t offset,
			uint32_t length)
{
	chain->sge[0] = (struct ibv_sge){ (uintptr_t)memory_client_slot(c, slot), length, c->mr->lkey };
	chain->wr[0] = (struct ibv_send_wr){
		.wr_id = WR_SEND | slot,
		.next = &chain->wr[1],
		.sg_list = &chain->sge[0],
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = c->address + offset, .rkey = c->key },
	};
}

/* of n bytes from an offset, into memory */
static void chain_read(const struct memory_client *c, struct chain *chain, unsigned slot, void *to,
		       uint64_t offset, uint32_t length)
{
	chain->sge[1] = (struct ibv_sge){ (uintptr_t)to, length, c->mr->lkey };
	chain->wr[1] = (struct ibv_send_wr){
		.wr_id = WR_LAST | slot,
		.sg_list = &chain->sge[1],
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = c->address + offset, .rkey = c->key },
	};
}

static void chain_flush(const struct memory_client *c, struct chain *chain, unsigned slot, uint64_t offset,
			uint32_t length)
{
	chain->wr[1] = (struct ibv_send_wr){ .wr_id = WR_LAST | slot, .send_flags = IBV_SEND_SIGNALED };
	verbs_set_flush(&chain->wr[1], c->address + offset, c->key, length, c->flush_type, VERBS_FLUSH_RANGE);
}

/*
 * An ATOMIC WRITE of the slot's tail word behind the FLUSH, and its own FLUSH.  The responder carries out an ATOMIC
 * WRITE only when the FLUSHes before it are complete, so the word never precedes the data that it covers, and all is
 * one round trip.
 */
static void chain_tail(const struct memory_client *c, struct chain *chain, unsigned slot)
{
	const uint64_t at = c->address + c->tail_at;

	chain->sge[2] = (struct ibv_sge){ (uintptr_t)sink_of(c, slot), CLIENT_SINK, c->mr->lkey };
	chain->wr[3] = chain->wr[1];
	chain->wr[1].next = &chain->wr[2];
	chain->wr[1].send_flags = 0;
	chain->wr[2] = (struct ibv_send_wr){
		.wr_id = WR_SEND | slot,
		.next = &chain->wr[3],
		.sg_list = &chain->sge[2],
		.num_sge = 1,
		.opcode = (enum ibv_wr_opcode)VERBS_WR_ATOMIC_WRITE,
		.wr.rdma = { .remote_addr = at, .rkey = c->key },
	};
	verbs_set_flush(&chain->wr[3], at, c->key, CLIENT_SINK, c->flush_type, VERBS_FLUSH_RANGE);
}

static void chain_ask(const struct memory_client *c, struct chain *chain, unsigned slot, enum memory_type type,
		      uint64_t offset, uint32_t length)
{
	const struct memory_ask ask = { .type = type, .id = (uint16_t)slot, .offset = offset, .length = length };
	uint8_t *message = memory_end_message(&c->end, slot);

	memcpy(message, &ask, sizeof(ask));
	chain->sge[1] = (struct ibv_sge){ (uintptr_t)message, sizeof(ask), c->end.ring_mr->lkey };
	chain->wr[1] = (struct ibv_send_wr){
		.wr_id = WR_SEND | slot,
		.sg_list = &chain->sge[1],
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
}

int memory_client_begin(struct memory_client *client, unsigned slot, enum memory_method method, uint64_t offset,
			uint32_t length)
{
	struct memory_client *c = client;
	const uint32_t tail = length < CLIENT_SINK ? length : CLIENT_SINK;
	enum client_end end = CLIENT_COMPLETION;
	struct ibv_send_wr *bad;
	struct chain chain;

	if (c->lost)
		return -ENOTCONN;
	const bool writes = method != MEMORY_READ && method != MEMORY_MAKE_PERSISTENT;

	if (slot >= c->depth || c->ends[slot] || !length || offset > c->size || length > c->size - offset ||
	    (length > c->slot_bytes && method != MEMORY_MAKE_PERSISTENT))
		return -EINVAL;
	if ((method == MEMORY_WRITE_FLUSH || method == MEMORY_WRITE_FLUSH_TAIL) && !c->end.verbs->flushes)
		return -EOPNOTSUPP;
	if (method == MEMORY_WRITE_FLUSH_TAIL && c->size < CLIENT_SINK)
		return -EINVAL;
	if (writes)
		chain_write(c, &chain, slot, offset, length);
	if (method == MEMORY_READ)
		chain_read(c, &chain, slot, memory_client_slot(c, slot), offset, length);
	else if (method == MEMORY_WRITE_READ)
		chain_read(c, &chain, slot, sink_of(c, slot), offset + length - tail, tail);
	else if (method == MEMORY_WRITE_FLUSH || method == MEMORY_WRITE_FLUSH_TAIL)
		chain_flush(c, &chain, slot, offset, length);
	else
		end = method == MEMORY_FLOOR ? CLIENT_ECHOED : CLIENT_PERSISTED;
	if (end != CLIENT_COMPLETION)
		chain_ask(c, &chain, slot, end == CLIENT_ECHOED ? MEMORY_ECHO : MEMORY_PERSIST, offset, length);
	if (method == MEMORY_WRITE_FLUSH_TAIL)
		chain_tail(c, &chain, slot);
	c->ends[slot] = (uint8_t)end;
	if (ibv_post_send(c->end.id->qp, writes ? &chain.wr[0] : &chain.wr[1], &bad))
		return lose(c, "the device refused a request");
	return 0;
}

/*
 * End the operation of a slot if this is its end.  A message of the target must not end a READ or FLUSH, which the
 * device still carries out: the slot would be used again meanwhile.
 */
static bool end_operation(struct memory_client *c, unsigned slot, enum client_end end, enum memory_status status,
			  struct memory_done *done)
{
	if (slot >= c->depth || c->ends[slot] != end) {
		lose(c, slot >= c->depth || !c->ends[slot] ? "protocol error: an answer to nothing" :
		     "protocol error: the answer to a different operation");
		return false;
	}
	c->ends[slot] = CLIENT_IDLE;
	*done = (struct memory_done){ .slot = slot, .status = status };
	return true;
}

/* Handle a received message; return whether it ended an operation. */
static bool received(struct memory_client *c, unsigned slot, uint32_t length, struct memory_done *done)
{
	const uint8_t *message = memory_end_received(&c->end, slot);
	struct memory_answer answer = { 0 };
	bool ended = false;

	if (length == sizeof(answer))
		memcpy(&answer, message, sizeof(answer));
	if (answer.type == MEMORY_PERSISTED || answer.type == MEMORY_ECHOED) {
		ended = end_operation(c, answer.id, (enum client_end)answer.type, answer.status, done);
	} else if (length && (message[0] == MEMORY_OPENED || message[0] == MEMORY_AUTH) && !c->has_message) {
		memcpy(c->message, message, length);
		c->message_length = length;
		c->has_message = true;
	} else {
		lose(c, "protocol error: an unexpected message of the target");
	}
	if (!c->lost && memory_end_receive(&c->end, slot))
		lose(c, "the device refused a receive");
	return ended;
}

int memory_client_poll(struct memory_client *client, struct memory_done *done, unsigned max)
{
	struct memory_client *c = client;
	struct ibv_wc wc[BATCH];
	int n, count = 0;

	if (c->lost)
		return -ENOTCONN;
	n = ibv_poll_cq(c->end.cq, max < BATCH ? (int)max : BATCH, wc);
	if (n < 0)
		return lose(c, "the completion queue failed");
	for (int i = 0; i < n && !c->lost; i++) {
		const unsigned slot = (unsigned)wc[i].wr_id & WR_SLOT;

		if (wc[i].status)
			return lose(c, wc[i].status == IBV_WC_WR_FLUSH_ERR ? "the target ended it" :
				    verbs_wc_name(wc[i].status));
		if (wc[i].wr_id & WR_LAST)
			count += end_operation(c, slot, CLIENT_COMPLETION, MEMORY_OK, &done[count]);
		else if (wc[i].wr_id & WR_SEND)
			continue;
		else if (wc[i].opcode != IBV_WC_RECV || wc[i].byte_len > MEMORY_MESSAGE)
			lose(c, "protocol error: an RDMA WRITE with immediate data");
		else
			count += received(c, slot, wc[i].byte_len, &done[count]);
	}
	return c->lost && !count ? -ENOTCONN : count;
}

int memory_client_fd(const struct memory_client *client)
{
	return client->end.channel->fd;
}

void memory_client_arm(struct memory_client *client)
{
	if (!client->lost)
		ibv_req_notify_cq(client->end.cq, 0);
}

void memory_client_drain(struct memory_client *client)
{
	memory_end_take_events(&client->end);
}
