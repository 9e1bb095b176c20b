/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of CM ids: bind, resolve, listen, options.  On IP only the source address needs to be resolved, so the
 * events follow at once.  If a client's source address would be its destination, as over loopback, it uses an address
 * of its own in 127.64.0.0/10, because UDP port 4791 of an address belongs to the processes of one user.  Runs on the
 * application's threads, under iw_cm_lock.
 */
#include "cm.h"

#include <ifaddrs.h>
#include <stdlib.h>
#include <unistd.h>

enum { BACKLOG = 1024, EPHEMERAL = 32768, EPHEMERALS = 28232 };

static int addr_fail(int e)
{
	errno = e;
	return -1;
}

static uint16_t *addr_port(struct rdma_cm_id *id)
{
	struct sockaddr *sa = &id->route.addr.src_addr;

	return sa->sa_family == AF_INET6 ? &id->route.addr.src_sin6.sin6_port : &id->route.addr.src_sin.sin_port;
}

static void addr_use_device(struct ro_id *id)
{
	id->id.verbs = &ro_dev.ext.context;
	id->id.port_num = 1;
}

/* Whether an id listens on, or is bound to, an overlapping address and this port (in network order). */
static bool addr_taken(const struct ro_id *id, const union ro_addr *addr, uint16_t port)
{
	for (struct list_link *link = ro_ids.head; link; link = link->next) {
		struct ro_id *other = container_of(link, struct ro_id, link);
		union ro_addr its;

		if (other == id || !other->bound || other->state > RO_ID_LISTENING ||
		    *addr_port(&other->id) != port || !ro_addr_set(&its, &other->id.route.addr.src_addr))
			continue;
		if (ro_addr_same(&its, addr) || ro_addr_any(&its) || ro_addr_any(addr))
			return true;
	}
	return false;
}

static int addr_bind(struct ro_id *id, const struct sockaddr *sa)
{
	union ro_addr addr;
	uint16_t *port = addr_port(&id->id);

	if (id->state != RO_ID_IDLE || !ro_addr_set(&addr, sa))
		return addr_fail(EINVAL);
	memcpy(&id->id.route.addr.src_storage, &addr, ro_addr_len(&addr));
	port = addr_port(&id->id);
	if (*port && addr_taken(id, &addr, *port))
		return addr_fail(EADDRINUSE);
	for (int i = 0; !*port; i++) {
		uint16_t p = htons((uint16_t)(EPHEMERAL + iw_random32() % EPHEMERALS));

		if (!addr_taken(id, &addr, p))
			*port = p;
		else if (i == EPHEMERALS)
			return addr_fail(EADDRINUSE);
	}
	if (!ro_addr_any(&addr)) {
		id->port = ro_port_get(&addr, &ro_cm_calls);
		if (!id->port)
			return -1;
		addr_use_device(id);
	}
	id->bound = true;
	id->state = RO_ID_BOUND;
	return 0;
}

