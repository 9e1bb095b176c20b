/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures.  The embedded devices report the bytes that their sockets sent and received to a ring (ring.c); a thread
 * of its own (writer.c) builds packets with IP and TCP or UDP headers from them (packet.c) and writes pcapng blocks to
 * a Unix socket, whose other end is the program that captures.  The ring never waits: data that does not fit is
 * recorded by its headers only or, if those do not fit either, counted as dropped.
 *
 * Other devices do not show their packets.  For them, the engine reports its work (work.c): messages of the connection
 * manager, capsules, RDMA READs and WRITEs.  Frames are synthesised from it, as the embedded iWARP device would have
 * sent them (frames.c), and each packet has a comment that says so.
 *
 * While nothing is captured, an embedded device pays for one load and one branch for each system call on its sockets,
 * and the engine for as much when it posts a list of work, or takes a capsule.
 */
#ifndef NVMF_CAPTURE_H
#define NVMF_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

extern atomic_bool capture_active;

static inline bool capture_on(void)
{
	return __builtin_expect(atomic_load_explicit(&capture_active, memory_order_relaxed), 0);
}

/* ---- for the devices; any thread, no lock, no allocation; only while capture_on() ---- */

/*
 * The first n bytes of iov, sent or received on a TCP socket.  Sent bytes are read from the application's memory
 * again: if the application has changed them in the meantime, the capture shows the changed bytes.
 */
void capture_iov(int fd, bool sent, const struct iovec *iov, int niov, size_t n);
void capture_bytes(int fd, bool sent, const void *data, size_t n);
/* The end of a direction of a TCP connection. */
void capture_end(int fd, bool sent);
/* A UDP datagram; id: the identification of its IPv4 header, which the ICRC covers. */
void capture_datagram(const struct sockaddr *local, const struct sockaddr *peer, bool sent, uint16_t id,
		      const void *data, size_t n);
/* Capture the packets of a send with UDP_SEGMENT: datagrams of seg bytes, whose identifications begin with 0. */
void capture_segments(const struct sockaddr *local, const struct sockaddr *peer, const uint8_t *data, uint32_t len,
		      uint32_t seg);

/* ---- for the users of other devices; any thread, no lock, no allocation; only while capture_on() ---- */

struct capture_ends {
	const struct sockaddr *local, *peer;
	bool inferred;			/* the other end's work, which follows from its response */
};

struct capture_place {			/* memory that a key gives access to */
	uint64_t address;
	uint32_t key;
};

/* Messages of the connection manager, with private data: MPA's frames. */
enum capture_message { CAPTURE_REQUEST, CAPTURE_REPLY, CAPTURE_REJECT };
void capture_message(const struct capture_ends *ends, enum capture_message message, bool sent, const void *data,
		     size_t n);
/* The end of a connection: of one direction, as of TCP. */
void capture_closed(const struct capture_ends *ends, bool sent);
/* A Send; invalidated: the key that it invalidates, or NULL. */
void capture_send(const struct capture_ends *ends, bool sent, const struct iovec *iov, int niov,
		  const uint32_t *invalidated);
void capture_write(const struct capture_ends *ends, bool sent, struct capture_place to, const struct iovec *iov,
		   int niov);
/* The request of an RDMA READ, and the whole of its data, in the order of the requests. */
void capture_read(const struct capture_ends *ends, bool sent, struct capture_place from, struct capture_place sink,
		  uint32_t length);
void capture_read_data(const struct capture_ends *ends, bool sent, struct capture_place sink, const void *data,
		       uint32_t length);

/* ---- control ---- */

/*
 * Capture until the reader of a Unix socket closes it: the path, or a name that begins with @ in the abstract name
 * space.  Returns 0, or a negative errno with a sentence in why: EBUSY if a capture runs.
 */
int capture_start(const char *name, char *why, size_t size);
/* As capture_start() with the value of NVMEOF_CAPTURE, once in a process; a failure is a line on stderr. */
void capture_from_environment(void);

#endif
