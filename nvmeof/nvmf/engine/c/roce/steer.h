/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal declarations of sharing: a member (share.c), the table of services of an address (services.c), and the
 * program made from it (steer.c).  Under iw_cm_lock.
 */
#ifndef NVMF_ROCE_STEER_H
#define NVMF_ROCE_STEER_H

#include "helper.h"
#include "share.h"

enum { RO_SERVICES = 256 };

/* In memory shared by the processes, if there are several; its contents are checked, not trusted. */
struct ro_services {
	uint32_t others;		/* tag of the process that gets requests for ports without a listener */
	struct {
		uint16_t port;		/* 0: unused */
		uint16_t tag;		/* of the process that listens */
	} services[RO_SERVICES];
};

struct ro_share {
	struct iw_source source;
	struct ro_port *port;
	int listener, memory;
	int fds[RO_TAGS];		/* by tag XOR the founder's, in the order of the group; -1: not shared yet */
	uint32_t founder;
	bool shared, polled;
	struct ro_services *table;	/* in shared memory, if the address is shared */
};

/* ---- steer.c ---- */

/* Make the kernel choose among the sockets of the group of fd, whose order is that of the tags XOR the founder's. */
int ro_steer(int fd, const struct ro_services *t, uint32_t founder);

/* ---- services.c ---- */

/* This process has become a member; founds: the first one.  Records of processes that have ended are dropped. */
void ro_services_join(struct ro_share *s, bool founds);
/* This process is about to leave: a different process gets the requests for ports without a listener. */
void ro_services_leave(struct ro_share *s);

#endif
