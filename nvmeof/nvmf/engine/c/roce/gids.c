/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port's attributes and its table of GIDs, which are addresses of this machine.  Index 0 is the process's own
 * address in the loopback network, which no other process has; the addresses of the interfaces follow, except those of
 * the loopback interface and link-local ones.  Any thread.
 */
#include "cm.h"

#include <ifaddrs.h>
#include <net/if.h>

static int gid_own(union ro_addr *addr)
{
	struct ro_port *port;
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	if (ro_cm_use(1)) {
		pthread_mutex_unlock(&iw_cm_lock);
		return errno;
	}
	port = ro_port_loopback(&ro_cm_calls);
	if (port) {
		*addr = port->addr;
		ro_port_put(port);	/* the process keeps the address for its next port */
	} else {
		rc = errno;
	}
	ro_cm_use(-1);
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

/* Count the machine's addresses, and get the one at index, if there is one. */
static int gid_addresses(int index, union ro_addr *addr)
{
	struct ifaddrs *all;
	int n = 0;

	if (getifaddrs(&all))
		return 0;
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		union ro_addr a;

		if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || !ro_addr_set(&a, one->ifa_addr) ||
		    ro_addr_loopback(&a) || (a.sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a.in6.sin6_addr)))
			continue;
		if (n++ == index)
			*addr = a;
	}
	freeifaddrs(all);
	return n;
}

int ro_gid_address(int index, union ro_addr *addr)
{
	if (!index)
		return gid_own(addr);
	return index > 0 && gid_addresses(index - 1, addr) >= index ? 0 : EINVAL;
}

void ro_gid_set(union ibv_gid *gid, const union ro_addr *addr)
{
	memset(gid, 0, sizeof(*gid));
	if (addr->sa.sa_family == AF_INET6) {
		memcpy(gid, &addr->in6.sin6_addr, sizeof(*gid));
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &addr->in.sin_addr, 4);
}

bool ro_gid_get(const union ibv_gid *gid, union ro_addr *addr)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

	memcpy(&six.sin6_addr, gid, sizeof(six.sin6_addr));
	return ro_addr_set(addr, (struct sockaddr *)&six) && !ro_addr_any(addr);
}

int ro_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	union ro_addr addr;
	int rc;

	(void)context;
	rc = port == 1 ? ro_gid_address(index, &addr) : EINVAL;
	if (!rc)
		ro_gid_set(gid, &addr);
	return rc;
}

int ro_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	const int rc = iw_query_port(context, port, attr);

	if (!rc)
		attr->gid_tbl_len = 1 + gid_addresses(-1, NULL);
	return rc;
}
