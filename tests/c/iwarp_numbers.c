/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of queue pairs: never one that is in use, and completions keep their numbers. */
#include "iwarp_pair.h"

#include "iwarp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id = NULL;

	if (v->create_id(ch, &id, NULL, RDMA_PS_TCP) || v->bind_addr(id, (struct sockaddr *)&sin))
		check(false, "numbers: an id");
	return id;
}

static int new_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 1, 1, 1, 1, 0 } };

	return v->create_qp(id, pd, &attr);
}

static bool post(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id }, *bad;

	return !ibv_post_recv(qp, &wr, &bad);
}

/* Return the numbers up to last that are in use, as bits. */
static unsigned int live(struct rdma_cm_id *const *id, unsigned int last)
{
	unsigned int bits = 0;

	for (unsigned int i = 0; i < last; i++)
		if (id[i] && id[i]->qp)
			bits |= 1u << id[i]->qp->qp_num;
	return bits;
}

enum { ALL = 6 };

/*
 * With at most six numbers.  It runs before all other tests of the program: the numbers that it uses are the first
 * ones.
 */
void test_numbers(void)
{
	static const unsigned int order[] = { 3, 0, 5, 1, 1, 4, 2, 0 };
	struct rdma_event_channel *ch = v->create_event_channel();
	struct ibv_device **list = v->get_device_list(NULL);
	struct ibv_context *context = v->open_device(list[0]);
	struct ibv_pd *pd = v->alloc_pd(context);
	struct ibv_cq *cq = v->create_cq(context, 64, NULL, NULL, 0);
	struct rdma_cm_id *id[ALL], *more = new_id(ch);
	uint32_t last = iw_numbers.last;
	struct ibv_wc wc[4];

	v->free_device_list(list);
	if (iw_numbers.next != 1 || iw_numbers.qps)
		check(false, "numbers: run first");
	iw_numbers.last = ALL;
	for (unsigned int i = 0; i < ALL; i++) {
		id[i] = new_id(ch);
		check(!new_qp(id[i], pd, cq) && id[i]->qp->qp_num == i + 1, "numbers: %u", i + 1);
	}
	check(new_qp(more, pd, cq) && errno == ENOMEM, "numbers: none is free");
	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
		unsigned int i = order[k], was = id[i]->qp->qp_num;

		v->destroy_qp(id[i]);
		check(!new_qp(id[i], pd, cq) && id[i]->qp->qp_num == was && live(id, ALL) == 0x7e,
		      "numbers: the only one that is free, %u", was);
	}
	/* in order: the number that was freed last is not the next */
	v->destroy_qp(id[1]);
	v->destroy_qp(id[4]);
	check(!new_qp(id[1], pd, cq) && !new_qp(id[4], pd, cq) && live(id, ALL) == 0x7e,
	      "numbers: two that were free");

	/* completions of a destroyed queue pair are removed, and those of the others are not */
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	check(post(id[2]->qp, 22) && post(id[3]->qp, 33) && !v->modify_qp(id[2]->qp, &err, IBV_QP_STATE) &&
	      !v->modify_qp(id[3]->qp, &err, IBV_QP_STATE), "numbers: flushed");
	v->destroy_qp(id[2]);
	check(!new_qp(id[2], pd, cq) && post(id[2]->qp, 44) &&
	      !v->modify_qp(id[2]->qp, &err, IBV_QP_STATE), "numbers: and the number again");
	check(ibv_poll_cq(cq, 4, wc) == 2 && wc[0].wr_id == 33 && wc[0].qp_num == id[3]->qp->qp_num &&
	      wc[1].wr_id == 44 && wc[1].qp_num == id[2]->qp->qp_num,
	      "numbers: completions of the live ones, and no others");
	for (unsigned int i = 0; i < ALL; i++)
		v->destroy_id(id[i]);
	v->destroy_id(more);
	iw_numbers.last = last;
	v->destroy_cq(cq);
	v->dealloc_pd(pd);
	v->destroy_event_channel(ch);
}
