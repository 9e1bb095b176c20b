/* SPDX-License-Identifier: BSD-3-Clause */
/* The size of packets: limits of an interface, and of the path to a peer.  Control threads and the helper. */
#include "port.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { OVERHEAD = 80 };		/* of an MTU of IP, as in rxe */

/* The largest payload, up to a limit, of packets that fit an MTU of IP. */
static uint32_t fitting(uint32_t limit, uint32_t mtu)
{
	while (limit > RO_MTU_MIN && limit + OVERHEAD > mtu)
		limit /= 2;
	return limit;
}


uint32_t ro_interface_mtu(int fd, const union ro_addr *addr)
{
	struct ifaddrs *all, *one;
	struct ifreq req = { 0 };
	uint32_t found = 1500;

	if (ro_addr_loopback(addr))
		return RO_MTU_MAX;
	if (getifaddrs(&all))
		return 1024;
	for (one = all; one; one = one->ifa_next) {
		union ro_addr a;

		if (!one->ifa_addr || !ro_addr_set(&a, one->ifa_addr) || !ro_addr_same(&a, addr))
			continue;
		strncpy(req.ifr_name, one->ifa_name, sizeof(req.ifr_name) - 1);
		if (!ioctl(fd, SIOCGIFMTU, &req) && req.ifr_mtu > 0)
			found = (uint32_t)req.ifr_mtu;
		break;
	}
	freeifaddrs(all);
	return fitting(RO_MTU_MAX, found);
}

uint32_t ro_port_path_mtu(const struct ro_port *port, const union ro_addr *peer)
{
	const bool six = port->addr.sa.sa_family == AF_INET6;
	const int fd = socket(port->addr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	union ro_addr from = port->addr, to = *peer;
	socklen_t len = sizeof(int);
	uint32_t found = port->mtu;
	int mtu;

	if (six)
		from.in6.sin6_port = 0;
	else
		from.in.sin_port = 0;
	if (fd < 0)
		return found;
	if (!bind(fd, &from.sa, ro_addr_len(&from)) && !connect(fd, &to.sa, ro_addr_len(&to)) &&
	    !getsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU : IP_MTU, &mtu, &len) && mtu > 0)
		found = fitting(found, (uint32_t)mtu);
	close(fd);
	return found;
}
