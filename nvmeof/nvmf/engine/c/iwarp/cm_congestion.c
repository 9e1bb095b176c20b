/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP's congestion control: reno if a connection stays on the machine, otherwise the system's setting; or for all
 * connections the one in the options.
 *
 * It must be set before the connection is established.  Pacing that BBR has begun continues after BBR is replaced,
 * and reduces the rate of large transfers over loopback by a sixth.  A listener does not know the origin of its
 * connections: it has reno, and connections from other machines get the original setting back.
 *
 * If setting it is not permitted, this costs speed but not correctness: failures are ignored.
 */
#include "cm.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

static void congestion_set(int fd, const char *name)
{
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

/* Whether traffic between the two addresses stays on the machine. */
static bool is_local_path(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET) {
		const struct in_addr *from = &((const struct sockaddr_in *)(const void *)a)->sin_addr;
		const struct in_addr *to = &((const struct sockaddr_in *)(const void *)b)->sin_addr;

		return from->s_addr == to->s_addr || ntohl(to->s_addr) >> 24 == IN_LOOPBACKNET;
	}
	if (a->sa_family == AF_INET6) {
		const struct in6_addr *from = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
		const struct in6_addr *to = &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr;

		return IN6_ARE_ADDR_EQUAL(from, to) || IN6_IS_ADDR_LOOPBACK(to);
	}
	return false;
}

void iw_congestion_listen(int fd, char own[IW_CONGESTION_NAME])
{
	struct iwarp_options o;
	char name[IW_CONGESTION_NAME] = "";
	socklen_t len = sizeof(name) - 1;

	own[0] = 0;
	iwarp_get_options(&o);
	if (o.congestion) {
		congestion_set(fd, o.congestion);
		return;
	}
	/* DCTCP is negotiated in the SYN, before it could be restored */
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) || !strcmp(name, "dctcp"))
		return;
	memcpy(own, name, sizeof(name));
	congestion_set(fd, "reno");
}

void iw_congestion_path(int fd, const struct sockaddr *from, const struct sockaddr *to, const char *own)
{
	struct iwarp_options o;

	iwarp_get_options(&o);
	if (o.congestion)
		congestion_set(fd, o.congestion);
	else if (is_local_path(from, to))
		congestion_set(fd, "reno");
	else if (own[0])
		congestion_set(fd, own);
}
