/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_getaddrinfo: names by getaddrinfo(); the library's own fails if the kernel has no RDMA.  Any thread. */
#include "libverbs.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static struct sockaddr *copy(const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr *to = malloc(len);

	if (to)
		memcpy(to, sa, len);
	return to;
}

static int lookup(const char *node, const char *service, const struct rdma_addrinfo *hints, struct addrinfo **found)
{
	struct addrinfo ask = { .ai_socktype = SOCK_STREAM };

	if (hints) {
		ask.ai_flags |= hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0;
		ask.ai_flags |= hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0;
		ask.ai_family = hints->ai_flags & RAI_FAMILY ? hints->ai_family : 0;
	}
	return getaddrinfo(node, service, &ask, found);
}

/* Build the result for one address; without an address the source is that of the hints. */
static struct rdma_addrinfo *result(const struct rdma_addrinfo *hints, const struct addrinfo *one)
{
	struct rdma_addrinfo *res = calloc(1, sizeof(*res));
	const bool passive = hints && hints->ai_flags & RAI_PASSIVE;
	struct sockaddr *sa = one ? copy(one->ai_addr, one->ai_addrlen) : NULL;
	struct sockaddr *from = NULL;

	if (hints && hints->ai_src_len && !(passive && one))
		from = copy(hints->ai_src_addr, hints->ai_src_len);
	if (!res || (one && !sa)) {
		free(res);
		free(sa);
		free(from);
		return NULL;
	}
	res->ai_flags = hints ? hints->ai_flags : 0;
	res->ai_qp_type = hints && hints->ai_qp_type ? hints->ai_qp_type : IBV_QPT_RC;
	res->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : RDMA_PS_TCP;
	res->ai_src_addr = from;
	res->ai_src_len = from ? hints->ai_src_len : 0;
	if (one && passive) {
		res->ai_src_addr = sa;
		res->ai_src_len = one->ai_addrlen;
	} else if (one) {
		res->ai_dst_addr = sa;
		res->ai_dst_len = one->ai_addrlen;
	}
	res->ai_family = sa ? sa->sa_family : from ? from->sa_family : 0;
	return res;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **res)
{
	struct addrinfo *found = NULL;
	int rc = node || service ? lookup(node, service, hints, &found) : 0;

	if (rc)
		return rc;
	if (!found && !(hints && hints->ai_src_len)) {
		errno = EINVAL;
		return -1;
	}
	*res = result(hints, found);
	if (found)
		freeaddrinfo(found);
	return *res ? 0 : EAI_MEMORY;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
