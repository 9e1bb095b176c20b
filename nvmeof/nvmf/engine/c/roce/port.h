/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: the UDP sockets of the device, one per local address, on port 4791 (port.c, port_receive.c, port_send.c), and the choice of
 * the thread that receives from them (port_watch.c).  All queue pairs of an address share its socket: a thread that
 * polls a completion queue receives for all of them, and the helper does if no thread polls.  A port does not
 * depend on queue pairs: it passes packets to the functions with which it was created.
 *
 * Of the completion queues that are armed, only one, the watcher, has the socket in its epoll.  If all of them had it,
 * each packet would wake every thread that sleeps, and the kernel limits the number of nested epolls of one socket (to
 * fifty, for a client's).  The watcher's thread receives for the others, whose channels report their completions.
 *
 * Locks, in the order in which they nest: iw_cm_lock, cq->progress, port->lock, the queue pair's; and cq->progress,
 * port->watch_lock.
 */
#ifndef NVMF_ROCE_PORT_H
#define NVMF_ROCE_PORT_H

#include "cq.h"
#include "helper.h"
#include "icrc.h"
#include "share.h"
#include "stag.h"
#include "util/fifo.h"
#include "util/line.h"
#include "wire.h"

#include <netinet/in.h>

enum {
	RO_BATCH = 16,			/* datagrams, each of them of many packets with GRO, in a receive */
	RO_SPARSE = 16,			/* datagrams that came alone; half of them are enough to expect the next one alone */
	RO_LONE = 3 * 4096,		/* bytes of a datagram up to which it may be that of a single command */
	RO_BATCH_LARGE = 2,		/* if they are large: what is received is used before it leaves the cache */
	RO_LARGE = 16384,		/* bytes */
	RO_LATE = 32,			/* bytes, at most, of a packet that is sent with others */
	RO_DATAGRAM = 65536,
	RO_CM_QUEUE = 256,		/* CM messages that the helper has not taken yet */
	RO_MAD = 256,
	RO_UD_PACKET = RO_BTH + RO_DETH + RO_MAD + RO_ICRC,
};

#define RO_QKEY 0x80010000u		/* of queue pair 1 */

union ro_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct ro_cm_message {
	union ro_addr from;
	uint8_t mad[RO_MAD];
};

struct ro_port;

/* The functions to which a port passes its packets.  Within a section, port->lock held. */
struct ro_port_calls {
	/* A packet of RC with a valid ICRC. */
	void (*packet)(struct ro_port *port, const struct ro_packet *p, const union ro_addr *from);
	/* A CNP for this queue pair. */
	void (*congested)(struct ro_port *port, uint32_t qpn, const union ro_addr *from);
	/* All received packets were passed on: send what is due, but acknowledgements may wait if port->holding. */
	void (*flush)(struct ro_port *port);
	/* On the helper, under iw_cm_lock, without port->lock: CM messages have arrived (ro_port_cm_take). */
	void (*cm)(struct ro_port *port);
};

/* A completion queue whose pollers receive from a port. */
struct ro_attached {
	struct iw_steady steady;
	struct list_link link;
	struct ro_port *port;
	unsigned int users;
	uint32_t seen;			/* visits of the port, at its own last turn */
	unsigned int polls;		/* that received while it watched, since it was armed */
	const void *thread;		/* that armed it last; under watch_lock */
};

/* Datagrams to be received by one system call.  The kernel changes those that it fills. */
struct ro_inbox {
	struct mmsghdr msgs[RO_BATCH];
	struct iovec iov[RO_BATCH];
	union ro_addr from[RO_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[RO_BATCH][2 * CMSG_SPACE(sizeof(int))];
	unsigned int batch;		/* datagrams in the next receive, if several are likely */
	unsigned int sparse;		/* of the last RO_SPARSE datagrams, about how many came alone */
	bool found;			/* the last receive has found something */
};

/* Acknowledgements of several queue pairs, to be sent by one system call. */
struct ro_outbox {
	struct mmsghdr msgs[RO_BATCH];
	struct iovec iov[RO_BATCH];
	union ro_addr to[RO_BATCH];
	uint8_t packets[RO_BATCH][RO_LATE];
	unsigned int count;
};

struct ro_port {
	int fd;
	union ro_addr addr;
	uint32_t mtu;			/* of the packets' payload */
	uint32_t room;			/* bytes of data that the socket can hold: room.c */
	atomic_uint asked;		/* of them, those that its queue pairs have requested */
	atomic_bool gso;
	atomic_bool shared;		/* with other processes */
	uint32_t tag;			/* if shared: our tag, to which this socket belongs */
	const struct ro_port_calls *calls;

	/* iw_cm_lock */
	struct list_link link;
	unsigned int users;
	struct ro_share *share;
	struct list attached;
	struct iw_caller caller;	/* CM messages */
	struct iw_source source;
	bool polled, ticking;		/* in the helper's epoll; checked on its timer */
	uint32_t seen_rx, seen_visits;
	atomic_uint rx_count, visits;	/* visits: by completion queues */

	/* lock */
	iw_spin lock;
	uint8_t *buffer;
	struct ro_inbox in;
	struct ro_outbox out;
	void *current;			/* data of the calls */
	struct list more;		/* data of the calls: queue pairs with more to send */
	struct list held;		/* data of the calls: those whose acknowledgement waits for the next visit */
	uint32_t visit;			/* number of the present visit */
	bool holding;			/* a further visit, or ro_port_release(), will follow */
	atomic_bool unsent;		/* more is not empty; for reading without the lock */
	atomic_bool holds;		/* held is not empty; likewise */
	atomic_bool left;		/* the last visit left something to do */

	/* watch_lock */
	iw_spin watch_lock;
	_Atomic(struct ro_attached *) watcher;	/* also compared without the lock; NULL: none */
	bool loud;			/* the watcher is woken when the socket is writable */

	/* room_lock, innermost */
	iw_spin room_lock;
	struct line line;		/* data of the calls: queue pairs that wait for room */
	atomic_bool lined;		/* there are some; for reading without the lock */

	/* cm_lock, innermost */
	iw_spin cm_lock;
	struct ro_cm_message *cm;
	unsigned int cm_head, cm_tail;
	uint32_t cm_lost;		/* messages that found the queue full */
};

extern struct list ro_ports;		/* by link */

/* ---- addr.c ---- */

socklen_t ro_addr_len(const union ro_addr *a);
bool ro_addr_same(const union ro_addr *a, const union ro_addr *b);	/* regardless of UDP ports */
bool ro_addr_any(const union ro_addr *a);
bool ro_addr_loopback(const union ro_addr *a);
/* Set from a sockaddr of IPv4 or IPv6; false for other families. */
bool ro_addr_set(union ro_addr *a, const struct sockaddr *sa);

/* ---- port.c ---- */

/* Create a socket with the address; -1 with errno.  grouped: as a member of the group of SO_REUSEPORT. */
int ro_port_socket(const union ro_addr *addr, bool grouped);
/* Return the port of a local address, created if necessary; NULL with errno.  Under iw_cm_lock, as all but sending. */
struct ro_port *ro_port_get(const union ro_addr *addr, const struct ro_port_calls *calls);
/* Return a port in the loopback network whose address no other process has. */
struct ro_port *ro_port_loopback(const struct ro_port_calls *calls);
void ro_port_put(struct ro_port *port);
int ro_port_attach(struct ro_port *port, struct iw_cq *cq);
void ro_port_detach(struct ro_port *port, struct iw_cq *cq);

/* ---- port_receive.c ---- */

/* Prepare the first receive. */
void ro_inbox_open(struct ro_port *port);
/*
 * Receive what there is, within bounds, and send what is due.  hold: acknowledgements may wait for the next visit, because
 * it or ro_port_release() follows at once.
 */
struct iw_visit ro_port_visit(struct ro_port *port, bool hold);
/* Send the acknowledgements that wait for the next visit. */
void ro_port_release(struct ro_port *port);
/* Take the oldest message of the connection manager; false if there is none.  On the helper. */
bool ro_port_cm_take(struct ro_port *port, struct ro_cm_message *m);
/* The number of packets and messages, so far, for which there was no room: a message that did not arrive may be one of them. */
uint32_t ro_port_lost(struct ro_port *port);

/* ---- port_send.c ---- */

/*
 * Send segments of seg bytes; the last may be shorter.  Segments that the socket does not take are lost; false if they
 * are too large for the interface.
 */
bool ro_port_send(struct ro_port *port, const union ro_addr *to, uint8_t *buf, uint32_t len, uint32_t seg);
/* Send a packet of RO_LATE bytes at most with others, at the end of the visit at the latest; under port->lock. */
void ro_port_send_late(struct ro_port *port, const union ro_addr *to, const uint8_t *packet, uint32_t len);
void ro_port_send_rest(struct ro_port *port);
/* Send a management datagram from queue pair 1 to that of an address. */
void ro_port_send_mad(struct ro_port *port, const union ro_addr *to, const uint8_t mad[RO_MAD]);

/* ---- port_mtu.c ---- */

/* Return the largest payload that fits the MTU of the interface with an address. */
uint32_t ro_interface_mtu(int fd, const union ro_addr *addr);
/*
 * The largest payload that fits the path from a port to an address, as far as the kernel knows: routes have an MTU, and
 * the kernel remembers reports of routers for minutes.
 */
uint32_t ro_port_path_mtu(const struct ro_port *port, const union ro_addr *peer);

/* ---- port_watch.c ---- */

extern const struct iw_steady_calls ro_watch_calls;	/* the owner is a ro_attached */
int ro_port_watch(struct ro_port *port);
void ro_port_unwatch(struct ro_port *port);
/* A completion queue is no longer attached. */
void ro_watch_leave(struct ro_attached *attached);
uint64_t ro_ports_expire(uint64_t now);	/* returns when to call again, or 0 */

#endif
