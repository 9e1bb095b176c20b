/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The remote memory protocol, version 1: nvmeof/docs/remote-memory.md.  All fields are little-endian.
 *
 * Private data of the connection request and of its answer, and messages, which are RDMA Sends of at most
 * MEMORY_MESSAGE bytes.  Python writes and reads OPEN, OPENED and AUTH (nvmf.spec.memory); this file has only the
 * structures of the I/O path.
 */
#ifndef NVMF_MEMORY_WIRE_H
#define NVMF_MEMORY_WIRE_H

#include <assert.h>
#include <stdint.h>

enum {
	MEMORY_MESSAGE = 1184,	/* the length of AUTH, the longest */
	MEMORY_DEPTH_MAX = 256,
};

enum memory_type {
	MEMORY_OPEN = 1,
	MEMORY_OPENED = 2,
	MEMORY_PERSIST = 3,
	MEMORY_PERSISTED = 4,
	MEMORY_ECHO = 5,
	MEMORY_ECHOED = 6,
	MEMORY_AUTH = 7,
};

/* Properties of the target's platform, as reported in OPENED. */
enum memory_platform {
	MEMORY_MEDIA = 1,	/* bytes that are persistent survive a power failure */
	MEMORY_PLACED = 2,	/* a WRITE is persistent before a following READ is answered */
	MEMORY_PERSISTS = 4,	/* PERSIST makes a range persistent */
	MEMORY_FLUSHED = 8,	/* a FLUSH of persistent type makes its range persistent before it is answered */
	MEMORY_ATOMIC = 16,	/* an ATOMIC WRITE is carried out as a whole, after the FLUSHes before it */
};

enum memory_status {
	MEMORY_OK = 0,
	MEMORY_BAD_RANGE = 1,
	MEMORY_NOT_OPEN = 2,
	MEMORY_MEDIA_ERROR = 3,
};

/* PERSIST and ECHO.  id is returned in the answer. */
struct memory_ask {
	uint8_t type, zero;
	uint16_t id;
	uint32_t zero2;
	uint64_t offset, length;
};
static_assert(sizeof(struct memory_ask) == 24, "PERSIST");

/* PERSISTED and ECHOED. */
struct memory_answer {
	uint8_t type, status;
	uint16_t id;
	uint32_t zero;
};
static_assert(sizeof(struct memory_answer) == 8, "PERSISTED");

#endif
