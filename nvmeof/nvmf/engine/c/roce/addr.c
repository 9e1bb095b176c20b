/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of IPv4 and IPv6.  Constant, any thread. */
#include "port.h"

socklen_t ro_addr_len(const union ro_addr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

bool ro_addr_same(const union ro_addr *a, const union ro_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) &&
	       (!a->in6.sin6_scope_id || !b->in6.sin6_scope_id ||
		a->in6.sin6_scope_id == b->in6.sin6_scope_id);
}

bool ro_addr_any(const union ro_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return !a->in.sin_addr.s_addr;
	return IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

bool ro_addr_loopback(const union ro_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

bool ro_addr_set(union ro_addr *a, const struct sockaddr *sa)
{
	memset(a, 0, sizeof(*a));
	if (sa->sa_family == AF_INET)
		memcpy(&a->in, sa, sizeof(a->in));
	else if (sa->sa_family == AF_INET6)
		memcpy(&a->in6, sa, sizeof(a->in6));
	else
		return false;
	if (a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
		struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = a->in6.sin6_port };

		memcpy(&four.sin_addr, a->in6.sin6_addr.s6_addr + 12, 4);
		memset(a, 0, sizeof(*a));
		a->in = four;
	}
	return true;
}
