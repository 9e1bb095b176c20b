/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One address, several processes of one user (share.c), each of which has a number, its tag (tag.c).
 *
 * The first process that uses an address is its founder: it has the UDP socket, and a listener whose name contains the
 * address.  A second process connects to that listener.  Then the founder opens a socket for each possible tag, all of
 * them in one group of SO_REUSEPORT, and passes all of them on, with the listener and the table of services, as each
 * member does from then on.  So the kernel's order of the group, by which a program of the classic Berkeley Packet
 * Filter chooses a socket, does not change when a member ends.
 *
 * The program finds the tag in the numbers to which a packet is addressed and which its receiver chose: queue pair
 * numbers and communication ids begin with it.  A connection request has neither, and goes to the listener on its port.
 */
#ifndef NVMF_ROCE_SHARE_H
#define NVMF_ROCE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	RO_TAG_BITS = 5,
	RO_TAGS = 1 << RO_TAG_BITS,
	RO_TAG_QPN = 24 - RO_TAG_BITS,	/* shift of a tag in a queue pair number */
	RO_TAG_COMM = 32 - RO_TAG_BITS,	/* and in a communication id */
};

struct ro_port;
struct ro_share;
struct sockaddr_un;

/* ---- tag.c; any thread ---- */

/* The process's tag, with which its numbers begin. */
uint32_t ro_tag(void);
/* Whether no other process of this user has this tag.  If all tags are taken, ours is a duplicate, and not shared. */
bool ro_tag_owned(void);
void ro_tag_forked(void);
/* Build the name of a socket of the device; returns its length. */
uint32_t ro_name(struct sockaddr_un *un, const char *what);

/* ---- share.c, services.c; under iw_cm_lock ---- */

/* Open the socket of a port whose address is set; -1 with errno. */
int ro_share_open(struct ro_port *port);
void ro_share_close(struct ro_port *port);
void ro_share_forked(struct ro_port *port);
/* Direct requests for this service to this process; -1 with errno: EADDRINUSE if another process has it. */
int ro_share_listen(struct ro_port *port, uint16_t service);
void ro_share_unlisten(struct ro_port *port, uint16_t service);
/* The kernel joined packets of another process to ours: make it stop joining packets.  Any thread. */
void ro_share_strayed(struct ro_port *port);

#endif
