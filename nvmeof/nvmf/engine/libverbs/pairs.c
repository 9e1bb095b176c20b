/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: created, with or without an id; modified and queried.  Any thread. */
#include "libverbs.h"

#include <string.h>

enum {
	ANY_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
		  IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV |
		  IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV,
	ATOMIC_OPS = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	ATOMIC_WRITE_OPS = 1 << 12,	/* IBV_QP_EX_WITH_ATOMIC_WRITE, of later headers */
	ATOMIC_WRITE_SIZE = 8,		/* its value is part of the request */
	/* not part of the RDMA protocol of iWARP */
	IWARP_LACKS = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_IMM,
};

static bool ops_supported(uint64_t ops)
{
	uint64_t all = ANY_OPS;

	if (device()->flushes)		/* the RoCE device */
		all |= ATOMIC_OPS | ATOMIC_WRITE_OPS;
	else
		all &= ~(uint64_t)IWARP_LACKS;
	return !(ops & ~all);
}

int plain_attr(const struct ibv_qp_init_attr_ex *attr, struct ibv_qp_init_attr *plain)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	memcpy(plain, attr, sizeof(*plain));	/* its fields are the first ones */
	if (attr->comp_mask & ~known || (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return EINVAL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && !ops_supported(attr->send_ops_flags))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ATOMIC_WRITE_OPS &&
	    plain->cap.max_inline_data < ATOMIC_WRITE_SIZE)
		plain->cap.max_inline_data = ATOMIC_WRITE_SIZE;
	return 0;
}

int pair_extend(struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? wr_batch_new(qp, &attr->cap) : 0;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	if (attr->qp_type != IBV_QPT_RC) {
		unsupported();
		return NULL;
	}
	qp = device()->bare_create(pd, attr);
	if (qp)
		qp->state = IBV_QPS_RESET;	/* as with the library, whatever a query reports */
	return qp;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct wr_batch *batch = wr_batch_of(qp);
	const int rc = device()->bare_destroy(qp);

	if (!rc)
		wr_batch_free(batch);
	return rc;
}

struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain;
	struct ibv_qp *qp;

	(void)context;
	errno = plain_attr(attr, &plain);
	if (errno)
		return NULL;
	qp = ibv_create_qp(attr->pd, &plain);
	if (!qp)
		return NULL;
	attr->cap = plain.cap;
	errno = pair_extend(qp, attr);
	if (errno) {
		ibv_destroy_qp(qp);
		errno = ENOMEM;
		return NULL;
	}
	return qp;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const int rc = device()->modify_qp(qp, attr, mask);

	if (!rc && mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return rc;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	return device()->query_qp(qp, attr, mask, init);
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return wr_batch_of(qp) ? &((struct verbs_qp_head *)qp)->ex : NULL;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->vendor_id || ece->options ? unsupported() : 0;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof(*ece));
	return 0;
}