int ro_bind_addr(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	pthread_mutex_lock(&iw_cm_lock);

	int rc = addr_bind((struct ro_id *)rid, addr);

	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

/* Return the source address for a destination, from the routing table: a socket is connected, and sends nothing. */
static int addr_source(const union ro_addr *dst, union ro_addr *src)
{
	int fd = socket(dst->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), e = 0;
	struct sockaddr_storage found;
	socklen_t len = sizeof(found);
	union ro_addr to = *dst;

	if (fd < 0)
		return errno;
	if (to.sa.sa_family == AF_INET)
		to.in.sin_port = htons(RO_UDP_PORT);
	else
		to.in6.sin6_port = htons(RO_UDP_PORT);
	if (connect(fd, &to.sa, ro_addr_len(&to)) || getsockname(fd, (struct sockaddr *)&found, &len))
		e = errno;
	close(fd);
	if (e)
		return e;
	return ro_addr_set(src, (struct sockaddr *)&found) ? 0 : EAFNOSUPPORT;
}

/* Get the port from which an id sends. */
static int addr_out(struct ro_id *id, const union ro_addr *dst)
{
	union ro_addr src;
	int e;

	if (!id->port) {
		e = addr_source(dst, &src);
		if (e)
			return e;
		if (dst->sa.sa_family == AF_INET && (ro_addr_same(&src, dst) || ro_addr_loopback(&src)))
			id->port = ro_port_loopback(&ro_cm_calls);
		else
			id->port = ro_port_get(&src, &ro_cm_calls);
		if (!id->port)
			return errno;
	}
	if (id->port->addr.sa.sa_family != dst->sa.sa_family)
		return EAFNOSUPPORT;
	uint16_t port = *addr_port(&id->id);

	memcpy(&id->id.route.addr.src_storage, &id->port->addr, ro_addr_len(&id->port->addr));
	*addr_port(&id->id) = port ? port : htons((uint16_t)(EPHEMERAL + iw_random32() % EPHEMERALS));
	return 0;
}

int ro_resolve_addr(struct rdma_cm_id *rid, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct ro_id *id = (struct ro_id *)rid;
	union ro_addr to;
	int rc = 0, e;

	(void)timeout_ms;
	if (!dst || !ro_addr_set(&to, dst))
		return addr_fail(EINVAL);
	pthread_mutex_lock(&iw_cm_lock);
	if (src && id->state == RO_ID_IDLE)
		rc = addr_bind(id, src);
	if (!rc && id->state != RO_ID_IDLE && id->state != RO_ID_BOUND)
		rc = addr_fail(EINVAL);
	if (!rc) {
		memcpy(&rid->route.addr.dst_storage, &to, ro_addr_len(&to));
		e = addr_out(id, &to);
		if (e) {
			ro_event_post(id, RDMA_CM_EVENT_ADDR_ERROR, -e, NULL);
		} else {
			id->peer = to;
			addr_use_device(id);
			id->state = RO_ID_ADDR;
			ro_event_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
		}
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

int ro_resolve_route(struct rdma_cm_id *rid, int timeout_ms)
{
	struct ro_id *id = (struct ro_id *)rid;
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state == RO_ID_ADDR) {
		id->patience_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
		id->state = RO_ID_ROUTE;
		ro_event_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	} else {
		rc = addr_fail(EINVAL);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

static void listen_nowhere(struct ro_id *id)
{
	const int e = errno;

	while (id->nports)
		ro_port_put(id->ports[--id->nports]);
	free(id->ports);
	id->ports = NULL;
	errno = e;
}

/* Open a port for each address of this machine, except IPv6 addresses that require the name of an interface. */
static int listen_everywhere(struct ro_id *id, bool six)
{
	struct ifaddrs *all;
	size_t most = 1;
	int rc = 0;

	if (getifaddrs(&all))
		return -1;
	for (struct ifaddrs *one = all; one; one = one->ifa_next)
		most++;
	id->ports = calloc(most, sizeof(struct ro_port *));
	if (!id->ports)
		rc = -1;
	for (struct ifaddrs *one = all; one && !rc; one = one->ifa_next) {
		union ro_addr a;

		if (!one->ifa_addr || !ro_addr_set(&a, one->ifa_addr))
			continue;
		if (a.sa.sa_family == AF_INET6 ? !six || IN6_IS_ADDR_LINKLOCAL(&a.in6.sin6_addr) : six && id->afonly)
			continue;
		id->ports[id->nports] = ro_port_get(&a, &ro_cm_calls);
		if (id->ports[id->nports])
			id->nports++;
		else if (errno != EADDRNOTAVAIL)	/* the address was just removed, or is not usable yet */
			rc = -1;
	}
	freeifaddrs(all);
	if (rc)
		listen_nowhere(id);
	return rc;
}

static unsigned int listen_ports(struct ro_id *id, struct ro_port ***ports)
{
	*ports = id->port ? &id->port : id->ports;
	return id->port ? 1 : id->nports;
}

/* Direct the requests of all these addresses to this process, or of none of them. */
static int listen_alone(struct ro_id *id)
{
	const uint16_t service = ntohs(*addr_port(&id->id));
	struct ro_port **ports;
	const unsigned int n = listen_ports(id, &ports);

	for (unsigned int i = 0; i < n; i++) {
		if (!ro_share_listen(ports[i], service))
			continue;
		while (i--)
			ro_share_unlisten(ports[i], service);
		return -1;
	}
	return 0;
}

void ro_unlisten(struct ro_id *id)
{
	struct ro_port **ports;
	const unsigned int n = listen_ports(id, &ports);

	for (unsigned int i = 0; id->state == RO_ID_LISTENING && i < n; i++)
		ro_share_unlisten(ports[i], ntohs(*addr_port(&id->id)));
}

int ro_listen(struct rdma_cm_id *rid, int backlog)
{
	struct ro_id *id = (struct ro_id *)rid;
	struct sockaddr_in any = { .sin_family = AF_INET };
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state == RO_ID_IDLE)
		rc = addr_bind(id, (struct sockaddr *)&any);
	if (!rc && id->state != RO_ID_BOUND)
		rc = addr_fail(EINVAL);
	if (!rc && !id->port)
		rc = listen_everywhere(id, rid->route.addr.src_addr.sa_family == AF_INET6);
	if (!rc && listen_alone(id)) {
		rc = -1;
		if (!id->port)
			listen_nowhere(id);
	}
	if (!rc) {
		id->backlog = backlog > 0 && backlog < BACKLOG ? (unsigned int)backlog : BACKLOG;
		id->state = RO_ID_LISTENING;
		ro_id_listens(id);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

int ro_set_option(struct rdma_cm_id *rid, int level, int optname, void *optval, size_t optlen)
{
	struct ro_id *id = (struct ro_id *)rid;

	if (level != RDMA_OPTION_ID)
		return addr_fail(ENOSYS);
	switch (optname) {
	case RDMA_OPTION_ID_AFONLY:
		if (optlen != sizeof(int))
			return addr_fail(EINVAL);
		id->afonly = *(int *)optval;
		return 0;
	case RDMA_OPTION_ID_TOS:		/* not per connection: all share one socket */
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return 0;
	default:
		return addr_fail(ENOSYS);
	}
}
