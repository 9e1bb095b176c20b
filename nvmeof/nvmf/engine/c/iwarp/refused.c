/* SPDX-License-Identifier: BSD-3-Clause */
/* Incoming connections that were refused: recorded under iw_cm_lock, and written to the log on the helper. */
#include "helper.h"
#include "stats.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

enum { LOGS = 32 };

static struct {
	char peer[80];
	const char *what;
} logs[LOGS];
static unsigned int nlogs;
static void (*_Atomic event_log)(const char *peer, const char *what);

void iwarp_set_event_log(void (*log)(const char *peer, const char *what))
{
	atomic_store(&event_log, log);
}

static void refused_address(const struct sockaddr *sa, char *buf, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(buf, len, "%s:%u", ip, ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)sa;

		inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
		snprintf(buf, len, "[%s]:%u", ip, ntohs(in->sin6_port));
	} else {
		snprintf(buf, len, "?");
	}
}

void iw_refused(const struct sockaddr *peer, const char *what)
{
	iw_stats.refused++;
	if (nlogs == LOGS)
		return;
	refused_address(peer, logs[nlogs].peer, sizeof(logs[0].peer));
	logs[nlogs++].what = what;
}

void iw_refused_tell(void)
{
	void (*log)(const char *, const char *) = atomic_load(&event_log);
	unsigned int n = nlogs;

	if (!n)
		return;
	/* only this thread, the helper, adds to the list, so the lock may be released */
	pthread_mutex_unlock(&iw_cm_lock);
	for (unsigned int i = 0; log && i < n; i++)
		log(logs[i].peer, logs[i].what);
	pthread_mutex_lock(&iw_cm_lock);
	nlogs = 0;
}

void iw_refused_forked(void)
{
	nlogs = 0;
}
