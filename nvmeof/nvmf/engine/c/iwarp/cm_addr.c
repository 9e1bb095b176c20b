/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of CM ids: bind, resolve, listen, options.  On IP only the source address needs to be resolved, so the
 * events follow at once.  Runs on the application's threads, under iw_cm_lock.
 */
#include "cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

socklen_t iw_sa_len(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return sizeof(struct sockaddr_in);
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

static int addr_fail(int e)
{
	errno = e;
	return -1;
}

/* An IPv4 peer of a dual-stack socket has an IPv4 address. */
static void addr_unmap(struct sockaddr_storage *ss)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four = { .sin_family = AF_INET };

	memcpy(&six, ss, sizeof(six));
	if (six.sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
		return;
	four.sin_port = six.sin6_port;
	memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, 4);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, &four, sizeof(four));
}

void iw_id_names(struct iw_id *id, int fd)
{
	struct rdma_addr *a = &id->id.route.addr;
	socklen_t len = sizeof(a->src_storage);

	if (!getsockname(fd, &a->src_addr, &len))
		addr_unmap(&a->src_storage);
	len = sizeof(a->dst_storage);
	if (!getpeername(fd, &a->dst_addr, &len))
		addr_unmap(&a->dst_storage);
}

static void addr_use_device(struct iw_id *id)
{
	id->id.verbs = &iw_dev.ext.context;
	id->id.port_num = 1;
}

static bool addr_is_wildcard(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr == 0;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

int iw_id_socket(struct iw_id *id, int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (iw_tune_socket(fd)) {
		close(fd);
		return -1;
	}
	if (id->tos >= 0) {
		(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &id->tos, sizeof(id->tos));
		if (family == AF_INET6)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &id->tos, sizeof(id->tos));
	}
	return fd;
}

static int addr_bind(struct iw_id *id, struct sockaddr *addr)
{
	int one = 1, only = id->afonly, fd, e;

	if (id->state != IW_ID_IDLE || !iw_sa_len(addr))
		return addr_fail(EINVAL);
	fd = iw_id_socket(id, addr->sa_family);
	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (addr->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	if (bind(fd, addr, iw_sa_len(addr))) {
		e = errno;
		close(fd);
		return addr_fail(e);
	}
	id->fd = fd;
	id->bound = true;
	id->state = IW_ID_BOUND;
	iw_id_names(id, fd);
	if (!addr_is_wildcard(addr))
		addr_use_device(id);
	return 0;
}

int iw_bind_addr(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	pthread_mutex_lock(&iw_cm_lock);

	int rc = addr_bind((struct iw_id *)rid, addr);

	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

/* Find the source address for a destination: the routing table determines it for a socket that sends nothing. */
static int addr_source(struct iw_id *id, const struct sockaddr *dst)
{
	int fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), e = 0;
	struct sockaddr_storage src = { 0 };
	socklen_t len = sizeof(src);

	if (fd < 0)
		return errno;
	if (connect(fd, dst, iw_sa_len(dst)) || getsockname(fd, (struct sockaddr *)&src, &len))
		e = errno;
	close(fd);
	if (e)
		return e;
	if (src.ss_family == AF_INET)
		((struct sockaddr_in *)&src)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&src)->sin6_port = 0;
	if (!id->bound)
		id->id.route.addr.src_storage = src;
	return 0;
}

int iw_resolve_addr(struct rdma_cm_id *rid, struct sockaddr *src, struct sockaddr *dst,
		    int timeout_ms)
{
	struct iw_id *id = (struct iw_id *)rid;
	int rc = 0, e;

	(void)timeout_ms;
	if (!dst || !iw_sa_len(dst))
		return addr_fail(EINVAL);
	pthread_mutex_lock(&iw_cm_lock);
	if (src && id->state == IW_ID_IDLE)
		rc = addr_bind(id, src);
	if (!rc && id->state != IW_ID_IDLE && id->state != IW_ID_BOUND)
		rc = addr_fail(EINVAL);
	if (!rc) {
		memcpy(&rid->route.addr.dst_storage, dst, iw_sa_len(dst));
		e = addr_source(id, dst);
		if (e) {
			iw_event_post(id, RDMA_CM_EVENT_ADDR_ERROR, -e, NULL);
		} else {
			addr_use_device(id);
			id->state = IW_ID_ADDR;
			iw_event_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
		}
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

int iw_resolve_route(struct rdma_cm_id *rid, int timeout_ms)
{
	struct iw_id *id = (struct iw_id *)rid;
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state == IW_ID_ADDR) {
		id->patience_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
		id->state = IW_ID_ROUTE;
		iw_event_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	} else {
		rc = addr_fail(EINVAL);
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

int iw_listen(struct rdma_cm_id *rid, int backlog)
{
	struct iw_id *id = (struct iw_id *)rid;
	struct sockaddr_in any = { .sin_family = AF_INET };
	int rc = 0;

	pthread_mutex_lock(&iw_cm_lock);
	if (id->state == IW_ID_IDLE)
		rc = addr_bind(id, (struct sockaddr *)&any);
	if (!rc && id->state != IW_ID_BOUND)
		rc = addr_fail(EINVAL);
	if (!rc) {
		id->backlog = backlog > 0 && backlog < BACKLOG ? (unsigned int)backlog : BACKLOG;
		iw_congestion_listen(id->fd, id->congestion);
		rc = listen(id->fd, BACKLOG);
	}
	if (!rc)
		rc = iw_helper_poll(EPOLL_CTL_ADD, id->fd, EPOLLIN, &id->source);
	if (!rc) {
		id->polled = true;
		id->state = IW_ID_LISTENING;
	}
	pthread_mutex_unlock(&iw_cm_lock);
	return rc;
}

int iw_set_option(struct rdma_cm_id *rid, int level, int optname, void *optval, size_t optlen)
{
	struct iw_id *id = (struct iw_id *)rid;

	if (level != RDMA_OPTION_ID)
		return addr_fail(ENOSYS);
	switch (optname) {
	case RDMA_OPTION_ID_TOS:
		if (optlen != 1)
			return addr_fail(EINVAL);
		id->tos = *(uint8_t *)optval;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (optlen != sizeof(int))
			return addr_fail(EINVAL);
		id->afonly = *(int *)optval;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:		/* always on: a restart must not wait for TIME_WAIT */
	case RDMA_OPTION_ID_ACK_TIMEOUT:	/* TCP has its own timeout */
		return 0;
	default:
		return addr_fail(ENOSYS);
	}
}
